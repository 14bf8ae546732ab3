"""What all figures share: colours, sizes, the grid of panels, and writing a figure to a file.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. No figure relies on colour alone.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Figure  # also for those who draw with it elsewhere

from ..errors import PoiseError
from ..system import storage

SUFFIXES = (".png", ".svg", ".pdf")
PAGE = 9.0  # the width of a page in inches
DPI = 200
SMALL, TEXT, TITLE = 8.0, 8.5, 9.5  # sizes of type in points

INK, MUTED, FAINT = "#1f2933", "#667085", "#c9ced6"
BLUE, VERMILION, GREEN, LIGHT_BLUE = "#0072B2", "#D55E00", "#009E73", "#9cc4de"


def save(figure: Figure, path: str | Path) -> None:
    """Writes a figure to a file in the format of its suffix.

    Args:
        figure: The figure, as returned by the `draw_` functions.
        path: A file that ends in .png, .svg or .pdf. Missing folders are made.

    Raises:
        PoiseError: If the suffix is another one, or if the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise PoiseError(f"a picture is one of {', '.join(SUFFIXES)}; got {path.name!r}: end its name in one of them")
    storage.write_bytes(path, encode(figure, path.suffix.lower()[1:]))


def encode(figure: Figure, kind: str = "png") -> bytes:
    """The bytes of a figure's file, for example as "png", "svg" or "pdf"."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    return buffer.getvalue()


def make_axes(count: int, columns: int, height: float, width: float, layout: Any = None) -> tuple[Figure, list[Axes]]:
    """A white figure with `count` clean axes, row by row; `height` is that of one row in inches."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, rows * height + 0.3), layout=layout or "constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.06, wspace=0.04 if columns > 1 else 0)
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(FAINT)
        ax.tick_params(labelsize=SMALL, labelcolor=MUTED, color=FAINT, length=3)
    return figure, axes


def add_legend(figure: Figure, handles: list[Any], columns: int) -> Any:
    """A legend below all axes."""
    return figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=TEXT, labelcolor=INK
    )


def set_title(ax: Axes, words: str) -> None:
    """Writes a title above the left end of the axes."""
    ax.set_title(plain_text(words), fontsize=TITLE, color=INK, loc="left")


def percent(share: float) -> str:
    """A share as a whole percentage."""
    return f"{100 * share:.0f} %"


def plain_text(words: str) -> str:
    """Words that matplotlib shows as they are: a dollar sign starts no formula."""
    return words.replace("$", r"\$")
