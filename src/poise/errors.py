"""One kind of error for everything that a user can correct: the rule, the value and the way out, on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PoiseError(Exception):
    """Wrong input, described in one line. The command line prints it and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> PoiseError:
    """An error for a name that is not known; it suggests the most similar name that is.

    Args:
        kind: What is named, such as "style".
        name: The name.
        known: The names that are known.

    Examples:
        >>> unknown("style", "spped", ["speed", "direction"])
        PoiseError("unknown style 'spped'; did you mean 'speed'?")
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    return PoiseError(f"unknown {kind} {name!r}; {hint}")
