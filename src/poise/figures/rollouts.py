"""Rollouts as lines on their scene."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Wedge

from ..domains.base import Scene
from ..errors import PoiseError
from ..evaluation.scored import ScoredRollouts
from .canvas import BLUE, GREEN, MUTED, SMALL, VERMILION, add_legend, percent, set_title
from .scenes import BEYOND, against_time, draw_scale, draw_scene, equal_scales, find_limits, make_scene_axes

DRAWN = 60  # rollouts drawn in one panel; all are counted

RIGHT: dict[str, Any] = {"color": BLUE, "linestyle": "-", "marker": "o"}
WRONG: dict[str, Any] = {"color": VERMILION, "linestyle": (0, (4, 2)), "marker": "x"}
RING: dict[str, Any] = {"facecolor": (GREEN, 0.16), "edgecolor": GREEN, "linewidth": 0.8}

Paths = list[tuple[np.ndarray, bool]]


@dataclass(frozen=True)
class Rings:
    """The classes of a style that measures a distance, as rings around a centre."""

    centre: Sequence[float]
    thresholds: Sequence[float]
    asked: int
    """The class that is asked for: its ring is filled."""


def draw_rollouts(
    panels: Sequence[tuple[str, ScoredRollouts]],
    scene: Scene,
    starts: bool = True,
    columns: int = 3,
    rings: Sequence[Rings] = (),
    drawn: int = DRAWN,
    beyond: float = BEYOND,
) -> Figure:
    """Rollouts from a diamond to a dot, one panel per title; a wrong rollout is dashed and ends in a cross.

    A rollout is right if it shows every style that it was asked for. The title says how many are: all rollouts are
    counted, also those that are not drawn.

    Args:
        panels: Titles with their rollouts.
        scene: What to draw the rollouts on.
        starts: Whether to mark where rollouts start.
        columns: The number of panels in a row.
        rings: Where a right rollout must end, one per panel; none if empty.
        drawn: The most rollouts that are drawn in one panel.
        beyond: The most that is shown on each side of the scene, as a share of its size, where rollouts leave it.

    Raises:
        PoiseError: If there are no panels.
    """
    if not panels:
        raise PoiseError("there is nothing to draw: no rollouts were given")
    paths = [_paths(scored, scene, drawn) for _, scored in panels]
    points = np.concatenate([np.zeros((0, 2)), *(points for one in paths for points, _ in one)])
    low, high = find_limits(points, scene, beyond)
    columns, equal = min(columns, len(panels)), equal_scales(scene, low, high)
    figure, axes = make_scene_axes(len(panels), columns, low, high, equal)
    letters = max(20, int(figure.get_figwidth() / columns * 12.5))
    for ax, (title, scored), lines in zip(axes, panels, paths, strict=True):
        draw_scene(ax, scene, low, high, equal)
        _draw_paths(ax, lines, starts)
        share = percent(scored.joint.mean()).replace(" ", "\u00a0")  # the share is never alone on a line
        set_title(ax, textwrap.fill(f"{title}:\u00a0{share}", letters).replace("\u00a0", " "))
    for ax, ring in zip(axes, rings, strict=bool(rings)):
        _draw_rings(ax, ring)
    if scene.outlines:
        draw_scale(axes[(len(panels) - 1) // columns * columns], scene, low, high)
    legend = add_legend(figure, _legend_handles(starts, bool(rings)), columns=4)
    most = max(len(scored.finite) for _, scored in panels)
    if most > drawn:
        legend.set_title(f"In each panel, {drawn} of {most} rollouts are drawn and all are counted.")
        legend.get_title().set(fontsize=SMALL, color=MUTED)
    return figure


def _paths(scored: ScoredRollouts, scene: Scene, most: int) -> Paths:
    """Points [length + 1, 2] of the rollouts to draw, each with whether it is right."""
    finite = np.flatnonzero(scored.finite)
    rows = finite if len(finite) <= most else finite[np.linspace(0, len(finite) - 1, most).astype(int)]
    states, lengths = np.asarray(scored.rollouts.states), np.asarray(scored.rollouts.lengths)
    right, found = np.asarray(scored.joint), []
    for row in rows:
        points = states[row, : lengths[row] + 1][:, list(scene.columns)].astype(float)
        if against_time(scene):
            points[:, 0] = np.arange(len(points))
        found.append((points, bool(right[row])))
    return found


def _draw_paths(ax: Axes, paths: Paths, starts: bool) -> None:
    """The lines of rollouts with their ends; wrong ones on top."""
    for is_right, look in ((True, RIGHT), (False, WRONG)):
        lines = [points for points, right in paths if right == is_right]
        if not lines:
            continue
        ends = np.array([points[-1] for points in lines])
        firsts = np.array([points[0] for points in lines])
        drawn = LineCollection(lines, linewidths=0.8, linestyles=look["linestyle"], colors=look["color"], alpha=0.6)
        drawn.set_zorder(2 if is_right else 3)
        ax.add_collection(drawn, autolim=False)
        if starts:
            ax.scatter(*firsts.T, s=9, marker="D", facecolors="white", edgecolors=MUTED, linewidths=0.6, zorder=4)
        ax.scatter(*ends.T, s=11, marker=look["marker"], color=look["color"], linewidths=0.9, zorder=5)


def _legend_handles(starts: bool, rings: bool) -> list[Any]:
    """What the lines and markers mean."""
    diamond: dict[str, Any] = {"marker": "D", "markersize": 4, "markerfacecolor": "white", "markeredgecolor": MUTED}
    handles: list[Any] = [Line2D([], [], linestyle="", **diamond, label="start")] if starts else []
    for look, label in ((RIGHT, "shows what was asked for"), (WRONG, "does not")):
        handles.append(Line2D([], [], linewidth=1.2, markersize=4.5, **look, label=label))
    return [*handles, Patch(**RING, label="where it should end")] if rings else handles


def _draw_rings(ax: Axes, rings: Rings) -> None:
    """Every threshold as a circle, and the ring of the class that is asked for filled; the last has no outer end."""
    (x, y), cuts = rings.centre, [0.0, *rings.thresholds, float(np.ptp([*ax.get_xlim(), *ax.get_ylim()])) * 2]
    inner, outer = cuts[rings.asked], cuts[rings.asked + 1]
    ax.add_patch(Wedge((x, y), outer, 0, 360, width=outer - inner, color=RING["facecolor"], linewidth=0, zorder=0))
    for cut in rings.thresholds:
        ax.add_patch(Circle((x, y), cut, fill=False, edgecolor=GREEN, linewidth=RING["linewidth"], zorder=1.5))
