"""Host styles: functions of NumPy or plain Python are called on one trajectory at a time.

If there is much to do, several processes share the work. They import the file that defines the function; a function
that is in no file is called in this process. The data are read piece by piece and never copied whole, so they may be in
a file (np.memmap) and larger than memory.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import Trajectories
from ..errors import PoiseError
from ..system.devices import count_cores
from ..system.imports import import_file
from ..system.user_code import Stopped, held, one_line
from ..system.workers import Message, Worker, WorkerEnded, ask_all
from .traced import PIECE, RETURNED_NONE, Score, as_slice, not_a_number, rows_in

PATIENCE = 0.5  # seconds between two updates of the progress bar
WORTH_A_POOL = 4.0  # seconds of work; with less, starting processes takes longer than it saves


def map_rows(
    name: str,
    function: Score,
    trajectories: Trajectories,
    rows: Int[np.ndarray, " n"] | None = None,
    strict: bool = True,
    advance: Callable[[int], Any] = lambda count: None,
) -> Float[np.ndarray, " n"]:
    """The function's score of each of these rows, in order; the caller's arrays are never changed.

    Args:
        name: The name of the style, for errors.
        function: The labeling function.
        trajectories: What is scored.
        rows: The rows to score. Default: all.
        strict: Whether an error of the function is raised. If not, the score of that row is NaN.
        advance: Called with the number of rows that were scored since the last call.
    """
    states, actions, lengths = (
        np.asarray(x) for x in (trajectories.states, trajectories.actions, trajectories.lengths)
    )
    rows = np.arange(len(states)) if rows is None else rows
    scores, address = np.empty(len(rows), np.float32), _find(function)
    cores = count_cores()
    largest = min(rows_in(PIECE, states, actions), 1 + len(rows) // (8 * cores))

    def take(piece: slice) -> Message:
        where = as_slice(rows[piece])
        return {"states": states[where], "actions": actions[where], "lengths": lengths[where], "rows": rows[piece]}

    def keep(piece: slice, found: np.ndarray) -> None:
        scores[piece] = found
        advance(len(found))

    done, size, worth_a_pool = 0, 1, False
    while done < len(rows) and not (worth_a_pool and address):
        started, piece = time.perf_counter(), slice(done, min(done + size, len(rows)))
        keep(piece, call_rows(name, function, **take(piece), strict=strict))
        each = (time.perf_counter() - started) / (piece.stop - done)
        timed = done > 0  # the first call often takes longer than the others
        done, size = piece.stop, max(1, min(largest, int(PATIENCE / each)))
        worth_a_pool = timed and each * (len(rows) - done) > WORTH_A_POOL and cores > 1
    pieces = [slice(i, i + size) for i in range(done, len(rows), size)]
    if address and pieces:
        for piece, found in zip(pieces, _in_processes(name, address, take, pieces, strict, cores), strict=True):
            keep(piece, found)
    return scores


def call_rows(
    name: str,
    function: Score,
    states: np.ndarray,
    actions: np.ndarray,
    lengths: np.ndarray,
    rows: np.ndarray,
    strict: bool = True,
) -> np.ndarray:
    """The function's score of each trajectory, called on copies; `rows` are their numbers, for errors.

    A function that ends the program, or does not return, is an error even if not `strict`.
    """
    scores = []
    with held() as holding:
        for row, length, state, action in zip(rows, lengths, states, actions, strict=True):
            own = state[: length + 1].copy(), action[:length].copy()
            try:
                scores.append(np.asarray(holding.call(function, *own)))
            except PoiseError:
                raise
            except Stopped as stopped:
                raise PoiseError(f"style {name!r} on trajectory {row} {stopped}") from stopped
            except Exception as error:
                if strict:
                    raise _raised(name, error, int(row), *own) from error
                scores.append(np.asarray(np.nan))
    if any(score.dtype == object and score.item() is None for score in scores if not score.ndim):
        raise not_a_number(name, RETURNED_NONE)
    shapes = sorted({score.shape for score in scores})
    no_numbers = [score for score in scores if score.dtype.kind not in "fiub"]
    if len(shapes) > 1 or no_numbers:
        raise not_a_number(name, f"{(no_numbers or scores)[0].dtype} values of shapes {shapes}")
    if shapes != [()]:
        raise not_a_number(name, f"an array of shape {list(shapes[0])}")
    return np.stack(scores)


def _raised(name: str, error: Exception, row: int, states: np.ndarray, actions: np.ndarray) -> PoiseError:
    """What is reported if a function raises; after an index that is out of bounds, with the shapes."""
    shapes = f"; its states are {list(states.shape)} and its actions {list(actions.shape)}"
    hint = shapes if isinstance(error, IndexError) else ""
    return PoiseError(f"style {name!r} raised {type(error).__name__} on trajectory {row}: {one_line(error)}{hint}")


def serve(file: str, function_name: str, style: str, strict: str) -> Callable[[Message], Message]:
    """A handler that returns the scores of trajectories, in a worker."""
    found = getattr(import_file(Path(file)), function_name)
    function = getattr(found, "score", found)  # of a decorated function

    def score(question: Message) -> Message:
        return {"scores": call_rows(style, function, **question, strict=bool(strict))}

    return score


def _find(function: Callable) -> tuple[str, str] | None:
    """The file and the name by which another process can import the function; None if it cannot."""
    if not inspect.isfunction(function):
        return None
    name, file = function.__qualname__, inspect.getsourcefile(function)
    if not file or not name.isidentifier() or function.__module__ == "__main__" or not os.path.exists(file):
        return None
    return os.path.abspath(file), name


def _in_processes(
    name: str,
    address: tuple[str, str],
    take: Callable[[slice], Message],
    pieces: list[slice],
    strict: bool,
    cores: int,
) -> Iterator[np.ndarray]:
    """The scores of each piece, in order, computed by one worker per core."""
    target = f"{__name__}:{serve.__name__}"
    workers = [Worker(target, *address, name, "strict" if strict else "") for _ in range(min(cores, len(pieces)))]
    questions = [partial(take, piece) for piece in pieces]
    try:
        for answer in ask_all(workers, questions):
            yield answer["scores"]
    except WorkerEnded as error:
        raise PoiseError(
            f"a process that computed style {name!r} ended early; try again with fewer trajectories"
        ) from error
