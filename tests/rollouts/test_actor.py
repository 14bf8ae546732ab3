"""Actors: one action at a time, by the policy and with the randomness of a rollout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import count_compilations

from poise import Network, PoiseError
from poise.models import RNN, TVAE, Statistics
from poise.rollouts.actor import Actor
from poise.styles.label_spaces import LabelSpace

STYLE = {"speed": "slow", "destination": "near"}


def play(actor: Actor, steps: int = 5, start: Any = (20.0, 25.0)) -> np.ndarray:
    """The actions of an actor in the plane, step by step."""
    state, actions = np.asarray(start, np.float32), []
    for _ in range(steps):
        actions.append(actor.step(state))
        state = state + actions[-1]
    return np.stack(actions)


def test_an_actor_is_repeatable_and_another_draw_acts_otherwise(run):
    one, same, other = (play(run.actor(STYLE, draw=draw)) for draw in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.shape == (5, 2)
    assert one.dtype == np.float32


def test_an_actor_acts_as_a_rollout_does(run):
    """The actions of many actors from one start have the mean and the spread of the sampled ones, step by step."""
    sampled = run.sample(2000, STYLE, start=(20.0, 25.0), steps=4, tries=1)
    start = np.tile(np.asarray([20.0, 25.0], np.float32), (2000, 1))
    played = play(run.actor(STYLE, count=2000, draw=1), steps=4, start=start)
    for found, expected in zip(played, np.swapaxes(sampled.actions, 0, 1), strict=True):
        np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.15 * expected.std())
        np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), rtol=0.1)


def test_an_actor_remembers_and_a_reset_empties_its_memory_and_draws_another_embedding(run):
    actor: Any = run.actor(STYLE)
    empty = np.asarray(actor._player.at.memory.hidden)
    play(actor)
    assert np.abs(np.asarray(actor._player.at.memory.hidden) - empty).max() > 0
    before = actor._player._arrays
    actor.reset()
    np.testing.assert_array_equal(actor._player.at.memory.hidden, empty)
    assert actor.labels.tolist() == [[0, 0]]
    assert not all(np.array_equal(a, b) for a, b in zip(before, actor._player._arrays, strict=True))


def test_the_dial_changes_the_style_and_nothing_else(run):
    """An actor whose dial is turned and turned back acts like one whose dial was never turned."""
    still, moved = run.actor(STYLE), run.actor(STYLE)
    moved.dial({"speed": "fast"})
    assert moved.labels.tolist() == [[2, 0]]
    moved.dial({"speed": "slow"})
    np.testing.assert_array_equal(play(still), play(moved))
    moved.dial({"speed": "fast"})
    assert not np.array_equal(play(still), play(moved))
    moved.reset()
    assert moved.labels.tolist() == [[2, 0]]
    moved.reset({"destination": "far"})
    assert moved.labels[0, 1] == 2


def test_styles_that_are_not_named_take_the_labels_of_demonstrations(run):
    actor = run.actor({"destination": "far"}, count=60)
    assert set(actor.labels[:, 1].tolist()) == {2}
    assert len(set(actor.labels[:, 0].tolist())) > 1


def test_an_actor_with_a_count_draws_an_action_for_each_state(run):
    states = np.asarray(run.starts.starts)[:4]
    made = run.actor(STYLE, count=4).step(states)
    assert made.shape == (4, 2)
    assert len({tuple(action) for action in made}) == 4
    assert run.actor(STYLE, count=1).step(states[:1]).shape == (1, 2)


def test_no_frame_waits_for_a_compilation(run):
    actor = run.actor(STYLE)
    with count_compilations() as compiled:
        play(actor)
        actor.dial({"speed": "fast"})
        play(actor)
        actor.reset(STYLE)
        play(actor)
        play(run.actor(STYLE, seed=1, draw=3))
    assert compiled == []


def test_every_seed_has_a_policy_of_its_own(run):
    assert not np.array_equal(play(run.actor(STYLE, seed=0)), play(run.actor(STYLE, seed=1)))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1.0, 2.0, 3.0], "an actor takes one state of 2 numbers; got 3"),
        ([[1.0, 2.0]], r"an actor takes one state of 2 numbers; got the shape \[1, 2\]"),
        ([1.0, np.nan], r"one state of 2 numbers, all finite; got \[1.0, nan\]"),
        (["left", "right"], r"one state of 2 numbers; got a list \(could not convert"),
        ([[1.0], [2.0, 3.0]], "one state of 2 numbers; got a list"),
    ],
)
def test_a_state_that_is_refused_leaves_the_memory_as_it_was(run, state, message):
    actor, other = run.actor(STYLE), run.actor(STYLE)
    with pytest.raises(PoiseError, match=message) as error:
        actor.step(state)
    assert "\n" not in str(error.value)
    np.testing.assert_array_equal(actor._player.at.memory.hidden, other._player.at.memory.hidden)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": {"sped": "slow"}}, "unknown style 'sped'; did you mean 'speed'"),
        ({"words": {"speed": "slwo"}}, "did you mean 'slow'"),
        ({"seed": 7}, "this run has the seeds 0, 1; got 7"),
        ({"draw": -1}, "a draw is a whole number between"),
        ({"count": 0}, "count is a whole number, at least 1; got 0"),
        ({"steps": 0}, "steps is a whole number, at least 1; got 0"),
        ({"steps": -1}, "steps is a whole number, at least 1; got -1"),
    ],
)
def test_arguments_that_no_actor_has_are_refused(run, arguments, message):
    with pytest.raises(PoiseError, match=message):
        run.actor(**arguments)
    if "words" in arguments:
        for ask in (run.actor().dial, run.actor().reset):
            with pytest.raises(PoiseError, match=message):
                ask(arguments["words"])


def test_many_states_of_another_shape_are_refused(run):
    actor = run.actor(STYLE, count=3)
    with pytest.raises(PoiseError, match=r"an actor takes 3 states of 2 numbers; got the shape \[2\]"):
        actor.step([1.0, 2.0])
    with pytest.raises(PoiseError, match=r"all finite; got \[inf, 0.0\]"):
        actor.step([[1.0, 2.0], [np.inf, 0.0], [np.nan, 0.0]])


class Overflowing:
    """A policy of a user's own whose actions are infinite from the third step on."""

    noise, replan, open_labels = 2, 1, False

    def imitate(self, demonstrations, labels, key):
        raise NotImplementedError

    def begin(self, labels, lengths, key):
        return jnp.zeros((len(labels), 2)), jnp.zeros((len(labels), 1))

    def propose(self, context, memory, state, noise):
        return jnp.where(memory > 1, jnp.inf, context + state)[:, None]

    def remember(self, context, memory, state, action):
        return memory + 1


def test_an_action_that_is_not_finite_is_refused_and_changes_nothing():
    actor: Any = Actor(Overflowing(), (), np.zeros((1, 0), np.int32), 2)
    assert [actor.step([1, 2]).tolist() for _ in range(2)] == [[1, 2], [1, 2]]
    for _ in range(2):
        with pytest.raises(PoiseError, match=r"the policy has no finite action in \[1.0, 2.0\]"):
            actor.step([1, 2])
        assert np.asarray(actor._player.at.memory).tolist() == [[2]]
    actor.reset()
    assert actor.step([3, 4]).tolist() == [3, 4]


@pytest.mark.parametrize("decoder", ["recurrent", "markov"])
@pytest.mark.parametrize("kind", [RNN, TVAE])
def test_every_policy_has_an_actor(kind, decoder, walks):
    network = Network(hidden=4, layers=(4,), decoder=decoder, variance="global")
    policy = kind(Statistics.of(walks), LabelSpace(()), network, key=jax.random.key(0))
    actions = play(Actor(policy, (), np.zeros((1, 0), np.int32), 2))
    assert len({tuple(action) for action in actions}) == 5
