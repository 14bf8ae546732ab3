"""Learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ..errors import PoiseError
from .canvas import BLUE, MUTED, PAGE, SMALL, VERMILION, add_legend, make_axes, set_title

AXIS_TITLES = {"nld": "nld (sum over steps,\nin the data's units)"}
"""Titles of the axes of losses that a reader could take for a number of the report, which has the NLD per step."""


def draw_curves(metrics: Sequence[dict[str, Any]]) -> Figure:
    """One panel per stage and loss: training thin, validation thick, one line per seed.

    A stage that alternates with another is one curve.

    Args:
        metrics: The lines of a run's metrics.jsonl.

    Raises:
        PoiseError: If there are no losses.
    """
    names = list(dict.fromkeys((line["stage"], name) for line in metrics for name in line["losses"]))
    if not names:
        raise PoiseError("there are no learning curves to draw: metrics.jsonl has no losses yet")
    columns = min(4, len(names))
    figure, axes = make_axes(len(names), columns, 1.9, min(PAGE, 3.4 * columns))
    for ax, (stage, name) in zip(axes, names, strict=True):
        lines = [line for line in metrics if line["stage"] == stage and name in line["losses"]]
        steps = np.array([line["step"] for line in lines])
        training, validation = _values(lines, "losses", name), _values(lines, "validation", name)
        ax.plot(steps, training, color=VERMILION, linewidth=0.7, alpha=0.7)
        ax.plot(steps, validation, color=BLUE, linewidth=1.8, alpha=0.55)
        _fit_height(ax, np.concatenate([training, validation], axis=1))
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        ax.set_xlabel("step", fontsize=SMALL, color=MUTED)
        ax.set_ylabel(AXIS_TITLES.get(name, ""), fontsize=SMALL, color=MUTED)
        set_title(ax, f"{stage}: {name}")
    handles = [
        Line2D([], [], color=VERMILION, linewidth=0.8, label="training"),
        Line2D([], [], color=BLUE, linewidth=2.2, alpha=0.7, label="validation"),
    ]
    add_legend(figure, handles, columns=2)
    return figure


def _values(lines: Sequence[dict[str, Any]], part: str, name: str) -> np.ndarray:
    """Values [steps, seeds] of a loss; NaN where a value was not finite or not measured."""
    seeds = len(lines[0]["losses"][name])
    rows = [line.get(part, {}).get(name) or [None] * seeds for line in lines]
    return np.array([[np.nan if value is None else value for value in row] for row in rows], float)


def _fit_height(ax: Axes, values: np.ndarray) -> None:
    """Limits that hold all but the first twentieth of the curves, which often starts far above the rest."""
    later = values[len(values) // 20 :]
    if not np.isfinite(later).any():
        return
    low, high = np.nanmin(later), np.nanmax(later)
    margin = 0.06 * (high - low) or 0.5
    ax.set_ylim(low - margin, high + margin)
