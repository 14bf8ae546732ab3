"""Worker processes: one protocol for all code that runs in an interpreter of its own.

A worker is a new interpreter and not a fork, because JAX runs threads. It does not import the user's main script, so a
script without a main guard is safe. Questions and answers are named arrays, sent through pipes without pickle.
"""

from __future__ import annotations

import importlib
import io
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import numpy as np

from ..errors import PoiseError

Message = dict[str, np.ndarray]
Handler = Callable[[Message], Message]
"""A function that answers one question."""

PROGRAM = "import sys; from poise.system.workers import serve; serve(*sys.argv[1:])"
ERROR, READY = "error", "ready"  # the names of the only array in an answer that is not the handler's


class WorkerEnded(Exception):  # noqa: N818  (what happened, as in KeyboardInterrupt)
    """The process of a worker ended before it answered."""


class Worker:
    """A process that answers questions, one after the other. Close it when it is no longer needed.

    Args:
        target: "module:function". The new process calls the function with the arguments; it returns the handler.
        *arguments: Text for the function.
        environment: Environment variables of the process, in addition to those of this one.
        show_errors: Whether the process prints to the standard error of this one, or not at all.
    """

    def __init__(
        self, target: str, *arguments: str, environment: Mapping[str, str] | None = None, show_errors: bool = True
    ):
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, target, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if show_errors else subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for this process, which ends the other: it has no handler while it starts
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "OMP_NUM_THREADS": "1",
                "JAX_PLATFORMS": "cpu",  # only one process may use the accelerator
                **(environment or {}),
            },
        )
        self._started = False

    def ready(self, timeout: float | None = None) -> None:
        """Waits until the worker has started. `ask` does so too; call this where a start may fail or hang.

        Args:
            timeout: The most seconds to wait. Default: no limit.

        Raises:
            PoiseError: The module or the function failed; the message gives the reason.
            WorkerEnded: The process ended.
            TimeoutError: The worker did not start in time.
        """
        if self._started:
            return
        answers = self._pipes()[1]
        if timeout is not None and not select.select([answers], [], [], timeout)[0]:
            raise TimeoutError
        _raise_error(_receive(answers))
        self._started = True

    def ask(self, question: Message) -> Message:
        """The handler's answer to a question.

        Raises:
            PoiseError: The handler raised an error, whose message this is, or the worker could not start.
            WorkerEnded: The process ended before it answered.
        """
        self.ready()
        questions, answers = self._pipes()
        try:
            _send(questions, question)
        except (BrokenPipeError, ValueError) as error:  # ValueError: the pipe is closed
            raise WorkerEnded from error
        return _raise_error(_receive(answers))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def ask_all(workers: Sequence[Worker], questions: Sequence[Callable[[], Message]]) -> Iterator[Message]:
    """The answers to all questions in order; closes the workers at the end.

    Each question goes to the next idle worker, and is made only then, so that few of them are in memory at once.
    """
    idle, pool = list(workers), ThreadPoolExecutor(len(workers))

    def ask(question: Callable[[], Message]) -> Message:
        worker = idle.pop()  # there is one thread per worker, so one is idle
        try:
            return worker.ask(question())
        finally:
            idle.append(worker)

    try:
        yield from pool.map(ask, questions)
    finally:
        for worker in workers:
            worker.close()
        pool.shutdown(cancel_futures=True)


def serve(target: str, *arguments: str) -> None:
    """Runs in the worker's process: makes the handler, and answers questions until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that started this one, which ends it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # user code and drivers may print, which must not end up among the answers
    module, _, name = target.partition(":")
    try:
        handler: Handler = getattr(importlib.import_module(module), name)(*arguments)
    except Exception as error:  # reported by `Worker.ready`
        _send(answers, {ERROR: np.asarray(_one_line(error))})
        return
    _send(answers, {READY: np.asarray(True)})
    while True:
        try:
            question = _receive(sys.stdin.buffer)
        except WorkerEnded:
            return
        answer = _answer(handler, question)
        if answer is None:
            return
        _send(answers, answer)


def _answer(handler: Handler, question: Message) -> Message | None:
    """The handler's answer or its error; None if there is no memory left, so that the worker must end."""
    try:
        return handler(question)
    except MemoryError:
        return None
    except PoiseError as error:
        return {ERROR: np.asarray(str(error))}
    except Exception as error:
        traceback.print_exc()  # a mistake in the handler, which one line does not explain
        return {ERROR: np.asarray(_one_line(error))}


def _one_line(error: Exception) -> str:
    return str(error) if isinstance(error, PoiseError) else f"{type(error).__name__}: {' '.join(str(error).split())}"


def _raise_error(answer: Message) -> Message:
    if ERROR in answer:
        raise PoiseError(str(answer[ERROR]))
    return answer


def _send(stream: IO[bytes], message: Message) -> None:
    """Writes the length of a message in 8 bytes, and the message as an .npz."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = dict(message)
    np.savez(buffer, **arrays)
    stream.write(buffer.tell().to_bytes(8, "little"))
    stream.write(buffer.getbuffer())
    stream.flush()


def _receive(stream: IO[bytes]) -> Message:
    """Reads what `_send` wrote; raises WorkerEnded if the other process ended before all of it arrived."""
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    content = stream.read(length) if len(head) == 8 else b""
    if len(head) < 8 or len(content) < length:
        raise WorkerEnded
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
