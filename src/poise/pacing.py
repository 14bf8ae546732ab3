"""Between two chunks of training: a checkpoint may be due, and the user may want to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

SECONDS_BETWEEN_CHECKPOINTS = 5.0
WRITING_SHARE = 20  # checkpoints of many runs may take one part in so many of the time


class Pace:
    """Decides when checkpoints are due, so that writing them takes a small part of the time."""

    def __init__(self):
        self.saved, self.spent = time.perf_counter(), 0.0

    @contextlib.contextmanager
    def writing(self, surely: bool) -> Iterator[bool]:
        """Whether they are due now; measures how long writing them takes."""
        began = time.perf_counter()
        due = surely or began - self.saved > max(SECONDS_BETWEEN_CHECKPOINTS, WRITING_SHARE * self.spent)
        yield due
        if due:
            self.saved = time.perf_counter()
            self.spent = self.saved - began


class Stop:
    """Lets a chunk be finished and saved before Ctrl-C takes effect; pressed twice, it takes effect at once.

    Where nothing is saved, or another part of the program listens to Ctrl-C, all stays as it is.
    """

    def __init__(self, saving: bool):
        self.asked, self.saving = False, saving

    def __enter__(self) -> Stop:
        here = threading.current_thread() is threading.main_thread()
        self.listening = self.saving and here and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self.listening:
            signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        os.write(2, b"\nstopping after this chunk, to save it; Ctrl-C again stops at once\n")  # safe within a signal

    def check(self) -> None:
        """Stops, if that was asked for."""
        if self.asked:
            raise KeyboardInterrupt
