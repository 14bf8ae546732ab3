"""PPO (Schulman et al., 2017) for many policies at once, each with a target and environments of its own.

All functions but `learn` are written for one policy. `learn` maps them over the policies with `vmap`, so that physics
steps, rollouts and updates of all policies are one compiled program. Advantages are estimated by GAE, observations are
standardised by running statistics, and the learning rate falls linearly to zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Bool, Float, Int, Key, PRNGKeyArray

from ...data.trajectories import Array, Transition


@dataclass(frozen=True)
class PPOConfig:
    """The hyperparameters of PPO."""

    hidden: int = 64
    """Units of each of the two hidden layers, in actor and critic."""
    unroll: int = 20
    """Steps of every environment between two updates."""
    episode: int = 80
    """Steps after which an environment is reset."""
    epochs: int = 8
    minibatches: int = 4
    """Minibatches per epoch."""
    learning_rate: float = 1e-3
    discount: float = 0.98
    gae_lambda: float = 0.95
    """The decay of generalised advantage estimation."""
    clip: float = 0.2
    """The probability ratio is clipped to 1 ± clip."""
    max_gradient_norm: float = 1.0
    deviation: float = 0.6
    """The standard deviation of the actions of an untrained policy."""


class RewardSpec(NamedTuple):
    """What a policy observes, what it is rewarded for, and when its episode ends."""

    observe: Callable[[Array], Array]
    """The observations [..., O] of states [..., S]."""
    reward: Callable[[Array, Array, Array], Array]
    """The rewards [N] of (next states [N, S], the actions [N, A] that led there, the target)."""
    fallen: Callable[[Array], Array]
    """Whether states [..., S] end an episode, with no reward from there on."""
    reached: Callable[[Array], Array]
    """The quantity [...] of states [..., S] that should be at the target."""
    actions: tuple[float, float]
    """The range that every number of an action is clipped to."""


class Network(eqx.Module):
    """A multilayer perceptron with tanh units, for arrays with any leading axes."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    @staticmethod
    def make(sizes: tuple[int, ...], last_scale: float, key: PRNGKeyArray) -> Network:
        """A network with normal weights, of which the last layer's are multiplied by `last_scale`, and zero biases."""
        keys, normal = jax.random.split(key, len(sizes) - 1), jax.nn.initializers.lecun_normal()
        weights = [normal(key, shape) for key, shape in zip(keys, itertools.pairwise(sizes), strict=True)]
        return Network((*weights[:-1], last_scale * weights[-1]), tuple(jnp.zeros(size) for size in sizes[1:]))

    def __call__(self, x: Float[Array, "*batch I"]) -> Float[Array, "*batch J"]:
        *hidden, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, b in hidden:
            x = jnp.tanh(x @ w + b)
        return x @ weight + bias


class RunningNorm(eqx.Module):
    """The mean and the variance of all observations so far."""

    count: Float[Array, "*P"]
    mean: Float[Array, "*P O"]
    variance: Float[Array, "*P O"]

    def __call__(self, observations: Float[Array, "*batch O"]) -> Float[Array, "*batch O"]:
        """Standardised observations, clipped to 10 standard deviations."""
        return jnp.clip((observations - self.mean) / jnp.sqrt(self.variance + 1e-4), -10, 10)

    def update(self, observations: Float[Array, "*batch O"]) -> RunningNorm:
        """The statistics of these observations and all earlier ones."""
        new = observations.reshape(-1, observations.shape[-1])
        count = self.count + len(new)
        share, shift = len(new) / count, new.mean(axis=0) - self.mean
        variance = (1 - share) * self.variance + share * new.var(axis=0) + share * (1 - share) * shift**2
        return RunningNorm(count, self.mean + share * shift, variance)


class Actor(eqx.Module):
    """A Gaussian policy: a network gives the mean, and every number of an action has one standard deviation."""

    network: Network
    log_deviation: Float[Array, "*P A"]

    def log_density(
        self, observations: Float[Array, "*batch O"], actions: Float[Array, "*batch A"]
    ) -> Float[Array, "*batch"]:
        """The log-density of actions, up to a constant."""
        error = (actions - self.network(observations)) * jnp.exp(-self.log_deviation)
        return -(0.5 * error**2 + self.log_deviation).sum(axis=-1)


class Learner(eqx.Module):
    """The state of training. For P policies, every array has them as its first axis."""

    norm: RunningNorm
    actor: Actor
    critic: Network
    optimiser: Any
    states: Float[Array, "*P E S"]
    ages: Int[Array, "*P E"]
    """Steps since the environments were last reset."""
    key: Key[Array, "*P"]
    updates: Int[Array, "*P"]


class Steps(NamedTuple):
    """T steps of E environments."""

    observation: Float[Array, "T E O"]
    action: Float[Array, "T E A"]
    log_density: Float[Array, "T E"]
    reward: Float[Array, "T E"]
    next_observation: Float[Array, "T E O"]
    """The observation after the action, before any reset."""
    fallen: Bool[Array, "T E"]
    done: Bool[Array, "T E"]
    """Fallen, or at the end of the episode."""


def init_learner(
    reward: RewardSpec, ppo: PPOConfig, pool: Float[Array, "N S"], environments: int, actions: int, key: PRNGKeyArray
) -> Learner:
    """An untrained policy. Its environments have random ages, so that they are not all reset at the same step."""
    key_states, key_ages, key_actor, key_critic, key = jax.random.split(key, 5)
    states = jax.random.choice(key_states, pool, (environments,))
    size, hidden = reward.observe(pool).shape[-1], (ppo.hidden, ppo.hidden)
    network = Network.make((size, *hidden, actions), 0.01, key_actor)
    actor = Actor(network, jnp.full(actions, jnp.log(ppo.deviation)))
    critic = Network.make((size, *hidden, 1), 1.0, key_critic)
    return Learner(
        norm=RunningNorm(jnp.zeros(()), jnp.zeros(size), jnp.ones(size)),
        actor=actor,
        critic=critic,
        optimiser=_optimiser(ppo).init((actor, critic)),  # pyright: ignore[reportArgumentType]
        states=states,
        ages=jax.random.randint(key_ages, (environments,), 0, ppo.episode),
        key=key,
        updates=jnp.zeros((), jnp.int32),
    )


def learn(
    learners: Learner,
    targets: Float[Array, " P"],
    pool: Float[Array, "N S"],
    count: Int[Array, ""],
    *,
    reward: RewardSpec,
    ppo: PPOConfig,
    total: int,
    transition: Transition,
) -> tuple[Learner, Float[Array, " P"]]:
    """The learners after `count` more updates, and their mean distance from the target in the last one.

    The learning rate is zero after `total` updates.
    """
    update = partial(_update, reward=reward, ppo=ppo, total=total, transition=transition, pool=pool)

    def update_all(_, carry):
        return jax.vmap(update)(carry[0], targets)

    return jax.lax.fori_loop(0, count, update_all, (learners, jnp.zeros(len(targets))))


def _update(
    learner: Learner,
    target: Array,
    *,
    reward: RewardSpec,
    ppo: PPOConfig,
    total: int,
    transition: Transition,
    pool: Array,
) -> tuple[Learner, Array]:
    """One update: a short rollout, then some epochs of minibatches on it."""
    steps, reached, states, ages = _unroll(learner, target, reward, ppo, transition, pool)
    observations, next_observations = learner.norm(steps.observation), learner.norm(steps.next_observation)
    values, next_values = (learner.critic(x)[..., 0] for x in (observations, next_observations))
    gains = advantages(steps, values, next_values, ppo)
    standardised = (gains - gains.mean()) / (gains.std() + 1e-6)
    batch = observations, steps.action, steps.log_density, standardised, gains + values
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)

    key, shuffle = jax.random.split(jax.random.fold_in(learner.key, 1))
    permutations = jax.vmap(lambda key: jax.random.permutation(key, gains.size))
    rows = permutations(jax.random.split(shuffle, ppo.epochs)).reshape(ppo.epochs * ppo.minibatches, -1)
    rate = ppo.learning_rate * jnp.maximum(1 - learner.updates / total, 0)

    def descend(carry, rows):
        models, optimiser = carry
        gradient = jax.grad(loss)(models, jax.tree.map(lambda x: x[rows], batch), ppo.clip)
        gradient = jax.tree.map(jnp.nan_to_num, gradient)  # one batch that overflows must not ruin a policy
        change, optimiser = _optimiser(ppo).update(gradient, optimiser)
        return (jax.tree.map(lambda x, dx: x - rate * dx, models, change), optimiser), None

    ((actor, critic), optimiser), _ = jax.lax.scan(descend, ((learner.actor, learner.critic), learner.optimiser), rows)
    norm = learner.norm.update(steps.observation)
    error = jnp.abs(reached - target).mean()
    return Learner(norm, actor, critic, optimiser, states, ages, key, learner.updates + 1), error


def _unroll(
    learner: Learner, target: Array, reward: RewardSpec, ppo: PPOConfig, transition: Transition, pool: Array
) -> tuple[Steps, Array, Array, Array]:
    """The steps of a short rollout, what they reached, and the states and ages of the environments afterwards.

    An environment that is done is reset to a state of the pool.
    """
    actor, deviation = learner.actor, jnp.exp(learner.actor.log_deviation)

    def step(carry, key):
        states, ages = carry
        key_noise, key_resets = jax.random.split(key)
        observation = reward.observe(states)
        mean = actor.network(learner.norm(observation))
        action = mean + deviation * jax.random.normal(key_noise, mean.shape)
        clipped = jnp.clip(action, *reward.actions)
        after = transition(states, clipped)
        broken = ~jnp.isfinite(after).all(axis=-1)  # physics in single precision can become unstable
        after = jnp.where(broken[:, None], states, after)
        fallen = reward.fallen(after) | broken
        done = fallen | (ages + 1 >= ppo.episode)
        density = actor.log_density(learner.norm(observation), action)
        rewards = reward.reward(after, clipped, target)
        taken = Steps(observation, action, density, rewards, reward.observe(after), fallen, done)
        resets = jax.random.choice(key_resets, pool, ages.shape)
        carry = jnp.where(done[:, None], resets, after), jnp.where(done, 0, ages + 1)
        return carry, (taken, reward.reached(after))

    keys = jax.random.split(jax.random.fold_in(learner.key, 0), ppo.unroll)
    (states, ages), (steps, reached) = jax.lax.scan(step, (learner.states, learner.ages), keys)
    return steps, reached, states, ages


def advantages(
    steps: Steps, values: Float[Array, "T E"], next_values: Float[Array, "T E"], ppo: PPOConfig
) -> Float[Array, "T E"]:
    """Advantages by GAE (Schulman et al., 2016).

    After a fall there is no further reward. At the end of an episode the critic's value stands for the steps to come.
    """
    errors = steps.reward + ppo.discount * jnp.where(steps.fallen, 0, next_values) - values
    decay = ppo.discount * ppo.gae_lambda * ~steps.done

    def step_back(following, now):
        error, decay = now
        advantage = error + decay * following
        return advantage, advantage

    return jax.lax.scan(step_back, jnp.zeros(values.shape[1]), (errors, decay), reverse=True)[1]


def loss(models: tuple[Actor, Network], batch: tuple[Array, ...], clip: float) -> Float[Array, ""]:
    """PPO's clipped objective, negated, plus half the critic's mean squared error."""
    actor, critic = models
    observations, actions, old_log_density, gain, returns = batch
    ratio = jnp.exp(actor.log_density(observations, actions) - old_log_density)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    error = critic(observations)[..., 0] - returns
    return -jnp.minimum(ratio * gain, clipped * gain).mean() + 0.5 * jnp.square(error).mean()


def _optimiser(ppo: PPOConfig) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(ppo.max_gradient_norm), optax.scale_by_adam(eps=1e-5))
