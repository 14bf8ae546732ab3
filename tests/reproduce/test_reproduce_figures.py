"""The paper's figures: what is there is drawn, and shows what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, Wedge

from poise import Run, Trajectories, plots, storage
from poise.algorithms import Problem
from poise.config import Experiment
from poise.labeling import label_all, label_space
from poise.models import Statistics
from poise.reproduce import figures, grid
from poise.reproduce.figures import FIGURES, draw
from poise.reproduce.grid import Cell, find_tables
from poise.reproduce.paper import NUMBERS
from poise.reproduce.study import Study
from poise.tasks import Task, prepare_all
from poise.training import start

RUNS = [
    Cell("ctvae", ("displacement",), 6),
    Cell("ctvae-style", ("displacement",), 6),
    Cell("ctvae-style", ("destination",), 3),
    Cell("ctvae-style", ("speed", "destination"), 3),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """A study with a few runs, none of them measured; to be quick they are as they were before training."""
    with pytest.MonkeyPatch.context() as patch:
        small = replace(grid.SETUPS["basketball"], settings=TINY, quick=TINY, few=300)
        patch.setitem(grid.SETUPS, "basketball", small)
        made = Study.open(tmp_path_factory.mktemp("study"), seeds=1, quick=True)
    for task, cell in zip(prepare_all([cell.experiment(made.like) for cell in RUNS]), RUNS, strict=True):
        _untrained(task).save(made.folder / "runs" / cell.name)
    return made


def _untrained(task: Task) -> Run:
    splits, space, network = task.splits, label_space(task.styles), task.experiment.settings.network
    problem = Problem(Statistics.of(splits.train), space, network, task.domain)
    parts, kept = start(task.algorithm, problem, np.arange(1)).parts, splits.validation
    starts = Trajectories(kept.states, kept.actions, kept.lengths, {"labels": label_all(task.styles, kept)})
    return Run(task.experiment, task.domain, task.styles, parts, starts, (None,), 0, 0.0)


def empty(folder: Path) -> Study:
    """A study of which nothing is here, not even its demonstrations."""
    return Study(folder, Experiment(data=str(folder / "nowhere.npz"), domain="basketball"))


def measure(study: Study, style: str, noise: int, disagreement: float, *scores: float) -> None:
    """Writes the cell of a noise, as a study would."""
    (study.folder / "cells").mkdir(exist_ok=True)
    result = {"disagreement": disagreement, "seeds": [{"joint": score} for score in scores]}
    name = Cell("ctvae-style", (style,), noise=noise).name
    storage.write_json(study.folder / "cells" / f"{name}.json", result)


def figure(name: str, study: Study):
    made = FIGURES[name][1](study)
    assert made is not None
    return made


def titles(made) -> list[str]:
    return [axes.get_title(loc="left").replace("\n", " ") for axes in made.axes]


def segments(axes) -> list[np.ndarray]:
    return [line for one in axes.collections if isinstance(one, LineCollection) for line in one.get_segments()]


def points(line) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_what_is_there_is_drawn_and_what_is_missing_is_not(study, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "DPI", 40)
    written = draw(study, find_tables(["all"]), tmp_path / "new")
    assert {path.stem for path in written} == {"scores", "displacement-6", "destination-3", "speed-within-destination"}
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_an_empty_study_has_no_figures(tmp_path):
    assert draw(empty(tmp_path), find_tables(["all"]), tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_only_figures_of_the_tables_asked_for_are_drawn(study, tmp_path):
    assert [path.name for path in draw(study, find_tables(["joint"]), tmp_path)] == ["speed-within-destination.png"]
    assert draw(study, find_tables(["labeler", "tradeoff"]), tmp_path) == []


def test_every_figure_goes_with_tables_that_exist():
    assert set.union(*(tables for tables, _ in FIGURES.values())) <= grid.TABLES.keys()


def test_a_title_tells_what_was_asked_for_and_the_share_that_shows_it(study):
    run = study.run(RUNS[3])
    start = min(np.asarray(run.starts.starts).tolist(), key=lambda start: np.hypot(start[0] - 28, start[1] - 25))
    found, expected = titles(figure("speed-within-destination", study)), []
    for speed in ("slow", "medium", "fast"):
        words = {"speed": speed, "destination": "middle"}
        share = run.sample_checked(figures.ROLLOUTS, words, start=start).right.all(axis=1).mean()
        expected.append(f"speed={speed}, destination=middle: {100 * share:.0f} %")
    assert found == expected


def test_all_panels_have_the_same_held_out_start(study):
    made = figure("displacement-6", study)
    lines = [line for axes in made.axes for line in segments(axes)]
    assert len(lines) == 4 * figures.DRAWN
    starts = np.unique([line[0] for line in lines], axis=0)
    assert len(starts) == 1
    assert starts[0].tolist() in np.asarray(study.run(RUNS[0]).starts.starts).tolist()


def test_the_baseline_stands_beside_ctvae_style(study):
    asked = [title.split(":")[0] for title in titles(figure("displacement-6", study))]
    assert asked == [
        f"{name}, displacement={word}" for word in ("short", "long") for name in ("ctvae", "ctvae-style")
    ]  # fmt: skip


def test_thresholds_are_circles_and_the_ring_asked_for_is_filled(study):
    thresholds = study.run(RUNS[2]).styles[0].thresholds
    near, middle, far = (0, thresholds[0]), thresholds, (thresholds[1], np.inf)
    for axes, (inner, outer) in zip(figure("destination-3", study).axes, (near, middle, far), strict=True):
        assert [patch.radius for patch in axes.patches if isinstance(patch, Circle)] == list(thresholds)
        (ring,) = (patch for patch in axes.patches if isinstance(patch, Wedge))
        assert ring.center == (5.25, 25)
        assert ring.r - ring.width == pytest.approx(inner)
        assert ring.r == pytest.approx(outer) or (outer == np.inf and ring.r > 60)


def test_a_rollout_that_obeys_ends_in_the_ring(study):
    thresholds, kinds = study.run(RUNS[2]).styles[0].thresholds, set()
    for wanted, axes in enumerate(figure("destination-3", study).axes):
        for lines in (one for one in axes.collections if isinstance(one, LineCollection)):
            ends = np.array([line[-1] for line in lines.get_segments()])
            inside = np.digitize(np.hypot(*(ends - [5.25, 25]).T), thresholds) == wanted
            kinds.add(obeys := lines.get_linestyle()[0][1] is None)
            assert (inside == obeys).all()
    assert kinds == {True, False}


def test_scores_are_those_of_the_training_demonstrations_in_3_classes(study):
    made = figure("scores", study)
    assert [axes.get_xlabel().split(" ")[0] for axes in made.axes] == list(grid.STYLES)
    assert all(sum(bar.get_height() for bar in axes.patches) == 240 for axes in made.axes)
    cuts = [line.get_xdata()[0] for line in made.axes[1].lines]
    assert cuts == pytest.approx(study.run(RUNS[2]).styles[0].thresholds)


def test_noise_shows_the_points_that_are_measured_the_papers_and_the_diagonal(tmp_path):
    study = empty(tmp_path)
    measure(study, "speed", 0, 0.0, 0.2, 0.8, 0.9)
    measure(study, "speed", 1, 0.05, 0.1, 0.6, 0.9)
    measure(study, "speed", 4, 0.2, 0.4, 0.4, 0.4)
    measure(study, "direction", 0, 0.0, 0.9)  # nothing to compare it with
    measure(study, "curvature", 2, 0.1, 0.9)  # nothing to compare with
    measure(study, "destination", 0, 0.0, 0.0)  # nothing to lose
    measure(study, "destination", 1, 0.1, 0.0)
    printed, measured, diagonal = (points(line) for line in figure("noise", study).axes[0].lines[:3])
    assert np.allclose(measured, [(0, 0), (5, -25), (20, -50)])
    own = [[NUMBERS[name][c]["speed"][0] for c in "1234"] for name in ("noise-disagreement", "noise-decrease")]
    assert np.allclose(printed[1:], np.transpose(own) * [1, -1])
    assert all(y == -x for x, y in diagonal)
    assert diagonal[-1][0] >= max(x for x, _ in [*measured, *printed])


def test_styles_differ_in_marker_not_in_colour_alone(tmp_path):
    study = empty(tmp_path)
    for style in grid.STYLES:
        measure(study, style, 0, 0.0, 0.9)
        measure(study, style, 1, 0.1, 0.8)
    lines = [line for line in figure("noise", study).axes[0].lines if line.get_label() in grid.STYLES]
    assert len({line.get_marker() for line in lines}) == len({line.get_color() for line in lines}) == 5


@pytest.mark.slow
def test_a_gait_of_each_class_is_drawn_for_the_runs_that_are_there(tmp_path, monkeypatch):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    small = replace(
        grid.SETUPS["cheetah"], quick=replace(TINY, network=replace(TINY.network, decoder="markov")), few=25
    )
    monkeypatch.setitem(grid.SETUPS, "cheetah", small)
    monkeypatch.setattr(figures, "GAITS", 3)
    made = Study.open(tmp_path, seeds=1, quick=True, domain="cheetah")
    cells = [Cell("ctvae-style", ("speed",), 2), Cell("ctvae-style", ("torso_height",), 2, longer=True)]
    for task, cell in zip(prepare_all([cell.experiment(made.like) for cell in cells]), cells, strict=True):
        _untrained(task).save(made.folder / "runs" / cell.name)
    for name, asked in (
        ("gaits", ("speed=slow", "speed=fast")),
        ("gaits-longer", ("torso_height=low", "torso_height=high")),
    ):
        shown = titles(figure(name, made))
        assert [title.split(":")[0] for title in shown if title] == list(asked)
        assert all(title.endswith("of 3 right") for title in shown if title)
