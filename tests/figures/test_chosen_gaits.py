"""Gaits that are chosen by a rule: nobody picks the best."""

from __future__ import annotations

import numpy as np
from conftest import wander

from poise import ScoredRollouts, Trajectories
from poise.figures.chosen_gaits import choose_gaits


def scored(made: Trajectories, finite: np.ndarray | None = None) -> ScoredRollouts:
    right = np.ones((len(made), 1), bool)
    return ScoredRollouts(made, right, right[:, 0] if finite is None else finite, right)


def test_the_worst_rollout_is_the_one_that_moves_as_no_demonstration_does():
    rollouts, demonstrations = wander(21, seed=3), wander(40)
    states = np.array(rollouts.states)
    states[7, 3:] += 40.0
    made = Trajectories(states)
    gaits = dict(choose_gaits([scored(made[:5]), scored(made[5:])], demonstrations))
    assert list(gaits) == ["median demonstration", "median rollout", "worst demonstration", "worst rollout"]
    np.testing.assert_array_equal(gaits["worst rollout"], states[7])
    assert not (gaits["median rollout"] == states[7]).all()
    assert any((gaits["median demonstration"] == one).all() for one in np.asarray(demonstrations.states)[20:])


def test_what_became_nan_is_not_chosen_and_few_demonstrations_are_too_few():
    rollouts, finite = wander(10, seed=3), np.arange(10) != 7
    states = np.where(np.arange(10)[:, None, None] == 7, 1e3, rollouts.states)
    gaits = dict(choose_gaits([scored(Trajectories(states), finite)], wander(40)))
    assert np.abs(gaits["worst rollout"]).max() < 1e3
    assert list(dict(choose_gaits([scored(Trajectories(states), finite & False)], wander(40)))) == [
        "median demonstration",
        "worst demonstration",
    ]
    assert choose_gaits([scored(rollouts)], wander(7)) == ()
