"""How real rollouts look, as a section of the report: every measure beside that of demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from statistics import median

from ..evaluation.realism import Realism
from ..evaluation.report import Report
from .html_blocks import note, table, tenths
from .report_scores import NOT_MEASURED

SHOWN = 8  # distances; where there are more, the largest are shown
ABOUT = (
    "Rollouts in one try, medians over seeds. First column: demonstrations, those of validation out of "
    "the range of test demonstrations, and test demonstrations off support. Diversity: how far rollouts of one "
    "request are from each other, relative to demonstrations. Novelty: the distance to the nearest training "
    "demonstration; copies have 0. Distances: between the distributions over all steps, in deviations; that of "
    "demonstrations is between two halves of them."
)
LARGEST = "The {shown} largest of {count} distances; report.json has all of them."
Read = Callable[[Realism], float | None]
SHARES: dict[str, Read] = {"out_of_range": lambda one: one.out_of_range, "off_support": lambda one: one.off_support}


def realism_section(report: Report) -> str:
    """One row per measure, one column per algorithm; empty where nothing was measured."""
    found = {name: [score.realism for score in scores] for name, scores in report.algorithms.items()}
    one = next(iter(found.values()))[0]
    if one.off_support is None:
        return ""
    distances = sorted(one.distance_floor, key=lambda name: -max(_middle(found, _distance(name)).values(), default=0))
    floors = report.about.get("realism") or {}
    rows = [
        *(
            _row(f"{_words(name)}, %", _percent(floors.get(f"{name}_floor")), found, read, tenths)
            for name, read in SHARES.items()
        ),
        _row("diversity", "1.00", found, lambda r: r.diversity),
        _row("novelty", _number(one.novelty_of_demonstrations), found, lambda r: r.novelty),
        *(
            _row(_words(name), _number(value), found, lambda r, name=name: r.measures.get(name))
            for name, value in one.measures_of_demonstrations.items()
        ),
        *(
            _row(f"distance: {_words(name)}", _number(one.distance_floor[name]), found, _distance(name))
            for name in distances[:SHOWN]
        ),
    ]
    head = ["", "demonstrations", *found]
    more = [note(LARGEST.format(shown=SHOWN, count=len(distances)))] if len(distances) > SHOWN else []
    content = table(head, rows, numbers=range(1, len(head)))
    return "\n".join(["<h2>How real do they look?</h2>", content, note(ABOUT), *more])


def _distance(name: str) -> Read:
    return lambda realism: realism.distances.get(name)


def _middle(found: dict[str, list[Realism]], read: Read) -> dict[str, float]:
    """The median over the seeds of each algorithm that was measured."""
    values = {name: [x for one in seeds if (x := read(one)) is not None] for name, seeds in found.items()}
    return {name: median(known) for name, known in values.items() if known}


def _row(
    title: str, known: str, found: dict[str, list[Realism]], read: Read, write: Callable[[float], str] | None = None
) -> list[str]:
    middle, write = _middle(found, read), write or _number
    return [escape(title), known, *(write(middle[name]) if name in middle else NOT_MEASURED for name in found)]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _percent(share: float | None) -> str:
    return NOT_MEASURED if share is None else tenths(share)


def _number(value: float | None) -> str:
    """Three digits, without an exponent."""
    return NOT_MEASURED if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
