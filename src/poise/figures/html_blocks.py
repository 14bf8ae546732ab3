"""Building blocks of the HTML page: figures, tables, lists, and numbers as text.

Every function that takes words escapes them; cells of tables are HTML already.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from ..evaluation.shares import Share
from .canvas import encode

PIXELS_PER_INCH = 104  # at this scale the small type of a figure is as large as a caption
SVG_LIMIT = 1_500_000  # bytes; a figure of very many lines is lighter as PNG, every other one is sharper as SVG


def picture(figure: Figure, alt: str, caption: str = "") -> str:
    """A figure embedded in the page, on a white card whatever the colours of the page."""
    inches = figure.get_figwidth()
    kind, width = "wide" if inches > 5 else "narrow", round(inches * PIXELS_PER_INCH)
    form, content = "svg+xml", encode(figure, "svg")
    if len(content) > SVG_LIMIT:
        form, content = "png", encode(figure, "png")
    source = f"data:image/{form};base64,{base64.b64encode(content).decode()}"
    image = f'<img class="{kind}" width="{width}" alt="{escape(alt)}" src="{source}">'
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="picture">{image}</div>{below}</figure>'


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = (), stacked: bool = False
) -> str:
    """A table.

    Args:
        head: The titles of the columns, as plain words.
        rows: The cells of each row, as HTML.
        numbers: The columns that hold numbers, which are aligned at the right.
        stacked: Whether the small type of a cell stands below its number instead of beside it.
    """
    classes = [' class="number"' if i in set(numbers) else "" for i in range(len(head))]
    titles = _cells("th", [escape(word) for word in head], classes)
    body = "\n".join(f"<tr>{_cells('td', row, classes)}</tr>" for row in rows)
    content = f"<table><thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return f'<div class="table{" stacked" if stacked else ""}">{content}</div>'


def _cells(tag: str, cells: Sequence[str], classes: Sequence[str]) -> str:
    return "".join(f"<{tag}{kind}>{cell}</{tag}>" for cell, kind in zip(cells, classes, strict=True))


def definitions(lines: dict[str, str]) -> str:
    """A list of terms with what they mean."""
    return "<dl>\n" + "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in lines.items()) + "\n</dl>"


def note(words: str) -> str:
    """A paragraph of explanation."""
    return f'<p class="note">{escape(words)}</p>'


def warning(words: str) -> str:
    """A paragraph that stands out."""
    return f'<p class="warning">{escape(words)}</p>'


def share_cell(share: Share) -> str:
    """A share in percent with its interval, as a cell of a table."""
    return f"{tenths(share.value)} <small>{tenths(share.low)}–{tenths(share.high)}</small>"


def tenths(share: float) -> str:
    """A share in percent to one decimal, without the sign."""
    return f"{100 * share:.1f}"


def percent(share: float) -> str:
    """A share as a whole percentage that does not break at the end of a line."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def percent_range(low: float, high: float) -> str:
    """Two shares as a range of whole percentages; of tenths where whole ones are the same."""
    if percent(low) == percent(high):
        return f"{tenths(low)}–{tenths(high)}\N{NO-BREAK SPACE}%"
    return f"{100 * low:.0f}–{percent(high)}"


def listed(words: Sequence[str]) -> str:
    """Words as a sentence lists them: "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(number: int, thing: str) -> str:
    """A number of things: "1 seed", "2 seeds"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Seconds, or minutes from two on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
