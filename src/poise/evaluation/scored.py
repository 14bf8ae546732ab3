"""Rollouts of a trained seed, scored by the true labeling functions in the true environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, PRNGKeyArray

from ..data.trajectories import Trajectories
from ..domains import Domain
from ..losses import Parts
from ..rollouts.requests import Request
from ..rollouts.simulate import find_environment, simulate
from ..styles.label_spaces import SharedSpace
from ..styles.labeling_functions import LabelingFunction, label_space
from ..styles.scoring import label_all


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

    def only(self, styles: Sequence[int]) -> ScoredRollouts:
        """The same rollouts, scored by these styles alone."""
        return replace(self, right=self.right[:, list(styles)], scored=self.scored[:, list(styles)])

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
    states, actions, real = np.asarray(made.states), np.asarray(made.actions), np.asarray(made.mask)
    finite_steps = np.isfinite(np.concatenate([states[:, 1:], actions], axis=-1)).all(axis=2) | ~real
    finite = np.asarray(finite_steps.all(axis=1))
    states, actions = np.where(finite[:, None, None], states, 0), np.where(finite[:, None, None], actions, 0)
    rollouts = Trajectories(states, actions, np.asarray(made.lengths), {"labels": wanted})
    labels = label_all(styles, rollouts, strict=False)
    right, scored = np.equal(labels, wanted), labels >= 0
    return ScoredRollouts(rollouts, right & finite[:, None], finite, scored | ~finite[:, None])


@dataclass(frozen=True)
class TrainedSeed:
    """One trained seed, ready to be rolled out: its parts, where they act, and what they can be asked for."""

    parts: Parts
    domain: Domain
    styles: tuple[LabelingFunction, ...]
    space: SharedSpace
    """The labels of its styles within the label space that the parts were padded to."""
    seed: int = 0
    stopped: str | None = None
    """The stage and step at which it was stopped, if its loss became NaN or infinite."""

    @staticmethod
    def alone(parts: Parts, domain: Domain, styles: Sequence[LabelingFunction], seed: int = 0) -> TrainedSeed:
        """A seed whose parts have the labels of its own styles only."""
        return TrainedSeed(parts, domain, tuple(styles), SharedSpace.alone(label_space(styles)), seed)

    def roll_out(self, request: Request, key: PRNGKeyArray) -> Trajectories:
        """Rollouts in the domain's environment, or in the learned dynamics where it has none."""
        padded = request.with_labels(self.space.pad_labels(np.asarray(request.labels)))
        return simulate(self.parts["policy"], find_environment(self.domain, self.parts), padded, key=key)

    def score(self, request: Request, key: PRNGKeyArray) -> ScoredRollouts:
        """Rollouts, scored by the true labeling functions."""
        return score_rollouts(self.styles, self.roll_out(request, key), np.asarray(request.labels))
