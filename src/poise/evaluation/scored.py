"""Rollouts of a trained seed, scored by the true labeling functions in the true environment."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from ..config import Sampling
from ..data.trajectories import NAMES, Trajectories, Transition
from ..domains import Domain
from ..losses import Parts
from ..models import Dynamics, Policy
from ..rollouts.free_styles import Examples
from ..rollouts.requests import Request
from ..rollouts.simulate import check_environment, find_environment, simulate
from ..rollouts.steer import Target, can_steer, guidance_of, is_flow, steer
from ..rollouts.verify import verify
from ..styles.gradients import can_follow, try_gradients
from ..styles.label_spaces import SharedSpace
from ..styles.labeling_functions import LabelingFunction, label_space
from ..styles.scoring import label_all, score_all
from .support import Support

MOST_LENGTHS = 4
"""Lengths that rollouts are steered at, where demonstrations have more: each is a program of its own."""
WEAK = 1e-6
"""The strength of steering in every other pass of verified sampling: chance may reach what steering leads away from."""


@dataclass(frozen=True)
class ScoredRollouts:
    """Rollouts, and for each of them and each style whether λ agrees with the label that was asked for.

    Examples:
        >>> import poise
        >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
        >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
        >>> scored = run.sample_scored(4, {"speed": "slow"})
        >>> scored.right.shape, scored.joint.shape
        ((4, 1), (4,))
    """

    rollouts: Trajectories
    """The rollouts; the labels that were asked for are in their metadata as `labels`."""
    right: Bool[np.ndarray, "N M"]
    """True where λ gives the label that was asked for."""
    finite: Bool[np.ndarray, " N"]
    """False for a rollout that became NaN or infinite; its values are zeros."""
    scored: Bool[np.ndarray, "N M"]
    """False where a labeling function could not score a finite rollout: it raised, or returned NaN."""
    accepted: Bool[np.ndarray, " N"] | None = None
    """True where verified sampling accepted the rollout; False where no try was; None if nothing was verified."""
    tries: Int[np.ndarray, " N"] | None = None
    """Rollouts until one was accepted."""

    def only(self, styles: Sequence[int]) -> ScoredRollouts:
        """The same rollouts, scored by these styles alone."""
        return replace(self, right=self.right[:, list(styles)], scored=self.scored[:, list(styles)])

    def rows(self, rows: slice | Int[np.ndarray, " rows"]) -> ScoredRollouts:
        """The rollouts of some rows, without what verified sampling says of them."""
        kept = (getattr(self, name)[rows] for name in ("rollouts", "right", "finite", "scored"))
        return ScoredRollouts(*kept)

    def as_made(self) -> Trajectories:
        """The rollouts with NaN again where they are not finite."""
        made, finite = self.rollouts, self.finite[:, None, None]
        states, actions = (np.where(finite, np.asarray(x), np.nan) for x in (made.states, made.actions))
        return Trajectories.unchecked(states.astype(np.float32), actions.astype(np.float32), made.lengths)

    @property
    def joint(self) -> Bool[np.ndarray, " N"]:
        """True for rollouts that are right in all styles."""
        return np.asarray(self.right.all(axis=1))


def score_rollouts(
    styles: Sequence[LabelingFunction], made: Trajectories, wanted: Int[np.ndarray, "N M"]
) -> ScoredRollouts:
    """Rollouts scored by the true labeling functions.

    A rollout that became NaN or infinite is wrong in every style, and one that a function cannot score in that style.
    """
    rollouts = mark_finite(made, wanted)
    finite, labels = rollouts.metadata["finite"], label_all(styles, rollouts, strict=False)
    right, scored = np.equal(labels, wanted) | (wanted < 0), labels >= 0  # a style that is left free is right
    return ScoredRollouts(rollouts, right & finite[:, None], finite, scored | ~finite[:, None])


def mark_finite(made: Trajectories, wanted: Int[np.ndarray, "N M"]) -> Trajectories:
    """The rollouts with what was asked for, and zeros for those that became NaN or infinite, which `finite` marks."""
    states, actions, real = np.asarray(made.states), np.asarray(made.actions), np.asarray(made.mask)
    finite_steps = np.isfinite(np.concatenate([states[:, 1:], actions], axis=-1)).all(axis=2) | ~real
    finite = np.asarray(finite_steps.all(axis=1))
    states, actions = np.where(finite[:, None, None], states, 0), np.where(finite[:, None, None], actions, 0)
    return Trajectories(states, actions, np.asarray(made.lengths), {"labels": wanted, "finite": finite})


def out_of_range(scored: ScoredRollouts, known: Trajectories) -> Bool[np.ndarray, " N"]:
    """True for rollouts with a state outside of the range of the known trajectories, in any dimension."""
    return beyond(scored.rollouts, scored.finite, known)


def beyond(made: Trajectories, finite: Bool[np.ndarray, " N"], known: Trajectories) -> Bool[np.ndarray, " N"]:
    """True for trajectories that are not finite, or with a state outside of the range of the known ones."""
    seen = np.asarray(known.states)[:, 1:][np.asarray(known.mask)]
    states, real = np.asarray(made.states)[:, 1:], np.asarray(made.mask)
    outside = ((states < seen.min(axis=0)) | (states > seen.max(axis=0))).any(axis=-1) & real
    return outside.any(axis=1) | ~finite


@dataclass(frozen=True)
class Known:
    """What sampling knows of demonstrations: the range of their states, and how each score can be followed."""

    range: Float[np.ndarray, "2 S"]
    """The smallest and largest state of training demonstrations."""
    deviations: tuple[float, ...]
    """The deviation of each style's score."""
    gradients: tuple[bool, ...]
    """Whether each style's score has a useful gradient."""
    demonstrations: Trajectories | None = None
    """What the most typical rollouts are near to."""
    lengths: tuple[int, ...] = ()
    """The lengths at which rollouts of several lengths are steered."""

    @staticmethod
    def of(styles: Sequence[LabelingFunction], starts: Trajectories) -> Known:
        """What some demonstrations tell; the range of those that were trained on may be in their metadata."""
        deviations = tuple(float(row.std()) for row in score_all(styles, starts))
        gradients = tuple(bool(style.gradient) for style in try_gradients(styles, starts))
        return Known(range_of(starts), deviations, gradients, starts, spread_lengths(np.asarray(starts.lengths)))

    @functools.cached_property
    def _support(self) -> Support | None:
        return Support.fit(self.demonstrations, self.demonstrations) if self.demonstrations is not None else None

    def most_typical(self, found: ScoredRollouts, among: int) -> ScoredRollouts:
        """Of each so many rollouts of a request, the accepted one whose farthest window is nearest to demonstrations.

        Its tries are those of all of them.
        """
        assert found.accepted is not None
        assert found.tries is not None
        far = self._support.statistic(found.rollouts) if self._support else np.zeros(len(found.accepted))
        each = np.where(found.accepted, far, np.inf).reshape(-1, among)
        rows = each.argmin(axis=1) + among * np.arange(len(each))
        tries = found.tries.reshape(-1, among).sum(axis=1)
        return replace(found.rows(rows), accepted=found.accepted[rows], tries=tries)

    def out_of_range(self, made: Trajectories) -> Bool[np.ndarray, " N"]:
        """True for rollouts with a state outside of the range, in any dimension."""
        states, real = np.asarray(made.states)[:, 1:], np.asarray(made.mask)
        inside = ((states >= self.range[0]) & (states <= self.range[1])).all(axis=-1)
        return (~inside & real).any(axis=1)


def range_of(starts: Trajectories) -> Float[np.ndarray, "2 S"]:
    """The smallest and largest state of demonstrations, or of those that were trained on, if their metadata say it."""
    if "range" in starts.metadata:
        return starts.metadata["range"]
    seen = np.asarray(starts.states)[:, 1:][np.asarray(starts.mask)]
    return np.stack([seen.min(axis=0), seen.max(axis=0)])


def spread_lengths(lengths: Int[np.ndarray, " N"]) -> tuple[int, ...]:
    """The lengths at which rollouts are steered: all, or as many as `MOST_LENGTHS`, the shortest one among them."""
    found = np.unique(lengths)
    if len(found) > MOST_LENGTHS:
        found = np.unique(np.quantile(lengths, np.arange(MOST_LENGTHS) / MOST_LENGTHS, method="lower"))
    return tuple(found.tolist())


@dataclass(frozen=True)
class TrainedSeed:
    """One trained seed, ready to be rolled out: its parts, where they act, and what they can be asked for."""

    parts: Parts
    domain: Domain
    styles: tuple[LabelingFunction, ...]
    """The styles that it was trained in, and after them those that were written later."""
    space: SharedSpace
    """The labels of its styles within the label space that the parts were padded to."""
    seed: int = 0
    stopped: str | None = None
    """The stage and step at which it was stopped, if its loss became NaN or infinite."""
    find_known: Callable[[], Known] | None = None
    """Finds what steering and verifying need to know: it asks the labeling functions, so only when it is needed."""
    find_examples: Callable[[], Examples | None] | None = None
    """Finds labels of demonstrations, as the parts know them and in the styles that were written later; free styles are
    drawn from them."""

    @staticmethod
    def alone(parts: Parts, domain: Domain, styles: Sequence[LabelingFunction], seed: int = 0) -> TrainedSeed:
        """A seed whose parts have the labels of its own styles only."""
        return TrainedSeed(parts, domain, tuple(styles), SharedSpace.alone(label_space(styles)), seed)

    @property
    def known(self) -> Known | None:
        """What steering and verifying know of the demonstrations."""
        return self.find_known() if self.find_known else None

    @property
    def examples(self) -> Examples | None:
        """What free styles are drawn from."""
        return self.find_examples() if self.find_examples else None

    @property
    def environment(self) -> Dynamics | Transition:
        """Where it is rolled out."""
        return find_environment(self.domain, self.parts)

    def roll_out(self, request: Request, key: PRNGKeyArray, sampling: Sampling | None = None) -> Trajectories:
        """Rollouts in the domain's environment, or in the learned dynamics where it has none.

        A flow is steered and guided as `sampling` says; without one, policies are sampled as they were trained.
        """
        labels = np.asarray(request.labels)
        margin = sampling.margin if sampling else 0.0
        drawn = self.draw_open(labels, np.asarray(request.starts), key, margin)
        if not self.steers(sampling):
            policy, _ = self.policy(sampling, request.steps)
            unsteered = request.with_labels(self.arrange(labels, drawn=drawn))
            return simulate(policy, self.environment, unsteered, key=key)
        at, by_length = self._steered_at(request), []
        for length in np.unique(at):
            policy, followed = self.policy(sampling, int(length))
            both, rows = request.with_labels(self.arrange(labels, followed, drawn)), np.flatnonzero(at == length)
            own_key = key if len(rows) == len(at) else jax.random.fold_in(key, int(length))
            by_length.append((rows, simulate(policy, self.environment, both.rows(rows), key=own_key)))
        return _merge(by_length)

    def _steered_at(self, request: Request) -> Int[np.ndarray, " N"]:
        """The length at which each rollout is steered: its own, or the next shorter one that programs are made for.

        Its first steps then show the style. A rollout that is shorter than all demonstrations is steered at its own.
        """
        lengths = np.minimum(np.asarray(request.lengths), self.parts["policy"].horizon)
        known = np.asarray(self.known.lengths if self.known else ())
        if not len(known) or (lengths == min(request.steps, self.parts["policy"].horizon)).all():
            return lengths
        below = np.searchsorted(known, lengths, side="right") - 1
        return np.where(below < 0, lengths, known[below])

    def arrange(
        self,
        labels: Int[np.ndarray, "N M"],
        followed: Sequence[int] = (),
        drawn: Int[np.ndarray, "N shared"] | None = None,
        draw: int = 0,
        margin: float = 0.0,
    ) -> Int[np.ndarray, "N both"]:
        """The labels as a policy reads them: those that it knows, then those of the styles that steer it.

        `drawn` are those that it knows with the open ones drawn; what is free does not steer. If they are not given and
        labels are graded, grades are drawn from all demonstrations by the seed `draw`, with a margin to thresholds.
        """
        known = drawn
        if known is None and self.space.shared.graded:
            known = self.draw_open(labels, None, jax.random.key(draw), margin)
        if known is None:
            known = self.space.pad_labels(labels[:, : len(self.space.own.kinds)])
        return np.concatenate([known, labels[:, list(followed)]], axis=1)

    def draw_open(
        self,
        labels: Int[np.ndarray, "N M"],
        starts: Float[np.ndarray, "N S"] | None,
        key: PRNGKeyArray,
        margin: float = 0.0,
    ) -> Int[np.ndarray, "N shared"] | None:
        """The labels that the policy knows, with what they do not say drawn from demonstrations, if it has some."""
        own = len(self.space.own.kinds)
        if not self.parts["policy"].open_labels or self.examples is None:
            return None
        known = np.concatenate([self.space.pad_labels(labels[:, :own]), labels[:, own:]], axis=1)
        random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        return self.examples.fill(starts, known, random, margin)[:, : len(self.space.shared.kinds)]

    def policy(self, sampling: Sampling | None, length: int) -> tuple[Policy, list[int]]:
        """The policy for rollouts of a length, as it is sampled; and the styles whose labels follow its own labels.

        Those that steer by their own gradients come first, then those that steer by the labeler.
        """
        policy = self.parts["policy"]
        known = self.known if self.steers(sampling) else None
        if sampling is None or known is None:
            return (
                policy.sampled(policy.steps, guidance_of(policy, sampling)) if sampling and is_flow(policy) else policy
            ), []
        own, shapes = len(self.space.own.kinds), self._shapes(length)
        followed = [
            i for i, useful in enumerate(known.gradients) if useful and can_follow(self.styles[i].score, *shapes)
        ]
        learned = [i for i in range(own) if i not in followed]
        steered = steer(
            policy,
            [Target(self.styles[i], known.deviations[i]) for i in followed],
            sampling,
            length=length,
            range=known.range,
            later=sum(i >= own for i in followed),
            labeler=self.parts.get("labeler"),
            learned=[self.space.position(i) for i in learned],
        )
        return steered, followed + learned

    def _shapes(self, length: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of the states and actions of a trajectory of so many steps."""
        statistics = self.parts["policy"].statistics
        return (length + 1, statistics.state.mean.size), (length, statistics.action.mean.size)

    def as_trained(self, sampling: Sampling) -> bool:
        """Whether rollouts are sampled as the policy was trained."""
        policy = self.parts["policy"]
        aims = self.space.shared.graded and sampling.margin > 0
        return not is_flow(policy) or not (self.steers(sampling) or sampling.guidance != 1 or aims)

    def imagine(self, policy: Policy) -> Callable[..., Trajectories]:
        """Rolls a policy out in this seed's environment, (request, key=) -> rollouts, by labels as it reads them."""
        return functools.partial(simulate, policy, self.environment)

    def steers(self, sampling: Sampling | None) -> TypeGuard[Sampling]:
        """Whether rollouts are steered: a flow that plans whole trajectories is, if it is asked to."""
        asked = sampling is not None and sampling.strength > 0 and self.find_known is not None
        return asked and can_steer(self.parts["policy"])

    def score(self, request: Request, key: PRNGKeyArray, sampling: Sampling | None = None) -> ScoredRollouts:
        """Rollouts, scored by the true labeling functions."""
        made = self.roll_out(request, key, sampling)
        check_environment(made.states, made.actions)
        return score_rollouts(self.styles, made, np.asarray(request.labels))

    def score_verified(
        self,
        request: Request,
        key: PRNGKeyArray,
        sampling: Sampling,
        first: ScoredRollouts | None = None,
        in_range: bool = True,
        named: Sequence[int] | None = None,
    ) -> ScoredRollouts:
        """Rollouts, made again until they are right and, if asked, in range; `first` are those of the first try.

        They must be right in the `named` styles, or in all.
        """
        if sampling.typical > 1 and self.known:
            several = request.rows(np.repeat(np.arange(len(request)), sampling.typical))
            found = self.score_verified(several, key, replace(sampling, typical=1), in_range=in_range, named=named)
            return self.known.most_typical(found, sampling.typical)

        def accept(made: Trajectories, asked: Request) -> Bool[np.ndarray, " N"]:
            scored = score_rollouts(self.styles, made, np.asarray(asked.labels))
            scored = scored if named is None else scored.only(named)
            return scored.joint & ~known.out_of_range(scored.rollouts) if in_range and known else scored.joint

        known = self.known
        weakly = replace(sampling, strength=min(WEAK, sampling.strength), margin=0.0)

        def roll_out(asked: Request, key: PRNGKeyArray, number: int) -> Trajectories:
            made = self.roll_out(asked, key, weakly if number % 2 else sampling)
            if number == 0:  # later ones are few, and may all be from starts that diverge
                check_environment(made.states, made.actions)
            return made

        found = verify(
            roll_out,
            accept,
            request,
            sampling.tries,
            key,
            traced=self.domain.environment is None,
            first=None if first is None else first.as_made(),
        )
        scored = score_rollouts(self.styles, found.rollouts, np.asarray(request.labels))
        return replace(scored, accepted=found.accepted, tries=found.tries)


def _merge(parts: Sequence[tuple[np.ndarray, Trajectories]]) -> Trajectories:
    """The rollouts of several sets of rows, in the order of the rows."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]), kind="stable")
    return Trajectories.unchecked(
        *(np.concatenate([np.asarray(getattr(made, name)) for _, made in parts])[order] for name in NAMES)
    )
