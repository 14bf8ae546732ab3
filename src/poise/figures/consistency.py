"""Style-consistency with its intervals: of algorithms and seeds, and of the classes of each style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..evaluation.consistency import SeedScore
from ..evaluation.report import Report
from ..evaluation.shares import Share
from ..styles.labeling_functions import LabelingFunction
from .canvas import BLUE, FAINT, INK, PAGE, TEXT, add_legend, make_axes, percent, plain_text, set_title

DOT: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markeredgecolor": BLUE}
DOTTED: dict[str, Any] = {"color": INK, "linestyle": (0, (1, 1.5))}


def draw_consistency(report: Report) -> Figure:
    """Joint style-consistency and that of each style: one dot per seed with its interval, and the median over seeds.

    A dotted line marks the joint style-consistency of a policy that ignores labels. A seed that was stopped early is
    a hollow dot.
    """
    algorithms = report.algorithms
    names = list(next(iter(algorithms.values()))[0].by_style)
    titles = ["all styles at once", *names] if len(names) > 1 else names
    base = report.about["base_rate"]["own"]
    columns = min(3, len(titles))
    seeds = max(len(scores) for scores in algorithms.values())
    row = 0.3 + 0.1 * min(seeds, 8)
    figure, axes = make_axes(len(titles), columns, 0.75 + row * len(algorithms), min(PAGE, 3 + 3 * columns))
    for i, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        joint = i == 0
        rows = {
            algorithm: [(score.joint if joint else score.by_style[title], not score.stopped) for score in scores]
            for algorithm, scores in algorithms.items()
        }
        _draw_shares(ax, rows, names_shown=i % columns == 0)
        if joint:
            ax.axvline(100 * base, **DOTTED, linewidth=1.1, zorder=1)
        set_title(ax, title)
    handles = [
        _dot_handle("one seed, with its 95 % interval", filled=True),
        Line2D([], [], **DOTTED, linewidth=1.2, label=f"a policy that ignores labels: {percent(base)}"),
    ]
    if any(score.stopped for scores in algorithms.values() for score in scores):
        handles.insert(1, _dot_handle("stopped early", filled=False))
    add_legend(figure, handles, columns=3)
    return figure


def draw_classes(score: SeedScore, styles: Sequence[LabelingFunction]) -> Figure:
    """One panel per style: the style-consistency of rollouts asked for each of its classes, with intervals."""
    columns = min(3, len(styles))
    most = max(len(style.classes) for style in styles)
    figure, axes = make_axes(len(styles), columns, 0.7 + 0.26 * most, min(PAGE, 4.2 * columns))
    for ax, style in zip(axes, styles, strict=True):
        by_class = score.by_class[style.name]
        _draw_shares(ax, {name: [(by_class[name], not score.stopped)] for name in style.classes})
        set_title(ax, style.name)
    return figure


def _draw_shares(ax: Axes, rows: dict[str, list[tuple[Share, bool]]], names_shown: bool = True) -> None:
    """Named rows of shares in percent, each filled or hollow, with their median at the right."""
    for y, shares in enumerate(rows.values()):
        offsets = (np.arange(len(shares)) - (len(shares) - 1) / 2) * min(0.2, 0.7 / len(shares))
        seen = [(share, fill, y + shift) for (share, fill), shift in zip(shares, offsets, strict=True) if share.count]
        for share, filled, place in seen:
            ax.plot([100 * share.low, 100 * share.high], [place, place], color=BLUE, linewidth=1.3, alpha=0.55)
            ax.plot(100 * share.value, place, **DOT, markerfacecolor=BLUE if filled else "white")
        words = percent(float(np.median([share.value for share, _, _ in seen]))) if seen else "no rollouts"
        ax.text(1.02, y, words, transform=ax.get_yaxis_transform(), va="center", fontsize=TEXT, color=INK)
    ax.set_xlim(-2, 102)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    ax.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_yticks(range(len(rows)), [plain_text(name) for name in rows] if names_shown else [""] * len(rows))
    ax.tick_params(axis="y", labelsize=TEXT, labelcolor=INK)


def _dot_handle(label: str, filled: bool) -> Line2D:
    return Line2D([], [], **DOT, color=BLUE, markerfacecolor=BLUE if filled else "white", linewidth=1.3, label=label)
