"""The front: how many rollouts obey against how real they look, over algorithms and ways of sampling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from ..errors import PoiseError
from .canvas import BLUE, FAINT, GREEN, INK, MUTED, PAGE, SMALL, TEXT, VERMILION, make_axes, plain_text, set_title

LOOKS = ((VERMILION, "s"), (GREEN, "^"), (BLUE, "o"), ("#CC79A7", "D"), ("#B87700", "v"), (INK, "P"), (MUTED, "X"))
"""The colour and the marker of each algorithm."""
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1), (2, 1), (2, -1), (-2, 1), (-2, -1))
"""Where a label may stand, seen from its point, the best first."""
RADII = (9.0, 18.0, 28.0, 40.0, 54.0)
"""How far from its point a label may stand, in points of type."""
ROUNDS = 4
"""How often every label is placed again."""
TICKS = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10])


class FrontPoint(NamedTuple):
    """An algorithm in one way of sampling."""

    name: str
    """The algorithm."""
    way: str
    """How it was sampled, for example "steered, verified"; empty if there is one way only."""
    c2st: float | None
    """The accuracy of the classifier that tells rollouts from demonstrations."""
    right: float
    """The share of rollouts that obey: yield, or right and in range."""


class GuidancePoint(NamedTuple):
    """What one guidance gives."""

    guidance: float
    right: float
    """The share of rollouts that obey: yield, or right and in range."""
    c2st: float
    """The accuracy of the classifier that tells rollouts from demonstrations."""


def draw_front(
    points: Sequence[FrontPoint | tuple[str, str, float | None, float]],
    floor: float | None = None,
    what: str = "yield",
) -> Figure:
    """The share of rollouts that obey (up) against how real they look (to the left), one labelled marker per point.

    The points of one algorithm share a colour and a marker, and are joined in the given order.

    Args:
        points: Algorithms with their ways of sampling; those without a C2ST are left out.
        floor: The C2ST of demonstrations against demonstrations.
        what: What the vertical axis shows, for example "yield" or "right and in range".

    Raises:
        PoiseError: No point has a C2ST.
    """
    seen = [point for point in map(FrontPoint._make, points) if _is_measured(point)]
    if not seen:
        raise PoiseError("there is nothing to draw: no point has a C2ST")
    figure, (ax,) = make_axes(1, 1, 4.6, 0.78 * PAGE)
    names = list(dict.fromkeys(point.name for point in seen))
    for name, (color, marker) in zip(names, [*LOOKS] * -(-len(names) // len(LOOKS)), strict=False):
        places = np.asarray([place(point) for point in seen if point.name == name])
        ax.plot(*places.T, color=color, linewidth=0.9, alpha=0.35, zorder=2)
        ax.plot(*places.T, linestyle="", marker=marker, color=color, markersize=6.5, zorder=3)
    _set_limits(ax, seen, floor)
    _finish(ax, what)
    if floor is not None:
        _draw_floor(ax, floor)
    _place_labels(figure, ax, seen)
    return figure


def _is_measured(point: FrontPoint) -> bool:
    return point.c2st is not None and bool(np.isfinite([point.c2st, point.right]).all())


def place(point: FrontPoint) -> tuple[float, float]:
    """Where a point is drawn: its C2ST across, its share in percent up."""
    assert point.c2st is not None
    return point.c2st, 100 * point.right


def _set_limits(ax: Axes, points: Sequence[FrontPoint], floor: float | None) -> None:
    """From 0.5, which is the best, to a little beyond the worst; up to 100 %."""
    across, up = np.asarray([place(point) for point in points]).T
    left = min(0.5, across.min(), floor or 0.5)
    right = min(1.0, max(across.max() + 0.05, 0.6))
    bottom = max(0.0, 10 * np.floor(up.min() / 10 - 0.5))
    ax.set_xlim(left - 0.015 * (right - left), right + 0.02 * (right - left))
    ax.set_ylim(bottom, 100 + 0.1 * (100 - bottom))


def _finish(ax: Axes, what: str) -> None:
    ax.set_xlabel(
        "accuracy of a classifier that tells rollouts from demonstrations (C2ST; 0.5: it cannot)",
        fontsize=TEXT,
        color=INK,
    )
    ax.set_ylabel(plain_text(f"{what} (% of rollouts)"), fontsize=TEXT, color=INK)
    bottom, top = ax.get_ylim()
    ax.set_yticks([tick for tick in TICKS.tick_values(bottom, 100) if bottom <= tick <= 100])
    ax.set_ylim(bottom, top)
    ax.grid(color=FAINT, linewidth=0.5, alpha=0.5)
    ax.set_axisbelow(True)
    set_title(ax, "better: up and to the left")


def _draw_floor(ax: Axes, floor: float) -> None:
    """A dotted line at the C2ST of demonstrations against demonstrations, named at its foot."""
    ax.axvline(floor, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.1, zorder=1)
    words = f"demonstrations against\ndemonstrations: {floor:.2f}"
    ax.annotate(
        words, (floor, 0), (5, 5), xycoords=("data", "axes fraction"), textcoords="offset points", va="bottom",
        fontsize=SMALL, color=MUTED,
    )  # fmt: skip


def _place_labels(figure: Figure, ax: Axes, points: Sequence[FrontPoint]) -> None:
    """Writes the name and way of every point near it, where it covers no other label, no marker and no line."""
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lays the axes out, so that labels can be measured
    figure.set_layout_engine("none")
    pixel, places = figure.dpi / 72, ax.transData.transform([place(point) for point in points])
    markers = np.concatenate([places - 5 * pixel, places + 5 * pixel], axis=1)
    notes = np.reshape([text.get_window_extent().extents for text in ax.texts], (-1, 4))
    fixed = np.concatenate([markers, notes, _boxes_of_lines(ax)])
    labels = [_write(ax, point) for point in points]
    sizes = [np.asarray(label.get_window_extent().size) for label in labels]
    spots = [(direction, radius) for radius in RADII for direction in DIRECTIONS]
    candidates = [
        [_box(where, size, *spot, pixel) for spot in spots] for where, size in zip(places, sizes, strict=True)
    ]
    chosen = [0] * len(points)
    for _ in range(ROUNDS):  # each label again, given where the others are by now
        for i in range(len(points)):
            others = [candidates[k][chosen[k]] for k in range(len(points)) if k != i]
            taken = np.concatenate([fixed, np.reshape(others, (-1, 4))])
            costs = [
                _cost(box, radius, taken, np.asarray(ax.bbox.extents), places, i) + 0.1 * number
                for number, (box, (_, radius)) in enumerate(zip(candidates[i], spots, strict=True))
            ]
            chosen[i] = int(np.argmin(costs))
    for i, label in enumerate(labels):
        _move(label, *spots[chosen[i]])
        if spots[chosen[i]][1] > RADII[0]:
            ends = np.stack([places[i], _nearest(places[i], candidates[i][chosen[i]])])
            ax.plot(*ax.transData.inverted().transform(ends).T, color=MUTED, linewidth=0.6, zorder=1.5)


def _write(ax: Axes, point: FrontPoint) -> Annotation:
    words = plain_text(f"{point.name}, {point.way}" if point.way else point.name)
    where: dict[str, Any] = {"xytext": (RADII[0], 0.0), "textcoords": "offset points", "va": "center"}
    return ax.annotate(words, place(point), **where, fontsize=SMALL, color=INK, zorder=5)


def _boxes_of_lines(ax: Axes) -> np.ndarray:
    """Small boxes [K, 4] along every line, which labels should not cover."""
    found = [np.zeros((0, 2))]
    for line in ax.lines:
        path = line.get_transform().transform(line.get_xydata())
        for one, other in itertools.pairwise(path if line.get_linestyle() != "None" else []):
            found.append(np.linspace(one, other, int(np.hypot(*(other - one)) / 6) + 2))
    along = np.concatenate(found)
    return np.concatenate([along - 1, along + 1], axis=1)


def _cost(box: np.ndarray, radius: float, taken: np.ndarray, inside: np.ndarray, places: np.ndarray, own: int) -> float:
    """How bad a label is there: what it and its leader cover, whether it seems to name another point, how far it is."""
    area, far = np.prod(box[2:] - box[:2]), np.array([np.hypot(*(_nearest(one, box) - one)) for one in places])
    outside = area - _covered(box, inside[None])
    leader = 0.0
    if radius > RADII[0]:
        along = np.linspace(places[own], _nearest(places[own], box), 12)[3:]
        leader = sum(_covered(np.concatenate([one - 1, one + 1]), taken) for one in along)
    ambiguous = (np.delete(far, own) < (1.2 if radius == RADII[0] else 0.5) * far[own]).sum()
    return float(10 * (_covered(box, taken) + outside) + 20 * leader + 100 * ambiguous + 2 * radius)


def _covered(box: np.ndarray, others: np.ndarray) -> float:
    """The area that a box shares with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(sides.clip(0).prod(axis=1).sum())


def _nearest(point: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The point of a box that is nearest to a point."""
    return np.clip(point, box[:2], box[2:])


def _box(point: np.ndarray, size: np.ndarray, direction: tuple[int, int], radius: float, pixel: float) -> np.ndarray:
    """Where a label of this size stands, as (left, bottom, right, top), when it is moved there."""
    away = np.asarray(direction, float)
    low = point + radius * pixel * away / np.hypot(*away) + size * (np.sign(away) - 1) / 2
    return np.concatenate([low, low + size])


def _move(label: Annotation, direction: tuple[int, int], radius: float) -> None:
    across, up = direction
    length = float(np.hypot(across, up))
    label.set_position((radius * across / length, radius * up / length))
    label.set_horizontalalignment("left" if across > 0 else "right" if across < 0 else "center")
    label.set_verticalalignment("bottom" if up > 0 else "top" if up < 0 else "center")


def draw_guidance(
    points: Sequence[GuidancePoint | tuple[float, float, float]],
    floor: float | None = None,
    chosen: float | None = None,
    what: str = "yield",
) -> Figure:
    """The share of rollouts that obey, and below it how real they look, against guidance.

    Args:
        points: What each guidance gives, in any order.
        floor: The C2ST of demonstrations against demonstrations.
        chosen: The default guidance, which is marked.
        what: What the upper panel shows, for example "yield" or "right and in range".

    Raises:
        PoiseError: There are no points.
    """
    if not points:
        raise PoiseError("there is nothing to draw: no guidance was tried")
    guidance, right, c2st = np.asarray(sorted(points), float).T
    figure, (upper, lower) = make_axes(2, 1, 1.75, 0.62 * PAGE)
    lower.sharex(upper)
    for ax, values, color, marker in ((upper, 100 * right, BLUE, "o"), (lower, c2st, VERMILION, "s")):
        ax.plot(guidance, values, color=color, marker=marker, markersize=4.5, linewidth=1.4)
        ax.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.6)
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        if chosen is not None:
            ax.axvline(chosen, color=MUTED, linestyle=(0, (4, 2)), linewidth=0.9, zorder=1)
    if chosen is not None:
        upper.annotate(
            "default", (chosen, 0), (3, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
            va="bottom", fontsize=SMALL, color=MUTED,
        )  # fmt: skip
    if floor is not None:
        lower.axhline(floor, color=INK, linestyle=(0, (1, 1.5)), linewidth=1.1, zorder=1)
        lower.annotate(
            f"demonstrations against demonstrations: {floor:.2f}", (1, floor), (0, -3),
            xycoords=("axes fraction", "data"), textcoords="offset points", ha="right", va="top", fontsize=SMALL,
            color=MUTED,
        )  # fmt: skip
    low, high = min(0.5, *c2st), max(0.55, *c2st)
    lower.set_ylim(low - 0.14 * (high - low), high + 0.08 * (high - low))
    upper.tick_params(labelbottom=False)
    set_title(upper, f"{what} (% of rollouts; higher is better)")
    set_title(lower, "C2ST accuracy (lower is better)")
    lower.set_xlabel("guidance (1: as trained)", fontsize=TEXT, color=INK)
    return figure
