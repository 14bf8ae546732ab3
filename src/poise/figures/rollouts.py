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
from matplotlib.ticker import MaxNLocator

from ..domains.base import Scene
from ..errors import PoiseError
from ..evaluation.scored import ScoredRollouts
from .canvas import (
    BLUE,
    FAINT,
    GREEN,
    MUTED,
    PAGE,
    SMALL,
    VERMILION,
    add_legend,
    make_axes,
    percent,
    plain_text,
    set_title,
)

DRAWN = 60  # rollouts drawn in one panel; all are counted
BEYOND = 0.12  # the most that is shown around a scene, as a share of its size, for rollouts that leave it

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
    low, high = _limits(paths, scene, beyond)
    equal = bool(scene.outlines) or (not _against_time(scene) and _similar(high - low))
    columns = min(columns, len(panels))
    figure, axes = _make_axes(len(panels), columns, high - low, equal)
    letters = max(20, int(figure.get_figwidth() / columns * 12.5))
    for ax, (title, scored), lines in zip(axes, panels, paths, strict=True):
        _draw_scene(ax, scene, low, high, equal)
        _draw_paths(ax, lines, starts)
        share = percent(scored.joint.mean()).replace(" ", "\u00a0")  # the share is never alone on a line
        set_title(ax, textwrap.fill(f"{title}:\u00a0{share}", letters).replace("\u00a0", " "))
    for ax, ring in zip(axes, rings, strict=bool(rings)):
        _draw_rings(ax, ring)
    if scene.outlines:
        _draw_scale(axes[(len(panels) - 1) // columns * columns], scene, low, high)
    legend = add_legend(figure, _legend_handles(starts, bool(rings)), columns=4)
    most = max(len(scored.finite) for _, scored in panels)
    if most > drawn:
        legend.set_title(f"In each panel, {drawn} of {most} rollouts are drawn and all are counted.")
        legend.get_title().set(fontsize=SMALL, color=MUTED)
    return figure


def _make_axes(count: int, columns: int, spans: np.ndarray, equal: bool) -> tuple[Figure, list[Axes]]:
    """Axes as tall as the scene needs if its two columns have equal scales."""
    width = min(PAGE, 4.2 * columns)
    tall = float(np.clip(spans[1] / spans[0], 0.4, 1.8)) if equal else 0.7
    return make_axes(count, columns, width / columns * tall + 0.3, width, "compressed" if equal else None)


def _paths(scored: ScoredRollouts, scene: Scene, most: int) -> Paths:
    """Points [length + 1, 2] of the rollouts to draw, each with whether it is right."""
    finite = np.flatnonzero(scored.finite)
    rows = finite if len(finite) <= most else finite[np.linspace(0, len(finite) - 1, most).astype(int)]
    states, lengths = np.asarray(scored.rollouts.states), np.asarray(scored.rollouts.lengths)
    right, found = np.asarray(scored.joint), []
    for row in rows:
        points = states[row, : lengths[row] + 1][:, list(scene.columns)].astype(float)
        if _against_time(scene):
            points[:, 0] = np.arange(len(points))
        found.append((points, bool(right[row])))
    return found


def _against_time(scene: Scene) -> bool:
    """Whether one column of the state is drawn against time."""
    return scene.columns[0] == scene.columns[1]


def _limits(panels: Sequence[Paths], scene: Scene, beyond: float) -> tuple[np.ndarray, np.ndarray]:
    """The corners that all panels share: those of the scene and a little around it, or what holds every rollout."""
    points = np.concatenate([np.zeros((1, 2)), *(points for paths in panels for points, _ in paths)])
    points = points[1:] if len(points) > 1 else points  # a panel without a finite rollout is drawn around zero
    low, high = points.min(axis=0), points.max(axis=0)
    if scene.limits is not None and not _against_time(scene):
        left, right, bottom, top = scene.limits
        corner, other = np.array([left, bottom], float), np.array([right, top], float)
        around, margin = beyond * (other - corner), 0.02 * (other - corner)
        return np.clip(low - margin, corner - around, corner), np.clip(high + margin, other, other + around)
    for outline in scene.outlines:
        low, high = np.minimum(low, np.min(outline, axis=0)), np.maximum(high, np.max(outline, axis=0))
    margin = 0.05 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin


def _similar(spans: np.ndarray) -> bool:
    return bool(spans.max() <= 3 * spans.min())


def _draw_scene(ax: Axes, scene: Scene, low: np.ndarray, high: np.ndarray, equal: bool) -> None:
    """The outlines of the scene without axes, or axes where it has none."""
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    if equal:
        ax.set_aspect("equal")
    for outline in scene.outlines:
        ax.plot(*np.asarray(outline, float).T, color=FAINT, linewidth=0.9, zorder=1)
    if scene.outlines:
        ax.set_axis_off()
        return
    unit = f" ({scene.unit})" if scene.unit else ""
    across, up = scene.columns
    x_label = "step" if _against_time(scene) else plain_text(f"state {across}{unit}")
    ax.set_xlabel(x_label, fontsize=SMALL, color=MUTED)
    ax.set_ylabel(plain_text(f"state {up}{unit}"), fontsize=SMALL, color=MUTED)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=_against_time(scene)))


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


def _draw_scale(ax: Axes, scene: Scene, low: np.ndarray, high: np.ndarray) -> None:
    """A bar of a round length under a panel without axes."""
    span = float(high[0] - low[0])
    power = 10.0 ** np.floor(np.log10(span / 4))
    length = power * max(step for step in (1, 2, 5) if step * power <= span / 4)
    left, below = low[0] + 0.02 * span, low[1] - 0.03 * float(high[1] - low[1])
    ax.plot([left, left + length], [below, below], color=MUTED, linewidth=1.2, clip_on=False)
    words = plain_text(f"{length:g} {scene.unit}".strip())
    ax.text(left + length + 0.015 * span, below, words, fontsize=SMALL, color=MUTED, va="center")
