"""The support of demonstrations: what leaves it, what stays, and what it is measured on."""

from __future__ import annotations

import numpy as np
import pytest
from realism_helpers import HELD_OUT, OTHERS, TEST, TRAIN, broken, circling, cut, shaken, with_garbage

from poise import Trajectories, Writer
from poise.evaluation import support
from poise.evaluation.nearest import nearest_distances
from poise.evaluation.support import Support, Whitening, cut_windows


@pytest.fixture(scope="module")
def court() -> Support:
    return Support.fit(TRAIN, HELD_OUT)


@pytest.mark.parametrize("demonstrations", [TEST, OTHERS], ids=["test", "others"])
def test_one_of_a_hundred_demonstrations_is_off_support(court, demonstrations):
    assert 0.001 < court.off(demonstrations).mean() < 0.025


def test_one_of_a_hundred_held_out_demonstrations_is_off_support_exactly(court):
    assert court.off(HELD_OUT).sum() == 9  # 99 % of 1,001, rounded up, are not


def test_shaken_demonstrations_are_off_support(court):
    assert court.off(shaken(TEST)).mean() > 0.95


def test_motion_that_does_not_belong_to_its_place_is_off_support(court):
    """The same places and the same motions as demonstrations, but not together."""
    order = np.argsort(np.asarray(TEST.states)[:, :, 0].mean(axis=1))
    near, far = TEST[order[:300]], TEST[order[-300:]]
    swapped = Trajectories(near.states, far.actions)
    assert court.off(swapped).mean() > 5 * court.off(TEST).mean()


def test_unnatural_turns_are_off_support(court):
    assert court.off(circling(TEST)).mean() > 0.3


def test_a_glitch_of_one_step_is_off_support(court):
    states = np.array(TEST.states)
    states[:, -2] += [3.0, -3.0]  # in the last window
    assert court.off(Trajectories(states)).mean() > 0.9


def test_rollouts_that_become_nan_or_infinite_are_off_support(court):
    assert court.off(broken(TEST, slice(0, 10)))[:10].all()
    far = np.array(TEST.states)
    far[:5, 4:] = 1e30
    assert court.off(Trajectories(far))[:5].all()
    np.testing.assert_array_equal(court.off(broken(TEST, slice(0, 10)))[10:], court.off(TEST)[10:])


def test_padding_does_not_matter(court):
    short = cut(TEST)
    np.testing.assert_array_equal(court.statistic(with_garbage(short)), court.statistic(short))
    wide = with_garbage(cut(TRAIN)), with_garbage(cut(HELD_OUT))
    narrow = Support.fit(cut(TRAIN), cut(HELD_OUT))
    assert Support.fit(*wide).threshold == narrow.threshold
    windows = 1 + -(-np.maximum(0, cut(TRAIN).lengths - 8) // 4)
    assert len(narrow.known) == windows.sum()  # none is known twice


def test_the_windows_of_a_trajectory_cover_it_and_nothing_else():
    numbers = np.arange(1, 14, dtype=np.float32)
    rows = Trajectories(np.zeros((3, 14, 1)), np.tile(numbers[:, None], (3, 1, 1)), lengths=[13, 9, 3])
    places, motions, repeated = cut_windows(rows, 8)
    assert places.shape == (3, 3, 1)
    assert motions[0, :, [0, -1]].T.tolist() == [[1, 8], [5, 12], [6, 13]]
    assert motions[1, ~repeated[1]].tolist() == [list(range(1, 9)), list(range(2, 10))]
    assert motions[2, ~repeated[2]].tolist() == [[1, 2, 3, 0, 0, 0, 0, 0]]


def test_long_trajectories_are_covered_by_windows_that_do_not_overlap():
    rows = Trajectories(np.zeros((1, 204, 1)), np.arange(203, dtype=np.float32)[None, :, None])
    _, motions, repeated = cut_windows(rows, 8)
    assert set(motions[0].reshape(-1).tolist()) == set(range(203))
    assert motions.shape[1] == 26
    assert not repeated.any()


def test_whitened_numbers_are_uncorrelated_and_a_constant_one_keeps_its_units():
    random = np.random.default_rng(0)
    values = random.normal(size=(2000, 3)).astype(np.float32) @ random.normal(size=(3, 3)).astype(np.float32)
    whitening = Whitening.fit(np.concatenate([values, np.full((2000, 1), 7.0, np.float32)], axis=1))
    seen = whitening(np.concatenate([values, np.full((2000, 1), 7.0, np.float32)], axis=1))
    assert np.isfinite(seen).all()
    varying = np.cov(seen.T)[np.ix_(seen.std(axis=0) > 1e-3, seen.std(axis=0) > 1e-3)]
    np.testing.assert_allclose(varying - np.diag(np.diag(varying)), 0, atol=0.02)


def test_any_size_of_state_and_action_works_and_few_demonstrations_do():
    random = np.random.default_rng(0)
    made = [Trajectories(random.normal(size=(n, 7, 18)), random.normal(size=(n, 6, 6))) for n in (20, 2, 30)]
    fitted = Support.fit(made[0], made[1])
    assert fitted.held_out == 2
    assert not fitted.off(made[1]).any()  # of two demonstrations, none can be one of a hundred
    assert fitted.off(made[2]).mean() < 0.9
    far = Trajectories(made[2].states + np.float32(20), made[2].actions)
    assert fitted.off(far).all()


def test_demonstrations_on_disk_give_the_same_support_and_a_sample_of_them_is_read(court, tmp_path, monkeypatch):
    with Writer(tmp_path / "train") as out:
        out.add(TRAIN)
    stored = Trajectories.load(tmp_path / "train")
    assert stored.on_disk()
    assert Support.fit(stored, HELD_OUT).threshold == court.threshold
    monkeypatch.setattr(support, "KNOWN_ROWS", 40)
    assert len(Support.fit(stored, HELD_OUT).known) == 40 * 5


def test_nearest_distances_are_those_by_hand():
    random = np.random.default_rng(0)
    known, queries = (30 + random.normal(size=(count, 5)).astype(np.float32) for count in (300, 1500))
    queries[:200], queries[200] = known[100:], np.nan
    found = nearest_distances(queries, known)
    by_hand = np.linalg.norm(queries[201:, None] - known, axis=2).min(axis=1)
    np.testing.assert_allclose(found[201:], by_hand, atol=2e-3)
    assert (found[:200] == 0).all()
    assert np.isnan(found[200])
