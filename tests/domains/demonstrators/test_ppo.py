"""The parts of PPO against results by hand, and policies that learn to move to targets on a line."""

from __future__ import annotations

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise.domains.demonstrators import ppo
from poise.domains.demonstrators.ppo import Actor, Network, PPOConfig, RewardSpec, RunningNorm, Steps

# A point on a line, which an action moves; it should be at the target.
REWARD = RewardSpec(
    observe=lambda states: states,
    reward=lambda after, actions, target: -jnp.abs(after[:, 0] - target),
    fallen=lambda states: jnp.abs(states[..., 0]) > 5,
    reached=lambda states: states[..., 0],
    actions=(-1.0, 1.0),
)
CONFIG = PPOConfig(hidden=8, unroll=10, episode=10, epochs=4, minibatches=2, learning_rate=1e-2, discount=0.5)
POOL = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
TARGETS = np.asarray([-1.0, 0.5, 2.0], np.float32)


def move(states, actions):
    return states + actions


@functools.cache
def untrained(policies: int = 3) -> ppo.Learner:
    one = partial(ppo.init_learner, REWARD, CONFIG, jnp.asarray(POOL), 8, 1)
    return jax.vmap(one)(jax.random.split(jax.random.key(0), policies))


@functools.cache
def program(transition, total):
    return jax.jit(partial(ppo.learn, reward=REWARD, ppo=CONFIG, total=total, transition=transition))


def learn(learners, count, targets=TARGETS, transition=move, total=60):
    return program(transition, total)(learners, jnp.asarray(targets), jnp.asarray(POOL), jnp.asarray(count))


def arrays(learners) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves((learners.actor, learners.critic, learners.norm, learners.states))]


def make_steps(reward, fallen, done) -> Steps:
    reward, fallen, done = (jnp.asarray(x)[:, None] for x in (reward, fallen, done))
    unused = jnp.zeros((*reward.shape, 1))
    return Steps(unused, unused, reward, reward, unused, fallen, done)


def test_advantages_end_at_a_fall_and_use_the_critic_at_the_end_of_an_episode():
    config = PPOConfig(discount=0.5, gae_lambda=0.5)
    steps = make_steps([1.0, 2.0, 4.0, 8.0], [False, True, False, False], [False, True, True, False])
    values, next_values = jnp.asarray([[1.0], [2.0], [3.0], [4.0]]), jnp.asarray([[2.0], [100.0], [6.0], [8.0]])
    last = 8 + 0.5 * 8 - 4
    end = 4 + 0.5 * 6 - 3  # the end of an episode: nothing of the next one, but the critic's value of this one
    fell = 2 - 2
    first = 1 + 0.5 * 2 - 1 + 0.25 * fell
    np.testing.assert_allclose(ppo.advantages(steps, values, next_values, config)[:, 0], [first, fell, end, last])


def test_the_norm_is_that_of_all_observations_so_far():
    pieces = np.random.default_rng(0).normal(3, 2, (4, 5, 6, 2)).astype(np.float32)
    norm = RunningNorm(jnp.zeros(()), jnp.zeros(2), jnp.ones(2))
    for piece in pieces:
        norm = norm.update(jnp.asarray(piece))
    flat = pieces.reshape(-1, 2)
    np.testing.assert_allclose(norm.mean, flat.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(norm.variance, flat.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(np.std(norm(jnp.asarray(flat)), axis=0), 1, rtol=1e-3)


def test_the_density_is_gaussian():
    network = Network((jnp.ones((2, 1)),), (jnp.zeros(1),))
    actor, observation = Actor(network, jnp.log(jnp.asarray([0.5]))), jnp.asarray([1.0, 2.0])
    mean, off = (actor.log_density(observation, jnp.asarray([action])) for action in (3.0, 4.0))
    assert mean - off == pytest.approx(0.5 * (1 / 0.5) ** 2)


@pytest.mark.parametrize(("gain", "learns"), [(1.0, False), (-1.0, True)])
def test_a_ratio_above_the_clip_has_no_gradient_for_a_positive_advantage(gain, learns):
    network = Network((jnp.zeros((1, 1)),), (jnp.zeros(1),))
    actor, observation, action = Actor(network, jnp.zeros(1)), jnp.ones((1, 1)), jnp.ones((1, 1))
    old_log_density = actor.log_density(observation, action) - 1  # the ratio is e
    batch = (observation, action, old_log_density, jnp.asarray([gain]), jnp.zeros(1))
    gradient, _ = jax.grad(ppo.loss)((actor, network), batch, 0.2)
    assert any(np.any(x != 0) for x in jax.tree.leaves(gradient)) == learns


def test_each_policy_learns_to_reach_its_own_target():
    learners = untrained()
    before = learn(learners, 1)[1]
    learners, error = learn(learners, 60)
    assert (error < 0.5 * before).all()
    means = jax.vmap(lambda norm, actor: actor.network(norm(jnp.zeros((1, 1)))))(learners.norm, learners.actor)
    assert np.sign(means.ravel()).tolist() == np.sign(TARGETS).tolist()


def test_updates_do_not_depend_on_chunks():
    once, _ = learn(untrained(), 4)
    twice, _ = learn(learn(untrained(), 1)[0], 3)
    for one, two in zip(arrays(once), arrays(twice), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_policy_does_not_depend_on_the_others():
    together, _ = learn(untrained(), 3)
    alone, _ = learn(jax.tree.map(lambda x: x[1:2], untrained()), 3, TARGETS[1:2])
    for one, two in zip(arrays(alone), arrays(together), strict=True):
        np.testing.assert_allclose(one[0], two[1], atol=1e-5)


def test_nothing_is_learned_after_the_last_update():
    learners, _ = learn(untrained(), 5, total=5)
    later, _ = learn(learners, 2, total=5)
    np.testing.assert_array_equal(later.actor.network.weights[0], learners.actor.network.weights[0])
    assert later.updates.tolist() == [7, 7, 7]


def test_environments_that_become_nan_are_reset():
    learners, _ = learn(untrained(), 2, transition=lambda states, actions: states * jnp.nan)
    assert all(np.isfinite(x).all() for x in arrays(learners))
    assert (learners.ages == 0).all()
    assert np.isin(learners.states, POOL).all()


def test_the_physics_receive_clipped_actions():
    def still(states, actions):
        return states + jnp.where((actions < -0.1) | (actions > 0.2), jnp.nan, 0)  # NaN would be reset

    given = {"reward": REWARD._replace(actions=(-0.1, 0.2)), "ppo": CONFIG, "total": 60, "transition": still}
    learners, _ = ppo.learn(untrained(), jnp.asarray(TARGETS), jnp.asarray(POOL), jnp.asarray(1), **given)
    ages = (np.asarray(untrained().ages) + CONFIG.unroll) % CONFIG.episode
    np.testing.assert_array_equal(learners.ages, ages)
