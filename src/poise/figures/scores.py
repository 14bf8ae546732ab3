"""Histograms of the scores that labeling functions give to demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..styles.inspection import Inspection
from .canvas import INK, LIGHT_BLUE, MUTED, PAGE, SMALL, TEXT, make_axes, percent, plain_text


def draw_scores(inspection: Inspection) -> Figure:
    """One histogram per style, cut at its thresholds, with the name and the share of each class."""
    styles = inspection.styles
    columns = min(3, len(styles))
    figure, axes = make_axes(len(styles), columns, 2.5, min(PAGE, 4.2 * columns))
    for i, (ax, style) in enumerate(zip(axes, styles, strict=True)):
        scores, cuts = np.asarray(inspection.scores[i], float), np.asarray(style.thresholds or (), float)
        edges = _edges(scores, cuts)
        clipped = np.clip(scores, edges[0], edges[-1])
        ax.hist(clipped, bins=edges.tolist(), color=LIGHT_BLUE, edgecolor="white", linewidth=0.4)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0, ax.get_ylim()[1] * 1.38)  # leaves room for the names of the classes
        for cut in cuts:
            ax.axvline(cut, ymax=0.8, color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        counts = np.asarray(inspection.counts(i))
        _name_classes(ax, style.classes, [edges[0], *cuts, edges[-1]], (counts / counts.sum()).tolist())
        name = f"{style.name} ({style.unit})" if style.unit else style.name
        ax.set_xlabel(plain_text(name), fontsize=TEXT, color=INK)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.set_ylabel("demonstrations", fontsize=SMALL, color=MUTED)
    return figure


def _edges(scores: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Edges of bins for all scores but the outer half percent on each side, which the outer bins count."""
    low, high = np.quantile(scores, [0.005, 0.995])
    low, high = min([low, *cuts]), max([high, *cuts])
    margin = 0.04 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, int(np.clip(1.5 * np.sqrt(len(scores)), 12, 40)) + 1)


def _name_classes(ax: Axes, classes: Sequence[str], ends: Sequence[float], shares: Sequence[float]) -> None:
    """Writes each class above its part of the axis, moved aside where its neighbour needs the space."""
    count, parts = len(classes), (np.asarray(ends) - ends[0]) / (ends[-1] - ends[0])
    places, space = (parts[:-1] + parts[1:]) / 2, min(0.22, 1 / count)
    places[0] = max(places[0], space / 2)
    for k in range(1, count):
        places[k] = max(places[k], places[k - 1] + space)
    places = np.minimum(places, 1 - space / 2 - space * np.arange(count)[::-1])
    for place, name, share in zip(places, classes, shares, strict=True):
        words = plain_text(f"{name}\n{percent(share)}")
        ax.text(place, 1.0, words, transform=ax.transAxes, ha="center", va="top", fontsize=SMALL, color=INK)
