"""Stages: in which order they are trained, and what a step of one returns and needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from training_helpers import POLICY, REFINE, SMALL, TWO, data, problem

from poise import ALGORITHMS, PoiseError, Training
from poise.algorithms import Algorithm
from poise.training.stages import alternate, begin, estimate, turns, weighted_sum
from poise.training.state import one_run, start


def order(algorithm: Algorithm, training: Training) -> list[tuple[str, int, int]]:
    return [(turn.stage.name, turn.first, turn.last) for turn in turns(algorithm, training)]


def test_a_stage_that_alternates_takes_turns_with_the_one_before_it():
    training = Training(labeler_steps=3, policy_steps=10, refine_steps=5, rounds=3)
    labeler = replace(POLICY, name="labeler")
    assert order(Algorithm(TWO.parts, (labeler, POLICY, REFINE)), training) == [
        ("labeler", 0, 3),
        *(("policy", 0, 3), ("refine", 0, 1)),
        *(("policy", 3, 6), ("refine", 1, 3)),
        *(("policy", 6, 10), ("refine", 3, 5)),
    ]
    assert order(TWO, replace(training, refine_steps=0)) == [("policy", 0, 10)]


def test_a_stage_that_collects_and_does_not_alternate_is_trained_once():
    once = TWO.with_stage(replace(REFINE, alternates_with=None))
    training = Training(policy_steps=10, refine_steps=5, rounds=3)
    assert order(once, training) == [("policy", 0, 10), ("refine", 0, 5)]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_table_says_which_stages_alternate_and_collecting_ones_do_with_the_one_before_them(name):
    algorithm = ALGORITHMS[name]
    training = Training(dynamics_steps=2, labeler_steps=3, policy_steps=10, refine_steps=5, rounds=2)
    names, expected = [stage.name for stage in algorithm.stages], []
    for stage in algorithm.stages:
        assert stage.collects == (stage.name == "refine")
        assert stage.alternates_with == ("policy" if stage.collects else None)
        if not stage.collects:
            expected.append((stage.name, 0, training.steps(stage.name)))
    if "refine" in names:
        assert names[-2:] == ["policy", "refine"]
        assert expected.pop() == ("policy", 0, 10)
        expected += [("policy", 0, 5), ("refine", 0, 2), ("policy", 5, 10), ("refine", 2, 5)]
    assert order(algorithm, training) == expected


def test_two_stages_take_turns_and_not_three():
    other = replace(REFINE, name="other", alternates_with="refine")
    line = "stage 'other' alternates with 'refine', which already alternates with 'policy'; put a stage that does not"
    for steps in (0, 4):
        with pytest.raises(PoiseError, match=line):
            order(Algorithm(TWO.parts, (POLICY, REFINE, other)), Training(refine_steps=steps, extra_steps={"other": 4}))


def test_only_stages_that_take_turns_have_optimisers_at_once():
    training = Training(policy_steps=4, refine_steps=4, rounds=2, extra_steps={"first": 4})
    first = replace(POLICY, name="first")
    algorithm = Algorithm(TWO.parts, (first, POLICY, REFINE))
    found, state = turns(algorithm, training), start(algorithm, problem(), np.arange(1))
    kept = [set(begin(state, found, number, training).optimisers) for number in range(len(found))]
    assert kept == [{"first"}, *[{"policy", "refine"}] * 4]
    assert alternate(POLICY, REFINE)
    assert alternate(REFINE, POLICY)
    assert not alternate(first, POLICY)


def test_the_settings_of_training_name_the_steps_of_every_stage():
    assert Training(policy_steps=3).steps("policy") == 3
    assert Training(extra_steps={"novel": 4}).steps("novel") == 4
    with pytest.raises(PoiseError, match="stage 'novel' has no number of steps; give Training"):
        Training().steps("novel")


def test_a_weighted_sum_has_every_loss_times_its_weight():
    named: dict[str, Any] = {"nld": jnp.asarray(2.0), "kl": jnp.asarray(3.0)}
    weights: dict[str, Any] = {"kl": jnp.asarray(10.0), "nld": jnp.asarray(1.0), "style": jnp.asarray(7.0)}
    assert float(weighted_sum(named, weights)) == 32.0


def test_an_estimate_names_the_losses_and_grows_with_the_batch():
    parts = one_run(start(TWO, problem(), np.arange(1)).parts, 0)
    larger = replace(SMALL, training=replace(SMALL.training, batch=2 * SMALL.training.batch))
    small, large = (estimate(POLICY, parts, data(), settings) for settings in (SMALL, larger))
    assert small.losses == large.losses == ("nld",)
    assert estimate(REFINE, parts, data(), SMALL).losses == ("dynamics",)
    assert small.bytes_per_run < large.bytes_per_run < 2 * small.bytes_per_run
