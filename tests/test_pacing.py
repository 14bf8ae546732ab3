import itertools
import signal

import pytest

from poise import pacing
from poise.pacing import Pace, Stop


def test_ctrl_c_waits_until_it_is_asked_for_and_works_at_once_when_pressed_twice(interruptible, capfd):
    with Stop(saving=True) as stop:
        stop.check()
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        assert "Ctrl-C again stops at once" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_where_nothing_is_saved_ctrl_c_works_as_ever(interruptible):
    with Stop(saving=False), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_whoever_else_listens_to_ctrl_c_goes_on_listening():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with Stop(saving=True) as stop:
            signal.raise_signal(signal.SIGINT)
        assert heard == [1]
        assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, before)


def test_checkpoints_that_take_long_to_write_are_written_less_often(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(pacing.time, "perf_counter", lambda: clock[0])
    pace, written = Pace(), []
    for _ in range(100):
        clock[0] += 1.0
        with pace.writing(surely=False) as due:
            if due:
                written.append(clock[0])
                clock[0] += 1.0  # writing takes a second
    assert written[0] == 6.0
    assert min(b - a for a, b in itertools.pairwise(written)) > pacing.WRITING_SHARE
