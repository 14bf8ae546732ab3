"""A flow that plans a few actions at a time aims at the grades of a demonstration, from the first plan to the last."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from conftest import count_compilations
from flow_helpers import STEERED, climb, drift, drifting

import poise
from poise import Network, Run, Settings, Training
from poise.config import FlowNetwork
from poise.evaluation.scored import TrainedSeed
from poise.rollouts.requests import FREE, Request
from poise.styles.label_spaces import Graded
from poise.styles.scoring import score_all

SHORT = FlowNetwork(width=32, blocks=1, steps=8, horizon=2, replan=1)


@functools.cache
def short() -> Run:
    """A small flow with short plans, trained in `drift` alone."""
    training = Training(flow_steps=1_000, flow_batch=64, chunk=1_000, learning_rate=5e-3)
    settings = Settings(Network(flow=SHORT), training, sampling=STEERED)
    return poise.train("flow", drifting(1500), [drift], settings=settings, progress=False)


def scores(seed: TrainedSeed, label: int) -> np.ndarray:
    """The scores of rollouts that are asked for a class."""
    shown = drifting(1_000, seed=5)
    request = Request(np.asarray(shown.starts), np.full((1_000, 1), label, np.int32), shown.lengths, shown.steps)
    return score_all(seed.styles, seed.score(request, jax.random.key(0)).rollouts)[0]


def test_rollouts_of_a_class_differ_as_demonstrations_do():
    """Without grades each plan is drawn anew from the whole class, and their mean is always about the same."""
    run = short()
    (style,) = run.styles
    shown = style.scores(drifting(4_000, seed=7))
    among = shown[style.classify(shown) == 2]
    aims, anew = (scores(seed, 2) for seed in (run.trained(None)(0), replace(run.trained(None)(0), find_examples=None)))
    assert anew.std() < 0.75 * among.std()
    assert 0.85 * among.std() < aims.std() < 1.25 * among.std()


def test_a_margin_to_thresholds_makes_more_rollouts_right():
    run, shown = short(), drifting(1_000, seed=5)
    request = Request(np.asarray(shown.starts), np.full((1_000, 1), 1, np.int32), shown.lengths, shown.steps)
    right = [
        run.trained(None)(0).score(request, jax.random.key(0), replace(STEERED, margin=margin)).joint.mean()
        for margin in (0.0, 0.05)
    ]
    assert right[1] > right[0] + 0.02


@pytest.mark.parametrize("change", [{"horizon": 0, "replan": 0}, {"grades": False}], ids=["whole", "switched off"])
def test_a_whole_plan_has_no_grades_and_a_short_one_need_not(change):
    settings = Settings(Network(flow=replace(SHORT, **change)), Training(flow_steps=0))
    run = poise.train("flow", drifting(200), [drift], settings=settings, progress=False)
    assert run.styles[0].grades is None
    assert short().styles[0].kind == Graded(3)


def test_a_class_that_is_asked_for_is_graded_and_other_tries_aim_elsewhere():
    seed, starts = short().trained(None)(0), np.zeros((300, 2))
    drawn = [seed.draw_open(np.full((300, 1), 2), starts, jax.random.key(i)) for i in range(2)]
    for labels in drawn:
        assert labels is not None
        assert (labels >= 3).all()
        assert (labels % 3 == 2).all()
    assert (drawn[0] != drawn[1]).any()


def test_a_later_style_aims_at_demonstrations_that_show_it():
    def ahead(states, actions):
        return actions[:, 0].sum()  # nothing else than drift

    run = short()
    seed = run.trained(None, run.fit_later([ahead]))(0)
    drawn = seed.draw_open(np.tile([[FREE, 2]], (100, 1)), np.zeros((100, 2)), jax.random.key(0))
    assert drawn is not None
    assert (drawn >= 3).all()
    assert (drawn % 3 == 2).mean() > 0.9
    made = run.sample_scored(300, {"ahead": "high"}, styles=[ahead], tries=1)
    other = run.sample_scored(300, {"climb": "high"}, styles=[climb], tries=1)
    assert made.joint.mean() > 0.7 > 0.5 > other.joint.mean()


def test_an_actor_aims_too_and_keeps_its_aim_until_the_dial_is_turned():
    actor = short().actor({"drift": "high"}, count=400)
    state, moved = np.zeros((400, 2), np.float32), []
    for _ in range(6):
        moved.append(actor.step(state))
        state = state + moved[-1]
    along = np.stack(moved)[..., 0]
    assert np.corrcoef(along[0], along[-1])[0, 1] > 0.1  # the same aim in the first plan and in the last
    actor.dial({"drift": "low"})
    assert actor.step(state)[:, 0].mean() < along.mean() - 1


@pytest.mark.slow
def play(actor: poise.Actor, count: int, push: float = 0.0, turn: str | None = None) -> np.ndarray:
    """How plays from the origin move ahead; at the third step they may be pushed, or the dial turned."""
    state, moved = np.zeros((count, 2), np.float32), []
    for step in range(6):
        if step == 2:
            state[:, 0] += push
        if step == 2 and turn:
            actor.dial({"drift": turn})
        moved.append(actor.step(state))
        state = state + moved[-1]
    return np.stack(moved)[..., 0]


def test_an_actor_with_short_plans_looks_ahead_to_the_end_and_follows_the_best():
    run = short()
    (style,) = run.styles
    near = replace(STEERED, margin=0.0)
    found = [play(run.actor({"drift": "medium"}, count=200, lookahead=n, sampling=near), 200) for n in (1, 8)]
    right = [(style.classify(moved.mean(axis=0)) == 1).mean() for moved in found]
    assert right[0] < 0.95
    assert right[1] > 0.98


def test_it_acts_by_itself_once_it_is_pushed_and_looks_ahead_again_when_the_dial_is_turned():
    run = short()
    (style,) = run.styles
    how_played: list[dict[str, Any]] = [{}, {"push": 5.0}, {"turn": "medium"}]
    calm, pushed, turned = (
        play(run.actor({"drift": "high"}, count=100, lookahead=8), 100, **how) for how in how_played
    )
    np.testing.assert_array_equal(calm[:2], pushed[:2])
    assert (calm[2:] != pushed[2:]).mean() > 0.9  # what was imagined is not followed
    assert (style.classify(pushed.mean(axis=0)) == 2).mean() > 0.8  # but its aim is
    assert (style.classify(turned.mean(axis=0)) == 1).mean() > 0.8  # of all six steps, of which two were taken before


def test_no_frame_waits_for_a_compilation():
    actor = short().actor({"drift": "high"}, count=10, lookahead=4)
    with count_compilations() as compiled:
        play(actor, 10, 5.0, "medium")
    assert compiled == []


def test_grades_come_back_from_disk(tmp_path):
    run = short()
    run.save(tmp_path / "run")
    loaded = poise.load_run(tmp_path / "run", styles=[drift])
    assert loaded.styles[0].grades == run.styles[0].grades
    first, again = (one.sample(20, {"drift": "low"}, tries=1).states for one in (run, loaded))
    np.testing.assert_array_equal(first, again)
