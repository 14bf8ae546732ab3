import itertools
import signal
import time

import pytest

from poise.system import interrupts
from poise.system.interrupts import CheckpointTimer, Interruptible, Terminated, terminable, terminate


def test_ctrl_c_waits_for_the_next_check_and_stops_at_once_when_pressed_twice(interruptible, capfd):
    with Interruptible(saving=True) as stop:
        stop.check()
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        assert "Ctrl-C again stops at once" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            stop.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_waits_for_the_next_check_and_stops_at_once_the_second_time(capfd):
    with terminable():
        assert signal.getsignal(signal.SIGTERM) is terminate
        with Interruptible(saving=True) as stop:
            signal.raise_signal(signal.SIGTERM)
            assert stop.asked
            assert "SIGTERM again stops at once" in capfd.readouterr().err
            with pytest.raises(Terminated):
                stop.check()
            with pytest.raises(Terminated):
                signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
    with Interruptible(saving=True) as stop:  # without the command line
        signal.raise_signal(signal.SIGTERM)
    assert stop.asked
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_handler_of_sigterm_stays_in_place():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
    try:
        with terminable(), Interruptible(saving=True) as stop:
            signal.raise_signal(signal.SIGTERM)
        assert heard == [1]
        assert not stop.asked
    finally:
        signal.signal(signal.SIGTERM, before)


def test_ctrl_c_stops_at_once_if_nothing_is_saved(interruptible):
    with Interruptible(saving=False), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_another_handler_of_ctrl_c_stays_in_place():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with Interruptible(saving=True) as stop:
            signal.raise_signal(signal.SIGINT)
        assert heard == [1]
        assert not stop.asked
    finally:
        signal.signal(signal.SIGINT, before)


def test_checkpoints_that_take_long_to_write_are_written_less_often(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    timer, written = CheckpointTimer(), []
    for _ in range(100):
        clock[0] += 1.0
        with timer.due(force=False) as due:
            if due:
                written.append(clock[0])
                clock[0] += 1.0  # writing takes a second
    assert written[0] == 6.0
    assert min(b - a for a, b in itertools.pairwise(written)) > interrupts.WRITING_SHARE


def test_forced_checkpoints_are_due_at_once():
    timer = CheckpointTimer()
    for force in (False, True):
        with timer.due(force) as due:
            assert due is force
