"""Feasibility: where on its scene a class of a style is within reach, and how much of each class is."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..domains.base import Scene
from ..errors import PoiseError, unknown
from ..evaluation.feasibility import Feasibility
from ..evaluation.shares import Share
from .canvas import (
    BLUE,
    INK,
    LIGHT_BLUE,
    MUTED,
    PAGE,
    SMALL,
    TEXT,
    VERMILION,
    add_legend,
    make_axes,
    percent,
    plain_text,
    set_title,
)
from .scenes import draw_scale, draw_scene, equal_scales, find_limits, has_positions, make_scene_axes

FEW = 4
"""The most tries that are few."""
DRAWN = 500
"""Starts that are drawn in one panel; all are counted."""

LEVELS: tuple[dict[str, Any], ...] = (
    {"marker": "o", "s": 13, "facecolors": BLUE, "edgecolors": BLUE, "linewidths": 0.6},
    {"marker": "o", "s": 13, "facecolors": LIGHT_BLUE, "edgecolors": BLUE, "linewidths": 0.6},
    {"marker": "s", "s": 15, "facecolors": "white", "edgecolors": INK, "linewidths": 0.8},
    {"marker": "x", "s": 17, "color": VERMILION, "linewidths": 1.1},
)
"""How a start is drawn by its tries: one, few, many, never."""
FILLS: tuple[dict[str, Any], ...] = (
    {"facecolor": BLUE},
    {"facecolor": LIGHT_BLUE},
    {"facecolor": "white", "hatch": "...."},
    {"facecolor": "white", "hatch": "////"},
)
EDGES = (BLUE, BLUE, INK, VERMILION)


def draw_reach(feasibility: Feasibility, style: str, scene: Scene) -> Figure:
    """Where each class of a style is within reach: every start by its tries, one panel per class.

    A scene without a position in two dimensions is drawn as bars by class. Titles say which share was reached: all
    requests are counted, also those that are not drawn. Ask for every class from every start (`ask_each_class`), so
    that panels compare the same starts.

    Args:
        feasibility: What was reached.
        style: The name of the style.
        scene: What to draw the starts on.

    Raises:
        PoiseError: The style is not known, or no request asks for it.
    """
    names = [one.name for one in feasibility.styles]
    if style not in names:
        raise unknown("style", style, names)
    asked, classes = feasibility.labels[:, names.index(style)], feasibility.styles[names.index(style)].classes
    if not (asked >= 0).any():
        raise PoiseError(f"there is nothing to draw: no request asks for a class of {style}")
    if not has_positions(scene, feasibility.starts.shape[1]):
        return draw_reach_bars(feasibility, [style])
    points, levels = feasibility.starts[:, list(scene.columns)].astype(float), find_levels(feasibility)
    low, high = find_limits(points[asked >= 0], scene)
    columns = 2 if len(classes) == 4 else min(3, len(classes))
    equal = equal_scales(scene, low, high)
    figure, axes = make_scene_axes(len(classes), columns, low, high, equal)
    for k, (ax, name) in enumerate(zip(axes, classes, strict=True)):
        rows = np.flatnonzero(asked == k)
        draw_scene(ax, scene, low, high, equal)
        _draw_starts(ax, points[rows], levels[rows])
        reached = percent(feasibility.reached[rows].mean()) if len(rows) else "not asked for"
        set_title(ax, f"{style}={name}: {reached}")
    if scene.outlines:
        draw_scale(axes[(len(classes) - 1) // columns * columns], scene, low, high)
    handles = [_marker(LEVELS[level], words) for level, words in level_names(feasibility).items()]
    legend = add_legend(figure, handles, columns=4)
    most = max(int((asked == k).sum()) for k in range(len(classes)))
    about = f"In each panel, {DRAWN} of {most} starts are drawn and all are counted. " if most > DRAWN else ""
    legend.set_title(f"{about}Reached from this start …")
    legend.get_title().set(fontsize=SMALL, color=MUTED)
    return figure


def draw_reach_bars(feasibility: Feasibility, styles: list[str] | None = None) -> Figure:
    """The share of requests for each class that were reached in one try, few, many and never, one panel per style."""
    names = [one.name for one in feasibility.styles]
    shown = names if styles is None else styles
    columns, levels = min(2, len(shown)), find_levels(feasibility)
    most = max(len(feasibility.styles[names.index(name)].classes) for name in shown)
    figure, axes = make_axes(len(shown), columns, 0.75 + 0.32 * most, min(PAGE, 5.2 * columns))
    by_class = feasibility.by_class()
    for ax, name in zip(axes, shown, strict=True):
        asked = feasibility.labels[:, names.index(name)]
        for k, reach in enumerate(by_class[name].values()):
            _draw_bar(ax, k, np.bincount(levels[asked == k], minlength=len(LEVELS)), reach.share)
        _finish_bars(ax, list(by_class[name]))
        set_title(ax, name)
    handles = [
        Patch(**FILLS[level], edgecolor=EDGES[level], linewidth=0.6, label=words)
        for level, words in level_names(feasibility).items()
    ]
    legend = add_legend(figure, handles, columns=4)
    legend.set_title("Reached …; at the right, the share that was reached")
    legend.get_title().set(fontsize=SMALL, color=MUTED)
    return figure


def find_levels(feasibility: Feasibility) -> Int[np.ndarray, " N"]:
    """For each request 0 if it was reached in one try, 1 in few, 2 in many, 3 never."""
    level = np.digitize(feasibility.tries, [2, FEW + 1])
    return np.where(feasibility.reached, level, 3)


def level_names(feasibility: Feasibility) -> dict[int, str]:
    """The words for one try, few, many and never; without those that so many tries cannot have."""
    most = feasibility.allowed
    names = {0: "in 1 try", 3: "not in 1 try" if most == 1 else f"not in {most} tries"}
    if most > 1:
        names[1] = f"in 2–{min(FEW, most)} tries" if most > 2 else "in 2 tries"
    if most > FEW:
        names[2] = f"in {FEW + 1}–{most} tries" if most > FEW + 1 else f"in {most} tries"
    return dict(sorted(names.items()))


def _draw_starts(ax: Axes, points: np.ndarray, levels: np.ndarray) -> None:
    """Starts by their tries, evenly chosen where they are too many; those that were never reached are on top."""
    count = len(points)
    rows = np.arange(count) if count <= DRAWN else np.linspace(0, count - 1, DRAWN).astype(int)
    for level, look in enumerate(LEVELS):
        own = points[rows][levels[rows] == level]
        ax.scatter(*own.T, **look, alpha=0.85, zorder=3 + level)


def _marker(look: dict[str, Any], label: str) -> Line2D:
    """How the legend shows a start."""
    face, edge = look.get("facecolors", look.get("color")), look.get("edgecolors", look.get("color"))
    shape: dict[str, Any] = {"marker": look["marker"], "markersize": 5, "linestyle": ""}
    return Line2D([], [], **shape, mfc=face, mec=edge, mew=look["linewidths"], label=label)


def _draw_bar(ax: Axes, place: int, counts: np.ndarray, share: Share) -> None:
    """One stacked bar, with the share that was reached at its right."""
    words, left = "not asked for", 0.0
    if share.count:
        words = percent(share.value)
        for width, fill, edge in zip(100 * counts / counts.sum(), FILLS, EDGES, strict=True):
            ax.barh(place, width, left=left, height=0.62, edgecolor=edge, linewidth=0.6, **fill)
            left += width
    ax.text(1.02, place, words, transform=ax.get_yaxis_transform(), va="center", fontsize=TEXT, color=INK)


def _finish_bars(ax: Axes, names: list[str]) -> None:
    ax.set_xlim(0, 100)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    ax.spines["left"].set_visible(False)
    ax.set_yticks(range(len(names)), [plain_text(name) for name in names])
    ax.tick_params(axis="y", length=0, labelsize=TEXT, labelcolor=INK)
