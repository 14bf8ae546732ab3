"""Pictures: what is drawn, and that it is told apart without colour."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from PIL import Image

from poise import PoiseError, Trajectories, labeling_function, plots
from poise.domains.base import Scene
from poise.evaluation import Checked, Report, SeedScore, Share
from poise.inspection import Inspection

SQUARE = Scene(outlines=(((0, 0), (9, 0), (9, 9), (0, 9), (0, 0)),), limits=(0, 9, 0, 9), unit="m")


@labeling_function(classes=("low", "middle", "high"), unit="m/s")
def pace(states, actions):
    return abs(actions).mean()


def checked(count: int = 4, right: int = 2, size: int = 2, lengths=None) -> Checked:
    """Random walks, of which the first `right` obey."""
    states = np.random.default_rng(0).normal(size=(count, 11, size)).cumsum(axis=1)
    obeys = (np.arange(count) < right)[:, None]
    return Checked(Trajectories(states, lengths=lengths), obeys, np.ones(count, bool), np.ones((count, 1), bool))


def lines(axes) -> list[LineCollection]:
    return [one for one in axes.collections if isinstance(one, LineCollection)]


def score(seed: int, joint: float, **more) -> SeedScore:
    share = Share(joint, joint - 0.05, joint + 0.05, 100)
    by_class = {"pace": {"low": share, "middle": share, "high": Share.of(np.zeros(0, bool))}}
    return SeedScore(
        seed, share, share, {"pace": share, "place": share}, by_class, {"pace": share, "place": share}, None, 0.5, None,
        {}, **more,
    )  # fmt: skip


REPORT = Report(
    {"ctvae": [score(0, 0.4), score(1, 0.5)], "ctvae-style": [score(0, 0.9)]}, {"base_rate": {"own": 0.2}}, {}
)


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf", "A.PNG"])
def test_a_picture_is_written_in_the_format_of_its_suffix(tmp_path, name):
    plots.save(plots.draw_rollouts([("pace=low", checked())], SQUARE), tmp_path / name)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[-3:].lower()]
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpg", "picture", "file/a.png"])
def test_a_picture_that_cannot_be_written_is_one_clear_line(tmp_path, name):
    figure = plots.draw_rollouts([("pace=low", checked())], SQUARE)
    (tmp_path / "file").touch()
    with pytest.raises(PoiseError) as error:
        plots.save(figure, tmp_path / name)
    assert "\n" not in str(error.value)
    assert Path(name).parts[0] in str(error.value)


def test_there_is_one_panel_a_title_and_the_share_is_in_it():
    figure = plots.draw_rollouts([("pace=low", checked(4, 1)), ("pace=high", checked(4, 4))], SQUARE)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["pace=low: 25 %", "pace=high: 100 %"]


def test_failing_rollouts_differ_in_line_and_marker_not_in_colour_alone():
    axes = plots.draw_rollouts([("pace=low", checked())], SQUARE).axes[0]
    obeying, failing = lines(axes)
    assert obeying.get_linestyle() != failing.get_linestyle()
    ends = [one for one in axes.collections if one.get_zorder() == 5]
    assert not np.array_equal(ends[0].get_paths()[0].vertices, ends[1].get_paths()[0].vertices)


def test_a_line_stops_at_its_rollouts_length():
    axes = plots.draw_rollouts([("pace=low", checked(3, 3, lengths=[2, 10, 5]))], SQUARE).axes[0]
    assert [len(line) for line in lines(axes)[0].get_segments()] == [3, 11, 6]


def test_all_rollouts_count_but_only_some_are_drawn():
    axes = plots.draw_rollouts([("pace=low", checked(1000, 250))], SQUARE).axes[0]
    assert sum(len(one.get_segments()) for one in lines(axes)) == plots.DRAWN
    assert axes.get_title(loc="left").endswith("25 %")


def test_a_lone_state_is_drawn_against_time():
    axes = plots.draw_rollouts([("pace=low", checked(2, 2, size=1))], Scene(columns=(0, 0))).axes[0]
    assert lines(axes)[0].get_segments()[0][:, 0].tolist() == list(range(11))
    assert axes.get_xlabel() == "step"


def test_columns_of_similar_scale_have_equal_aspect_and_others_do_not():
    narrow = checked()
    stretched = Checked(
        Trajectories(np.asarray(narrow.rollouts.states) * [1, 100]), narrow.right, narrow.finite, narrow.scored
    )
    aspects = [plots.draw_rollouts([("", one)], Scene()).axes[0].get_aspect() for one in (narrow, stretched)]
    assert aspects == [1.0, "auto"]


def test_every_panel_shows_every_rollout_of_own_data():
    figure = plots.draw_rollouts([("a", checked()), ("b", checked(8))], Scene())
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}) == 1
    (left, right), points = figure.axes[0].get_xlim(), np.concatenate(lines(figure.axes[1])[1].get_segments())
    assert left < points[:, 0].min()
    assert points[:, 0].max() < right


def test_a_formula_in_a_name_stays_text():
    plots.encode(plots.draw_rollouts([(r"$\frac{=<b>$", checked())], SQUARE))


def hopping(steps: int = 41) -> np.ndarray:
    """A pole that goes to the right and hops."""
    states = np.zeros((steps, 2), np.float32)
    states[:, 0], states[:, 1] = np.arange(steps) / 10, np.abs(np.sin(np.arange(steps)))
    return states


def pole(states):
    return np.stack([states, states + np.array([0.2, 1.0])], axis=-2)[..., None, :, :]


POLE = Scene(unit="m", hertz=10, body=pole)


def test_a_strip_tells_the_time_and_the_way_of_each_figure():
    figure = plots.draw_strips([("hops", hopping()), ("short", hopping(4))], POLE)
    long, short = figure.axes
    assert [len(lines(ax)[0].get_segments()) for ax in (long, short)] == [plots.FIGURES, 4]
    words = [text.get_text() for text in long.get_xticklabels()]
    assert (words[0], words[-1]) == ("0.0 s\n0.0 m", "4.0 s\n4.0 m")
    for ax in figure.axes:
        points = np.concatenate(lines(ax)[0].get_segments())
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        assert ((left < points[:, 0]) & (points[:, 0] < right)).all()
        assert ((bottom < points[:, 1]) & (points[:, 1] < top)).all()


def test_an_animation_takes_as_long_as_the_trajectory(tmp_path):
    plots.save_animation(hopping(21), POLE, tmp_path / "hops.gif")
    with Image.open(tmp_path / "hops.gif") as made:
        assert made.format == "GIF"
        seconds = 0
        for frame in range(made.n_frames):
            made.seek(frame)
            seconds += made.info["duration"] / 1000
    assert seconds == pytest.approx(2.0, abs=0.1)


def grey(states):
    """Pictures whose grey tells where the pole is."""
    return np.tile((10 * states[:, :1, None, None]).astype(np.uint8), (1, 6, 8, 3))


RENDERED = replace(POLE, render=grey)


def test_rendered_strips_hold_each_rows_own_pictures_in_the_same_places():
    rows = [("hops", hopping()), ("late", hopping()[20:])]
    sticks, rendered = (plots.draw_strips(rows, RENDERED, kind) for kind in (False, True))
    for (_, states), one, other in zip(rows, sticks.axes, rendered.axes, strict=True):
        told = [[text.get_text() for text in axes.get_xticklabels()] for axes in (one, other)]
        assert told[0] == told[1]
        shown = [int(np.asarray(image.get_array())[0, 0, 0]) for image in other.images]
        assert len(shown) == plots.FIGURES
        assert (shown[0], shown[-1]) == (int(10 * states[0, 0]), int(10 * states[-1, 0]))
        assert other.get_xlim() == one.get_xlim()


def test_a_rendered_animation_takes_as_long_as_the_trajectory(tmp_path):
    plots.save_animation(hopping(21), RENDERED, tmp_path / "hops.gif", rendered=True)
    with Image.open(tmp_path / "hops.gif") as made:
        assert made.size == (8, 6)
        seconds = 0
        for frame in range(made.n_frames):
            made.seek(frame)
            seconds += made.info["duration"] / 1000
    assert seconds == pytest.approx(2.0, abs=0.1)
    with pytest.raises(PoiseError, match="no simulator that makes pictures"):
        plots.animate(hopping(), POLE, rendered=True)


def test_a_gait_is_the_first_rollout_that_stayed_finite_right_or_wrong():
    made = checked(4, right=2, lengths=[10, 4, 10, 6])
    for first, (length, obeys) in {0: (10, True), 1: (4, True), 3: (6, False)}.items():
        states, right = plots.first_gait(replace(made, finite=np.arange(4) >= first))
        assert (len(states), right) == (length + 1, obeys)
        np.testing.assert_array_equal(states, np.asarray(made.rollouts.states)[first, : length + 1])
    with pytest.raises(PoiseError, match="none of 4 rollouts stayed finite"):
        plots.first_gait(replace(made, finite=np.zeros(4, bool)))


def test_stick_figures_that_cannot_be_drawn_are_one_clear_line(tmp_path):
    with pytest.raises(PoiseError, match="no trajectories were given"):
        plots.draw_strips([], POLE)
    with pytest.raises(PoiseError, match="this domain's scene has no body"):
        plots.draw_strips([("walk", hopping())], SQUARE)
    with pytest.raises(PoiseError, match="not finite"):
        plots.animate(hopping() * np.nan, POLE)
    with pytest.raises(PoiseError, match=r"an animation is a \.gif; got 'a.mp4'"):
        plots.save_animation(hopping(), POLE, tmp_path / "a.mp4")


def test_histograms_show_thresholds_classes_and_unit():
    demonstrations = checked(90).rollouts
    axes = plots.draw_scores(seen := Inspection.of([pace], demonstrations)).axes[0]
    drawn = sorted(line.get_xdata()[0] for line in axes.lines)
    assert drawn == pytest.approx(seen.styles[0].thresholds)
    assert [text.get_text() for text in axes.texts] == ["low\n33 %", "middle\n33 %", "high\n33 %"]
    assert axes.get_xlabel() == "pace (m/s)"
    assert sum(bar.get_height() for bar in axes.patches) == 90


def test_names_of_classes_never_meet_however_close_the_thresholds():
    demonstrations = checked(90).rollouts
    close = replace(pace, classes=tuple("abcd"), thresholds=(0.0001, 0.0002, 0.0003))
    axes = plots.draw_scores(Inspection.of([close], demonstrations)).axes[0]
    places = [text.get_position()[0] for text in axes.texts]
    assert np.diff(places).min() > 0.15
    assert max(places) < 1


def test_there_is_one_panel_a_stage_and_loss_with_gaps_where_a_value_was_not_finite():
    metrics = [
        {"stage": "labeler", "number": 0, "step": 1, "losses": {"label": [1.0]}, "validation": {"label": [1.0]}},
        {"stage": "policy", "number": 1, "step": 1, "losses": {"nld": [1.0], "kl": [2]}, "validation": {"nld": [1.0]}},
        {"stage": "refine", "number": 2, "step": 1, "losses": {"dynamics": [1.0]}, "validation": {"dynamics": [1.0]}},
        {"stage": "policy", "number": 3, "step": 2, "losses": {"nld": [None], "kl": [1]}, "validation": {"nld": [1.0]}},
    ]
    figure = plots.draw_curves(metrics)
    titles = ["labeler: label", "policy: nld", "policy: kl", "refine: dynamics"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    assert np.isnan(figure.axes[1].lines[0].get_ydata()[1])
    with pytest.raises(PoiseError, match="no learning curves"):
        plots.draw_curves([])


def test_training_is_thinner_than_validation():
    line = {"stage": "policy", "number": 0, "step": 1, "losses": {"nld": [1.0]}, "validation": {"nld": [1.0]}}
    training, validation = plots.draw_curves([line]).axes[0].lines
    assert training.get_linewidth() < validation.get_linewidth()


def test_the_headline_has_joint_and_every_style_and_the_base_rate_with_joint_alone():
    joint, *styles = plots.draw_consistency(REPORT).axes
    assert [axes.get_title(loc="left") for axes in styles] == ["pace", "place"]
    assert [tick.get_text() for tick in joint.get_yticklabels()] == ["ctvae", "ctvae-style"]
    assert [text.get_text() for text in joint.texts] == ["45 %", "90 %"]
    vertical = [[line for line in axes.lines if list(line.get_xdata()) == [20, 20]] for axes in (joint, *styles)]
    assert [len(found) for found in vertical] == [1, 0, 0]


def test_a_stopped_seed_is_a_hollow_dot():
    stopped = replace(REPORT, algorithms={"ctvae": [score(0, 0.4, stopped="policy step 3"), score(1, 0.5)]})
    axes = plots.draw_consistency(stopped).axes[0]
    assert [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"] == ["white", plots.OBEYS]


def test_a_class_that_was_never_asked_for_says_so():
    axes = plots.draw_classes(score(0, 0.4), [pace]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["40 %", "40 %", "no rollouts"]


def test_importing_poise_imports_no_matplotlib():
    code = "import sys, poise; sys.exit(any(name.startswith('matplotlib') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
