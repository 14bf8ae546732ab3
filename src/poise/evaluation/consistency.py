"""Style-consistency: the share of rollouts whose labels, by λ, are the labels that were asked for (Eq. 4).

It is measured for each style, for each class, and joint, when all styles are right at once (Eq. 6), always by the true
labeling functions in the true environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Int

from ..data.trajectories import Trajectories
from ..models import KnownDynamics
from ..rollouts.requests import Request
from .reconstruction import dynamics_error, estimate_labels, label_loss, reconstruction_metrics
from .scored import ScoredRollouts, TrainedSeed


@dataclass(frozen=True)
class Share:
    """A share of successes with its 95 % interval (Wilson's)."""

    value: float
    low: float
    high: float
    count: int

    @property
    def interval(self) -> list[float]:
        """The interval's ends, rounded for a file."""
        return [round(self.low, 4), round(self.high, 4)]

    @staticmethod
    def of(successes: Bool[np.ndarray, " count"], starts: Int[np.ndarray, " count"] | None = None) -> Share:
        """The share of true values. Rollouts from one start are not independent: the interval counts starts."""
        if not len(successes):
            return Share(float("nan"), 0.0, 1.0, 0)
        count = len(successes) if starts is None else len(np.unique(starts))
        z, p = 1.959964, float(np.mean(successes))
        centre, spread = p + z**2 / (2 * count), z * np.sqrt(p * (1 - p) / count + z**2 / (4 * count**2))
        low, high = ((centre + sign * spread) / (1 + z**2 / count) for sign in (-1, 1))
        return Share(p, max(0.0, min(p, float(low))), min(1.0, max(p, float(high))), len(successes))


@dataclass(frozen=True)
class SeedScore:
    """How one trained seed does on test demonstrations."""

    seed: int
    joint: Share
    joint_shuffled: Share
    by_style: dict[str, Share]
    by_class: dict[str, dict[str, Share]]
    by_style_shuffled: dict[str, Share]
    labeler_estimate: dict[str, float] | None
    """The share of the same rollouts that the labeler takes for right, by style; None without a labeler."""
    nld: float
    kl: float | None
    unscored: dict[str, int]
    """Rollouts that a labeling function could not score; they count as wrong."""
    not_finite: int = 0
    """Rollouts that became NaN or infinite; they count as wrong."""
    out_of_range: float = 0.0
    """The share of rollouts with a state outside of the range of all test demonstrations."""
    joint_in_range: float | None = None
    """The share of rollouts that are right in all styles and in range."""
    stopped: str | None = None
    """The stage and step at which the seed was stopped, if its loss became NaN or infinite."""
    label_loss: float | None = None
    """Cross-entropy of the labeler on test demonstrations, summed over styles; None without one."""
    dynamics_error: float | None = None
    """Squared error of learned dynamics per step and dimension on test demonstrations, in the domain's units."""

    def to_json(self) -> dict[str, Any]:
        """Fractions as plain numbers, intervals beside them."""
        return {
            "seed": self.seed,
            "joint": round(self.joint.value, 4),
            "joint_interval": self.joint.interval,
            "joint_shuffled": round(self.joint_shuffled.value, 4),
            "joint_shuffled_interval": self.joint_shuffled.interval,
            "by_style": {name: round(share.value, 4) for name, share in self.by_style.items()},
            "by_style_interval": {name: share.interval for name, share in self.by_style.items()},
            "by_style_shuffled": {name: round(share.value, 4) for name, share in self.by_style_shuffled.items()},
            "by_class": {
                style: {
                    name: {
                        "value": round(share.value, 4) if share.count else None,
                        "interval": share.interval,
                        "count": share.count,
                    }
                    for name, share in classes.items()
                }
                for style, classes in self.by_class.items()
            },
            "labeler_estimate": self.labeler_estimate
            and {name: round(value, 4) for name, value in self.labeler_estimate.items()},
            "nld": round(self.nld, 4) if np.isfinite(self.nld) else None,
            "kl": round(self.kl, 4) if self.kl is not None and np.isfinite(self.kl) else None,
            "out_of_range": round(self.out_of_range, 4),
            "joint_in_range": rounded(self.joint_in_range),
            "label_loss": rounded(self.label_loss),
            "dynamics_error": rounded(self.dynamics_error),
            "unscored": self.unscored,
            "not_finite": self.not_finite,
            "stopped": self.stopped,
        }


def score_seed(
    trained: TrainedSeed, test: Trajectories, labels: Int[np.ndarray, "N M"], *, rollouts: int, draw: int = 0
) -> SeedScore:
    """The scores of one seed on test demonstrations.

    Rollouts start at test starts: first with the labels of those demonstrations, then with shuffled labels, which are
    drawn independently of the start.
    """
    chosen, shuffled = draw_starts(len(test), rollouts, draw)
    key, starts = jax.random.fold_in(jax.random.key(draw), 1 + trained.seed), test[chosen]
    own = trained.score(Request.like(starts, labels[chosen]), jax.random.fold_in(key, 0))
    other = trained.score(Request.like(starts, labels[shuffled]), jax.random.fold_in(key, 1))
    beyond, styles = out_of_range(own, test), trained.styles
    names = [style.name for style in styles]
    return SeedScore(
        seed=trained.seed,
        joint=Share.of(own.joint, chosen),
        joint_shuffled=Share.of(other.joint, chosen),
        by_style={name: Share.of(own.right[:, i], chosen) for i, name in enumerate(names)},
        by_class={
            style.name: {
                name: Share.of(own.right[asked == k, i], chosen[asked == k]) for k, name in enumerate(style.classes)
            }
            for i, (style, asked) in enumerate(zip(styles, labels[chosen].T, strict=True))
        },
        by_style_shuffled={name: Share.of(other.right[:, i], chosen) for i, name in enumerate(names)},
        out_of_range=float(beyond.mean()),
        joint_in_range=float((own.joint & ~beyond).mean()),
        unscored={name: int((~own.scored[:, i]).sum()) for i, name in enumerate(names)},
        not_finite=int((~own.finite).sum()),
        stopped=trained.stopped,
        **_score_parts(trained, own, test, labels, jax.random.fold_in(key, 2)),
    )


def _score_parts(
    trained: TrainedSeed, own: ScoredRollouts, test: Trajectories, labels: Int[np.ndarray, "N M"], key
) -> dict[str, Any]:
    """What the networks themselves do on test demonstrations, and what the labeler makes of the rollouts."""
    parts, padded = trained.parts, trained.space.pad_labels(labels)
    nld, kl = reconstruction_metrics(parts["policy"], trained.domain, test, padded, key)
    found: dict[str, Any] = {"nld": nld, "kl": kl, "labeler_estimate": None}
    if "labeler" in parts:
        seen = trained.space.unpad_labels(estimate_labels(parts["labeler"], own.rollouts))
        right = np.equal(seen, own.rollouts.metadata["labels"]).mean(axis=0).tolist()
        found["labeler_estimate"] = dict(zip([style.name for style in trained.styles], right, strict=True))
        found["label_loss"] = label_loss(parts["labeler"], test, padded)
    if "dynamics" in parts and not isinstance(parts["dynamics"], KnownDynamics):
        found["dynamics_error"] = dynamics_error(parts["dynamics"], trained.domain, test)
    return found


def out_of_range(scored: ScoredRollouts, known: Trajectories) -> Bool[np.ndarray, " N"]:
    """True for rollouts with a state outside of the range of the known trajectories, in any dimension."""
    seen = np.asarray(known.states)[:, 1:][np.asarray(known.mask)]
    states, real = np.asarray(scored.rollouts.states)[:, 1:], np.asarray(scored.rollouts.mask)
    beyond = ((states < seen.min(axis=0)) | (states > seen.max(axis=0))).any(axis=-1) & real
    return beyond.any(axis=1) | ~scored.finite


def draw_starts(count: int, rollouts: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to start from, each at most once if there are enough, and rows whose labels are independent of them."""
    random = np.random.default_rng(draw)
    repeats = -(-rollouts // count)
    chosen = np.concatenate([random.permutation(count) for _ in range(repeats)])[:rollouts]
    return chosen, random.integers(0, count, size=rollouts)


def rounded(value: float | None) -> float | None:
    """Four significant digits; None for what is missing, NaN or infinite."""
    return float(f"{value:.4g}") if value is not None and np.isfinite(value) else None
