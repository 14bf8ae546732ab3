"""Between two chunks of training: whether a checkpoint is due, and whether Ctrl-C or SIGTERM asked to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

SECONDS_BETWEEN_CHECKPOINTS = 5.0
WRITING_SHARE = 20  # writing checkpoints takes at most about 1/20 of the time


class CheckpointTimer:
    """Decides when checkpoints are due, so that writing them takes a small part of the time."""

    def __init__(self):
        self._written_at, self._seconds_to_write = time.perf_counter(), 0.0

    @contextlib.contextmanager
    def due(self, force: bool) -> Iterator[bool]:
        """Yields whether checkpoints are due now, and measures how long the block takes to write them.

        Args:
            force: They are due whatever the time is, because training ends or is interrupted here.
        """
        began = time.perf_counter()
        pause = max(SECONDS_BETWEEN_CHECKPOINTS, WRITING_SHARE * self._seconds_to_write)
        due = force or began - self._written_at > pause
        yield due
        if due:
            self._written_at = time.perf_counter()
            self._seconds_to_write = self._written_at - began


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the program to end; otherwise it is as Ctrl-C."""


def terminate(*_: Any) -> None:
    """Handles SIGTERM as Python handles Ctrl-C: what is open is closed, and processes are ended."""
    raise Terminated


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM raises `Terminated`, if this is the main thread of a program without a handler of its own."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    ours = in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


STOPPING = {
    signal.SIGINT: (KeyboardInterrupt, b"Ctrl-C again", (signal.default_int_handler,)),
    signal.SIGTERM: (Terminated, b"SIGTERM again", (signal.SIG_DFL, terminate)),
}
"""What a signal raises, what doing it again is called, and the handlers that may be replaced while training."""


class Interruptible:
    """Ctrl-C and SIGTERM finish and save the current chunk first; a second one stops at once.

    Nothing changes if `saving` is false, outside of the main thread, or if the program has its own handler.
    """

    def __init__(self, saving: bool):
        self.asked, self.saving = False, saving
        self._raises: type[KeyboardInterrupt] = KeyboardInterrupt
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptible:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if self.saving and in_main_thread:
            for number, (_, _, replaced) in STOPPING.items():
                before = signal.getsignal(number)
                if before in replaced:
                    self._before[number] = before
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _ask(self, number: int, _: Any) -> None:
        self._raises, again, _ = STOPPING[signal.Signals(number)]
        if self.asked:
            raise self._raises
        self.asked = True
        # A signal handler may run inside a print, so it writes to the file descriptor itself.
        os.write(2, b"\nstopping after this chunk, to save it; " + again + b" stops at once\n")

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed, and `Terminated` after SIGTERM."""
        if self.asked:
            raise self._raises
