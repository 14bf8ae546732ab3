"""Feasibility: sampling finds what is within reach, other rollouts judge it, and the nearest request is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
import pytest
from evaluation_helpers import AHEAD, FLAT, LABELS, STYLES, Oracle, rise, side, trained

from poise import labeling_function
from poise.config import Sampling
from poise.evaluation.feasibility import (
    ask_each_class,
    confirm,
    describe_nearest,
    measure_feasibility,
    nearest_feasible,
    neighbours,
)
from poise.evaluation.scored import Known, ScoredRollouts, TrainedSeed
from poise.rollouts.requests import FREE, Request
from poise.styles.label_spaces import SharedSpace
from poise.styles.labeling_functions import label_space

KEY = jax.random.key(0)
TRIES = Sampling(tries=5)


@labeling_function(classes=("near", "middle", "far"), thresholds=(1.0, 2.0))
def destination(states, actions):
    return states[-1, 0]


@labeling_function(classes=("slow", "medium", "fast", "sprint"), thresholds=(1.0, 2.0, 3.0))
def speed(states, actions):
    return abs(actions).mean()


THREE = (destination, speed, rise)


@dataclass(frozen=True)
class Rule(TrainedSeed):
    """A seed that reaches what a rule says of (starts, labels, key), and remembers the requests and keys it got."""

    rule: Callable[..., np.ndarray] = lambda starts, labels, key: np.ones(len(labels), bool)
    calls: list[tuple[Request, Any]] = field(default_factory=list)

    def score_verified(self, request, key, sampling, first=None, in_range=True, named=None):
        self.calls.append((request, key))
        reached = np.asarray(self.rule(np.asarray(request.starts), np.asarray(request.labels), key))
        right = np.repeat(reached[:, None], len(self.styles), axis=1)
        rows = np.zeros(len(request), int)
        tries = np.where(reached, 2, sampling.tries).astype(np.int32)
        return ScoredRollouts(AHEAD[rows], right, np.ones(len(rows), bool), right | True, reached, tries)


def rule(decide: Callable[..., Any], styles: Any = THREE) -> Rule:
    return Rule({}, FLAT, styles, SharedSpace.alone(label_space(styles)), rule=decide)


def ask(labels: Any, starts: Any = None) -> Request:
    labels = np.asarray(labels, np.int32)
    starts = np.arange(2.0 * len(labels), dtype=np.float32).reshape(-1, 2) if starts is None else starts
    return Request(np.asarray(starts, np.float32), labels, np.full(len(labels), 4, np.int32), 4)


class OnlyRight(Oracle):
    """A policy that walks to the right, whatever it is asked for, and up or down as it is asked."""

    def begin(self, labels, lengths, key):
        context, memory = super().begin(labels, lengths, key)
        return context.at[:, 0].set(1.0), memory


KNOWN = Known(np.asarray([[-9.0, -9.0], [9.0, 9.0]], np.float32), (1.0, 1.0), (False, False))
ONLY_RIGHT = replace(trained(OnlyRight()), find_known=lambda: KNOWN)


def test_a_request_is_feasible_where_the_policy_can_show_all_of_its_styles():
    found = measure_feasibility(ONLY_RIGHT, Request.like(AHEAD, LABELS), TRIES, KEY)
    np.testing.assert_array_equal(found.reached, LABELS[:, 0] == 1)
    np.testing.assert_array_equal(found.tries, np.where(LABELS[:, 0] == 1, 1, 5))
    by_class = found.by_class()
    assert (by_class["side"]["left"].share.value, by_class["side"]["right"].share.value) == (0.0, 1.0)
    assert (by_class["side"]["left"].tries, by_class["side"]["right"].tries) == (5.0, 1.0)
    for reach in by_class["rise"].values():
        assert 0.3 < reach.share.value < 0.7


def test_a_request_that_is_only_reached_out_of_range_is_not_feasible():
    near = replace(KNOWN, range=np.asarray([[-9, -9], [2, 9]], np.float32))
    seed, request = replace(ONLY_RIGHT, find_known=lambda: near), Request.like(AHEAD, LABELS)
    assert not measure_feasibility(seed, request, TRIES, KEY).reached.any()
    anywhere = measure_feasibility(seed, request, TRIES, KEY, in_range=False)
    np.testing.assert_array_equal(anywhere.reached, LABELS[:, 0] == 1)
    assert set(anywhere.tries) == {1, 5}


def test_a_style_that_is_left_free_counts_for_none_of_its_classes():
    found = measure_feasibility(
        rule(lambda starts, labels, key: labels[:, 0] == 0), ask([[0, FREE, 1]] * 3), TRIES, KEY
    )
    assert [reach.share.count for reach in found.by_class()["speed"].values()] == [0, 0, 0, 0]
    assert found.by_class()["destination"]["near"].share.count == 3


def test_the_interval_counts_starts_and_not_requests():
    def half(starts, labels, key):
        return np.arange(len(labels)) % 2 == 0

    one = measure_feasibility(rule(half), ask([[0, 0, 0]] * 40, np.zeros((40, 2))), TRIES, KEY).overall.share
    many = measure_feasibility(rule(half), ask([[0, 0, 0]] * 40), TRIES, KEY).overall.share
    assert one.value == many.value == 0.5
    assert one.high - one.low > 2 * (many.high - many.low)


def test_json_holds_no_nan_also_where_no_request_asked_for_a_class():
    found = measure_feasibility(
        rule(lambda starts, labels, key: labels[:, 0] == 0), ask([[0, 1, 1], [2, 1, 1]]), TRIES, KEY
    )
    given = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert (given["reached"], given["tries"], given["allowed"]) == (0.5, 3.5, 5)
    assert given["by_style"]["destination"]["far"] == {
        "reached": 0.0,
        "reached_interval": given["by_style"]["destination"]["far"]["reached_interval"],
        "tries": 5.0,
        "count": 1,
    }
    assert given["by_style"]["destination"]["middle"]["reached"] is None


def test_a_second_pass_judges_the_first_by_other_rollouts():
    """What is reached by luck is not confirmed; judged by its own rollouts, every feasible request would be."""

    def lucky(starts, labels, key):
        return np.asarray(jax.random.bernoulli(key, 0.3, (len(labels),)))

    seed, request = rule(lucky), ask(np.zeros((4000, 3)))
    first = measure_feasibility(seed, request, TRIES, KEY)
    found = confirm(first, seed, TRIES, KEY)
    assert found.feasible.count == first.reached.sum()
    assert found.infeasible.count == (~first.reached).sum()
    assert found.feasible.value == pytest.approx(0.3, abs=0.05)
    assert found.infeasible.value == pytest.approx(0.3, abs=0.05)


def test_what_is_truly_feasible_is_confirmed_and_split_from_what_is_not():
    seed = ONLY_RIGHT
    found = confirm(measure_feasibility(seed, Request.like(AHEAD, LABELS), TRIES, KEY), seed, TRIES, KEY)
    assert (found.feasible.value, found.infeasible.value, found.one_try.value) == (1.0, 0.0, 1.0)
    assert found.to_json()["feasible"]["count"] == (LABELS[:, 0] == 1).sum()


def test_one_try_counts_what_the_first_try_of_the_second_pass_shows():
    seed = rule(lambda starts, labels, key: labels[:, 0] == 0)  # everything takes two tries
    found = confirm(measure_feasibility(seed, ask([[0, 0, 0]] * 5), TRIES, KEY), seed, TRIES, KEY)
    assert (found.feasible.value, found.one_try.value) == (1.0, 0.0)


def test_the_second_pass_shares_no_randomness_with_any_try_of_the_first():
    seed = rule(lambda starts, labels, key: np.ones(len(labels), bool))
    confirm(measure_feasibility(seed, ask([[0, 0, 0]]), TRIES, KEY), seed, TRIES, KEY)
    second = jax.random.key_data(seed.calls[1][1]).tolist()
    tries = [KEY, *(jax.random.fold_in(KEY, number) for number in range(100))]
    assert second not in [jax.random.key_data(key).tolist() for key in tries]


def test_every_class_of_one_style_is_asked_for_from_every_start():
    request = ask_each_class(ask([[0, 1, 0], [2, FREE, 1]]), 0, 3)
    np.testing.assert_array_equal(
        request.labels, [[0, 1, 0], [0, FREE, 1], [1, 1, 0], [1, FREE, 1], [2, 1, 0], [2, FREE, 1]]
    )
    np.testing.assert_array_equal(request.starts, [[0, 1], [2, 3]] * 3)


def test_neighbours_come_by_styles_changed_and_then_by_class_steps():
    wanted = np.asarray([2, 0, 1])
    near = [*neighbours(THREE, wanted, [0, 1])]
    assert near[0] in [(1, 0, 1), (2, 1, 1)]
    assert len(near) == len(set(near)) == 3 * 4 - 1
    assert {labels[2] for labels in near} == {1}
    steps = [(int((labels != wanted).sum()), int(abs(labels - wanted).sum())) for labels in map(np.asarray, near)]
    assert steps == sorted(steps)


def test_a_style_that_was_left_free_stays_free():
    near = [*neighbours(THREE, np.asarray([2, FREE, 1]), [0, 1])]
    assert near == [(1, FREE, 1), (0, FREE, 1)]


def test_the_nearest_request_that_is_possible_is_found_in_one_call():
    seed = rule(lambda starts, labels, key: labels[:, 0] <= 1)
    found = nearest_feasible(seed, ask([[2, 3, 1]]), TRIES, [0, 1], KEY)
    assert found is not None
    assert found.tolist() == [1, 3, 1]
    assert len(seed.calls) == 1


def test_all_neighbours_start_where_the_request_does():
    seed = rule(lambda starts, labels, key: labels[:, 0] == 0)
    nearest_feasible(seed, ask([[2, 3, 1]], [[3.0, 4.0]]), TRIES, [0, 1], KEY)
    assert np.unique(np.asarray(seed.calls[0][0].starts), axis=0).tolist() == [[3.0, 4.0]]


def test_what_was_asked_for_is_tried_first_and_at_most_64_are_tried():
    @labeling_function(classes=tuple("abcdefghij"), thresholds=tuple(range(1, 10)))
    def fine(states, actions):
        return states[-1, 0]

    styles = (fine, fine, fine)
    seed = rule(lambda starts, labels, key: np.zeros(len(labels), bool), styles)
    assert nearest_feasible(seed, ask([[5, 5, 5]]), TRIES, [0, 1, 2], KEY) is None
    tried = np.asarray(seed.calls[0][0].labels)
    assert len(tried) == len(np.unique(tried, axis=0)) == 64
    assert tried[0].tolist() == [5, 5, 5]


def test_a_request_without_a_style_that_may_change_has_no_neighbour():
    seed = rule(lambda starts, labels, key: np.zeros(len(labels), bool))
    assert nearest_feasible(seed, ask([[2, 0, 1]]), TRIES, [], KEY) is None
    assert np.asarray(seed.calls[0][0].labels).tolist() == [[2, 0, 1]]


def test_a_request_that_is_possible_is_its_own_nearest():
    seed = rule(lambda starts, labels, key: np.ones(len(labels), bool))
    found = nearest_feasible(seed, ask([[2, 3, 1]]), TRIES, [0, 1], KEY)
    assert found is not None
    assert found.tolist() == [2, 3, 1]
    assert describe_nearest(THREE, [2, 3, 1], found, [0]) == "destination=far is possible from there"


def test_a_real_policy_is_offered_the_side_that_it_can_show():
    found = nearest_feasible(ONLY_RIGHT, Request.like(AHEAD[:1], np.asarray([[0, 1]])), TRIES, [0, 1], KEY)
    assert found is not None
    assert (
        describe_nearest(STYLES, [0, 1], found, [0]) == "side=left is out of reach from there; side=right is possible"
    )


def test_the_line_names_the_styles_that_were_asked_for():
    assert describe_nearest(THREE, [2, FREE, FREE], [1, FREE, FREE]) == (
        "destination=far is out of reach from there; destination=middle is possible"
    )
    assert describe_nearest(THREE, [2, 0, 1], [1, 0, 1], [0, 1]) == (
        "destination=far with speed=slow is out of reach from there; destination=middle with speed=slow is possible"
    )
    assert "every request near it" in describe_nearest((side,), [0], None)
