"""The log of a run in training: metrics, one line per chunk, and a checkpoint to resume from."""

from __future__ import annotations

import json
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from training_helpers import ONE, flat, problem

from poise.training.checkpoints import CHECKPOINT, METRICS, Position, TrainingLog, read_lines
from poise.training.fit import Progress
from poise.training.state import start


def progress(step: int, turn: int = 0, losses: bool = True) -> Progress:
    """A chunk of the policy's stage, with the losses of three runs."""
    named = {"nld": np.asarray([1.5, np.nan, 1 / 3])} if losses else {}
    return Progress("policy", turn, step, 6, 6, named, named, cast("Any", None), cast("Any", None))


def test_a_line_of_metrics_has_the_losses_of_its_own_runs_and_none_for_what_is_not_finite(tmp_path):
    log = TrainingLog.open(tmp_path, [0, 1])
    log.write_metrics(progress(0, losses=False), slice(0, 2))
    log.write_metrics(progress(2), slice(1, 3))
    (line,) = read_lines(tmp_path / METRICS)
    assert (line["stage"], line["turn"], line["step"]) == ("policy", 0, 2)
    assert line["losses"] == line["validation"] == {"nld": [None, 0.3333333]}


def test_a_run_is_resumed_where_its_checkpoint_was_written_and_later_metrics_are_dropped(tmp_path):
    state = start(ONE, problem(), np.arange(2))
    log = TrainingLog.open(tmp_path, [0, 1])
    for now in (progress(4, turn=0), progress(2, turn=1), progress(4, turn=1)):
        log.write_metrics(now, slice(0, 2))
        if now[1:3] == (1, 2):
            log.stopped[1] = "policy step 3"
            log.save(now, state)
    with (tmp_path / METRICS).open("a") as file:
        file.write('{"stage": "pol')  # cut off in the middle of a line
    again = TrainingLog.open(tmp_path, [0, 1])
    assert again.position == Position(1, 2)
    assert again.stopped == [None, "policy step 3"]
    assert 0 < again.earlier <= again.seconds
    assert [(line["turn"], line["step"]) for line in read_lines(tmp_path / METRICS)] == [(0, 4), (1, 2)]
    assert len([json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]) == 2
    like = eqx.tree_at(lambda s: s.step, state, jnp.ones(2, jnp.int32))
    np.testing.assert_array_equal(flat(again.load(like)), flat(state))
    again.remove_checkpoint()
    assert not (tmp_path / CHECKPOINT).exists()


def test_metrics_without_a_checkpoint_are_of_a_run_that_begins_again(tmp_path):
    (tmp_path / METRICS).write_text("{}\n")
    assert TrainingLog.open(tmp_path, [0]).position == Position(0, 0)
    assert not (tmp_path / METRICS).exists()


def test_without_a_folder_nothing_is_written():
    log = TrainingLog.open(None, [0, 1])
    log.write_metrics(progress(2), slice(0, 2))
    log.save(progress(2), start(ONE, problem(), np.arange(2)))
    log.remove_checkpoint()
    assert (log.position, log.stopped) == (Position(), [None, None])


def test_a_seed_that_was_stopped_is_reported_once():
    log = TrainingLog.open(None, [7, 8])
    assert log.mark_stopped(progress(2), np.asarray([-1, 1])) == [
        "seed 8 stopped at policy step 1: its loss is not finite"
    ]
    assert log.mark_stopped(progress(4), np.asarray([-1, 1])) == []
    assert log.stopped == [None, "policy step 1"]
