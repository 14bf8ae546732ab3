"""The scene that rollouts and starts are drawn on: its limits, its outlines, its scale."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..domains.base import Scene
from .canvas import FAINT, MUTED, PAGE, SMALL, make_axes, plain_text

BEYOND = 0.12  # the most that is shown around a scene, as a share of its size, for what leaves it

Point = Float[np.ndarray, "2"]


def against_time(scene: Scene) -> bool:
    """Whether one column of the state is drawn against time."""
    return scene.columns[0] == scene.columns[1]


def has_positions(scene: Scene, size: int) -> bool:
    """Whether a state of so many numbers is a place in two dimensions on this scene."""
    return not against_time(scene) and scene.body is None and max(scene.columns) < size


def find_limits(points: Float[np.ndarray, "N 2"], scene: Scene, beyond: float = BEYOND) -> tuple[Point, Point]:
    """The corners that all panels share: those of the scene and a little around it, or what holds every point.

    Args:
        points: All points of all panels.
        scene: What they are drawn on.
        beyond: The most that is shown on each side of the scene, as a share of its size, where points leave it.
    """
    points = points if len(points) else np.zeros((1, 2))  # panels without a finite rollout are drawn around zero
    low, high = points.min(axis=0), points.max(axis=0)
    if scene.limits is not None and not against_time(scene):
        left, right, bottom, top = scene.limits
        corner, other = np.array([left, bottom], float), np.array([right, top], float)
        around, margin = beyond * (other - corner), 0.02 * (other - corner)
        return np.clip(low - margin, corner - around, corner), np.clip(high + margin, other, other + around)
    for outline in scene.outlines:
        low, high = np.minimum(low, np.min(outline, axis=0)), np.maximum(high, np.max(outline, axis=0))
    margin = 0.05 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin


def equal_scales(scene: Scene, low: Point, high: Point) -> bool:
    """Whether a step to the right is drawn as long as a step up: on a field, or where both columns span alike."""
    spans = high - low
    return bool(scene.outlines) or bool(not against_time(scene) and spans.max() <= 3 * spans.min())


def make_scene_axes(count: int, columns: int, low: Point, high: Point, equal: bool) -> tuple[Figure, list[Axes]]:
    """Axes as tall as the scene needs if its two columns have equal scales."""
    width, spans = min(PAGE, 4.2 * columns), high - low
    tall = float(np.clip(spans[1] / spans[0], 0.4, 1.8)) if equal else 0.7
    return make_axes(count, columns, width / columns * tall + 0.3, width, "compressed" if equal else None)


def draw_scene(ax: Axes, scene: Scene, low: Point, high: Point, equal: bool) -> None:
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
    x_label = "step" if against_time(scene) else plain_text(f"state {across}{unit}")
    ax.set_xlabel(x_label, fontsize=SMALL, color=MUTED)
    ax.set_ylabel(plain_text(f"state {up}{unit}"), fontsize=SMALL, color=MUTED)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=against_time(scene)))


def draw_scale(ax: Axes, scene: Scene, low: Point, high: Point) -> None:
    """A bar of a round length under a panel without axes."""
    span = float(high[0] - low[0])
    power = 10.0 ** np.floor(np.log10(span / 4))
    length = power * max(step for step in (1, 2, 5) if step * power <= span / 4)
    left, below = low[0] + 0.02 * span, low[1] - 0.03 * float(high[1] - low[1])
    ax.plot([left, left + length], [below, below], color=MUTED, linewidth=1.2, clip_on=False)
    words = plain_text(f"{length:g} {scene.unit}".strip())
    ax.text(left + length + 0.015 * span, below, words, fontsize=SMALL, color=MUTED, va="center")
