"""Traced styles: functions that JAX can trace are scored for many trajectories by one compiled program.

The data are read piece by piece and never copied whole, so they may be in a file (np.memmap) and larger than memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data.trajectories import Array
from ..errors import PoiseError
from ..system.user_code import TimeIsUp, held

Score = Callable[[Any, Any], Any]
"""(states [T+1, S], actions [T, A]) of one trajectory -> a number."""

PIECE = 1 << 24  # bytes of trajectories that are scored at a time
FEW = 256  # rows up to which all sets of trajectories of one length share a program
BLOCK = 1 << 29  # bytes that are scored, length by length, before the next are read: a file is read once
RETURNED_NONE = "None: is a return missing?"


class Endless(PoiseError):  # noqa: N818  (what happened, as in WorkerEnded)
    """A function that JAX traced did not return in time; the words after its name."""


def remember(function: Callable) -> Callable:
    """The function with its latest results cached, for arguments that can be hashed."""
    cached = functools.lru_cache(maxsize=1024)(function)

    @functools.wraps(function)
    def call(*arguments):
        try:
            hash(arguments)
        except TypeError:
            return function(*arguments)
        return cached(*arguments)

    return call


@remember
def outline(function: Score, *shapes: tuple[int, ...]) -> Any:
    """What the function returns, as shapes and types; NotImplemented if it must be called on NumPy arrays instead.

    That is so if JAX cannot trace it, and if it reads a column or a step that is not there: JAX would read another one,
    and NumPy raises the error that the user needs to see.
    """
    try:
        with held() as holding:
            traced = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
            found = holding.call(jax.eval_shape, function, *traced)
    except TimeIsUp as stopped:
        raise Endless(str(stopped)) from stopped
    except Exception:  # whatever it is, the function is called on NumPy arrays next, where the error is the user's own
        return NotImplemented
    return found if _reads_in_bounds(function, *shapes) else NotImplemented


def _reads_in_bounds(function: Score, *shapes: tuple[int, ...]) -> bool:
    """Whether indices into states and actions are in bounds, for a function that JAX can trace.

    NumPy arrays check their indices. Everything else is traced, so that nothing is computed or compiled.
    """
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    try:
        with np.errstate(all="ignore"), held() as holding:
            holding.call(jax.eval_shape, lambda: function(*arrays))
    except IndexError:
        return False
    except TimeIsUp as stopped:
        raise Endless(str(stopped)) from stopped
    except Exception:  # it needs arrays of JAX, for example for `states.at`
        return True
    return True


def is_traced(score: Score, states: Array, actions: Array) -> bool:
    """Whether the function is traced, and so vectorised and differentiable, for trajectories of these shapes."""
    return outline(score, states.shape[1:], actions.shape[1:]) is not NotImplemented


def can_trace(name: str, function: Score, states: np.ndarray, actions: np.ndarray) -> bool:
    """As `is_traced`; a function that is traced and does not return a number is refused before anything is computed."""
    try:
        answer = outline(function, states.shape[1:], actions.shape[1:])
    except Endless as stopped:
        raise PoiseError(f"style {name!r}, traced by JAX, {stopped}") from stopped
    if answer is NotImplemented:
        return False
    if not isinstance(answer, jax.ShapeDtypeStruct):
        raise not_a_number(name, RETURNED_NONE if answer is None else f"a {type(answer).__name__}")
    if answer.shape:
        raise not_a_number(name, f"an array of shape {list(answer.shape)}")
    if answer.dtype.kind not in "fiub":
        raise not_a_number(name, f"values of {answer.dtype}")
    return True


@remember
def vectorise(*functions: Score) -> Callable[[Any, Any], tuple]:
    """One compiled program (states [N, ...], actions [N, ...]) -> the scores [N] of each function."""
    return jax.jit(jax.vmap(lambda states, actions: tuple(f(states, actions) for f in functions)))


def groups(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each length with the rows that have it, block by block of the data."""
    block = rows_in(BLOCK, states, actions)
    for first in range(0, len(lengths), block):
        part = lengths[first : first + block]
        for length in np.flatnonzero(np.bincount(part)):
            yield int(length), first + np.flatnonzero(part == length)


def map_traced(
    program: Callable[[Any, Any], tuple], states: np.ndarray, actions: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[slice | np.ndarray, list[np.ndarray]]]:
    """The program's scores piece by piece, each with its rows; one piece is computed while the next is read.

    All pieces have one size, a power of two, so that one program serves all: the last piece is filled up with rows of
    earlier ones.
    """
    size = min(rows_in(PIECE, states, actions), max(FEW, 1 << (len(rows) - 1).bit_length()))
    waiting = []
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        taken = as_slice(rows[np.arange(last - size, last) % len(rows)])
        waiting.append((rows[first:last], program(states[taken], actions[taken])))
        if len(waiting) > 1:
            yield _wait(*waiting.pop(0))
    yield _wait(*waiting.pop())


def _wait(rows: np.ndarray, scores: tuple) -> tuple[slice | np.ndarray, list[np.ndarray]]:
    """The scores of these rows, which are the last of their piece, as NumPy arrays."""
    return as_slice(rows), [np.asarray(each)[-len(rows) :] for each in scores]


def not_a_number(name: str, got: str) -> PoiseError:
    """The error of a style that returns something else than a number."""
    return PoiseError(f"style {name!r} must return one number per trajectory; got {got}")


def rows_in(size: int, states: np.ndarray, actions: np.ndarray) -> int:
    """The number of rows that fit into `size` bytes, as a power of two."""
    return 1 << max(0, (size // max(1, states[:1].nbytes + actions[:1].nbytes)).bit_length() - 1)


def as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """Consecutive rows as a slice, which copies nothing; other rows as they are."""
    return slice(rows[0], rows[-1] + 1) if (np.diff(rows) == 1).all() else rows
