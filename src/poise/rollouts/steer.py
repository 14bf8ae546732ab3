"""Steering: a flow is pulled, while it samples, to where labeling functions give the labels that are asked for.

At every step of the sampler the flow says where its plan will end. A labeling function scores the trajectory that the
plan leads through, and the gradient of its softened thresholds pulls the plan. A pull is clipped in units of the
actions' deviation, so that it never leaves what the flow could draw. It needs no training: the function may be written
after the flow was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray, Shaped

from ..config import Sampling
from ..data.trajectories import Array, Trajectories
from ..models import Flow, Labeler, Policy
from ..models.flow import TO_PLAN, Context, Past, Plan, Situation, Steering
from ..styles.labeling_functions import LabelingFunction
from ..styles.traced import Score
from .requests import FREE

FIRST_SOFTNESS = 0.5  # of thresholds while a plan is all noise, in units of a score's deviation
SWEEPS, NUDGE = 16, 0.1  # of the last corrections, and the largest of each, in units of the actions' deviation
MARGIN, WIDE_MARGIN = 0.02, 0.3  # that they leave to a threshold, in units of a score's deviation; if more steps follow
FAR = 1e30  # a bound that is none
CLASSES = 8  # bounds are kept for a multiple of so many, so that styles of few classes share a program
EDGE = 0.01  # softness of the edges of the range, as a share of the range


@dataclass(frozen=True)
class Target:
    """A style to steer by, and the deviation of its scores on demonstrations."""

    style: LabelingFunction
    deviation: float


class Bounds(eqx.Module):
    """The lowest and highest score of each class of each style; classes that a style does not have are unbounded."""

    low: Float[Array, "K classes"]
    high: Float[Array, "K classes"]
    turn: Float[Array, " K"]
    """What a score that wraps grows by in a whole turn; 0 for other scores."""

    @staticmethod
    def of(targets: Sequence[Target]) -> Bounds:
        """The bounds by the styles' thresholds."""
        most = max((len(target.style.classes) for target in targets), default=1)
        high = np.full((len(targets), -(-most // CLASSES) * CLASSES), FAR, np.float32)
        low, turn = -high, np.zeros(len(targets), np.float32)
        for i, target in enumerate(targets):
            thresholds, ends = target.style.thresholds or (), target.style.wraps
            low[i, 1 : len(thresholds) + 1], high[i, : len(thresholds)] = thresholds, thresholds
            if ends is not None:
                low[i, 0], high[i, len(thresholds)], turn[i] = *ends, ends[1] - ends[0]
        return Bounds(jnp.asarray(low), jnp.asarray(high), jnp.asarray(turn))

    def __call__(self, labels: Int[Array, "N K"]) -> tuple[Float[Array, "N K"], Float[Array, "N K"]]:
        """The bounds that labels ask for; a free label (-1) is unbounded."""
        styles, free = jnp.arange(len(self.low)), labels < 0
        low, high = (x[styles, jnp.maximum(labels, 0)] for x in (self.low, self.high))
        return jnp.where(free, -FAR, low), jnp.where(free, FAR, high)


class SteeredContext(NamedTuple):
    """What is fixed during a steered rollout: the flow's context, and the scores that are asked for."""

    flow: Context
    low: Float[Array, "N K"]
    high: Float[Array, "N K"]
    strength: Float[Array, " N"]
    labels: Int[Array, "N M"]
    """The labels that the labeler is asked for; -1 where a style is steered by its own gradient."""


class Steered(eqx.Module):
    """A flow that plans whole trajectories, steered.

    Its labels are the flow's, then those that are asked of the targets, then those that are asked of the labeler.
    """

    flow: Flow
    bounds: Bounds
    deviations: Float[Array, " K"]
    range: Float[Array, "2 S"]
    """The smallest and largest states that plans are kept between."""
    labeler: Labeler | None
    strength: Float[Array, ""]
    limit: Float[Array, ""]
    softness: Float[Array, ""]
    scores: tuple[Score, ...] = eqx.field(static=True)
    learned: tuple[int, ...] = eqx.field(static=True)
    """The flow's labels that are steered by the labeler."""
    later: int = eqx.field(static=True)
    """How many of the scores, the last ones, are of styles that the flow was not trained in."""
    length: int = eqx.field(static=True)
    """Steps that labeling functions see; no rollout is shorter."""

    @property
    def replan(self) -> int:
        """Actions of a plan that are taken before the next is proposed."""
        return self.flow.replan

    @property
    def noise(self) -> int:
        """Standard normal numbers per plan."""
        return self.flow.noise

    @property
    def open_labels(self) -> bool:
        """A style may be left free."""
        return self.flow.open_labels

    def imitate(self, demonstrations: Trajectories, labels: Array, key: PRNGKeyArray) -> Any:
        """The flow's own losses."""
        return self.flow.imitate(demonstrations, labels[:, : len(self.flow.space.kinds)], key)

    def begin(
        self, labels: Shaped[Array, "N both"], lengths: Array, key: PRNGKeyArray
    ) -> tuple[SteeredContext, Past | tuple[()]]:
        """The scores that are asked for, and an empty memory."""
        ends = np.cumsum([len(self.flow.space.kinds), len(self.scores)])
        own, targets, learned = jnp.split(jnp.asarray(labels), ends, axis=1)
        context, memory = self.flow.begin(own, lengths, key)
        asked = jnp.full_like(own, FREE).at[:, jnp.asarray(self.learned, int)].set(learned)
        later = (targets[:, len(self.scores) - self.later :] != FREE).sum(axis=1)
        strength = self.strength * jnp.maximum(later, 1)  # the flow has no label that would lead to a later style
        return SteeredContext(context, *self.bounds(targets), strength, asked), memory

    def propose(
        self, context: SteeredContext, memory: Past | tuple[()], state: Array, noise: Array
    ) -> Float[Array, "N H A"]:
        """The actions that are still to come, of a steered plan."""
        return self.flow.plan(context.flow, memory, state, noise, lambda situation: self.steering(context, situation))

    def remember(
        self, context: SteeredContext, memory: Past | tuple[()], state: Array, action: Array
    ) -> Past | tuple[()]:
        """The flow's memory after a step."""
        return self.flow.remember(context.flow, memory, state, action)

    def steering(self, context: SteeredContext, situation: Situation) -> Steering:
        """What pulls and finishes the plans of a situation."""

        def pull(end: Plan, time: Array) -> Plan:
            softness = self.softness + FIRST_SOFTNESS * (1 - time)
            slopes = (jax.grad(lambda end, loss=loss: loss(end, softness).sum())(end) for loss in losses)
            slope = sum((_finite(slope) for slope in slopes), start=jnp.zeros_like(end))
            return jnp.clip(-context.strength[:, None, None] * slope, -self.limit, self.limit)

        losses = self._losses(context, situation)
        return Steering(pull, lambda plan: self._finish(context, situation, plan))

    def _losses(
        self, context: SteeredContext, situation: Situation
    ) -> list[Callable[[Plan, Array], Float[Array, " N"]]]:
        """By plan and softness, how far its states are from the range, its scores from the bounds, and its labels.

        One after the other, so that a score whose gradient is NaN silences no other.
        """

        def leave(plan: Plan, softness: Array) -> Array:
            low, high = self.range
            states = self.flow.states(situation, plan)
            return _outside(states[:, 1:], low, high, jnp.maximum(EDGE * (high - low), 1e-6)).sum(axis=(1, 2))

        def miss(number: int, plan: Plan, softness: Array) -> Array:
            found = self._score(number, context, situation, plan)
            return _outside(found, context.low[:, number], context.high[:, number], softness * self.deviations[number])

        def differ(plan: Plan, softness: Array) -> Array:
            assert self.labeler is not None
            states, actions = self._leads_to(situation, plan)
            seen = Trajectories.unchecked(states, actions, jnp.full(len(states), self.length))
            return self.labeler.space.loss(self.labeler(seen), context.labels)

        each = [partial(miss, number) for number in range(len(self.scores))]
        return [leave, *each, *([] if self.labeler is None else [differ])]

    def _score(self, number: int, context: SteeredContext, situation: Situation, plan: Plan) -> Float[Array, " N"]:
        """One score of each plan; of a score that wraps, the turn that is nearest to what is asked for."""
        score, turn = self.scores[number], self.bounds.turn[number]
        found = jax.vmap(lambda s, a: jnp.asarray(score(s, a), jnp.float32))(*self._leads_to(situation, plan))
        middle = (context.low[:, number] + context.high[:, number]) / 2
        return found - turn * jnp.round((found - middle) / jnp.where(turn > 0, turn, 1.0))

    def _finish(self, context: SteeredContext, situation: Situation, plan: Plan) -> Plan:
        """The plan after small steps, score by score, to the nearest score that is asked for (Kaczmarz's method)."""
        margin = jnp.where(context.flow.lengths > self.length, WIDE_MARGIN, MARGIN)[:, None] * self.deviations
        margin = jnp.minimum(margin, (context.high - context.low) / 4)
        free = (situation.status == TO_PLAN)[..., None]

        def correct(plan: Plan, number: int) -> Plan:
            def score(plan):
                found = self._score(number, context, situation, plan)
                return found.sum(), found

            slope, found = jax.grad(score, has_aux=True)(plan)
            slope = jnp.where(free, _finite(slope), 0.0)
            low, high = (context.low + margin)[:, number], (context.high - margin)[:, number]
            missing = jnp.clip(found, low, high) - found
            size = missing / jnp.maximum(jnp.sum(slope**2, axis=(1, 2)), 1e-12)
            return plan + jnp.clip(size[:, None, None] * slope, -NUDGE, NUDGE)

        def stay(plan: Plan) -> Plan:
            states = self.flow.states(situation, plan)
            width = self.range[1] - self.range[0]
            inside = jnp.clip(states[:, 1:], self.range[0] + EDGE * width, self.range[1] - EDGE * width)
            moved = self.flow.statistics.action(jnp.diff(jnp.concatenate([states[:, :1], inside], axis=1), axis=1))
            return jnp.where(free, plan + jnp.clip(moved - plan, -NUDGE, NUDGE), plan)

        def sweep(plan, _):
            plan = stay(plan)
            for number in range(len(self.scores)):
                plan = correct(plan, number)
            return plan, None

        return jax.lax.scan(sweep, plan, None, length=SWEEPS)[0]

    def _leads_to(self, situation: Situation, plan: Plan) -> tuple[Float[Array, "N L1 S"], Float[Array, "N L A"]]:
        """The states and actions that labeling functions see of a plan."""
        states, actions = self.flow.states(situation, plan), self.flow.statistics.action_of(plan)
        return states[:, : self.length + 1], actions[:, : self.length]


def _finite(slope: Array) -> Array:
    """The slope, zero where it is NaN or infinite."""
    return jnp.where(jnp.isfinite(slope), slope, 0.0)


def _outside(x: Array, low: Array, high: Array, width: Array) -> Array:
    """-log of the soft indicator that x lies between low and high."""
    return jax.nn.softplus((low - x) / width) + jax.nn.softplus((x - high) / width)


def steer(
    flow: Flow,
    targets: Sequence[Target],
    sampling: Sampling,
    *,
    length: int,
    range: Float[np.ndarray, "2 S"],
    later: int = 0,
    labeler: Labeler | None = None,
    learned: Sequence[int] = (),
) -> Steered:
    """The flow, steered and guided.

    Args:
        flow: A flow that plans whole trajectories.
        targets: Styles to steer by with their own gradients; the labels that are asked of them follow the flow's.
        sampling: Guidance, strength, limit and steps.
        length: Steps that labeling functions see: those of the shortest rollout.
        range: The smallest and largest states to stay between.
        later: How many of the targets, the last ones, are styles that the flow was not trained in.
        labeler: A labeler to steer by where a style has no gradient of its own.
        learned: The flow's labels that are steered by the labeler; those that are asked come last.
    """
    return Steered(
        flow=flow.sampled(sampling.steps, guidance_of(flow, sampling)),
        bounds=Bounds.of(targets),
        deviations=jnp.asarray([max(target.deviation, 1e-12) for target in targets], jnp.float32),
        range=jnp.asarray(range, jnp.float32),
        labeler=labeler if learned else None,
        scores=tuple(target.style.score for target in targets),
        learned=tuple(learned),
        later=later,
        length=length,
        strength=jnp.asarray(sampling.strength),
        limit=jnp.asarray(sampling.limit),
        softness=jnp.asarray(sampling.softness),
    )


def guidance_of(flow: Flow, sampling: Sampling) -> float:
    """The guidance of a flow; one that never saw free labels cannot be guided."""
    return sampling.guidance if flow.open_labels else 1.0


def is_flow(policy: Policy) -> TypeGuard[Flow]:
    """Whether a policy is a flow, which can be guided."""
    return isinstance(policy, Flow)


def can_steer(policy: Policy) -> bool:
    """Whether a policy can be steered: a flow whose plan is a whole trajectory."""
    return isinstance(policy, Flow) and policy.whole
