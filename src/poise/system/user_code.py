"""Code of the user's own is held: it may not end the program, pass for Ctrl-C, or run without end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import PoiseError
from .interrupts import Terminated

VARIABLE = "POISE_STYLE_SECONDS"
SECONDS = 60.0  # a trajectory takes a fraction of a millisecond
AGAIN = 0.5  # seconds until a function that caught the end of its time is stopped once more


class Stopped(Exception):  # noqa: N818  (what happened; never seen outside of Poise)
    """What a user's function did instead of returning or raising an error: the words after its name."""


class TimeIsUp(Stopped):
    """It did not return in time."""


class _Alarm(BaseException):
    """The time is up. No error, or `except Exception` in a user's function would catch it."""


def time_limit() -> float:
    """The seconds that a labeling function may take for one trajectory, as POISE_STYLE_SECONDS says; 0 for no limit."""
    given = os.environ.get(VARIABLE, "")
    try:
        seconds = float(given or SECONDS)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise PoiseError(f"{VARIABLE} is a number of seconds, for example 60, or 0 for no limit; got {given!r}")
    return seconds


def one_line(error: BaseException) -> str:
    """The message of an error, without its line breaks."""
    try:
        return " ".join(str(error).split())
    except Exception:  # a class of the user's own
        return "an error that cannot be printed"


class Holding:
    """Calls functions of the user's own, one after the other."""

    def __init__(self, seconds: float, has_alarm: bool):
        self.seconds, self.interrupted = seconds, False
        self._alarm = seconds > 0 and has_alarm

    def call(self, function: Callable, *arguments: Any) -> Any:
        """What the function returns. Its errors are raised as they are.

        Raises:
            Stopped: It called sys.exit, raised KeyboardInterrupt, or did not return in time.
        """
        try:
            try:
                if self._alarm:
                    signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)
                return function(*arguments)
            finally:
                if self._alarm:
                    signal.setitimer(signal.ITIMER_REAL, 0)
        except Exception:
            raise
        except BaseException as error:
            if self._alarm:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(error, _Alarm):
                raise TimeIsUp(
                    f"did not return within {self.seconds:g} s; if it only is slow, set {VARIABLE} to more"
                ) from None
            if isinstance(error, Terminated) or (isinstance(error, KeyboardInterrupt) and self.interrupted):
                raise
            if isinstance(error, SystemExit):
                raise Stopped("called sys.exit; a function returns, or raises an error") from None
            raise Stopped(f"raised {type(error).__name__}; a function returns, or raises an error") from None

    def _hear(self, *_: Any) -> None:
        raise _Alarm


@contextlib.contextmanager
def held(seconds: float | None = None) -> Iterator[Holding]:
    """Yields what calls functions of the user's own; signal handlers are exchanged for as long.

    Only the main thread of a process hears signals: elsewhere there is no limit on time.

    Args:
        seconds: The most that one call may take, 0 for no limit. By default as POISE_STYLE_SECONDS says.
    """
    seconds = time_limit() if seconds is None else seconds
    in_main_thread = threading.current_thread() is threading.main_thread()
    free = in_main_thread and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    holding = Holding(seconds, free)
    before = signal.getsignal(signal.SIGINT) if in_main_thread else None

    def interrupt(number: int, frame: Any) -> None:
        holding.interrupted = True  # by the user, and not by the function
        assert callable(before)
        before(number, frame)

    try:
        if free:
            signal.signal(signal.SIGALRM, holding._hear)
        if callable(before):
            signal.signal(signal.SIGINT, interrupt)
        yield holding
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)
        if free:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
