"""One kind of error for everything a user can mend: the rule, the value, the way out, on one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PoiseError(Exception):
    """Bad input, said in one line. The command line prints it and exits with code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> PoiseError:
    """An error for a name that is not in a table, with the nearest name that is."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    return PoiseError(f"unknown {kind} {name!r}; {hint}")
