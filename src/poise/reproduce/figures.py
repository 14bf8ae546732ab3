"""The paper's figures, drawn from the runs and the measured cells of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..domains.basketball import BASKETBALL
from ..domains.basketball_simulator import RIM
from ..evaluation.report import spread
from ..evaluation.scored import ScoredRollouts
from ..figures.bodies import draw_gaits
from ..figures.canvas import Figure, save
from ..figures.noise import draw_noise
from ..figures.rollouts import Rings, draw_rollouts
from ..figures.scores import draw_scores
from ..runs.prepare import load_styles
from ..runs.run import Run
from ..styles.inspection import Inspection
from ..system.storage import make_folder
from .cells import CHEETAH_STYLES, SETUPS, STYLES, Cell
from .grid import Table
from .paper import NUMBERS
from .study import Study

ARC = (28.0, 25.0)  # the top of the three-point arc
CORNER = (8.0, 5.0)  # a start from which players both stay and go far
ROLLOUTS, DRAWN = 1_000, 20  # rollouts counted and rollouts drawn per panel
GAITS = 100  # rollouts counted per gait
BEYOND = 0.8  # a margin that shows rollouts which leave the half court, as a share of its size


def draw_figures(study: Study, tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Draws the figures that belong to these tables and returns their paths; skips those without runs or results."""
    written = []
    for name, (belongs_to, make) in FIGURES.items():
        figure = make(study) if belongs_to & tables.keys() else None
        if figure is not None:
            written.append(make_folder(folder) / f"{name}.png")
            save(figure, written[-1])
    return written


def _scores(study: Study) -> Figure | None:
    """Figures 7 and 8: the scores of the training demonstrations."""
    if study.splits is None:
        return None
    setup = SETUPS[study.domain.name]
    styles = load_styles(setup.styles, study.domain, setup.classes)
    return draw_scores(Inspection.of(styles, study.splits.train))


def _displacement(study: Study) -> Figure | None:
    """Figure 2: the baseline and ctvae-style for the lowest and the highest of 6 classes."""
    cells = [Cell(algorithm, ("displacement",), 6) for algorithm in ("ctvae", "ctvae-style")]
    runs = [run for run in map(study.run, cells) if run is not None]
    if len(runs) < 2:
        return None
    start, requests = _nearest_start(runs[0], CORNER), [(run, k) for k in (0, 5) for run in runs]
    panels = [_panel(run, {"displacement": k}, start, f"{run.experiment.algorithm}, ") for run, k in requests]
    rings = [Rings(start, run.styles[0].thresholds or (), k) for run, k in requests]
    return draw_rollouts(panels, BASKETBALL.scene, columns=2, rings=rings, drawn=DRAWN, beyond=BEYOND)


def _destination(classes: int, study: Study) -> Figure | None:
    """Figures 5 and 6: a panel per class of DESTINATION."""
    run = study.run(Cell("ctvae-style", ("destination",), classes))
    return run and _draw_around_rim(run, [{"destination": k} for k in range(classes)])


def _speed(study: Study) -> Figure | None:
    """Figure 3: a panel per class of SPEED, all with the middle class of DESTINATION."""
    run = study.run(Cell("ctvae-style", ("speed", "destination"), 3))
    return run and _draw_around_rim(run, [{"speed": k, "destination": 1} for k in range(3)])


def _gaits(longer: bool, study: Study) -> Figure | None:
    """A gait per class of every style of the Cheetah."""
    runs = [study.run(Cell("ctvae-style", (style,), 2, longer=longer)) for style in CHEETAH_STYLES]
    found = [run for run in runs if run is not None]
    return draw_run_gaits(found) if found else None


def draw_run_gaits(runs: Sequence[Run]) -> Figure:
    """One rollout per class of each run's style, from the same start: the first that is sampled, right or wrong."""
    panels = []
    for run in runs:
        (style,), start = run.styles, np.asarray(run.starts.starts)[0].tolist()
        for k, name in enumerate(style.classes):
            panels.append((f"{style.name}={name}", run.sample_scored(GAITS, {style.name: k}, start=start)))
    return draw_gaits(panels, runs[0].domain.scene)


def _draw_around_rim(run: Run, requests: Sequence[dict[str, int]]) -> Figure:
    """A panel per request, with the classes of DESTINATION as rings around the rim."""
    destination = next(style for style in run.styles if style.name == "destination")
    rings = [Rings(RIM.tolist(), destination.thresholds or (), classes["destination"]) for classes in requests]
    start = _nearest_start(run, ARC)
    panels = [_panel(run, classes, start) for classes in requests]
    return draw_rollouts(panels, BASKETBALL.scene, rings=rings, drawn=DRAWN, beyond=BEYOND)


def _panel(run: Run, classes: dict[str, int], start: list[float], prefix: str = "") -> tuple[str, ScoredRollouts]:
    """The title of a request and rollouts conditioned on it, by the seed that is best on validation demonstrations."""
    names = [f"{style.name}={style.classes[classes[style.name]]}" for style in run.styles]
    return prefix + ", ".join(names), run.sample_scored(ROLLOUTS, classes, start=start)


def _nearest_start(run: Run, place: tuple[float, float]) -> list[float]:
    """The held-out start that is nearest to a place."""
    starts = np.asarray(run.starts.starts)
    return starts[np.linalg.norm(starts - place, axis=1).argmin()].tolist()


def _noise(study: Study) -> Figure | None:
    """Figure 4: the relative loss of style-consistency against the share of wrong labels."""
    found = {style: _noise_points(study, style) for style in STYLES}
    measured = {style: points for style, points in found.items() if len(points) > 1}
    printed = {style: [(0.0, 0.0), *(_printed_point(style, noise) for noise in "1234")] for style in measured}
    return draw_noise(measured, printed) if measured else None


def _noise_points(study: Study, style: str) -> list[tuple[float, float]]:
    """(disagreement, relative change of the median) per measured noise; empty if the cell without noise is missing."""
    results = [study.result(Cell("ctvae-style", (style,), noise=noise)) for noise in range(5)]
    medians = [(r["disagreement"], spread([seed["joint"] for seed in r["seeds"]])["median"]) for r in results if r]
    if results[0] is None or not medians[0][1]:  # a change relative to 0 has no value
        return []
    return [(disagreement, median / medians[0][1] - 1) for disagreement, median in medians]


def _printed_point(style: str, noise: str) -> tuple[float, float]:
    (disagreement,), (decrease,) = (NUMBERS[name][noise][style] for name in ("noise-disagreement", "noise-decrease"))
    return disagreement / 100, -decrease / 100


FIGURES: dict[str, tuple[set[str], Callable[[Study], Figure | None]]] = {
    "scores": ({"single-styles", "cheetah-single-styles"}, _scores),
    "displacement-6": ({"displacement"}, _displacement),
    "destination-3": ({"single-styles", "destination"}, partial(_destination, 3)),
    "destination-6": ({"single-styles", "destination"}, partial(_destination, 6)),
    "speed-within-destination": ({"joint"}, _speed),
    "noise": ({"noise"}, _noise),
    "gaits": ({"cheetah-single-styles"}, partial(_gaits, False)),
    "gaits-longer": ({"cheetah-longer"}, partial(_gaits, True)),
}
"""By name: the tables that a figure belongs to, and the function that draws it (None without its runs or results)."""
