"""One kind of error for everything that a user can correct: the rule, the value and the way out, on one line."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class PoiseError(Exception):
    """Wrong input, described in one line. The command line prints it and exits with code 2."""


def unknown(kind: str, name: object, known: Iterable[str]) -> PoiseError:
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
    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known) or 'none'}"
    return PoiseError(f"unknown {kind} {name!r}; {hint}")


def check_whole(name: str, value: Any, least: int = 1) -> int:
    """The value, if it is a whole number that is not too small.

    Args:
        name: What the number is called.
        value: The number.
        least: The smallest that is allowed.

    Raises:
        PoiseError: It is no whole number, or too small.

    Examples:
        >>> check_whole("steps", 2.5)
        Traceback (most recent call last):
        poise.errors.PoiseError: steps is a whole number, at least 1; got 2.5
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise PoiseError(f"{name} is a whole number, at least {least}; got {value!r}")
    return int(value)


def check_list(name: str, values: Any, example: str, fits: Callable[[Any], bool] | None = None) -> list[Any]:
    """The values as a list; a string, which Python takes for a list of letters, and a single value are refused.

    Args:
        name: What the list is called.
        values: The values.
        example: A list as it may be.
        fits: Whether a value may be in the list; by default strings may.

    Raises:
        PoiseError: It is no list, or a value does not fit.

    Examples:
        >>> check_list("styles", "speed", "['speed']")
        Traceback (most recent call last):
        poise.errors.PoiseError: styles is a list, as in styles=['speed']; got 'speed'
    """
    one = isinstance(values, str | Mapping) or not isinstance(values, Iterable)
    listed = [] if one else list(values)
    if one or not all(fits(value) if fits else isinstance(value, str) for value in listed):
        got = repr(values) if isinstance(values, str | list | tuple) else f"a {type(values).__name__}"
        raise PoiseError(f"{name} is a list, as in {name}={example}; got {got}")
    return listed
