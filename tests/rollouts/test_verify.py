"""Verified sampling: what is rolled out again, what is kept, and how tries are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import count_compilations, wander
from flow_helpers import PLAIN, STEPS, drifting, rough_flow, trained

from poise import Domain, PoiseError, Trajectories, labeling_function
from poise.config import Sampling
from poise.evaluation.scored import WEAK, Known, ScoredRollouts, TrainedSeed
from poise.evaluation.support import Support
from poise.rollouts import verify as module
from poise.rollouts.requests import Request
from poise.rollouts.verify import Verified, verify
from poise.styles.label_spaces import Categories, LabelSpace, SharedSpace


class World:
    """Rollouts that say whose they are, and which of that request's rollouts they are, counted from 1."""

    def __init__(self, needs: np.ndarray):
        self.needs, self.made, self.calls = needs, Counter(), []

    @property
    def request(self) -> Request:
        starts = np.arange(len(self.needs), dtype=np.float32)[:, None]
        return Request(starts, np.zeros((len(self.needs), 0), np.int32), np.ones(len(self.needs), np.int32), 1)

    def roll_out(self, request: Request, key, number: int) -> Trajectories:
        assert number == len(self.calls)
        self.calls.append(len(request))
        who = np.asarray(request.starts)[:, 0].astype(int)
        numbers = np.zeros(len(who), np.float32)
        for row, one in enumerate(who):
            self.made[int(one)] += 1
            numbers[row] = self.made[int(one)]
        states = np.stack([who.astype(np.float32), numbers], axis=1)[..., None]
        return Trajectories.unchecked(states, numbers[:, None, None], np.asarray(request.lengths))

    def accept(self, made: Trajectories, request: Request) -> np.ndarray:
        who, number = np.asarray(request.starts)[:, 0].astype(int), np.asarray(made.actions)[:, 0, 0]
        assert np.array_equal(np.asarray(made.states)[:, 0, 0], who)
        return number >= self.needs[who]

    def verify(self, tries: int, **given: Any) -> Verified:
        return verify(self.roll_out, self.accept, self.request, tries, jax.random.key(0), **given)


def check(found: Verified, needs: np.ndarray, tries: int) -> None:
    reached = needs <= tries
    np.testing.assert_array_equal(found.accepted, reached)
    np.testing.assert_array_equal(found.tries, np.where(reached, needs, tries))
    np.testing.assert_array_equal(found.rollouts.states[:, 0, 0], np.arange(len(needs)))
    np.testing.assert_array_equal(found.rollouts.actions[:, 0, 0], np.where(reached, needs, 1))  # else the first


NEVER = 1000
NEEDS = {
    "many": np.random.default_rng(0).integers(1, 12, 50),
    "few left": np.asarray([1] * 30 + [5, 7, NEVER]),
    "one": np.asarray([6]),
    "one too late": np.asarray([1, 1, 8, 9]),
    "none": np.full(5, NEVER),
    "all": np.ones(5, int),
}


@pytest.mark.parametrize("piece", [4096, 8])
@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("tries", [1, 2, 8])
@pytest.mark.parametrize("name", NEEDS)
def test_each_request_is_tried_until_it_is_accepted_and_what_never_is_keeps_its_first_rollout(
    name, tries, traced, piece, monkeypatch
):
    monkeypatch.setattr(module, "PIECE", piece)
    world = World(NEEDS[name])
    check(world.verify(tries, traced=traced), NEEDS[name], tries)
    if not traced:
        assert [world.made[row] for row in range(len(NEEDS[name]))] == np.minimum(NEEDS[name], tries).tolist()


def test_programs_are_filled_with_further_tries_of_what_is_left():
    """So that all calls have the size of a program that is compiled already, and few suffice."""
    world = World(NEEDS["few left"])
    world.verify(16)
    assert set(world.calls[1:]) == {64}
    assert len(world.calls) == 2
    assert world.made[0] == 1


def test_the_first_try_is_used_if_it_was_made_already():
    world = World(NEEDS["many"])
    first = world.roll_out(world.request, None, 0)
    check(world.verify(12, traced=False, first=first), NEEDS["many"], 12)
    assert max(world.made.values()) == NEEDS["many"].max()
    assert world.calls[1] < len(NEEDS["many"])


def test_verified_rollouts_are_repeatable_and_the_first_try_is_the_one_that_is_made_without_verifying():
    run = trained()
    once = run.sample(64, {"drift": "high"}, sampling=PLAIN)
    one, same = (run.sample(64, {"drift": "high"}, sampling=replace(PLAIN, tries=8)) for _ in range(2))
    np.testing.assert_array_equal(one.states, same.states)
    tries, accepted = one.metadata["tries"], one.metadata["accepted"]
    np.testing.assert_array_equal(tries, same.metadata["tries"])
    assert 1 < tries.max() <= 8
    first = tries == 1
    assert 0.5 < first.mean() < 1
    np.testing.assert_array_equal(one.states[first], once.states[first])
    assert (one.states[~first & accepted] != once.states[~first & accepted]).any(axis=(1, 2)).all()
    shown = run.styles[0].label(one)
    assert (shown[accepted] == 2).all()
    assert (run.styles[0].label(once)[first] == 2).all()
    assert not run.known.out_of_range(one)[accepted].any()


def test_range_is_a_choice():
    run = trained()
    sampling = replace(PLAIN, tries=4)
    known = run.known
    inside, anywhere = (
        run.sample(
            16, {"drift": "high"}, start=[float(known.range[1, 0]) + 1, 0.0], sampling=sampling, in_range=choice
        ).metadata
        for choice in (True, False)
    )
    assert not inside["accepted"].any()
    assert (inside["tries"] == 4).all()
    assert anywhere["accepted"].mean() > 0.8


@labeling_function(classes=("left", "right"), thresholds=(-0.5,))
def side(states, actions):
    return jnp.sum(actions[:, 0])  # zeros are right


SIDES = LabelSpace((Categories(2),))


def broken(count: int, environment, tries: int):
    """A seed in an environment, its first try, and that verified."""
    walks = wander(count)
    seed = TrainedSeed.alone({"policy": rough_flow(walks, (2,))}, Domain("broken", environment=environment), [side])
    known = Known(np.asarray([[-1e3] * 2, [1e3] * 2], np.float32), (1.0,), (True,))
    seed = replace(seed, find_known=lambda: known)
    request = Request.like(walks, np.ones((count, 1), np.int32))
    sampling = Sampling(tries=tries, strength=0.0, guidance=1.0)
    first = seed.score(request, jax.random.key(0), sampling)
    return first, seed.score_verified(request, jax.random.key(0), sampling, first)


def test_only_unsatisfied_requests_are_rolled_out_again_in_an_environment_on_the_host():
    counts = []

    def environment(states, actions):
        following = np.add(np.asarray(states), np.asarray(actions))
        counts.append(len(states))
        return following

    first, found = broken(40, environment, 3)
    assert found.tries is not None
    assert found.accepted is not None
    again = [int((found.tries > 1).sum()), int((found.tries > 2).sum())]
    assert counts[::STEPS] == [40, *again]
    assert again[0] == int((~first.joint).sum()) > again[1] > 0
    np.testing.assert_array_equal(found.joint, found.accepted)


def test_a_first_rollout_that_became_nan_is_not_accepted():
    def environment(states, actions):
        following = np.add(np.asarray(states), np.asarray(actions))
        following[: len(following) // 2] = np.nan
        return following

    first, found = broken(16, environment, 2)
    assert not first.joint[:8].any()
    np.testing.assert_array_equal(found.joint[:4], False)
    assert found.accepted is not None
    assert not found.accepted[:4].any()


@pytest.mark.parametrize("hosted", [True, False], ids=["on the host", "traced"])
def test_starts_that_always_diverge_are_marked_and_lose_nothing(hosted):
    """Later passes are of these starts alone: their rollouts may all be NaN."""

    def environment(states, actions):
        array = np if hosted else jnp
        along = array.asarray(actions) * np.asarray([1, 0])
        return array.where(states[:, 1:] > 1, np.nan, array.asarray(states) + along)

    first, found = broken(80, environment, 4)
    lost = ~np.isfinite(np.asarray(first.as_made().states)).all(axis=(1, 2))
    assert 0 < lost.sum() < 40
    assert found.accepted is not None
    assert not found.accepted[lost].any()
    assert found.accepted[first.joint].all()
    np.testing.assert_array_equal(found.rollouts.metadata["finite"], ~lost)


def test_every_other_pass_is_steered_weakly():
    class Watched(TrainedSeed):
        def roll_out(self, request, key, sampling=None):
            assert sampling is not None
            strengths.append(sampling.strength)
            return Trajectories.unchecked(np.zeros((len(request), 2, 2)), np.zeros((len(request), 1, 2)), one)

    strengths, one = list[float](), np.ones(4, np.int32)
    request = Request(np.zeros((4, 2)), np.zeros((4, 1), np.int32), one, 1)  # zeros are right, and left is asked for
    watched = Watched({"policy": rough_flow(wander(8), (2,))}, Domain("still"), (side,), SharedSpace.alone(SIDES))
    watched.score_verified(request, jax.random.key(0), Sampling(tries=5, strength=0.7))
    assert strengths == [0.7, WEAK, 0.7, WEAK, 0.7]


def test_on_the_host_few_programs_serve_every_number_of_requests():
    def environment(states, actions):
        return np.add(np.asarray(states), np.asarray(actions))

    for size in (1, 2, 4, 8, 16, 32, 64):
        broken(size, environment, 1)
    with count_compilations() as compiled:
        broken(57, environment, 6)
    assert not [line for line in compiled if "begin" in line or "follow" in line or "propose" in line]


def test_shuffled_lengths_keep_their_rows():
    """Steered rollouts are made length by length, and verified among all."""
    run = trained()
    demonstrations = drifting(24, seed=5)
    lengths = np.asarray([3, 6] * 12, np.int32)
    request = Request(demonstrations.starts, np.full((24, 1), 2, np.int32), lengths, STEPS)
    seed = run.trained(None)(0)
    made = seed.score_verified(request, jax.random.key(0), Sampling(guidance=1.0, steps=8, tries=4))
    np.testing.assert_array_equal(made.rollouts.lengths, lengths)
    np.testing.assert_array_equal(made.rollouts.starts, demonstrations.starts)
    assert made.joint.mean() > 0.9


def test_of_several_accepted_rollouts_the_one_nearest_to_demonstrations_is_kept():
    """Four rollouts of each of two requests: the second is like a demonstration, but only accepted for the first."""
    calm = wander(200)
    known = Known(np.asarray([[-1e3] * 2, [1e3] * 2], np.float32), (1.0,), (True,), calm)
    made = calm[np.repeat([0, 1], 4)]
    shaken = np.array(made.states)
    shaken[[0, 2, 3, 4, 6, 7]] += np.asarray([9, 6, 3, 9, 6, 3])[:, None, None] * np.random.default_rng(0).normal(
        size=shaken[:6].shape
    )
    right = np.asarray([[1, 1, 1, 1, 1, 0, 0, 1]]).T.astype(bool)
    found = ScoredRollouts(
        Trajectories(shaken), right, np.ones(8, bool), np.ones((8, 1), bool), right[:, 0], np.arange(1, 9)
    )
    kept = known.most_typical(found, 4)
    np.testing.assert_array_equal(kept.rollouts.states, np.asarray(found.rollouts.states)[[1, 7]])
    np.testing.assert_array_equal(kept.tries, [1 + 2 + 3 + 4, 5 + 6 + 7 + 8])
    np.testing.assert_array_equal(kept.accepted, [True, True])


def test_typical_rollouts_are_nearer_to_demonstrations_and_as_right():
    run = trained()
    sampling = Sampling(guidance=1.0, steps=8, tries=4)
    first, typical = (
        run.sample(100, {"drift": "high"}, sampling=replace(sampling, typical=number)) for number in (1, 6)
    )
    support = Support.fit(run.starts, run.starts)
    assert len(typical) == len(first) == 100
    assert support.statistic(typical).mean() < 0.95 * support.statistic(first).mean()
    assert typical.metadata["accepted"].mean() >= first.metadata["accepted"].mean() > 0.9
    assert (typical.metadata["tries"] >= 6).all()


def test_without_tries_nothing_typical_can_be_chosen():
    with pytest.raises(PoiseError, match=r"sampling.typical chooses among accepted rollouts; got 3 with one try"):
        trained().sample(2, tries=1, sampling=Sampling(typical=3))
