"""Evaluation: every way of sampling is what it is called, and has the scores of its own rollouts."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax
import numpy as np
from flow_helpers import STEERED, drifting, trained

from poise.evaluation.evaluate import RunToScore, SeedRollouts, roll_out_seed, score_runs
from poise.evaluation.realism import Reference
from poise.rollouts.requests import Request

SAMPLING = replace(STEERED, tries=2)
TEST = drifting(64, seed=3)


@functools.cache
def rolled_out() -> tuple[np.ndarray, SeedRollouts]:
    labels = trained().styles[0].label(TEST)[:, None]
    return labels, roll_out_seed(trained().trained(None)(0), TEST, labels, SAMPLING, rollouts=64)


def test_unsteered_rollouts_are_those_of_no_strength():
    labels, made = rolled_out()
    assert made.unsteered is not None
    seed, chosen = trained().trained(None)(0), made.chosen
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 1), 0)
    plain = seed.roll_out(Request.like(TEST[chosen], labels[chosen]), key, replace(SAMPLING, strength=0.0))
    np.testing.assert_array_equal(made.unsteered.rollouts.states, plain.states)
    assert np.abs(np.asarray(made.own.rollouts.states) - np.asarray(plain.states)).max() > 0.1


def test_each_way_of_sampling_has_the_scores_of_its_own_rollouts():
    labels, made = rolled_out()
    assert made.unsteered is not None
    wrong = int((~made.own.joint).sum())
    assert wrong < int((~made.unsteered.joint).sum())  # or no score could show which rollouts it is of
    assert [id(way) for way in made.ways] == [id(way) for way in (made.own, made.verified, made.unsteered)]
    asked = RunToScore([trained().trained(None)(0)], labels, SAMPLING, None)
    ((score,),) = score_runs([asked], TEST, rollouts=64)
    assert score.verified is not None
    assert score.unsteered is not None
    ways = (score.joint, made.own), (score.verified.joint, made.verified), (score.unsteered.joint, made.unsteered)
    for share, way in ways:
        assert share.value == float(way.joint.mean())


def test_the_realism_of_each_way_is_that_of_its_own_rollouts():
    labels, made = rolled_out()
    reference = Reference.fit(trained().splits()._replace(test=TEST), trained().domain)
    asked = RunToScore([trained().trained(None)(0)], labels, SAMPLING, reference)
    ((score,),) = score_runs([asked], TEST, rollouts=64)
    assert score.unsteered is not None
    assert made.unsteered is not None
    (own, plain) = (reference.measure([made.set_of(way)])[0] for way in (made.own, made.unsteered))
    assert score.realism.distances == own.distances != plain.distances
    assert score.unsteered.realism.distances == plain.distances
