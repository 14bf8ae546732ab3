"""Variety: rollouts of one request differ as demonstrations do, and are not copies of them."""

from __future__ import annotations

import numpy as np
import pytest
from realism_helpers import OTHERS, TEST, TRAIN, broken, cut, with_garbage

from poise import Trajectories
from poise.evaluation import variety
from poise.evaluation.variety import Variety

REQUESTS, REPEATS = 60, 6


def wandering(rows: int, side: np.ndarray, starts: np.ndarray, seed: int) -> Trajectories:
    """Walks from these starts to the left (0) or to the right (1)."""
    random = np.random.default_rng(seed)
    steps = random.normal(size=(rows, 8, 2)) + np.stack([2.0 * side - 1, 0 * side], axis=-1)[:, None]
    return Trajectories(np.concatenate([starts[:, None], starts[:, None] + steps.cumsum(axis=1)], axis=1))


SIDES = np.random.default_rng(0).integers(2, size=2_000)
WALKS = wandering(2_000, SIDES, np.random.default_rng(1).uniform(0, 10, size=(2_000, 2)), 2)
ASKED = np.repeat(np.arange(REQUESTS), REPEATS)
LABELS = (ASKED % 2)[:, None]
STARTS = np.random.default_rng(3).uniform(1, 9, size=(REQUESTS, 2))[ASKED]
KNOWN = Variety.fit(WALKS, SIDES[:, None])


@pytest.fixture(scope="module")
def court() -> Variety:
    return Variety.fit(TRAIN)


def test_rollouts_of_the_demonstrations_law_have_diversity_one():
    made = wandering(len(ASKED), LABELS[:, 0], STARTS, 4)
    assert KNOWN.diversity(made, ASKED, LABELS) == pytest.approx(1, abs=0.08)


def test_one_repeated_rollout_has_diversity_zero():
    made = wandering(len(ASKED), LABELS[:, 0], STARTS, 4)
    assert KNOWN.diversity(made[ASKED * REPEATS], ASKED, LABELS) == 0


def test_rollouts_that_ignore_the_label_are_more_diverse_than_demonstrations_with_it():
    random = np.random.default_rng(5)
    made = wandering(len(ASKED), random.integers(2, size=len(ASKED)), STARTS, 4)
    found = KNOWN.diversity(made, ASKED, LABELS)
    assert found is not None
    assert found > 1.3
    assert KNOWN.diversity(made, ASKED) == pytest.approx(1, abs=0.1)  # as demonstrations of any label
    assert KNOWN.diversity(made, ASKED, np.full_like(LABELS, -1)) == KNOWN.diversity(made, ASKED)  # left free


def test_a_style_that_is_left_free_is_not_compared():
    other = np.random.default_rng(6).integers(5, size=len(WALKS))
    known = Variety.fit(WALKS, np.stack([SIDES, other], axis=1))
    made = wandering(len(ASKED), LABELS[:, 0], STARTS, 4)
    asked = np.concatenate([LABELS, np.full_like(LABELS, -1)], axis=1)
    assert known.diversity(made, ASKED, asked) == KNOWN.diversity(made, ASKED, LABELS)


def test_demonstrations_that_start_far_from_each_other_do_not_seem_diverse():
    """One hundred demonstrations on a field that is a hundred times as wide as a walk."""
    sides, far = SIDES[:100], np.random.default_rng(7).uniform(0, 300, size=(100, 2))
    known = Variety.fit(wandering(100, sides, far, 2), sides[:, None])
    made = wandering(len(ASKED), LABELS[:, 0], 30 * STARTS, 4)
    assert known.diversity(made, ASKED, LABELS) == pytest.approx(1, abs=0.15)


def test_labels_that_too_few_demonstrations_have_are_left_out():
    made = wandering(len(ASKED), LABELS[:, 0], STARTS, 4)
    assert KNOWN.diversity(made, ASKED, np.full_like(LABELS, 7)) == KNOWN.diversity(made, ASKED)


def test_single_rollouts_have_no_diversity():
    assert KNOWN.diversity(WALKS[:50], np.arange(50)) is None


def test_possessions_of_other_seeds_are_as_diverse_as_those_that_start_nearby(court):
    """The rollouts of a request are possessions that start near each other, as good ones would be."""
    others = Variety.fit(OTHERS)
    rows = np.concatenate([others._nearest_starts(start, 4, None) for start in np.asarray(TEST.starts)[:100]])
    assert court.diversity(others.known[rows], np.repeat(np.arange(100), 4)) == pytest.approx(1, abs=0.1)


def test_new_possessions_are_as_new_as_test_demonstrations(court):
    assert court.novelty(OTHERS) / court.novelty(TEST) == pytest.approx(1, abs=0.1)


def test_copies_have_no_novelty_wherever_they_start(court):
    copies = TRAIN[::3]
    assert court.novelty(copies) == 0
    elsewhere = Trajectories(np.asarray(copies.states) + np.array([1, -2], np.float32), copies.actions)
    assert court.novelty(elsewhere) == 0
    barely = Trajectories(copies.states, np.asarray(copies.actions) * np.float32(1.05))
    assert 0 < court.novelty(barely) < 0.5 * court.novelty(TEST)


def test_padding_and_rollouts_that_become_nan_do_not_matter(court):
    short = cut(OTHERS)
    assert court.novelty(with_garbage(short)) == court.novelty(short)
    assert court.novelty(with_garbage(cut(TRAIN))) > 0
    assert Variety.fit(cut(TRAIN)).novelty(with_garbage(cut(TRAIN))) == 0
    requests = np.arange(len(short)) // 4
    assert court.diversity(with_garbage(short), requests) == court.diversity(short, requests)
    half = broken(OTHERS, slice(None, None, 2))
    assert np.isfinite(court.novelty(half))
    kept = np.arange(1, len(OTHERS), 2)
    assert court.diversity(half, requests) == pytest.approx(court.diversity(OTHERS[kept], requests[kept]))
    assert np.isnan(court.novelty(broken(OTHERS, slice(None))))


def test_a_sample_of_demonstrations_is_known_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(variety, "KNOWN_NUMBERS", 100 * 24 * 4)
    found = Variety.fit(TRAIN, np.arange(len(TRAIN))[:, None])
    assert len(found.known) == 100
    assert found.labels is not None
    rows = found.labels[:, 0]
    np.testing.assert_array_equal(found.known.states, np.asarray(TRAIN.states)[rows])
