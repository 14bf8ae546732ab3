"""What commands print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

_real: list[Any] = []  # standard output, while it is for JSON only


@contextlib.contextmanager
def only_json() -> Iterator[None]:
    """Sends what is printed inside to standard error, from Python or below it, except for what `show` prints.

    Labeling functions and environments may print, and standard output must stay JSON.
    """
    out = sys.stdout
    out.flush()
    try:
        number = out.fileno()
    except (io.UnsupportedOperation, ValueError):  # not a file, as in tests
        number = None
    kept = None if number is None else os.dup(number)
    if number is not None:
        os.dup2(2, number)
    stream = out if kept is None else os.fdopen(kept, "w", encoding="utf-8")
    _real.append(stream)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
        stream.flush()
    finally:
        _real.pop()
        if number is not None and kept is not None:
            os.dup2(kept, number)
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def show(value: Any, as_json: bool) -> None:
    """Prints a value as text, or as JSON for machines."""
    plain = value.to_json() if as_json and hasattr(value, "to_json") else value
    print(json.dumps(plain, indent=1) if as_json else plain, file=_real[-1] if _real else None)


def plural(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
