"""Style-consistency: the share of rollouts whose labels, by λ, are the labels that were asked for (Eq. 4).

It is measured for each style, for each class, and joint, when all styles are right at once (Eq. 6), always by the true
labeling functions in the true environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .realism import Realism
from .shares import Share, rounded


@dataclass(frozen=True)
class WayOfSampling:
    """How rollouts do that were sampled in another way than by default: unsteered, or verified."""

    joint: Share
    joint_in_range: float
    realism: Realism
    tries: float | None = None
    """Rollouts of a request until one was accepted, on average."""
    never: float | None = None
    """The share of requests that no try reached."""

    def to_json(self) -> dict[str, Any]:
        """Fractions as plain numbers."""
        verified = {} if self.tries is None else {"tries": rounded(self.tries), "never": rounded(self.never)}
        return {
            "joint": round(self.joint.value, 4),
            "joint_interval": self.joint.interval,
            "joint_in_range": round(self.joint_in_range, 4),
            **self.realism.to_json(),
            **verified,
        }


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
    realism: Realism = field(default_factory=Realism)
    """How real the rollouts look."""
    verified: WayOfSampling | None = None
    """The same requests, made again until the labeling functions agree: they are asked while sampling."""
    shuffled_verified: dict[str, Any] | None = None
    """Shuffled requests, verified, and which of them are within reach."""
    unsteered: WayOfSampling | None = None
    """A flow as it was trained, without guidance or steering."""
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
            **self.realism.to_json(),
            "out_of_range": round(self.out_of_range, 4),
            "joint_in_range": rounded(self.joint_in_range),
            "label_loss": rounded(self.label_loss),
            "dynamics_error": rounded(self.dynamics_error),
            "unscored": self.unscored,
            "not_finite": self.not_finite,
            "stopped": self.stopped,
            "unsteered": self.unsteered and self.unsteered.to_json(),
            "verified": self.verified and self.verified.to_json(),
            "shuffled_verified": self.shuffled_verified,
        }
