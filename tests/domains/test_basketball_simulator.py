"""Simulated possessions are reproducible, stay on the court, and move as players do."""

import numpy as np
import pytest

from poise.domains.basketball_simulator import BLOCK, RIM, simulate_possessions


@pytest.fixture(scope="module")
def states():
    return simulate_possessions(8192, seed=0)


def test_positions_are_finite_float32_of_the_requested_shape(states):
    assert states.shape == (8192, 25, 2)
    assert states.dtype == np.float32
    assert np.isfinite(states).all()
    assert simulate_possessions(7, steps=5).shape == (7, 6, 2)
    assert simulate_possessions(0).shape == (0, 25, 2)


def test_the_seed_determines_the_result():
    assert np.array_equal(simulate_possessions(50, seed=0), simulate_possessions(50, seed=0))
    assert not np.array_equal(simulate_possessions(50, seed=0), simulate_possessions(50, seed=1))


def test_a_row_does_not_depend_on_the_count(states):
    assert np.array_equal(simulate_possessions(BLOCK + 3), states[: BLOCK + 3])


def test_players_stay_on_the_half_court(states):
    assert (states >= 0).all()
    assert (states <= [47, 50]).all()
    on_a_line = ((states == 0) | (states == [47, 50])).any(axis=-1)
    assert on_a_line.mean() < 0.002  # they turn before the lines


def test_speeds_and_accelerations_are_human(states):
    velocity = np.diff(states, axis=1) * 3
    acceleration = np.linalg.norm(np.diff(velocity, axis=1) * 3, axis=-1)
    assert np.linalg.norm(velocity, axis=-1).max() < 23  # ft/s: the fastest step of a real season is 22.9
    assert np.percentile(acceleration, 99.9) < 20  # ft/s^2


def test_medians_are_those_of_real_players(states):
    steps = np.diff(states, axis=1)
    heading = np.arctan2(steps[..., 1], steps[..., 0])
    turns = np.abs((np.diff(heading, axis=1) + np.pi) % (2 * np.pi) - np.pi)
    medians = {
        "speed": np.median(np.linalg.norm(steps, axis=-1).mean(axis=1) * 3),
        "displacement": np.median(np.linalg.norm(states[:, -1] - states[:, 0], axis=-1)),
        "destination": np.median(np.linalg.norm(states[:, -1] - RIM, axis=-1)),
        "curvature": np.median(turns.mean(axis=1)),
    }
    assert medians == pytest.approx(
        {"speed": 4.7, "displacement": 16.9, "destination": 22.6, "curvature": 0.43}, rel=0.1
    )
