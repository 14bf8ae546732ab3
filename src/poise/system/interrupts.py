"""Between two chunks of training: whether a checkpoint is due, and whether the user pressed Ctrl-C."""

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


class Interruptible:
    """Ctrl-C finishes and saves the current chunk first; pressed twice it stops at once.

    Nothing changes if `saving` is false, outside of the main thread, or if the program has its own handler of Ctrl-C.
    """

    def __init__(self, saving: bool):
        self.asked, self.saving = False, saving

    def __enter__(self) -> Interruptible:
        in_main_thread = threading.current_thread() is threading.main_thread()
        default = in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._listening = self.saving and default
        if self._listening:
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # A signal handler may run inside a print, so it writes to the file descriptor itself.
        os.write(2, b"\nstopping after this chunk, to save it; Ctrl-C again stops at once\n")

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self.asked:
            raise KeyboardInterrupt
