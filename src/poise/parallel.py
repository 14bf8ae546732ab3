"""Host functions over many trajectories: one call each, in several processes when that pays.

A worker is a fresh interpreter that imports the file where the function lives and answers over a pipe. It is never a
fork (JAX runs threads) and never imports the user's main script, so a script without a main guard stays safe.
"""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tqdm import tqdm

from .errors import PoiseError

WORTH_A_POOL = 8.0  # seconds of work below which starting processes costs more than it saves
TRIAL = 32  # trajectories that are timed first


def map_rows(
    name: str,
    function: Callable[[Any, Any], Any],
    states: np.ndarray,
    actions: np.ndarray,
    progress: bool = False,
    strict: bool = True,
) -> np.ndarray:
    """The function's answer for each row, in order; the caller's arrays are never changed.

    If not `strict`, a row for which the function raises has the answer NaN.
    """
    count = len(states)
    start = time.perf_counter()
    head = call_rows(name, function, states[:TRIAL], actions[:TRIAL], strict=strict)
    seconds = (time.perf_counter() - start) / min(TRIAL, count) * max(count - TRIAL, 0)
    pieces = [range(i, min(i + _piece(count), count)) for i in range(TRIAL, count, _piece(count))]
    address = _address(function)
    workers = min(os.cpu_count() or 1, len(pieces))
    with tqdm(
        total=count, initial=len(head), desc=f"label {name}", unit="traj", disable=not progress, leave=False, delay=1
    ) as bar:
        if seconds > WORTH_A_POOL and address and workers > 1:
            answers = _in_processes(name, address, states, actions, pieces, workers, bar, strict)
        else:
            answers = []
            for piece in pieces:
                answers.append(call_rows(name, function, states[piece], actions[piece], piece.start, strict))
                bar.update(len(piece))
    return np.concatenate([head, *answers])


def call_rows(
    name: str, function: Callable, states: np.ndarray, actions: np.ndarray, first: int = 0, strict: bool = True
) -> np.ndarray:
    """The function's answer for each row, one call at a time, on copies."""
    answers = []
    for row, (state, action) in enumerate(zip(states, actions, strict=True), start=first):
        try:
            answers.append(np.asarray(function(state.copy(), action.copy())))
        except PoiseError:
            raise
        except Exception as error:
            if not strict:
                answers.append(np.asarray(np.nan))
                continue
            raise PoiseError(f"style {name!r} raised {type(error).__name__} on trajectory {row}: {error}") from error
    if any(answer.dtype == object and answer.item() is None for answer in answers if not answer.ndim):
        raise PoiseError(f"style {name!r} must return one number a trajectory; got None: is a return missing?")
    if len({answer.shape for answer in answers}) > 1 or answers[0].dtype.kind not in "fiub":
        raise PoiseError(
            f"style {name!r} must return one number a trajectory; got {answers[0].dtype} values of "
            f"shapes {sorted({answer.shape for answer in answers})}"
        )
    return np.stack(answers)


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


def _piece(count: int) -> int:
    return max(64, min(4096, count // 32))


def _address(function: Callable) -> tuple[str, str] | None:
    """The file and name under which a fresh interpreter finds the function, if it can."""
    if not inspect.isfunction(function):
        return None
    name, file = function.__qualname__, inspect.getsourcefile(function)
    if not file or not name.isidentifier() or function.__module__ == "__main__" or not os.path.exists(file):
        return None
    return os.path.abspath(file), name


def _in_processes(name, address, states, actions, pieces, workers, bar, strict) -> list[np.ndarray]:
    command = [sys.executable, "-m", "poise.parallel", *address, name, str(int(strict))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(workers)
    ]
    idle = list(processes)

    def ask(piece: range) -> np.ndarray:
        process = idle.pop()
        assert process.stdin is not None
        assert process.stdout is not None
        for array in (states[piece], actions[piece], np.asarray(piece.start)):
            _send(process.stdin, array)
        process.stdin.flush()
        answer = _receive(process.stdout)
        idle.append(process)
        bar.update(len(piece))
        if answer.dtype.kind == "U":
            raise PoiseError(str(answer))
        return answer

    try:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(ask, pieces))
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
    stream.write(len(buffer.getvalue()).to_bytes(8, "little") + buffer.getvalue())


def _receive(stream) -> np.ndarray:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return np.load(io.BytesIO(stream.read(int.from_bytes(head, "little"))), allow_pickle=False)


def _work(file: str, function_name: str, style: str, strict: str) -> None:
    answers, sys.stdout = sys.stdout.buffer, sys.stderr  # a print in a style must not end up among the answers
    found = getattr(import_file(Path(file)), function_name)
    function = getattr(found, "score", found)  # the decorator leaves the function in there
    while True:
        try:
            states, actions, first = (_receive(sys.stdin.buffer) for _ in range(3))
        except EOFError:
            return
        try:
            answer = call_rows(style, function, states, actions, int(first), strict == "1")
        except PoiseError as error:
            answer = np.asarray(str(error))
        _send(answers, answer)
        answers.flush()


if __name__ == "__main__":
    _work(*sys.argv[1:])
