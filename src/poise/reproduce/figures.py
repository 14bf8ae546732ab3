"""The paper's figures, drawn from the runs and the measured cells of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from .. import plots
from ..domains import DOMAINS
from ..domains.basketball import BASKETBALL
from ..domains.possessions import RIM
from ..evaluation import Checked, spread
from ..files import make_folder
from ..inspection import Inspection
from ..plots import Figure, Rings
from ..runs import Run
from ..tasks import load_splits, load_styles
from .grid import CHEETAH_STYLES, SETUPS, STYLES, Cell, Table
from .paper import NUMBERS
from .study import Study

ARC = (28.0, 25.0)  # the top of the three-point arc
CORNER = (8.0, 5.0)  # from where players both stay and go far
ROLLOUTS, DRAWN = 1_000, 20  # in a panel: so many are counted, and so many drawn
GAITS = 100  # rollouts that are counted for a gait
BEYOND = 0.8  # of the half court: a rollout that leaves it is seen to


def draw(study: Study, tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Writes the figures that go with these tables, as far as what they show is there."""
    written = []
    for name, (goes_with, figure_of) in FIGURES.items():
        figure = figure_of(study) if goes_with & tables.keys() else None
        if figure is not None:
            written.append(make_folder(folder) / f"{name}.png")
            plots.save(figure, written[-1])
    return written


def _scores(study: Study) -> Figure | None:
    """Figures 7 and 8: the scores of the training demonstrations."""
    like, domain = study.like, study.domain
    if not all(data in DOMAINS or Path(data).exists() for data in (like.data, like.test) if data):
        return None
    setup = SETUPS[domain.name]
    styles = load_styles(setup.styles, domain, setup.classes)
    return plots.draw_scores(Inspection.of(styles, load_splits(like, domain).train))


def _displacement(study: Study) -> Figure | None:
    """Figure 2: the baseline and CTVAE-style, asked for the lowest and the highest of 6 classes."""
    cells = [Cell(algorithm, ("displacement",), 6) for algorithm in ("ctvae", "ctvae-style")]
    runs = [run for run in map(study.run, cells) if run is not None]
    if len(runs) < 2:
        return None
    start, asked = _start(runs[0], CORNER), [(run, k) for k in (0, 5) for run in runs]
    panels = [_panel(run, {"displacement": k}, start, f"{run.experiment.algorithm}, ") for run, k in asked]
    rings = [Rings(start, run.styles[0].thresholds or (), k) for run, k in asked]
    return plots.draw_rollouts(panels, BASKETBALL.scene, columns=2, rings=rings, drawn=DRAWN, beyond=BEYOND)


def _destination(classes: int, study: Study) -> Figure | None:
    """Figures 5 and 6: each class of where a rollout ends."""
    run = study.run(Cell("ctvae-style", ("destination",), classes))
    return run and _around_the_rim(run, [{"destination": k} for k in range(classes)])


def _speed(study: Study) -> Figure | None:
    """Figure 3: each class of speed, all to end in the middle class of destination."""
    run = study.run(Cell("ctvae-style", ("speed", "destination"), 3))
    return run and _around_the_rim(run, [{"speed": k, "destination": 1} for k in range(3)])


def _gaits(longer: bool, study: Study) -> Figure | None:
    """Each class of each style."""
    runs = [study.run(Cell("ctvae-style", (style,), 2, longer=longer)) for style in CHEETAH_STYLES]
    found = [run for run in runs if run is not None]
    return draw_gaits(found) if found else None


def draw_gaits(runs: Sequence[Run]) -> Figure:
    """One rollout of each class of each run's style, from the same start: the first that is drawn, right or wrong."""
    panels = []
    for run in runs:
        (style,), start = run.styles, np.asarray(run.starts.starts)[0].tolist()
        for k, name in enumerate(style.classes):
            panels.append((f"{style.name}={name}", run.sample_checked(GAITS, {style.name: k}, start=start)))
    return plots.draw_gaits(panels, runs[0].domain.scene)


def _around_the_rim(run: Run, asked: Sequence[dict[str, int]]) -> Figure:
    """A panel for each that is asked for, with the classes of destination around the rim."""
    destination = next(style for style in run.styles if style.name == "destination")
    rings = [Rings(RIM.tolist(), destination.thresholds or (), classes["destination"]) for classes in asked]
    start = _start(run, ARC)
    panels = [_panel(run, classes, start) for classes in asked]
    return plots.draw_rollouts(panels, BASKETBALL.scene, rings=rings, drawn=DRAWN, beyond=BEYOND)


def _panel(run: Run, asked: dict[str, int], start: list[float], before: str = "") -> tuple[str, Checked]:
    """What is asked for, and rollouts of the best seed on validation demonstrations that are asked for it."""
    names = [f"{style.name}={style.classes[asked[style.name]]}" for style in run.styles]
    return before + ", ".join(names), run.sample_checked(ROLLOUTS, asked, start=start)


def _start(run: Run, place: tuple[float, float]) -> list[float]:
    """The held-out start that is nearest to a place."""
    starts = np.asarray(run.starts.starts)
    return starts[np.linalg.norm(starts - place, axis=1).argmin()].tolist()


def _noise(study: Study) -> Figure | None:
    """Figure 4: how much style-consistency is lost, over how many labels are wrong."""
    found = {style: _cost(study, style) for style in STYLES}
    measured = {style: points for style, points in found.items() if len(points) > 1}
    printed = {style: [(0.0, 0.0), *(_printed(style, c) for c in "1234")] for style in measured}
    return plots.draw_noise(measured, printed) if measured else None


def _cost(study: Study, style: str) -> list[tuple[float, float]]:
    """(disagreement, relative change of the median) for each noise that is measured, first without any."""
    results = [study.result(Cell("ctvae-style", (style,), noise=c)) for c in range(5)]
    seen = [(r["disagreement"], spread([seed["joint"] for seed in r["seeds"]])["median"]) for r in results if r]
    if results[0] is None or not seen[0][1]:  # there is nothing to lose
        return []
    return [(disagreement, median / seen[0][1] - 1) for disagreement, median in seen]


def _printed(style: str, c: str) -> tuple[float, float]:
    (disagreement,), (decrease,) = (NUMBERS[name][c][style] for name in ("noise-disagreement", "noise-decrease"))
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
"""The tables that each figure goes with, and how it is made; None if what it shows is not there."""
