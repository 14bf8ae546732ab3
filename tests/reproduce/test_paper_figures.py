"""The paper's figures: drawn as far as there are runs and results, and showing what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle, Wedge

from poise import Experiment, Run, Trajectories
from poise import figures as plots
from poise.algorithms import Problem
from poise.models import Statistics
from poise.reproduce import figures
from poise.reproduce.cells import SETUPS, STYLES, Cell
from poise.reproduce.figures import FIGURES, draw_figures
from poise.reproduce.grid import TABLES, find_tables
from poise.reproduce.paper import NUMBERS
from poise.reproduce.study import Study
from poise.runs.prepare import Prepared, prepare_all
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.system import storage
from poise.training.state import start

RUNS = [
    Cell("ctvae", ("displacement",), 6),
    Cell("ctvae-style", ("displacement",), 6),
    Cell("ctvae-style", ("destination",), 3),
    Cell("ctvae-style", ("speed", "destination"), 3),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """A study with a few untrained runs and without results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SETUPS, "basketball", replace(SETUPS["basketball"], settings=TINY, quick=TINY, quick_count=300))
        made = Study.open(tmp_path_factory.mktemp("study"), seeds=1, quick=True)
    save_untrained(made, RUNS)
    return made


def save_untrained(study: Study, cells: list[Cell]) -> None:
    """Saves the runs of these cells as they are before training."""
    ready = prepare_all([cell.experiment(study.shared) for cell in cells], splits=study.splits)
    for prepared, cell in zip(ready, cells, strict=True):
        untrained(prepared).save(study.folder / "runs" / cell.name)


def untrained(prepared: Prepared) -> Run:
    splits, styles = prepared.splits, prepared.styles
    problem = Problem(Statistics.of(splits.train), label_space(styles), prepared.settings.network, prepared.domain)
    kept = splits.validation
    return Run(
        experiment=prepared.experiment,
        algorithm=prepared.algorithm,
        domain=prepared.domain,
        styles=styles,
        parts=start(prepared.algorithm, problem, np.arange(1)).parts,
        starts=Trajectories(kept.states, kept.actions, kept.lengths, {"labels": label_all(styles, kept)}),
        stopped=(None,),
        best=0,
        seconds=0.0,
        steps=splits.train.steps,
    )


def run_of(study: Study, cell: Cell) -> Run:
    run = study.run(cell)
    assert run is not None
    return run


def thresholds_of(run: Run) -> tuple[float, ...]:
    found = run.styles[0].thresholds
    assert found is not None
    return tuple(found)


def empty(folder: Path) -> Study:
    """A study without runs, results and demonstrations."""
    return Study(folder, Experiment(data=str(folder / "nowhere.npz"), domain="basketball"))


def measure(study: Study, style: str, noise: int, disagreement: float, *scores: float) -> None:
    """Writes the results of a noise as a study does."""
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


def is_solid(lines) -> bool:
    return lines.get_linestyle()[0][1] is None


def heights(axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def points(line) -> list[tuple[float, float]]:
    return list(zip(line.get_xdata(), line.get_ydata(), strict=True))


def test_figures_are_drawn_of_the_runs_that_are_there(study, tmp_path, monkeypatch):
    monkeypatch.setattr(plots.canvas, "DPI", 40)
    written = draw_figures(study, find_tables(["all"]), tmp_path / "new")
    assert {path.stem for path in written} == {"scores", "displacement-6", "destination-3", "speed-within-destination"}
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_an_empty_study_has_no_figures(tmp_path):
    assert draw_figures(empty(tmp_path), find_tables(["all"]), tmp_path / "new") == []
    assert not (tmp_path / "new").exists()


def test_only_figures_of_the_chosen_tables_are_drawn(study, tmp_path):
    assert [path.name for path in draw_figures(study, find_tables(["joint"]), tmp_path)] == [
        "speed-within-destination.png"
    ]
    assert draw_figures(study, find_tables(["labeler", "tradeoff"]), tmp_path) == []


def test_every_figure_belongs_to_tables_that_exist():
    assert set.union(*(tables for tables, _ in FIGURES.values())) <= TABLES.keys()


def test_a_title_names_the_request_and_the_share_of_right_rollouts(study):
    run = run_of(study, RUNS[3])
    start = min(np.asarray(run.starts.starts).tolist(), key=lambda start: np.hypot(start[0] - 28, start[1] - 25))
    found, expected = titles(figure("speed-within-destination", study)), []
    for speed in ("slow", "medium", "fast"):
        words = {"speed": speed, "destination": "middle"}
        share = run.sample_scored(figures.ROLLOUTS, words, start=start).right.all(axis=1).mean()
        expected.append(f"speed={speed}, destination=middle: {100 * share:.0f} %")
    assert found == expected


def test_all_panels_have_the_same_held_out_start(study):
    made = figure("displacement-6", study)
    lines = [line for axes in made.axes for line in segments(axes)]
    assert len(lines) == 4 * figures.DRAWN
    starts = np.unique([line[0] for line in lines], axis=0)
    assert len(starts) == 1
    assert starts[0].tolist() in np.asarray(run_of(study, RUNS[0]).starts.starts).tolist()


def test_the_baseline_stands_next_to_ctvae_style(study):
    requests = [title.split(":")[0] for title in titles(figure("displacement-6", study))]
    assert requests == [
        f"{name}, displacement={word}" for word in ("short", "long") for name in ("ctvae", "ctvae-style")
    ]  # fmt: skip


def test_thresholds_are_circles_and_the_requested_ring_is_filled(study):
    thresholds = thresholds_of(run_of(study, RUNS[2]))
    near, middle, far = (0, thresholds[0]), thresholds, (thresholds[1], np.inf)
    for axes, (inner, outer) in zip(figure("destination-3", study).axes, (near, middle, far), strict=True):
        assert [patch.radius for patch in axes.patches if isinstance(patch, Circle)] == list(thresholds)
        (ring,) = (patch for patch in axes.patches if isinstance(patch, Wedge))
        assert ring.center == (5.25, 25)
        assert ring.width is not None
        assert ring.r - ring.width == pytest.approx(inner)
        assert ring.r == pytest.approx(outer) or (outer == np.inf and ring.r > 60)


def test_a_rollout_that_obeys_ends_in_the_ring(study):
    thresholds, kinds = thresholds_of(run_of(study, RUNS[2])), set()
    for wanted, axes in enumerate(figure("destination-3", study).axes):
        for lines in (one for one in axes.collections if isinstance(one, LineCollection)):
            ends = np.array([line[-1] for line in lines.get_segments()])
            inside = np.digitize(np.hypot(*(ends - [5.25, 25]).T), thresholds) == wanted
            kinds.add(obeys := is_solid(lines))
            assert (inside == obeys).all()
    assert kinds == {True, False}


def test_scores_are_those_of_the_training_demonstrations_in_3_classes(study):
    made = figure("scores", study)
    assert [axes.get_xlabel().split(" ")[0] for axes in made.axes] == list(STYLES)
    assert all(sum(heights(axes)) == 240 for axes in made.axes)
    cuts = [points(line)[0][0] for line in made.axes[1].lines]
    assert cuts == pytest.approx(thresholds_of(run_of(study, RUNS[2])))


def test_the_figure_of_noise_has_our_points_the_papers_and_the_diagonal(tmp_path):
    study = empty(tmp_path)
    measure(study, "speed", 0, 0.0, 0.2, 0.8, 0.9)
    measure(study, "speed", 1, 0.05, 0.1, 0.6, 0.9)
    measure(study, "speed", 4, 0.2, 0.4, 0.4, 0.4)
    measure(study, "direction", 0, 0.0, 0.9)  # no noisy cell
    measure(study, "curvature", 2, 0.1, 0.9)  # no cell without noise
    measure(study, "destination", 0, 0.0, 0.0)  # a change relative to 0 has no value
    measure(study, "destination", 1, 0.1, 0.0)
    printed, measured, diagonal = (points(line) for line in figure("noise", study).axes[0].lines[:3])
    assert np.allclose(measured, [(0, 0), (5, -25), (20, -50)])
    own = [[NUMBERS[name][c]["speed"][0] for c in "1234"] for name in ("noise-disagreement", "noise-decrease")]
    assert np.allclose(printed[1:], np.transpose(own) * [1, -1])
    assert all(y == -x for x, y in diagonal)
    assert diagonal[-1][0] >= max(x for x, _ in [*measured, *printed])


def test_styles_differ_in_marker_not_in_colour_alone(tmp_path):
    study = empty(tmp_path)
    for style in STYLES:
        measure(study, style, 0, 0.0, 0.9)
        measure(study, style, 1, 0.1, 0.8)
    lines = [line for line in figure("noise", study).axes[0].lines if line.get_label() in STYLES]
    for looks in ([line.get_marker() for line in lines], [line.get_color() for line in lines]):
        assert len({str(look) for look in looks}) == 5


@pytest.mark.slow
def test_a_gait_of_each_class_is_drawn_of_the_runs_that_are_there(tmp_path, monkeypatch, short_gaits):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    markov = replace(TINY, network=replace(TINY.network, decoder="markov"))
    monkeypatch.setitem(SETUPS, "cheetah", replace(SETUPS["cheetah"], quick=markov, quick_count=25))
    monkeypatch.setattr(figures, "GAITS", 3)
    made = Study.open(tmp_path, seeds=1, quick=True, domain="cheetah")
    save_untrained(made, [Cell("ctvae-style", ("speed",), 2), Cell("ctvae-style", ("torso_height",), 2, longer=True)])
    for name, asked in (
        ("gaits", ("speed=slow", "speed=fast")),
        ("gaits-longer", ("torso_height=low", "torso_height=high")),
    ):
        shown = titles(figure(name, made))
        assert [title.split(":")[0] for title in shown if title] == list(asked)
        assert all(title.endswith("of 3 right") for title in shown if title)
