"""Progress on the screen: one bar per stage, with NLD and KL in the units of a report."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import jax
import numpy as np
import pytest
from training_helpers import NETWORK, ONE, SMALL

import poise
from poise import Domain, Splits, Trajectories
from poise.algorithms import Problem
from poise.data.batches import Data
from poise.domains import integrator
from poise.evaluation.reconstruction import log_units, reconstruction_metrics
from poise.models import Statistics
from poise.styles.label_spaces import Categories, LabelSpace
from poise.training.fit import Progress, Sources, fit
from poise.training.progress import PerStep, ProgressBar
from poise.training.state import one_run, start

COURT = Domain("court", dynamics=integrator, units=(94.0, 50.0))
KEY = jax.random.key(0)


def progress(step: int, loss: float | None = None, pieces: int = 1, name: str = "loss") -> Progress:
    """Where a stage of 6 steps and 4 runs is: at the beginning of a turn if there is no loss yet."""
    values = {} if loss is None else {name: np.asarray([loss, np.nan])}
    axis, state = cast("Any", SimpleNamespace(pieces=pieces, runs=4, piece=2)), cast("Any", None)
    return Progress("policy", 0, step, 6, 6, values, values, state, axis)


def bar(shown: bool = True) -> ProgressBar:
    return ProgressBar("ctvae", shown, PerStep(4.0, log_units=2.0))


def test_turns_of_a_stage_are_one_bar():
    shown = bar(shown=False)
    for now in (progress(0), progress(3, 2.0), progress(3), progress(6, 1.0)):
        shown.show(now)
    assert list(shown.bars) == ["policy"]


def test_losses_are_the_mean_of_the_runs_whose_loss_is_finite(capsys):
    shown = bar()
    shown.show(progress(0, pieces=2))
    shown.show(progress(6, 1.5))
    written = capsys.readouterr().err
    assert "ctvae policy: 100%" in written
    assert "loss=1.5" in written
    assert "the 4 runs of this stage are trained 2 at a time" in written


def test_bars_of_stages_that_alternate_move_no_cursor_in_a_log(capsys):
    shown = bar()
    for now in (progress(0), progress(3, 2.0), progress(6, 1.0)):
        for stage in ("policy", "refine"):
            shown.show(now._replace(stage=stage))
    written = capsys.readouterr().err
    assert "refine: 100%" in written
    assert "\x1b[A" not in written


@pytest.mark.parametrize(("name", "shown"), [("nld", "nld/step=1"), ("kl", "kl/step=3"), ("style", "style=12")])
def test_nld_and_kl_are_shown_per_step_and_nld_in_the_units_of_the_domain(capsys, name, shown):
    one = bar()
    one.show(progress(0))
    one.show(progress(6, 12.0, name=name))
    assert f"{shown}]" in capsys.readouterr().err


def parts_of(ragged: Trajectories) -> list[Trajectories]:
    return [ragged[:20], ragged[20:32], ragged[32:]]


def test_the_last_validation_nld_is_that_of_a_report_on_the_same_rows(ragged):
    """An rnn has no embedding, so nothing is drawn at random."""
    train, validation, _ = parts_of(ragged)
    problem = Problem(Statistics.of(train), LabelSpace((Categories(2),)), NETWORK, COURT)
    given = [Data.of(part, np.arange(len(part), dtype=np.int32)[:, None] % 2) for part in (train, validation)]
    *_, last = fit(ONE, start(ONE, problem, np.arange(2)), Sources(given[0]), given[1], SMALL)
    per_step = PerStep(float(np.mean(validation.lengths)), log_units(COURT))
    for run in range(2):
        policy = one_run(last.state.parts, run)["policy"]
        nld, kl = reconstruction_metrics(policy, COURT, validation, np.asarray(given[1].labels), KEY)
        assert per_step("nld", float(last.validation["nld"][run])) == ("nld/step", pytest.approx(nld, rel=1e-5))
        assert kl is None


def test_the_bar_of_a_run_shows_the_nld_of_a_report_on_its_validation_demonstrations(ragged, capsys):
    def reach(states, actions):
        return states[-1, 0]

    splits = Splits(*parts_of(ragged))
    run = poise.train("rnn", splits, [reach], domain=COURT, settings=replace(SMALL, network=NETWORK))
    shown = re.findall(r"nld/step=(-?[\d.]+)", capsys.readouterr().err)
    policy = one_run(run.parts, 0)["policy"]
    nld, _ = reconstruction_metrics(policy, COURT, splits.validation, run.labels, KEY)
    assert shown[-1] == f"{nld:.3g}"
