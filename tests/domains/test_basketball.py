import numpy as np
import pytest

from poise import DOMAINS, Trajectories
from poise.domains.basketball import demonstrations

BASKETBALL = DOMAINS["basketball"]


def score(name, *positions):
    return float(BASKETBALL.styles[name].scores(Trajectories(np.asarray([positions], np.float32)))[0])


def test_speed_is_in_feet_per_second():
    assert score("speed", (0, 0), (3, 4), (3, 4)) == pytest.approx(3 * (5 + 0) / 2)


def test_displacement_runs_from_first_to_last():
    assert score("displacement", (1, 1), (9, 9), (4, 5)) == pytest.approx(5)


def test_destination_is_the_distance_from_the_rim():
    assert score("destination", (0, 0), (5.25 + 6, 25 + 8)) == pytest.approx(10)


def test_direction_is_the_angle_of_the_displacement():
    assert score("direction", (0, 0), (1, 0), (2, 0)) == pytest.approx(0)
    assert score("direction", (0, 0), (5, 1), (0, 2)) == pytest.approx(np.pi / 2)
    assert score("direction", (0, 0), (0, -3)) == pytest.approx(-np.pi / 2)


def test_curvature_is_the_mean_turn_and_wraps_around():
    square = [(0, 0), (1, 0), (1, 1), (0, 1)]
    assert score("curvature", *square) == pytest.approx(np.pi / 2)
    # from just left to just right of straight back: a small turn, not a full circle
    assert score("curvature", (0, 0), (-1, 0.1), (-2, 0)) == pytest.approx(2 * np.arctan(0.1), rel=1e-4)


def test_standing_still_has_a_score_in_every_style():
    still = [(10, 10)] * 4
    assert score("speed", *still) == score("displacement", *still) == 0
    assert score("direction", *still) == score("curvature", *still) == 0
    assert score("destination", *still) == pytest.approx(np.hypot(4.75, 15))


def test_a_pause_is_not_a_turn():
    assert score("curvature", (0, 0), (1, 0), (1, 0), (1, 1)) == 0


def test_a_single_step_has_no_curvature():
    assert score("curvature", (0, 0), (1, 0)) == 0


def test_demonstrations_are_the_same_for_the_same_seed():
    one, two, other = (demonstrations(50, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.states, two.states)
    assert not np.array_equal(one.states, other.states)
    assert one.steps == 24
