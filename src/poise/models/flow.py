"""Flows: policies that propose a plan of the next H actions, drawn by flow matching (Lipman et al., 2023).

A plan begins as noise and moves along a velocity field, from time 0 to time 1, to where demonstrated actions are. There
are two ways to plan. A flow that plans whole trajectories, where next state = state + action, plans all actions at
once and is conditioned on what has happened so far, so that it can propose the rest anew at any step. Any other flow
plans the next few actions from the current state alone, and proposes anew every few steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from ..config import Network
from ..data.trajectories import Array, Trajectories
from ..styles.label_spaces import LabelSpace
from .layers import Statistics, on_cpu
from .policies import Imitation
from .velocity import VelocityNetwork

FREQUENCIES = np.exp(np.linspace(0, 4, 16))  # of the time of the velocity field, as features
TO_PLAN, HAPPENED, BEYOND = 0.0, 1.0, -1.0
"""The status of a step of a plan: still free, already taken, or beyond the end of the trajectory."""
SHORT_PLAN = 4  # actions, where nothing says where a plan leads
CLASS_ALONE = 0.1  # share of training rows whose labels have no grades, as where only a class is known
EXACT_STEPS = 20  # of Heun's method, for the density of a demonstration

Plan = Float[Array, "batch H A"]
"""Actions of a plan, in units of their deviation."""


class Situation(NamedTuple):
    """What a plan is conditioned on."""

    state: Float[Array, "batch S"]
    """The state at which the plan begins."""
    labels: Float[Array, "batch width"]
    """The encoded labels; zeros where a style is left free."""
    status: Float[Array, "batch H"]
    """Which steps are free, have happened, or lie beyond the end."""
    past: Plan
    """The actions that have happened; zeros elsewhere."""


class Steering(NamedTuple):
    """What leads a plan elsewhere while it is drawn."""

    pull: Callable[[Plan, Array], Plan]
    """(the predicted end of a plan, the time) -> what is added to its velocity."""
    finish: Callable[[Plan], Plan]
    """A drawn plan -> the plan with its last corrections."""


class Context(NamedTuple):
    """What is fixed during a rollout."""

    labels: Float[Array, "batch width"]
    lengths: Int[Array, " batch"]


class Past(NamedTuple):
    """The memory of a flow that plans whole trajectories: what has happened since the plan began."""

    start: Float[Array, "batch S"]
    actions: Plan
    steps: Int[Array, ""]


class Flow(eqx.Module):
    """A policy that proposes the next H actions by a flow."""

    statistics: Statistics
    network: VelocityNetwork
    space: LabelSpace = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    """Actions of a plan, H."""
    replan: int = eqx.field(static=True)
    """Actions of a plan that are taken before the next is proposed."""
    adds_up: bool = eqx.field(static=True)
    """Whether next state = state + action, so that a plan says where it leads."""
    whole: bool = eqx.field(static=True)
    """Whether a plan is a whole trajectory."""
    position: tuple[int, ...] = eqx.field(static=True)
    """Columns of the state that it does not read."""
    drop: float = eqx.field(static=True)
    shake: float = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    """Steps of the sampler."""
    guidance: float = eqx.field(static=True, default=1.0)
    """How much the labels count: 0 ignores them, 1 is as trained, above 1 exaggerates what they change."""

    def __init__(
        self,
        statistics: Statistics,
        space: LabelSpace,
        network: Network,
        *,
        adds_up: bool,
        position: tuple[int, ...] = (),
        key: PRNGKeyArray,
    ):
        sizes, steps = network.flow, statistics.steps
        state, action = statistics.state.mean.size, statistics.action.mean.size
        self.horizon = min(sizes.horizon or (steps if adds_up else SHORT_PLAN), steps)
        self.adds_up, self.whole = adds_up, adds_up and self.horizon == steps
        self.replan = min(sizes.replan or (self.horizon if self.whole else -(-self.horizon // 2)), self.horizon)
        self.statistics, self.space = statistics, space
        self.position = () if self.whole else position
        per_step = action + (state if adds_up else 0) + 1
        condition = state + 2 * len(FREQUENCIES) + space.width  # labels come last: see `label_axes`
        self.network = VelocityNetwork(
            self.horizon * per_step, condition, self.horizon * action, sizes.width, sizes.blocks, key=key
        )
        self.drop, self.shake, self.steps = sizes.drop, 0.0 if self.whole else sizes.shake, sizes.steps

    @property
    def noise(self) -> int:
        """Standard normal numbers per plan."""
        return self.horizon * self.statistics.action.mean.size

    @property
    def open_labels(self) -> bool:
        """Whether a style may be left free: it was in training."""
        return self.drop > 0

    def label_axes(self) -> dict[str, int]:
        """The axis that ends in the label columns, for each array that has them, by dotted path."""
        return {"network.condition.layers.0.weight": -2} if self.space.kinds else {}

    def begin(
        self, labels: Shaped[Array, "N M"], lengths: Int[Array, " N"], key: PRNGKeyArray
    ) -> tuple[Context, Past | tuple[()]]:
        """The labels and lengths, and an empty memory; nothing is drawn."""
        context = Context(self.space.encode(labels), jnp.asarray(lengths))
        if not self.whole:
            return context, ()
        empty = jnp.zeros((len(labels), self.horizon, self.statistics.action.mean.size))
        return context, Past(jnp.zeros((len(labels), self.statistics.state.mean.size)), empty, jnp.zeros((), jnp.int32))

    def propose(self, context: Context, memory: Past | tuple[()], state: Array, noise: Array) -> Float[Array, "N H A"]:
        """The next H actions in their original units; of a whole trajectory, those that are still to come first."""
        return self.plan(context, memory, state, noise)

    def plan(
        self,
        context: Context,
        memory: Past | tuple[()],
        state: Array,
        noise: Float[Array, "N noise"],
        steering: Callable[[Situation], Steering] | None = None,
    ) -> Float[Array, "N H A"]:
        """As `propose`, with a sampler that may be steered."""
        situation, count = self.situation(context, memory, state)
        plan = self.statistics.action_of(self.draw(situation, noise, steering and steering(situation)))
        return jnp.roll(plan, -count, axis=1)

    def remember(self, context: Context, memory: Past | tuple[()], state: Array, action: Array) -> Past | tuple[()]:
        """The memory after a step; at the end of a trajectory another begins."""
        if not isinstance(memory, Past):
            return ()
        start, past, count = self._corrected(memory, state)
        past = jax.lax.dynamic_update_index_in_dim(past, self.statistics.action(action), count, axis=1)
        ends = count + 1 == self.horizon
        return Past(start, jnp.where(ends, 0.0, past), jnp.where(ends, 0, count + 1))

    def situation(self, context: Context, memory: Past | tuple[()], state: Array) -> tuple[Situation, Int[Array, ""]]:
        """What a plan is conditioned on, and how many of its steps have happened."""
        steps = jnp.arange(self.horizon)
        if not isinstance(memory, Past):
            free = jnp.full((len(state), self.horizon), TO_PLAN)
            past = jnp.zeros((len(state), self.horizon, self.statistics.action.mean.size))
            return Situation(state, context.labels, free, past), jnp.zeros((), jnp.int32)
        start, past, count = self._corrected(memory, state)
        beyond = steps >= jnp.maximum(context.lengths[:, None], count + 1)
        status = jnp.where(beyond, BEYOND, jnp.where(steps < count, HAPPENED, TO_PLAN))
        return Situation(start, context.labels, status, past), count

    def _corrected(self, memory: Past, state: Array) -> Past:
        """The memory with the last action such that it leads to this state: something may have pushed it elsewhere."""
        first = memory.steps == 0
        start = jnp.where(first, state, memory.start)
        last = jnp.maximum(memory.steps - 1, 0)
        taken = jnp.arange(self.horizon)[None, :, None] < last
        before = start + jnp.sum(jnp.where(taken, self.statistics.action.undo(memory.actions), 0.0), axis=1)
        corrected = jax.lax.dynamic_update_index_in_dim(
            memory.actions, self.statistics.action(state - before), last, axis=1
        )
        return Past(start, jnp.where(first, memory.actions, corrected), memory.steps)

    def states(self, situation: Situation, plan: Plan) -> Float[Array, "batch H+1 S"]:
        """The states that a plan leads through, the first one included; only where next state = state + action."""
        start = situation.state[:, None]
        changes = jnp.where((situation.status == BEYOND)[..., None], 0.0, self.statistics.action_of(plan))
        return jnp.concatenate([start, start + jnp.cumsum(changes, axis=1)], axis=1)

    def sampled(self, steps: int, guidance: float, replan: int | None = None) -> Flow:
        """The same flow with another sampler, or planned anew after another number of actions."""
        flow = object.__new__(Flow)
        for field in dataclasses.fields(self):
            object.__setattr__(flow, field.name, getattr(self, field.name))
        object.__setattr__(flow, "steps", steps)
        object.__setattr__(flow, "guidance", guidance)
        object.__setattr__(flow, "replan", replan or self.replan)
        return flow

    def draw(self, situation: Situation, noise: Float[Array, "N noise"], steering: Steering | None = None) -> Plan:
        """Plans in units of the actions' deviation, by Euler's method from this noise."""
        free = (situation.status == TO_PLAN)[..., None]
        field = self.field(situation)

        def step(x, number):
            time = number / self.steps
            velocity = jnp.where(free, field(x, time), 0.0)
            if steering is not None:
                velocity += jnp.where(free, steering.pull(x + (1 - time) * velocity, time), 0.0)
            return x + velocity / self.steps, None

        first = jnp.where(free, noise.reshape(situation.past.shape), situation.past)
        last = jax.lax.scan(step, first, jnp.arange(self.steps))[0]
        return last if steering is None else jnp.where(free, steering.finish(last), last)

    def field(self, situation: Situation) -> Callable[[Plan, Array], Plan]:
        """The velocity of a plan at a time, with guidance."""
        free = situation._replace(labels=jnp.zeros_like(situation.labels))

        def velocity(x: Plan, time: Array) -> Plan:
            times = jnp.broadcast_to(time, len(x))
            if self.guidance == 1 or not self.space.kinds:
                return self.velocity(situation, x, times)
            asked, unasked = self.velocity(situation, x, times), self.velocity(free, x, times)
            return self.guidance * asked + (1 - self.guidance) * unasked

        return velocity

    def velocity(self, situation: Situation, x: Plan, times: Float[Array, " N"], precision: Any = jnp.float32) -> Plan:
        """The velocity of a plan in progress."""
        status = situation.status[..., None]
        parts = [jnp.where(status == BEYOND, 0.0, x), status]
        if self.adds_up:
            parts.append(self.statistics.state(self.states(situation, x)[:, 1:]))
        angles = times[:, None] * jnp.asarray(FREQUENCIES, jnp.float32)
        state = jnp.asarray(self.statistics.state(situation.state)).at[:, list(self.position)].set(0.0)
        condition = [state, jnp.sin(angles), jnp.cos(angles), situation.labels]
        flat = jnp.concatenate(parts, axis=-1).reshape(len(x), -1)
        return self.network(flat, jnp.concatenate(condition, axis=-1), precision).reshape(x.shape)

    def match(
        self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray
    ) -> Float[Array, " batch"]:
        """Squared error of the velocity that leads from noise to the demonstrated actions, the mean over numbers.

        Labels are left free at random; of a whole trajectory, a random part is given as the past.
        """
        key_labels, key_part, key_time, key_noise = jax.random.split(key, 4)
        situation, x = self._part(demonstrations, self.leave_free(labels, key_labels), key_part)
        time = jax.nn.sigmoid(jax.random.normal(key_time, (len(x), 1, 1)))
        noise, free = jax.random.normal(key_noise, x.shape), (situation.status == TO_PLAN)[..., None]
        between = jnp.where(free, (1 - time) * noise + time * x, situation.past)
        precision = jnp.float32 if on_cpu() else jnp.bfloat16  # half of it is twice as fast on a GPU
        error = (self.velocity(situation, between, time[:, 0, 0], precision) - (x - noise)) ** 2
        counted = jnp.broadcast_to(free, x.shape)
        return jnp.sum(jnp.where(counted, error, 0.0), axis=(1, 2)) / jnp.maximum(jnp.sum(counted, axis=(1, 2)), 1)

    def leave_free(self, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Shaped[Array, "batch M"]:
        """The labels with some left free (-1): in a share `drop` of rows each style on its own, by the row's chance.

        Where labels are graded, some rows keep the classes alone.
        """
        if not self.space.kinds:
            return labels
        key_row, key_chance, key_label = jax.random.split(key, 3)
        some = jax.random.uniform(key_row, (len(labels), 1)) < self.drop
        chance = jax.random.uniform(key_chance, (len(labels), 1))
        # One key per kind and its number among them, so that a run in a shared label space draws as if it were alone.
        numbers = [self.space.kinds[:i].count(kind) for i, kind in enumerate(self.space.kinds)]
        keys = [
            jax.random.fold_in(jax.random.fold_in(key_label, kind.width), number)
            for kind, number in zip(self.space.kinds, numbers, strict=True)
        ]
        drawn = jnp.stack([jax.random.uniform(key, (len(labels),)) for key in keys], axis=1)
        left = jnp.where(some & (drawn < chance), -1, labels)
        if not self.space.graded:
            return left
        alone = jax.random.uniform(jax.random.fold_in(key_row, 1), (len(labels), 1)) < CLASS_ALONE
        return jnp.where(alone, self.space.classes_of(left), left)

    def _part(self, demonstrations: Trajectories, labels: Array, key: PRNGKeyArray) -> tuple[Situation, Plan]:
        """A random part of each demonstration as a situation, and the plan that was taken in it."""
        encoded, lengths = self.space.encode(labels), demonstrations.lengths
        key_some, key_first, key_shake = jax.random.split(key, 3)
        first = jnp.floor(jax.random.uniform(key_first, (len(labels),)) * lengths).astype(jnp.int32)
        if self.whole:
            first = jnp.where(jax.random.uniform(key_some, (len(labels),)) < 0.5, 0, first)
            return self._whole(demonstrations, encoded, first)
        situation, plan = self._window(demonstrations, encoded, first)
        shaken = self.shake * self.statistics.state.deviation * jax.random.normal(key_shake, situation.state.shape)
        return situation._replace(state=situation.state + shaken), plan

    def _whole(
        self, demonstrations: Trajectories, labels: Array, happened: Array, begins: int = 0
    ) -> tuple[Situation, Plan]:
        """The trajectories of H steps that begin at a step of the demonstrations, of which some steps have happened."""
        taken = min(self.horizon, demonstrations.steps - begins)
        actions = demonstrations.actions[:, begins : begins + taken]
        x = self.statistics.action(jnp.pad(actions, ((0, 0), (0, self.horizon - taken), (0, 0))))
        steps, real = jnp.arange(self.horizon), jnp.minimum(demonstrations.lengths - begins, taken)
        status = jnp.where(steps < happened[:, None], HAPPENED, TO_PLAN)
        status = jnp.where(steps < real[:, None], status, BEYOND)
        past = jnp.where((status == HAPPENED)[..., None], x, 0.0)
        return Situation(demonstrations.states[:, begins], labels, status, past), x

    def _window(self, demonstrations: Trajectories, labels: Array, first: Array) -> tuple[Situation, Plan]:
        """The next H actions from a step of each demonstration on."""
        steps = first[:, None] + jnp.arange(self.horizon)
        rows, last = jnp.arange(len(first)), demonstrations.steps - 1
        x = self.statistics.action(demonstrations.actions[rows[:, None], jnp.minimum(steps, last)])
        status = jnp.where(steps < demonstrations.lengths[:, None], TO_PLAN, BEYOND)
        return Situation(demonstrations.states[rows, first], labels, status, jnp.zeros_like(x)), x

    def imitate(self, demonstrations: Trajectories, labels: Shaped[Array, "batch M"], key: PRNGKeyArray) -> Imitation:
        """Negative log-density of the demonstrated actions by the exact change of variables, plan after plan."""
        encoded, firsts = self.space.encode(labels), range(0, demonstrations.steps, self.horizon)
        if self.whole:
            none = jnp.zeros(len(labels), jnp.int32)
            total = sum(self._nld(*self._whole(demonstrations, encoded, none, first)) for first in firsts)
        else:

            def of_plan(first: Array) -> Float[Array, " batch"]:
                return self._nld(*self._window(demonstrations, encoded, jnp.full(len(labels), first)))

            total = jax.lax.map(of_plan, jnp.asarray(firsts)).sum(axis=0)
        return Imitation(jnp.asarray(total), jnp.zeros((len(labels), 0)))

    def _nld(self, situation: Situation, x: Plan) -> Float[Array, " batch"]:
        """-log p of plans in their original units: the noise's, and the divergence on the way back to it (Heun)."""
        free = jnp.broadcast_to((situation.status == TO_PLAN)[..., None], x.shape)

        def slope(x, time):
            """The velocity and its divergence."""

            def velocity(x):
                return jnp.where(free, self.velocity(situation, x, jnp.broadcast_to(time, len(x))), 0.0)

            def diagonal(number):
                one = jnp.zeros(x.shape[1:]).at[jnp.unravel_index(number, x.shape[1:])].set(1.0)
                return jnp.sum(jax.jvp(velocity, (x,), (jnp.broadcast_to(one, x.shape),))[1] * one, axis=(1, 2))

            numbers = jnp.arange(x[0].size)
            return velocity(x), jnp.sum(jax.lax.map(diagonal, numbers, batch_size=min(8, x[0].size)), axis=0)

        def step(carry, number):
            x, divergence = carry
            time, width = 1 - number / EXACT_STEPS, 1 / EXACT_STEPS
            v1, d1 = slope(x, time)
            v2, d2 = slope(x - width * v1, time - width)
            return (x - width * (v1 + v2) / 2, divergence + width * (d1 + d2) / 2), None

        start = jnp.where(free, x, situation.past), jnp.zeros(len(x))
        (noise, divergence), _ = jax.lax.scan(step, start, jnp.arange(EXACT_STEPS))
        units = 0.5 * np.log(2 * np.pi) + jnp.log(self.statistics.action.deviation)
        return divergence + jnp.sum(jnp.where(free, 0.5 * noise**2 + units, 0.0), axis=(1, 2))
