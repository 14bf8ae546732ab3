"""A function of one trajectory over many: traced ones in one compiled program, host ones in several processes.

Both go through the data piece by piece and never copy more than a piece, so that data may lie in a file (np.memmap) and
be larger than memory.

A worker is a fresh interpreter that imports the file where the function lives and answers over a pipe. It is never a
fork (JAX runs threads) and never imports the user's main script, so a script without a main guard stays safe.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .cores import use_cores
from .errors import PoiseError
from .trajectories import Trajectories

Function = Callable[[Any, Any], Any]

CORES = os.cpu_count() or 1
PIECE = 1 << 24  # bytes of trajectories that are worked on at a time
FEW = 256  # rows up to which every set of trajectories of one length shares a program
BLOCK = (
    1 << 29
)  # bytes that are done, length by length, before the next are read: a file is read once, not once a length
PATIENCE = 0.5  # seconds between two signs of life
WORTH_A_POOL = 4.0  # seconds of work below which starting processes costs more than it saves


def remember(function: Callable) -> Callable:
    """The function with its latest results kept, for arguments that can be hashed."""
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
def outline(function: Function, *shapes: tuple[int, ...]) -> Any:
    """What the function returns, as shapes and types; NotImplemented if JAX cannot trace it."""
    try:
        return jax.eval_shape(function, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    except Exception:  # whatever it is, the function is called on real arrays next, where the error is the user's own
        return NotImplemented


def can_trace(name: str, function: Function, states: np.ndarray, actions: np.ndarray) -> bool:
    """Whether JAX can trace the function; one that then returns no number is refused before anything is computed."""
    answer = outline(function, states.shape[1:], actions.shape[1:])
    if answer is NotImplemented:
        return False
    if not isinstance(answer, jax.ShapeDtypeStruct):
        raise _no_number(name, _MISSING if answer is None else f"a {type(answer).__name__}")
    if answer.shape:
        raise _no_number(name, f"an array of shape {list(answer.shape)}")
    if answer.dtype.kind not in "fiub":
        raise _no_number(name, f"values of {answer.dtype}")
    return True


@remember
def vectorise(*functions: Function) -> Callable[[Any, Any], tuple]:
    """One compiled program for the answers of all the functions, for every trajectory."""
    return jax.jit(jax.vmap(lambda states, actions: tuple(f(states, actions) for f in functions)))


def groups(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each length with the rows that have it, a block of the data after the other."""
    block = _fitting(BLOCK, states, actions)
    for first in range(0, len(lengths), block):
        part = lengths[first : first + block]
        for length in np.flatnonzero(np.bincount(part)):
            yield int(length), first + np.flatnonzero(part == length)


def map_traced(
    program: Callable[[Any, Any], tuple], states: np.ndarray, actions: np.ndarray, rows: np.ndarray
) -> Iterator[tuple[slice | np.ndarray, list[np.ndarray]]]:
    """The program's answers piece by piece, each with the rows it belongs to; the next piece is computed meanwhile.

    All pieces have one size, a power of two, and so one program: the last one also takes rows that are done already.
    """
    use_cores()  # before JAX begins: it may be here that it does
    size = min(_fitting(PIECE, states, actions), max(FEW, 1 << (len(rows) - 1).bit_length()))
    waiting = []
    for first in range(0, len(rows), size):
        last = min(first + size, len(rows))
        taken = _where(rows[np.arange(last - size, last) % len(rows)])
        waiting.append((rows[first:last], program(states[taken], actions[taken])))
        if len(waiting) > 1:
            yield _answered(*waiting.pop(0))
    yield _answered(*waiting.pop())


def map_rows(
    name: str,
    function: Function,
    trajectories: Trajectories,
    rows: Int[np.ndarray, " n"] | None = None,
    strict: bool = True,
    advance: Callable[[int], Any] = lambda count: None,
) -> Float[np.ndarray, " n"]:
    """The function's answer for each of these rows (default: all), in order; the caller's arrays are never changed.

    If not `strict`, a row for which the function raises has the answer NaN. `advance` is told how many more are done.
    """
    states, actions, lengths = (
        np.asarray(x) for x in (trajectories.states, trajectories.actions, trajectories.lengths)
    )
    rows = np.arange(len(states)) if rows is None else rows
    answers, address = np.empty(len(rows), np.float32), _address(function)
    largest = min(_fitting(PIECE, states, actions), 1 + len(rows) // (8 * CORES))

    def take(piece: slice) -> list[np.ndarray]:
        where = _where(rows[piece])
        return [states[where], actions[where], lengths[where], rows[piece]]

    def keep(piece: slice, found: np.ndarray) -> None:
        answers[piece] = found
        advance(len(found))

    done, size, worth = 0, 1, False
    while done < len(rows) and not (worth and address):
        started, piece = time.perf_counter(), slice(done, min(done + size, len(rows)))
        keep(piece, call_rows(name, function, *take(piece), strict=strict))
        each = (time.perf_counter() - started) / (piece.stop - done)
        timed = done > 0  # the first call may well take longer than others
        done, size = piece.stop, max(1, min(largest, int(PATIENCE / each)))
        worth = timed and each * (len(rows) - done) > WORTH_A_POOL and CORES > 1
    pieces = [slice(i, i + size) for i in range(done, len(rows), size)]
    if address and pieces:
        for piece, found in zip(pieces, _in_processes(name, address, take, pieces, strict), strict=True):
            keep(piece, found)
    return answers


def call_rows(
    name: str,
    function: Function,
    states: np.ndarray,
    actions: np.ndarray,
    lengths: np.ndarray,
    rows: np.ndarray,
    strict: bool = True,
) -> np.ndarray:
    """The function's answer for each row, one call at a time, on copies; `rows` are the numbers that errors name."""
    answers = []
    for state, action, length, row in zip(states, actions, lengths, rows, strict=True):
        try:
            answers.append(np.asarray(function(state[: length + 1].copy(), action[:length].copy())))
        except PoiseError:
            raise
        except Exception as error:
            if not strict:
                answers.append(np.asarray(np.nan))
                continue
            raise PoiseError(f"style {name!r} raised {type(error).__name__} on trajectory {row}: {error}") from error
    if any(answer.dtype == object and answer.item() is None for answer in answers if not answer.ndim):
        raise _no_number(name, _MISSING)
    shapes = sorted({answer.shape for answer in answers})
    strange = [answer for answer in answers if answer.dtype.kind not in "fiub"]
    if len(shapes) > 1 or strange:
        raise _no_number(name, f"{(strange or answers)[0].dtype} values of shapes {shapes}")
    if shapes != [()]:
        raise _no_number(name, f"an array of shape {list(shapes[0])}")
    return np.stack(answers)


def serve(file: str, function_name: str, style: str, strict: str) -> None:
    """The life of a worker: trajectories come in on its standard input, answers go out on its standard output."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # a print in a style must not end up among the answers
    found = getattr(import_file(Path(file)), function_name)
    function = getattr(found, "score", found)  # the decorator leaves the function in there
    while True:
        try:
            arrays = [_receive(sys.stdin.buffer) for _ in range(4)]
        except EOFError:
            return
        try:
            answer = call_rows(style, function, *arrays, strict=strict == "1")
        except PoiseError as error:
            answer = np.asarray(str(error))
        _send(answers, answer)
        answers.flush()


def import_file(path: Path) -> ModuleType:
    """The module that a Python file of the user's defines."""
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(f"poise_file_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise PoiseError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # a file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except PoiseError:
        raise
    except (Exception, SystemExit) as error:
        raise PoiseError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


_MISSING = "None: is a return missing?"


def _no_number(name: str, got: str) -> PoiseError:
    return PoiseError(f"style {name!r} must return one number a trajectory; got {got}")


def _fitting(size: int, states: np.ndarray, actions: np.ndarray) -> int:
    """How many rows fit into so many bytes: a power of two."""
    return 1 << max(0, (size // max(1, states[:1].nbytes + actions[:1].nbytes)).bit_length() - 1)


def _where(rows: np.ndarray) -> slice | np.ndarray:
    """The same rows as a slice, which copies nothing, if they follow one another."""
    return slice(rows[0], rows[-1] + 1) if (np.diff(rows) == 1).all() else rows


def _answered(rows: np.ndarray, answers: tuple) -> tuple[slice | np.ndarray, list[np.ndarray]]:
    return _where(rows), [np.asarray(answer)[-len(rows) :] for answer in answers]


def _address(function: Callable) -> tuple[str, str] | None:
    """The file and name under which a fresh interpreter finds the function, if it can."""
    if not inspect.isfunction(function):
        return None
    name, file = function.__qualname__, inspect.getsourcefile(function)
    if not file or not name.isidentifier() or function.__module__ == "__main__" or not os.path.exists(file):
        return None
    return os.path.abspath(file), name


def _in_processes(
    name: str,
    address: tuple[str, str],
    take: Callable[[slice], list[np.ndarray]],
    pieces: list[slice],
    strict: bool,
) -> Iterator[np.ndarray]:
    """The answers for each piece, in order."""
    program = "import sys; from poise.parallel import serve; serve(*sys.argv[1:])"
    command = [sys.executable, "-c", program, *address, name, str(int(strict))]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",  # one process alone may have the accelerator
    }
    workers = min(CORES, len(pieces))
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(workers)
    ]
    idle = list(processes)

    def ask(piece: slice) -> np.ndarray:
        process = idle.pop()
        assert process.stdin is not None
        assert process.stdout is not None
        for array in take(piece):
            _send(process.stdin, array)
        process.stdin.flush()
        answer = _receive(process.stdout)
        idle.append(process)
        if answer.dtype.kind == "U":
            raise PoiseError(str(answer))
        return answer

    try:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(ask, pieces)
    except (EOFError, BrokenPipeError) as error:
        raise PoiseError(
            f"a process that computed style {name!r} ended early; try again with fewer trajectories"
        ) from error
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _send(stream, array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    stream.write(buffer.tell().to_bytes(8, "little"))
    stream.write(buffer.getbuffer())


def _receive(stream) -> np.ndarray:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return np.load(io.BytesIO(stream.read(int.from_bytes(head, "little"))), allow_pickle=False)
