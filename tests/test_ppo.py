"""PPO's parts by hand, and policies that learn to go where they are told on a line."""

from __future__ import annotations

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise import ppo
from poise.ppo import Actor, Course, Network, Recipe, Scale, Steps

# A point on a line: an action moves it, and it should be at the target.
COURSE = Course(
    observe=lambda states: states,
    reward=lambda after, actions, target: -jnp.abs(after[:, 0] - target),
    fallen=lambda states: jnp.abs(states[..., 0]) > 5,
    reached=lambda states: states[..., 0],
    actions=(-1.0, 1.0),
)
RECIPE = Recipe(hidden=8, unroll=10, episode=10, epochs=4, minibatches=2, learning_rate=1e-2, discount=0.5)
POOL = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
TARGETS = np.asarray([-1.0, 0.5, 2.0], np.float32)


def move(states, actions):
    return states + actions


@functools.cache
def begin(policies: int = 3) -> ppo.Learner:
    one = partial(ppo.begin, COURSE, RECIPE, jnp.asarray(POOL), 8, 1)
    return jax.vmap(one)(jax.random.split(jax.random.key(0), policies))


@functools.cache
def program(transition, total):
    return jax.jit(partial(ppo.learn, course=COURSE, recipe=RECIPE, total=total, transition=transition))


def learn(learners, count, targets=TARGETS, transition=move, total=60):
    return program(transition, total)(learners, jnp.asarray(targets), jnp.asarray(POOL), jnp.asarray(count))


def arrays(learners) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves((learners.actor, learners.critic, learners.scale, learners.states))]


def steps_of(reward, fallen, over) -> Steps:
    reward, fallen, over = (jnp.asarray(x)[:, None] for x in (reward, fallen, over))
    nothing = jnp.zeros((*reward.shape, 1))
    return Steps(nothing, nothing, reward, reward, nothing, fallen, over)


def test_advantages_end_with_a_fall_and_go_on_in_the_critic_with_age():
    recipe = Recipe(discount=0.5, trace=0.5)
    steps = steps_of([1.0, 2.0, 4.0, 8.0], [False, True, False, False], [False, True, True, False])
    values, later = jnp.asarray([[1.0], [2.0], [3.0], [4.0]]), jnp.asarray([[2.0], [100.0], [6.0], [8.0]])
    last = 8 + 0.5 * 8 - 4
    old = 4 + 0.5 * 6 - 3  # too old: nothing of the next episode, but what the critic expected of this one
    fell = 2 - 2
    first = 1 + 0.5 * 2 - 1 + 0.25 * fell
    np.testing.assert_allclose(ppo.advantages(steps, values, later, recipe)[:, 0], [first, fell, old, last])


def test_the_scale_is_that_of_all_observations_so_far():
    pieces = np.random.default_rng(0).normal(3, 2, (4, 5, 6, 2)).astype(np.float32)
    scale = Scale(jnp.zeros(()), jnp.zeros(2), jnp.ones(2))
    for piece in pieces:
        scale = scale.join(jnp.asarray(piece))
    flat = pieces.reshape(-1, 2)
    np.testing.assert_allclose(scale.mean, flat.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(scale.variance, flat.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(np.std(scale(jnp.asarray(flat)), axis=0), 1, rtol=1e-3)


def test_the_density_is_gaussian():
    network = Network((jnp.ones((2, 1)),), (jnp.zeros(1),))
    actor, seen = Actor(network, jnp.log(jnp.asarray([0.5]))), jnp.asarray([1.0, 2.0])
    apart = actor.log_density(seen, jnp.asarray([3.0])) - actor.log_density(seen, jnp.asarray([4.0]))
    assert apart == pytest.approx(0.5 * (1 / 0.5) ** 2)


@pytest.mark.parametrize(("gain", "learns"), [(1.0, False), (-1.0, True)])
def test_an_action_that_has_become_likelier_than_the_clip_gains_nothing_more(gain, learns):
    network = Network((jnp.zeros((1, 1)),), (jnp.zeros(1),))
    actor, seen, action = Actor(network, jnp.zeros(1)), jnp.ones((1, 1)), jnp.ones((1, 1))
    before = actor.log_density(seen, action) - 1  # it was less likely by a factor e
    batch = (seen, action, before, jnp.asarray([gain]), jnp.zeros(1))
    gradient, _ = jax.grad(ppo.loss)((actor, network), batch, 0.2)
    assert any(np.any(x != 0) for x in jax.tree.leaves(gradient)) == learns


def test_each_policy_learns_to_reach_its_own_target():
    learners = begin()
    before = learn(learners, 1)[1]
    learners, error = learn(learners, 60)
    assert (error < 0.5 * before).all()
    seen = jax.vmap(lambda scale, actor: actor.network(scale(jnp.zeros((1, 1)))))(learners.scale, learners.actor)
    assert np.sign(seen.ravel()).tolist() == np.sign(TARGETS).tolist()


def test_chunks_change_nothing():
    once, _ = learn(begin(), 4)
    twice, _ = learn(learn(begin(), 1)[0], 3)
    for one, two in zip(arrays(once), arrays(twice), strict=True):
        np.testing.assert_array_equal(one, two)


def test_company_changes_nothing():
    together, _ = learn(begin(), 3)
    alone, _ = learn(jax.tree.map(lambda x: x[1:2], begin()), 3, TARGETS[1:2])
    for one, two in zip(arrays(alone), arrays(together), strict=True):
        np.testing.assert_allclose(one[0], two[1], atol=1e-5)


def test_after_the_last_update_nothing_is_learned():
    learners, _ = learn(begin(), 5, total=5)
    later, _ = learn(learners, 2, total=5)
    np.testing.assert_array_equal(later.actor.network.weights[0], learners.actor.network.weights[0])
    assert later.updates.tolist() == [7, 7, 7]


def test_physics_that_break_start_anew():
    learners, _ = learn(begin(), 2, transition=lambda states, actions: states * jnp.nan)
    assert all(np.isfinite(x).all() for x in arrays(learners))
    assert (learners.ages == 0).all()
    assert np.isin(learners.states, POOL).all()


def test_physics_get_actions_within_the_range_only():
    def still(states, actions):
        return states + jnp.where((actions < -0.1) | (actions > 0.2), jnp.nan, 0)  # NaN would start anew

    course = COURSE._replace(actions=(-0.1, 0.2))
    given = {"course": course, "recipe": RECIPE, "total": 60, "transition": still}
    learners, _ = ppo.learn(begin(), jnp.asarray(TARGETS), jnp.asarray(POOL), jnp.asarray(1), **given)
    grown = (np.asarray(begin().ages) + RECIPE.unroll) % RECIPE.episode
    np.testing.assert_array_equal(learners.ages, grown)
