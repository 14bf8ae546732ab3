"""The closed loop on the host: what it records, which dtype it keeps, and which environments it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from poise import PoiseError
from poise.domains.loop import closed_loop

STARTS = np.arange(6, dtype=np.float32).reshape(3, 2)


def still(step: int, states: np.ndarray) -> np.ndarray:
    return np.zeros((len(states), 1), np.float32)


def test_states_follow_the_actions_of_a_policy_that_sees_them():
    seen = []

    def act(step, states):
        seen.append((step, states.copy()))
        return states * (step + 1)

    states, actions = closed_loop(act, np.add, STARTS, steps=4)
    assert states.shape == (3, 5, 2)
    assert actions.shape == (3, 4, 2)
    np.testing.assert_array_equal(states[:, 0], STARTS)
    np.testing.assert_array_equal(np.diff(states, axis=1), actions)
    assert [step for step, _ in seen] == [0, 1, 2, 3]
    for step, found in seen:
        np.testing.assert_array_equal(found, states[:, step])


def test_double_precision_is_kept():
    dtypes = []

    def transition(states, actions):
        dtypes.append(states.dtype)
        return np.asarray(states, np.float64) + 1e-12

    states, _ = closed_loop(still, transition, STARTS, steps=3)
    assert states.dtype == np.float64
    assert states[0, 3, 0] == 1e-12 + 1e-12 + 1e-12
    assert dtypes == [np.float32, np.float64, np.float64]


def test_single_precision_is_kept():
    assert closed_loop(still, lambda states, actions: states + 1, STARTS, steps=2)[0].dtype == np.float32


def test_an_environment_that_changes_its_arrays_in_place_is_recorded_as_any_other():
    def transition(states, actions):
        states += actions
        actions[:] = 0
        return states

    states, actions = closed_loop(lambda step, states: states + 1, transition, STARTS, steps=3)
    np.testing.assert_array_equal(states[:, 0], STARTS)
    np.testing.assert_array_equal(np.diff(states, axis=1), actions)
    np.testing.assert_array_equal(STARTS, np.arange(6).reshape(3, 2))


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 2), (1, 3, 2)])
def test_states_of_another_shape_are_one_clear_line(shape):
    with pytest.raises(PoiseError) as error:
        closed_loop(still, lambda states, actions: np.zeros(shape), STARTS, steps=2)
    assert str(error.value) == f"the environment must return states of shape [3, 2]; got {list(shape)}"


def test_rollouts_may_become_nan():
    broken = np.array([[np.nan], [1], [np.inf]])
    states, _ = closed_loop(still, lambda states, actions: states + broken, STARTS, steps=2)
    assert np.isfinite(states).all(axis=(1, 2)).tolist() == [False, True, False]
