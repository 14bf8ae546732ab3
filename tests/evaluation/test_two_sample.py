"""The classifier two-sample test: what it recognises, what it does not, and what it never learns from."""

from __future__ import annotations

import numpy as np
import pytest
from realism_helpers import OTHERS, TEST, TINY, broken, cut, delayed, mirrored, shaken, with_garbage

from poise import PoiseError
from poise.evaluation import two_sample
from poise.evaluation.two_sample import TwoSample, c2st, floor, split_groups


@pytest.fixture(scope="module")
def found() -> dict[str, TwoSample]:
    """The test of several sets of rollouts against the same demonstrations, by name."""
    sets = {
        "same law": OTHERS,
        "shaken": shaken(OTHERS),
        "delayed": delayed(OTHERS),
        "mirrored": mirrored(OTHERS),
        "half NaN": broken(OTHERS, slice(None, None, 2)),
        "cut": cut(OTHERS),
        "cut, with garbage": with_garbage(cut(OTHERS)),
    }
    return dict(zip(sets, c2st(TEST, list(sets.values()), size=TINY), strict=True))


def test_rollouts_of_the_same_law_are_not_recognised(found):
    low, high = found["same law"].interval
    assert low <= 0.5 <= high
    assert found["same law"].rows == TINY.rows


@pytest.mark.parametrize("name", ["shaken", "delayed", "mirrored", "cut"])
def test_rollouts_of_another_law_are_recognised(found, name):
    assert found[name].interval[0] > 0.6


def test_rollouts_that_become_nan_count_as_recognised(found):
    """Half of the rollouts are NaN; of the other trajectories, half are recognised by chance."""
    assert 0.6 < found["half NaN"].accuracy < 0.85


def test_padding_does_not_matter(found):
    assert found["cut, with garbage"] == found["cut"]


def test_a_result_does_not_depend_on_the_other_sets(found):
    alone = c2st(TEST, [shaken(OTHERS)], size=TINY)[0]
    assert alone.accuracy == pytest.approx(found["shaken"].accuracy, abs=0.02)


def test_demonstrations_are_not_told_from_demonstrations():
    result = floor(TEST, size=TINY)
    assert result.interval[0] <= 0.5 <= result.interval[1]


class Spy:
    """Stands in for the classifiers, and remembers what they were to learn from."""

    def __call__(self, sets, task, size):
        self.sets, self.learned = sets, np.asarray(task.order)[: int(task.learns)]
        return np.zeros((len(sets), len(task.order)))


@pytest.fixture
def spy(monkeypatch) -> Spy:
    made = Spy()
    monkeypatch.setattr(two_sample, "_logits", made)
    return made


@pytest.mark.parametrize(
    "compare",
    [lambda g: c2st(TEST, [OTHERS], groups=g, size=TINY), lambda g: floor(TEST, groups=g, size=TINY)],
    ids=["c2st", "floor"],
)
def test_a_group_is_learned_from_or_judged_but_never_both(spy, monkeypatch, compare):
    given = {}

    def split(groups, random):
        given["learned"] = split_groups(groups, random)
        given["groups"] = groups
        return given["learned"]

    monkeypatch.setattr(two_sample, "split_groups", split)
    compare(np.arange(len(TEST)) % 7)
    learned, groups = given["learned"], given["groups"]
    assert not set(groups[learned]) & set(groups[~learned])
    rows = len(groups)
    both = np.concatenate([np.flatnonzero(learned), rows + np.flatnonzero(learned)])
    assert set(spy.learned.tolist()) == set(both.tolist())  # of demonstrations and of rollouts alike
    assert 0.25 < learned.mean() < 0.75


def test_the_floor_says_how_few_rows_it_has(spy):
    assert floor(TEST[np.arange(101)], size=TINY).rows == 50
    assert floor(TEST[np.arange(101)], groups=np.arange(101) // 3, size=TINY).rows < 50  # pairs are of one group
    assert floor(TEST, size=TINY).rows == TINY.rows


def test_a_demonstration_and_its_rollout_are_in_the_same_half(spy):
    c2st(TEST, [OTHERS], size=TINY)
    demonstrations = spy.learned[spy.learned < TINY.rows]
    np.testing.assert_array_equal(np.sort(spy.learned[spy.learned >= TINY.rows]), np.sort(demonstrations) + TINY.rows)
    assert len(demonstrations) == TINY.rows // 2


def test_long_trajectories_are_read_several_steps_at_a_time_without_loss(spy):
    c2st(TEST, [OTHERS], size=TINY)
    assert spy.sets[0].steps.shape == (2 * TINY.rows, 12, 2 * 4)
    natural, made = np.split(spy.sets[0].steps.reshape(2 * TINY.rows, 24, 4), 2)
    assert np.abs(natural.mean(axis=(0, 1))).max() < 1e-3
    assert natural.std(axis=(0, 1)) == pytest.approx(1, abs=1e-3)
    assert not np.array_equal(natural, made)


def test_one_group_cannot_be_split():
    with pytest.raises(PoiseError, match="at least 2 groups, one for each half; got 1"):
        c2st(TEST, [OTHERS], groups=np.zeros(len(TEST), int), size=TINY)


def test_sets_of_another_number_of_rows_are_refused():
    with pytest.raises(PoiseError, match="got 1000 and 999"):
        c2st(TEST, [OTHERS[:999]], size=TINY)
