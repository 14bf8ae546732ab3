"""The cost of noisy labels, as in the paper's Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..errors import PoiseError
from .canvas import BLUE, FAINT, GREEN, INK, MUTED, PAGE, TEXT, VERMILION, make_axes, plain_text

SERIES = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), ("#CC79A7", "D"), ("#E69F00", "v"))
"""The colour and the marker of each line."""

Points = Sequence[tuple[float, float]]


def draw_noise(measured: Mapping[str, Points], printed: Mapping[str, Points]) -> Figure:
    """The relative change of style-consistency over the label disagreement, one line per style.

    A style on the diagonal loses as much as its labels disagree.

    Args:
        measured: For each style, points (label disagreement, relative change of style-consistency) as fractions; the
            first is (0, 0), without noise.
        printed: The same points as the paper prints them, which are drawn hollow and faint.

    Raises:
        PoiseError: If there are more styles than colours and markers.
    """
    if len(measured) > len(SERIES):
        raise PoiseError(f"one figure shows at most {len(SERIES)} styles; got {len(measured)}: draw several figures")
    figure, (ax,) = make_axes(1, 1, 4.0, 0.75 * PAGE)
    handles = []
    for (name, points), (color, marker) in zip(measured.items(), SERIES, strict=False):
        look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 5}
        if name in printed:
            faint = {**look, "linestyle": (0, (1, 2)), "linewidth": 0.9, "alpha": 0.5, "markerfacecolor": "white"}
            ax.plot(*(100 * np.asarray(printed[name])).T, **faint, zorder=2)
        handles += ax.plot(*(100 * np.asarray(points)).T, **look, linewidth=1.4, label=plain_text(name), zorder=3)
    for line in ax.lines:
        line.set_markevery(slice(1, None))  # all lines start at (0, 0): markers there would hide each other
    far = max(ax.get_xlim()[1], 1.0)
    handles += ax.plot([0, far], [0, -far], color=INK, linewidth=1.1, label="one to one", zorder=1)
    hollow: dict[str, Any] = {"marker": "o", "markersize": 5, "markerfacecolor": "white", "linestyle": (0, (1, 2))}
    handles.append(Line2D([], [], color=MUTED, linewidth=0.9, **hollow, label="in the paper"))
    ax.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.set_xlim(0, far)
    ax.set_xlabel("label disagreement (%)", fontsize=TEXT, color=INK)
    ax.set_ylabel("relative change of style-consistency (%)", fontsize=TEXT, color=INK)
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=TEXT, labelcolor=INK)
    return figure
