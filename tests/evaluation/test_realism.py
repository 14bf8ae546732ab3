"""Realism: all measures of several sets of rollouts, against a reference that is fitted once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from realism_helpers import (
    COURT,
    HELD_OUT,
    OTHERS,
    TEST,
    TINY,
    TRAIN,
    broken,
    cut,
    delayed,
    mirrored,
    shaken,
    with_garbage,
)

from poise import Splits, Trajectories
from poise.evaluation import realism
from poise.evaluation.realism import Realism, Reference, RolloutSet
from poise.evaluation.two_sample import FULL, SMALL, TwoSample

COUNT = len(TEST)
ROWS, RIGHT = np.arange(COUNT), np.ones(COUNT, bool)
MEASURES = ["c2st", "c2st_interval", "out_of_range", "off_support", "yield", "distances", "distance_floor"]
MEASURES += ["measures", "measures_of_demonstrations", "diversity", "novelty", "novelty_of_demonstrations"]


@pytest.fixture(scope="module")
def court() -> Reference:
    return Reference.fit(Splits(TRAIN, HELD_OUT, TEST), COURT, size=TINY)


@pytest.fixture(scope="module")
def found(court) -> dict[str, Realism]:
    """The realism of several policies, measured at once."""
    half = np.where(ROWS % 2, 0, ROWS)  # one demonstration is repeated for every other row
    sets = {
        "ideal": RolloutSet(OTHERS, RIGHT, ROWS),
        "ignores labels": RolloutSet(OTHERS, ROWS % 4 == 0, ROWS),
        "shaken": RolloutSet(shaken(OTHERS), RIGHT, ROWS),
        "delayed": RolloutSet(delayed(OTHERS), RIGHT, ROWS),
        "mirrored": RolloutSet(mirrored(OTHERS), RIGHT, ROWS),
        "a copier": RolloutSet(TRAIN[ROWS], RIGHT, ROWS),
        "repeats one": RolloutSet(OTHERS[half], RIGHT, ROWS),
    }
    return dict(zip(sets, court.measure(list(sets.values())), strict=True))


def test_an_ideal_policy_passes_for_the_demonstrations(found):
    ideal = found["ideal"]
    low, high = ideal.c2st_interval
    assert low <= 0.5 <= high
    assert 0.002 < ideal.off_support < 0.025
    assert ideal.out_of_range < 0.03
    assert ideal.yield_ == pytest.approx(1 - ideal.off_support)
    assert ideal.novelty_ratio == pytest.approx(1, abs=0.1)
    assert max(ideal.distances.values()) < 0.1 + max(ideal.distance_floor.values())
    assert ideal.diversity is None  # no row has two rollouts


def test_a_policy_that_ignores_labels_looks_as_real_but_yields_less(found):
    ignores, ideal = found["ignores labels"], found["ideal"]
    assert (ignores.c2st, ignores.off_support) == (ideal.c2st, ideal.off_support)
    assert ignores.yield_ == pytest.approx(0.25, abs=0.01)


def test_each_fault_is_noticed_by_the_measures_that_it_concerns(found):
    ideal, shaken, delayed, mirrored = (found[name] for name in ("ideal", "shaken", "delayed", "mirrored"))
    assert min(policy.c2st_interval[0] for policy in (shaken, delayed, mirrored)) > 0.6
    assert shaken.off_support > 0.95
    assert shaken.yield_ < 0.05
    assert shaken.distances["jerk"] > 1
    assert shaken.distances["acceleration"] > 1
    assert delayed.distances["speed"] > 0.15
    assert mirrored.distances["x"] > 0.15
    assert mirrored.off_support > ideal.off_support


def test_a_copier_looks_real_but_is_not_new(found):
    copier = found["a copier"]
    assert copier.novelty == copier.novelty_ratio == 0
    assert copier.c2st_interval[0] <= 0.5 <= copier.c2st_interval[1]


def test_a_policy_that_repeats_one_rollout_is_recognised(found):
    assert found["repeats one"].c2st_interval[0] > 0.6


def test_rollouts_that_share_a_row_have_diversity_and_count_once_in_a_two_sample_test(court, monkeypatch):
    tested = {}

    def spy(demonstrations, several, groups, size, seed):
        tested["demonstrations"], tested["several"] = demonstrations, several
        return [TwoSample(0.5, (0.4, 0.6), len(demonstrations)) for _ in several]

    monkeypatch.setattr(realism, "c2st", spy)
    rows = np.repeat(np.arange(100), 4)
    one = RolloutSet(OTHERS[rows], np.ones(400, bool), rows)
    labelled = Trajectories(OTHERS.states[:400], metadata={"labels": np.arange(400)[:, None] % 2})
    first, second = court.measure([one, RolloutSet(labelled, np.ones(400, bool), rows)])
    assert first.diversity == 0
    assert second.diversity > 0.5
    np.testing.assert_array_equal(tested["demonstrations"].states, np.asarray(TEST.states)[:100])
    np.testing.assert_array_equal(tested["several"][1].states, np.asarray(OTHERS.states)[:400:4])


def test_rollouts_of_the_same_row_with_other_labels_are_other_requests(court):
    rows, labels = np.repeat(np.arange(10), 2), np.tile([0, 1], 10)[:, None]  # fewer rows than a two-sample test needs
    made = Trajectories(OTHERS.states[:20], metadata={"labels": labels})
    found = court.measure([RolloutSet(made, np.ones(20, bool), rows)])[0]
    assert found.diversity is None
    assert found.c2st is None


def test_sets_of_different_rows_are_compared_with_their_own_demonstrations(court, monkeypatch):
    tested = []

    def spy(demonstrations, several, groups, size, seed):
        tested.append((demonstrations.starts.tolist(), len(several)))
        return [TwoSample(0.5, (0.4, 0.6), len(demonstrations)) for _ in several]

    monkeypatch.setattr(realism, "c2st", spy)
    rows = np.arange(100, 300)[::-1]
    other = RolloutSet(TEST[rows], RIGHT[:200], rows)
    court.measure([RolloutSet(OTHERS, RIGHT, ROWS), other, RolloutSet(OTHERS, RIGHT, ROWS)])
    assert [count for _, count in tested] == [2, 1]
    np.testing.assert_array_equal(tested[1][0], TEST.starts[100:300])


def test_rollouts_that_become_nan_are_recognised_off_support_and_out_of_range_however_they_are_given(court):
    bad = ROWS % 2 == 0
    as_nan = RolloutSet(broken(OTHERS, bad), ~bad, ROWS)
    zeros = np.where(bad[:, None, None], np.float32(0), np.asarray(OTHERS.states))
    as_zeros = RolloutSet(Trajectories(zeros), ~bad, ROWS, ~bad)
    first, second = court.measure([as_nan, as_zeros])
    assert first == second
    assert first.off_support > 0.5
    assert first.out_of_range >= 0.5
    assert 0.6 < first.c2st < 0.85
    assert np.isfinite([*first.distances.values(), first.novelty]).all()


def test_nothing_but_nan_is_measured_too(court):
    found = court.measure([(broken(OTHERS, slice(None)), ~RIGHT, ROWS)])[0]
    assert found.off_support == found.out_of_range == 1
    assert found.yield_ == 0
    assert found.c2st > 0.7
    assert found.to_json()["novelty"] is None
    assert set(found.to_json()["distances"].values()) == {None}


def test_padding_does_not_matter(court):
    short = cut(OTHERS)
    first, second = court.measure([(short, RIGHT, ROWS), (with_garbage(short), RIGHT, ROWS)])
    assert first == second


def test_groups_reach_the_two_sample_tests(monkeypatch):
    seen = {}

    def spy(demonstrations, several, groups, size, seed):
        seen["groups"] = groups
        return [TwoSample(0.5, (0.4, 0.6), len(demonstrations)) for _ in several]

    monkeypatch.setattr(realism, "c2st", spy)
    games = np.arange(COUNT) // 50
    court = Reference.fit(Splits(TRAIN, HELD_OUT, TEST), COURT, groups=games, size=TINY)
    rows = np.arange(500, 700)
    court.measure([(TEST[rows], RIGHT[:200], rows)])
    np.testing.assert_array_equal(seen["groups"], games[rows])
    alone = np.arange(50)  # of one game, which cannot be split
    assert court.measure([(TEST[alone], RIGHT[:50], alone)])[0].c2st is None


def test_rows_that_are_all_drawn_from_one_group_have_no_two_sample_test():
    """A second group is there, but its only row is none of those that take part."""
    games = np.zeros(COUNT, int)
    games[np.random.default_rng(0).permutation(COUNT)[TINY.rows]] = 1
    court = Reference.fit(Splits(TRAIN, HELD_OUT, TEST), COURT, groups=games, size=TINY)
    found = court.measure([RolloutSet(OTHERS, RIGHT, ROWS)])[0]
    assert found.c2st is None
    assert found.out_of_range is not None


def test_a_small_test_set_has_no_two_sample_floor():
    few = Reference.fit(Splits(TRAIN, HELD_OUT, TEST[:30]), COURT, size=TINY)
    assert few.floor() is None
    assert few.about()["c2st_floor"] is None
    one = Reference.fit(Splits(TRAIN, HELD_OUT, TEST), COURT, groups=np.zeros(COUNT, int), size=TINY)
    assert one.floor() is None


def test_what_rollouts_are_compared_with_is_written(court):
    about = json.loads(json.dumps(court.about()))
    assert about["c2st_floor_interval"][0] <= 0.5 <= about["c2st_floor_interval"][1]
    assert about["c2st_floor_rows"] == TINY.rows
    assert about["classifier"]["hidden"] == TINY.hidden
    assert about["support_held_out"] == len(HELD_OUT)
    assert about["novelty_of_demonstrations"] > 0


def test_results_are_plain_numbers_of_four_digits(found):
    written = found["shaken"].to_json()
    assert list(written) == MEASURES
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["yield"] == float(f"{found['shaken'].yield_:.4g}")
    assert written["distances"]["jerk"] == float(f"{found['shaken'].distances['jerk']:.4g}")
    nothing = Realism()
    assert {value for value in nothing.to_json().values() if not isinstance(value, dict)} == {None}
    assert nothing.novelty_ratio is None


def test_the_classifier_is_small_on_a_cpu():
    fitted = Reference.fit(Splits(TRAIN, HELD_OUT, TEST), COURT)
    assert fitted.size == vars(realism)["SMALL"]  # which tests make tiny
    assert SMALL.rows < FULL.rows
    assert (FULL.rows, FULL.hidden, FULL.steps, FULL.batch, FULL.rate) == (4_000, 128, 1_500, 128, 1e-3)
