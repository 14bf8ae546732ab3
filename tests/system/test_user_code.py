"""Code of the user's own is held."""

import contextlib
import signal
import threading
import time

import pytest

from poise import PoiseError
from poise.system.interrupts import Terminated
from poise.system.user_code import Stopped, TimeIsUp, held, one_line, time_limit


def raises(error):
    def function():
        raise error

    return function


def for_ever():
    while True:
        with contextlib.suppress(Exception):  # which must not catch the end of its time
            time.sleep(0.01)


def test_a_function_returns_and_raises_as_it_would_alone(interruptible):
    with held() as holding:
        assert holding.call(max, 1, 2) == 2
        with pytest.raises(ZeroDivisionError):
            holding.call(lambda: 1 / 0)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "called sys.exit"),
        (KeyboardInterrupt(), "raised KeyboardInterrupt"),
        (GeneratorExit(), "raised G"),
    ],
)
def test_a_function_does_not_end_the_program_or_pass_for_ctrl_c(interruptible, error, message):
    with held() as holding, pytest.raises(Stopped, match=f"^{message}.*; a function returns"):
        holding.call(raises(error))


def test_ctrl_c_and_sigterm_inside_of_a_function_are_the_users(interruptible):
    with held() as holding, pytest.raises(KeyboardInterrupt):
        holding.call(signal.raise_signal, signal.SIGINT)
    with held() as holding, pytest.raises(Terminated):
        holding.call(raises(Terminated()))


def test_a_function_that_never_returns_is_stopped():
    began = time.perf_counter()
    with held(0.1) as holding:
        with pytest.raises(TimeIsUp, match=r"did not return within 0.1 s; if it only is slow, set POISE_STYLE_SECONDS"):
            holding.call(for_ever)
        assert holding.call(max, 1, 2) == 2
        time.sleep(0.2)  # between two calls nothing is stopped
    assert time.perf_counter() - began < 5


def test_outside_of_the_main_thread_or_beside_another_alarm_functions_are_called_without_a_limit():
    found = []

    def call():
        with held(0.01) as holding:
            found.append(holding.call(lambda: time.sleep(0.05) or 1))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        call()
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGALRM, before)
    assert found == [1, 1]


def test_the_environment_sets_the_limit(monkeypatch):
    assert time_limit() == 60
    monkeypatch.setenv("POISE_STYLE_SECONDS", "2.5")
    assert time_limit() == 2.5
    for wrong in ("soon", "-1", "nan", "inf"):
        monkeypatch.setenv("POISE_STYLE_SECONDS", wrong)
        with pytest.raises(PoiseError, match="POISE_STYLE_SECONDS is a number of seconds, for example 60"):
            time_limit()


def test_an_error_is_told_on_one_line():
    class OddError(Exception):
        def __str__(self):
            raise ValueError

    assert one_line(ValueError("one\n  two\r\nthree")) == "one two three"
    assert one_line(OddError()) == "an error that cannot be printed"
