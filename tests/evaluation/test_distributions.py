"""Distances of distributions: what each of them notices, and their floor."""

from __future__ import annotations

import numpy as np
import pytest
from realism_helpers import COURT, OTHERS, TEST, broken, circling, cut, delayed, mirrored, moved, shaken, with_garbage

from poise import Scene, Trajectories
from poise.domains import Domain, integrator
from poise.domains.cheetah import CHEETAH
from poise.evaluation.distributions import Distribution, Distributions, describe, has_geometry

NAMES = ["speed", "acceleration", "jerk", "turning", "x", "y"]


@pytest.fixture(scope="module")
def court() -> Distributions:
    return Distributions.fit(TEST, COURT)


def test_the_same_law_is_as_near_as_two_halves_of_the_demonstrations(court):
    found = court.distances(OTHERS)
    assert list(found) == list(court.floor) == NAMES
    assert max(court.floor.values()) < 0.15
    assert all(found[name] < 0.1 for name in NAMES)
    assert set(court.distances(TEST).values()) == {0.0}


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (shaken, {"speed", "acceleration", "jerk", "turning"}),
        (delayed, {"speed", "acceleration", "jerk"}),
        (mirrored, {"x"}),
        (circling, {"turning", "acceleration", "jerk"}),
        (lambda rollouts: moved(np.asarray(rollouts.states) + np.array([0, 20], np.float32)), {"y"}),
    ],
    ids=["shaken", "delayed", "mirrored", "circling", "shifted"],
)
def test_each_change_is_noticed_where_it_should_be(court, change, noticed):
    found = court.distances(change(OTHERS))
    assert all(found[name] > 0.15 for name in noticed)
    if noticed <= {"x", "y"}:  # a mirrored or shifted player moves as before
        assert all(found[name] < 0.1 for name in set(NAMES) - noticed)


def test_the_distance_of_normal_distributions_by_hand():
    """W1 of N(0, 1) and N(m, 1) is m; of N(0, 1) and N(0, s) it is |s - 1| times the mean of |x|."""
    random = np.random.default_rng(0)
    normal = Distribution.of(2 * random.normal(size=100_000))
    assert normal.distance(2 * random.normal(size=50_000) + 1) == pytest.approx(0.5, abs=0.02)
    assert normal.distance(4 * random.normal(size=50_000)) == pytest.approx(np.sqrt(2 / np.pi), abs=0.02)
    assert np.isnan(normal.distance(np.zeros(0)))
    assert Distribution.of(np.ones(5)).distance(3 * np.ones(7)) == 2  # a constant has no deviation


def test_what_is_described_by_hand():
    east, north, rest = [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]
    walk = Trajectories(np.cumsum([[rest, east, north, north, rest, north, east]], axis=1))
    found = {name: values.tolist() for name, values in describe(walk, COURT).items()}
    assert found["speed"] == [1, 1, 1, 0, 1, 1]
    assert found["turning"] == pytest.approx([np.pi / 2, 0, -np.pi / 2])  # left, straight, right; a pause is no turn
    assert found["acceleration"] == pytest.approx([2**0.5, 0, 1, 1, 2**0.5])
    assert found["jerk"] == pytest.approx([2**0.5, 1, 2, 5**0.5])
    assert found["x"] == [1, 1, 1, 1, 1, 2]


def test_padding_and_rollouts_that_become_nan_do_not_matter(court):
    short = cut(OTHERS)
    assert court.distances(with_garbage(short)) == court.distances(short)
    assert Distributions.fit(with_garbage(short), COURT).floor == Distributions.fit(short, COURT).floor
    rest = court.distances(broken(OTHERS, slice(0, 100)))
    assert rest == pytest.approx(court.distances(OTHERS), abs=0.03)


def test_without_geometry_each_number_is_compared():
    random = np.random.default_rng(0)
    made = Trajectories(random.normal(size=(50, 4, 3)), random.normal(size=(50, 3, 2)))
    found = Distributions.fit(made, Domain("numbers"))
    names = ["state 0", "state 1", "state 2", "action change 0", "action change 1"]
    assert list(found.floor) == names
    other = Trajectories(made.states + np.array([0, 3, 0], np.float32), made.actions)
    distances = found.distances(other)
    assert distances["state 1"] == pytest.approx(3, abs=0.3)
    assert distances["state 0"] == distances["action change 0"] == 0


def test_trajectories_of_one_step_have_no_acceleration():
    found = Distributions.fit(Trajectories(np.random.default_rng(0).normal(size=(30, 2, 2))), COURT)
    assert list(found.floor) == ["speed", "x", "y"]


def test_only_a_position_in_the_plane_has_geometry():
    assert has_geometry(COURT)
    assert has_geometry(Domain("walks", dynamics=integrator))
    assert has_geometry(Domain("measured", scene=Scene(unit="m")))
    assert not has_geometry(Domain("one number", dynamics=integrator, scene=Scene(columns=(0, 0))))
    assert not has_geometry(Domain("unknown"))
    assert not has_geometry(CHEETAH)  # a body, of which two columns are where it is
