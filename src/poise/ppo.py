"""PPO (Schulman et al., 2017) for many policies at once, each with a target and environments of its own.

Everything is written for one policy; policies are a `vmap` axis, and physics steps, rollouts and updates are one
compiled program. Advantages are generalised (GAE), observations are standardised as they come in, and the learning rate
falls to zero.
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

from .trajectories import Array, Transition


@dataclass(frozen=True)
class Recipe:
    """The numbers of PPO."""

    hidden: int = 64
    unroll: int = 20
    """Steps of every environment between two updates."""
    episode: int = 80
    """Steps after which an environment starts anew."""
    epochs: int = 8
    minibatches: int = 4
    learning_rate: float = 1e-3
    discount: float = 0.98
    trace: float = 0.95
    """Lambda of the generalised advantages."""
    clip: float = 0.2
    largest_gradient: float = 1.0
    deviation: float = 0.6
    """Of the first actions."""


class Course(NamedTuple):
    """What a policy learns: how it sees states, what they are worth to it, and how far it may go in its actions."""

    observe: Callable[[Array], Array]
    """States [..., S] as a policy sees them [..., O]."""
    reward: Callable[[Array, Array, Array], Array]
    """The worth of (states that actions led to, the actions, the target)."""
    fallen: Callable[[Array], Array]
    """Whether a state is the end, worth nothing from there on."""
    reached: Callable[[Array], Array]
    """What of a state should be at the target."""
    actions: tuple[float, float]
    """The range that every number of an action is cut to."""


class Network(eqx.Module):
    """Two hidden layers of tanh, on arrays with any leading axes."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]

    @staticmethod
    def make(sizes: tuple[int, ...], last: float, key: PRNGKeyArray) -> Network:
        """Normal weights; those of the last layer are scaled."""
        keys, normal = jax.random.split(key, len(sizes) - 1), jax.nn.initializers.lecun_normal()
        weights = [normal(key, shape) for key, shape in zip(keys, itertools.pairwise(sizes), strict=True)]
        return Network((*weights[:-1], last * weights[-1]), tuple(jnp.zeros(size) for size in sizes[1:]))

    def __call__(self, x: Float[Array, "*batch I"]) -> Float[Array, "*batch J"]:
        *hidden, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for w, b in hidden:
            x = jnp.tanh(x @ w + b)
        return x @ weight + bias


class Scale(eqx.Module):
    """The running mean and variance of observations."""

    count: Float[Array, "*P"]
    mean: Float[Array, "*P O"]
    variance: Float[Array, "*P O"]

    def __call__(self, observations: Float[Array, "*batch O"]) -> Float[Array, "*batch O"]:
        """Observations in units of their deviation, without outliers."""
        return jnp.clip((observations - self.mean) / jnp.sqrt(self.variance + 1e-4), -10, 10)

    def join(self, observations: Float[Array, "*batch O"]) -> Scale:
        """The moments of these observations and all before."""
        new = observations.reshape(-1, observations.shape[-1])
        count = self.count + len(new)
        share, apart = len(new) / count, new.mean(axis=0) - self.mean
        variance = (1 - share) * self.variance + share * new.var(axis=0) + share * (1 - share) * apart**2
        return Scale(count, self.mean + share * apart, variance)


class Actor(eqx.Module):
    """A Gaussian policy: its mean by a network, and one deviation for each number of an action."""

    network: Network
    log_deviation: Float[Array, "*P A"]

    def log_density(self, seen: Float[Array, "*batch O"], actions: Float[Array, "*batch A"]) -> Float[Array, "*batch"]:
        """The log-density of actions, but for a constant."""
        apart = (actions - self.network(seen)) * jnp.exp(-self.log_deviation)
        return -(0.5 * apart**2 + self.log_deviation).sum(axis=-1)


class Learner(eqx.Module):
    """All that changes in training; every array has the policies as its first axis, but inside of one policy."""

    scale: Scale
    actor: Actor
    critic: Network
    optimiser: Any
    states: Float[Array, "*P E S"]
    ages: Int[Array, "*P E"]
    key: Key[Array, "*P"]
    updates: Int[Array, "*P"]


class Steps(NamedTuple):
    """What the environments went through."""

    seen: Float[Array, "T E O"]
    action: Float[Array, "T E A"]
    log_density: Float[Array, "T E"]
    reward: Float[Array, "T E"]
    after: Float[Array, "T E O"]
    """What is seen after the action, before any new start."""
    fallen: Bool[Array, "T E"]
    over: Bool[Array, "T E"]
    """Fallen, or too old."""


def begin(
    course: Course, recipe: Recipe, pool: Float[Array, "N S"], environments: int, actions: int, key: PRNGKeyArray
) -> Learner:
    """A policy that knows nothing, in environments of different ages."""
    of_states, of_ages, of_actor, of_critic, later = jax.random.split(key, 5)
    states = jax.random.choice(of_states, pool, (environments,))
    size, hidden = course.observe(pool).shape[-1], (recipe.hidden, recipe.hidden)
    actor = Actor(Network.make((size, *hidden, actions), 0.01, of_actor), jnp.full(actions, jnp.log(recipe.deviation)))
    critic = Network.make((size, *hidden, 1), 1.0, of_critic)
    return Learner(
        scale=Scale(jnp.zeros(()), jnp.zeros(size), jnp.ones(size)),
        actor=actor,
        critic=critic,
        optimiser=_optimiser(recipe).init((actor, critic)),  # pyright: ignore[reportArgumentType]
        states=states,
        ages=jax.random.randint(of_ages, (environments,), 0, recipe.episode),
        key=later,
        updates=jnp.zeros((), jnp.int32),
    )


def learn(
    learners: Learner,
    targets: Float[Array, " P"],
    pool: Float[Array, "N S"],
    count: Int[Array, ""],
    *,
    course: Course,
    recipe: Recipe,
    total: int,
    transition: Transition,
) -> tuple[Learner, Float[Array, " P"]]:
    """The learners after `count` more updates, and their mean distance from the target in the last one.

    After `total` the learning rate is zero.
    """
    one = partial(_update, course=course, recipe=recipe, total=total, transition=transition, pool=pool)
    return jax.lax.fori_loop(
        0, count, lambda _, now: jax.vmap(one)(now[0], targets), (learners, jnp.zeros(len(targets)))
    )


def _update(learner, target, *, course, recipe, total, transition, pool) -> tuple[Learner, Array]:
    """One update: a short rollout, then some epochs on it."""
    steps, reached, states, ages = _unroll(learner, target, course, recipe, transition, pool)
    seen, after = learner.scale(steps.seen), learner.scale(steps.after)
    values, later = (learner.critic(x)[..., 0] for x in (seen, after))
    gains = advantages(steps, values, later, recipe)
    scaled = (gains - gains.mean()) / (gains.std() + 1e-6)
    batch = seen, steps.action, steps.log_density, scaled, gains + values
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)

    key, shuffle = jax.random.split(jax.random.fold_in(learner.key, 1))
    epochs = jax.vmap(lambda key: jax.random.permutation(key, len(gains.ravel())))
    rows = epochs(jax.random.split(shuffle, recipe.epochs)).reshape(recipe.epochs * recipe.minibatches, -1)
    rate = recipe.learning_rate * jnp.maximum(1 - learner.updates / total, 0)

    def descend(now, rows):
        models, optimiser = now
        gradient = jax.grad(loss)(models, jax.tree.map(lambda x: x[rows], batch), recipe.clip)
        gradient = jax.tree.map(jnp.nan_to_num, gradient)  # one bad batch is not the end of a policy
        change, optimiser = _optimiser(recipe).update(gradient, optimiser)
        return (jax.tree.map(lambda x, dx: x - rate * dx, models, change), optimiser), None

    ((actor, critic), optimiser), _ = jax.lax.scan(descend, ((learner.actor, learner.critic), learner.optimiser), rows)
    scale = learner.scale.join(steps.seen)
    error = jnp.abs(reached - target).mean()
    return Learner(scale, actor, critic, optimiser, states, ages, key, learner.updates + 1), error


def _unroll(learner, target, course, recipe, transition, pool) -> tuple[Steps, Array, Array, Array]:
    """Lets the policy act in its environments; one that is over starts anew from the pool."""
    actor, deviation = learner.actor, jnp.exp(learner.actor.log_deviation)

    def step(now, key):
        states, ages = now
        of_noise, of_starts = jax.random.split(key)
        seen = course.observe(states)
        mean = actor.network(learner.scale(seen))
        action = mean + deviation * jax.random.normal(of_noise, mean.shape)
        given = jnp.clip(action, *course.actions)
        after = transition(states, given)
        broken = ~jnp.isfinite(after).all(axis=-1)  # single precision has its limits
        after = jnp.where(broken[:, None], states, after)
        fallen = course.fallen(after) | broken
        over = fallen | (ages + 1 >= recipe.episode)
        density = actor.log_density(learner.scale(seen), action)
        done = Steps(seen, action, density, course.reward(after, given, target), course.observe(after), fallen, over)
        starts = jax.random.choice(of_starts, pool, ages.shape)
        return (jnp.where(over[:, None], starts, after), jnp.where(over, 0, ages + 1)), (done, course.reached(after))

    keys = jax.random.split(jax.random.fold_in(learner.key, 0), recipe.unroll)
    (states, ages), (steps, reached) = jax.lax.scan(step, (learner.states, learner.ages), keys)
    return steps, reached, states, ages


def advantages(
    steps: Steps, values: Float[Array, "T E"], later: Float[Array, "T E"], recipe: Recipe
) -> Float[Array, "T E"]:
    """Generalised advantages. A fall is worth nothing more; an episode that is only too old would have gone on."""
    surprise = steps.reward + recipe.discount * jnp.where(steps.fallen, 0, later) - values
    decay = recipe.discount * recipe.trace * ~steps.over

    def back(next_one, now):
        advantage = now[0] + now[1] * next_one
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros(values.shape[1]), (surprise, decay), reverse=True)[1]


def loss(models: tuple[Actor, Network], batch: tuple[Array, ...], clip: float) -> Float[Array, ""]:
    """PPO's clipped objective, and half the critic's squared error."""
    actor, critic = models
    seen, action, before, gain, value = batch
    ratio = jnp.exp(actor.log_density(seen, action) - before)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    return -jnp.minimum(ratio * gain, clipped * gain).mean() + 0.5 * jnp.square(critic(seen)[..., 0] - value).mean()


def _optimiser(recipe: Recipe) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(recipe.largest_gradient), optax.scale_by_adam(eps=1e-5))
