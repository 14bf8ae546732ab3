"""Progress of training on the screen."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from poise.bar import Bar
from poise.training import Progress


def progress(step: int, loss: float | None = None, pieces: int = 1) -> Progress:
    """Where a stage of 6 steps and 4 runs is: at the beginning of a turn if there is no loss yet."""
    values = {} if loss is None else {"loss": np.asarray([loss, np.nan])}
    axis, state = cast("Any", SimpleNamespace(pieces=pieces, runs=4, piece=2)), cast("Any", None)
    return Progress("policy", 0, step, 6, 6, values, values, state, axis)


def test_turns_of_a_stage_are_one_bar():
    bar = Bar("ctvae", shown=False)
    for now in (progress(0), progress(3, 2.0), progress(3), progress(6, 1.0)):
        bar.show(now)
    assert list(bar.bars) == ["policy"]


def test_figures_are_those_of_the_runs_that_go_on(capsys):
    bar = Bar("ctvae", shown=True)
    bar.show(progress(0, pieces=2))
    bar.show(progress(6, 1.5))
    told = capsys.readouterr().err
    assert "ctvae policy: 100%" in told
    assert "loss=1.5" in told
    assert "the 4 runs of this stage are trained 2 at a time" in told


def test_bars_of_stages_that_take_turns_move_no_cursor_in_a_log(capsys):
    bar = Bar("ctvae", shown=True)
    for now in (progress(0), progress(3, 2.0), progress(6, 1.0)):
        for stage in ("policy", "refine"):
            bar.show(now._replace(stage=stage))
    shown = capsys.readouterr().err
    assert "refine: 100%" in shown
    assert "\x1b[A" not in shown
