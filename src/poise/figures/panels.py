"""Sampled rollouts for the report: which panels and maps are drawn, sampling them, and drawing them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from matplotlib.figure import Figure

from ..domains.base import Scene, Simulation
from ..evaluation.feasibility import Feasibility
from ..evaluation.scored import ScoredRollouts
from ..runs.run import Run
from ..styles.labeling_functions import LabelingFunction
from .bodies import draw_gaits
from .chosen_gaits import Gait, choose_gaits
from .rollouts import draw_rollouts
from .scenes import has_positions

COUNT = 200  # rollouts per panel
STARTS = 80  # starts per map of what is within reach; with three classes they need no program beside that of COUNT
IN_ONE_GRID = 9  # the most combinations of classes of two styles that are drawn as one grid


class Panel(NamedTuple):
    """Rollouts that were asked for the same classes, and how they did."""

    title: str
    """The classes that were asked for, for example "speed=slow, destination=near"."""
    scored: ScoredRollouts
    """The rollouts, scored by the styles that the title names."""


@dataclass(frozen=True)
class PanelGroup:
    """Panels that are drawn as one figure."""

    styles: tuple[str, ...]
    """The names of the styles whose classes were asked for."""
    panels: tuple[Panel, ...]
    columns: int = 3
    """The number of panels in a row."""


class ReachMap(NamedTuple):
    """From where the classes of a style are within reach."""

    style: str
    feasibility: Feasibility
    """Every start, asked for every class of the style."""


@dataclass(frozen=True)
class RolloutPanels:
    """Sampled rollouts of one trained seed, in groups of panels, and maps of what is within its reach."""

    algorithm: str
    seed: int
    count: int
    """The number of rollouts in each panel."""
    groups: tuple[PanelGroup, ...]
    scene: Scene
    """What to draw the rollouts on."""
    tries: int = 1
    """The most rollouts of one request, until the labeling functions agree."""
    reach: tuple[ReachMap, ...] = ()
    chosen: tuple[Gait, ...] = ()
    """Of a body: gaits that were chosen by a rule."""


def sample_panels(run: Run, count: int = COUNT, starts: int = STARTS) -> RolloutPanels:
    """Samples rollouts of a run's best seed for every class of its styles, and finds from where each is within reach.

    The combinations of the classes of two styles make one group if they are few enough to be drawn as one grid.
    Otherwise each style has a group of its own, with one panel per class. There, the other styles take the label of
    the demonstration that the rollout starts from.

    Args:
        run: The trained run. Its best seed on validation demonstrations is sampled.
        count: The number of rollouts in each panel.
        starts: The number of starts in each map; 0 for no maps. Each start is asked for every class, so there are maps
            only where rollouts are simulated in known dynamics, and only where a start is a place in the plane.

    Returns:
        The panels, for `write_report` or `draw_panels`.
    """
    if _fit_one_grid(run.styles):
        groups = [_sample_group(run, run.styles, count, columns=len(run.styles[-1].classes))]
    else:
        groups = [_sample_group(run, (style,), count) for style in run.styles]
    drawn = [panel.scored for group in groups for panel in group.panels]
    return RolloutPanels(
        algorithm=run.experiment.algorithm_name,
        seed=run.seeds[run.best],
        count=count,
        groups=tuple(groups),
        scene=run.domain.scene,
        tries=run.sampling().tries,
        reach=_find_reach(run, starts),
        chosen=choose_gaits(drawn, run.starts) if run.domain.scene.body else (),
    )


def _find_reach(run: Run, starts: int) -> tuple[ReachMap, ...]:
    """One map per style, where that is cheap and can be drawn."""
    places = has_positions(run.domain.scene, run.starts.states.shape[-1])
    if not starts or not places or run.domain.simulation is not Simulation.KNOWN_DYNAMICS:
        return ()
    return tuple(ReachMap(style.name, run.reach(style.name, starts)) for style in run.styles)


def draw_panels(group: PanelGroup, scene: Scene) -> Figure:
    """One group of panels as a figure: gaits if the scene has a body, otherwise lines on the scene."""
    if scene.body is not None:
        return draw_gaits(group.panels, scene)
    return draw_rollouts(group.panels, scene, columns=group.columns)


def _fit_one_grid(styles: tuple[LabelingFunction, ...]) -> bool:
    return len(styles) == 2 and len(styles[0].classes) * len(styles[1].classes) <= IN_ONE_GRID


def _sample_group(run: Run, styles: tuple[LabelingFunction, ...], count: int, columns: int = 3) -> PanelGroup:
    """One panel for each combination of the classes of these styles."""
    names = tuple(style.name for style in styles)
    asked = product(*(style.classes for style in styles))
    panels = [_sample_panel(run, dict(zip(names, classes, strict=True)), count) for classes in asked]
    return PanelGroup(names, tuple(panels), columns)


def _sample_panel(run: Run, classes: dict[str, str], count: int) -> Panel:
    scored = run.sample_scored(count, classes)
    named = [i for i, style in enumerate(run.styles) if style.name in classes]
    title = ", ".join(f"{name}={word}" for name, word in classes.items())
    return Panel(title, scored.only(named))
