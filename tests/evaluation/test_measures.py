"""What a domain measures at every step: the means over rollouts stand beside those over demonstrations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from conftest import wander

import poise
from poise import Domain, Trajectories
from poise.domains import cheetah
from poise.evaluation.measures import measure_steps
from poise.evaluation.realism import Reference, RolloutSet

LEFT = Domain("walks", measures={"left": lambda states, actions: states[:, 1:, 0] < 0})


def test_a_measure_is_the_mean_over_real_steps_of_finite_trajectories():
    states = np.asarray(
        [[[0.0], [-1.0], [-1.0], [-1.0]], [[0.0], [1.0], [1.0], [-1.0]], [[0.0], [np.nan], [1.0], [1.0]]]
    )
    made = Trajectories.unchecked(states, np.zeros((3, 3, 1)), np.asarray([3, 2, 3]))
    assert measure_steps(made, LEFT) == {"left": 0.6}
    assert measure_steps(made, replace(LEFT, measures={})) == {}


def test_reports_have_the_measures_of_rollouts_and_of_demonstrations():
    splits = poise.split(wander(300))
    reference = Reference.fit(splits, LEFT)
    made = Trajectories(np.abs(np.asarray(splits.test.states)), splits.test.actions)
    (found,) = reference.measure([RolloutSet(made, np.ones(len(made), bool), np.arange(len(made)))])
    assert found.measures == {"left": 0.0}
    assert 0.3 < found.measures_of_demonstrations["left"] < 0.7
    assert found.to_json()["measures"] == {"left": 0.0}


def test_the_cheetah_is_noticed_on_its_back_below_the_ground_and_when_it_trembles():
    states, actions = np.zeros((1, 5, 18)), np.full((1, 4, 6), 0.5)
    still = measure_steps(Trajectories(states, actions), cheetah.CHEETAH)
    assert still == {"upside_down": 0.0, "tilted": 0.0, "below_ground": 0.0, "effort": 0.25, "jerk": 0.0}
    turned, sunk, trembling = states.copy(), states.copy(), states.copy()
    turned[..., cheetah.PITCH], sunk[..., 1], trembling[:, ::2, cheetah.JOINT_RATES :] = np.pi, -0.3, 0.1
    found = [measure_steps(Trajectories(each, actions), cheetah.CHEETAH) for each in (turned, sunk, trembling)]
    assert [one["upside_down"] for one in found] == [1.0, 0.0, 0.0]
    assert [one["tilted"] for one in found] == [1.0, 0.0, 0.0]
    assert found[1]["below_ground"] == 1.0
    assert found[2]["below_ground"] == 0.0
    np.testing.assert_allclose([one["jerk"] for one in found], [0, 0, 0.2 * cheetah.HZ**2], rtol=1e-4)
