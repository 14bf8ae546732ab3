"""Style-consistency: the share of rollouts whose labels, by λ, are the labels that were asked for (Eq. 4).

It is measured for each style, for each class, and joint, when all styles are right at once (Eq. 6), always by the true
labeling functions in the true environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from ..config import Sampling
from ..data.trajectories import Trajectories
from ..models import KnownDynamics
from ..models.layers import on_cpu
from ..rollouts.requests import Request
from ..rollouts.steer import is_flow
from .feasibility import Confirmation, Feasibility, confirm, found_feasible
from .realism import Realism, Reference, RolloutSet
from .reconstruction import dynamics_error, estimate_labels, label_loss, reconstruction_metrics
from .scored import ScoredRollouts, TrainedSeed, out_of_range
from .shares import Share, rounded

REPEATED, REPEATS = 32, 8  # requests whose diversity is measured, and rollouts of each
FEW_VERIFIED = 128  # requests that are verified in an environment on the host, where every rollout has its price
FEW_SHUFFLED = 256  # shuffled requests whose feasibility is asked on a CPU


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
class ShuffledReach:
    """Shuffled requests, verified; which of them are feasible, and what a second pass makes of that."""

    verified: ScoredRollouts
    feasibility: Feasibility
    confirmation: Confirmation

    def to_json(self, test: Trajectories) -> dict[str, Any]:
        """Fractions as plain numbers."""
        found = self.verified
        return {
            "joint": round(float(found.joint.mean()), 4),
            "joint_in_range": round(float((found.joint & ~out_of_range(found, test)).mean()), 4),
            "feasibility": self.feasibility.to_json(),
            "confirmed": self.confirmation.to_json(),
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


@dataclass(frozen=True)
class SeedRollouts:
    """The rollouts that the scores of a seed are made of."""

    chosen: Int[np.ndarray, " N"]
    """The test demonstration that each rollout starts like."""
    own: ScoredRollouts
    """With the labels of those demonstrations, one try each."""
    shuffled: ScoredRollouts
    """With labels that are independent of the start."""
    verified: ScoredRollouts
    """The first of `own`, made again where they are not right."""
    unsteered: ScoredRollouts | None
    """As a flow was trained, without guidance or steering; None of other policies, which are sampled so by default."""
    repeated: ScoredRollouts
    """Several rollouts of each of a few requests, for their diversity."""
    reach: ShuffledReach
    """Which of the shuffled requests are within reach."""

    @property
    def ways(self) -> list[ScoredRollouts]:
        """The rollouts whose realism is measured."""
        return [self.own, self.verified, *([self.unsteered] if self.unsteered else [])]


def score_seeds(
    seeds: Sequence[TrainedSeed],
    test: Trajectories,
    labels: Int[np.ndarray, "N M"],
    sampling: Sampling,
    reference: Reference | None,
    *,
    rollouts: int,
    draw: int = 0,
) -> list[SeedScore]:
    """The scores of trained seeds on test demonstrations; their realism too, if there is a reference for it."""
    made = [roll_out_seed(seed, test, labels, sampling, rollouts=rollouts, draw=draw) for seed in seeds]
    sets = [
        RolloutSet(way.rollouts, way.joint, one.chosen[: len(way.finite)], way.finite)
        for one in made
        for way in one.ways
    ]
    measured = iter(reference.measure(sets) if reference else [Realism()] * len(sets))
    scores = []
    for seed, one in zip(seeds, made, strict=True):
        realism = [next(measured) for _ in one.ways]
        if reference is not None:
            realism[0] = replace(realism[0], diversity=reference.diversity(one.repeated.rollouts))
        scores.append(score_seed(seed, test, labels, one, realism, draw))
    return scores


def roll_out_seed(
    trained: TrainedSeed,
    test: Trajectories,
    labels: Int[np.ndarray, "N M"],
    sampling: Sampling,
    *,
    rollouts: int,
    draw: int = 0,
) -> SeedRollouts:
    """Rollouts of one seed from test starts, in every way of sampling."""
    chosen, shuffled = draw_starts(len(test), rollouts, draw)
    key, starts = jax.random.fold_in(jax.random.key(draw), 1 + trained.seed), test[chosen]
    request, first = Request.like(starts, labels[chosen]), jax.random.fold_in(key, 0)
    own = trained.score(request, first, sampling)
    mixed, second = Request.like(starts, labels[shuffled]), jax.random.fold_in(key, 1)
    other = trained.score(mixed, second, sampling)
    plain = trained.score(request, first) if is_flow(trained.parts["policy"]) else None
    few = slice(FEW_VERIFIED if trained.domain.environment else None)
    verified = trained.score_verified(_first(request, few), first, sampling, own.rows(few))
    some = np.repeat(np.arange(min(REPEATED, len(chosen))), REPEATS)
    repeated = trained.score(request.rows(some), jax.random.fold_in(key, 3), sampling)
    reach = _shuffled_reach(trained, mixed, other, sampling, second)
    return SeedRollouts(chosen, own, other, verified, plain, repeated, reach)


def _first(request: Request, rows: slice) -> Request:
    """The first rows of a request."""
    return request if rows.stop is None else request.rows(np.arange(len(request))[rows])


def _shuffled_reach(
    trained: TrainedSeed, mixed: Request, tried: ScoredRollouts, sampling: Sampling, key
) -> ShuffledReach:
    """Which shuffled requests are within reach: verified, and judged by a second pass."""
    few = slice(FEW_VERIFIED // 2 if trained.domain.environment else FEW_SHUFFLED if on_cpu() else None)
    mixed = _first(mixed, few)
    found = trained.score_verified(mixed, key, sampling, tried.rows(few))
    feasibility = found_feasible(trained.styles, mixed, found, sampling.tries)
    return ShuffledReach(found, feasibility, confirm(feasibility, trained, sampling, key))


def score_seed(
    trained: TrainedSeed,
    test: Trajectories,
    labels: Int[np.ndarray, "N M"],
    made: SeedRollouts,
    realism: Sequence[Realism],
    draw: int = 0,
) -> SeedScore:
    """The scores of one seed on test demonstrations, by its rollouts and their realism in each way of sampling."""
    own, other, chosen, styles = made.own, made.shuffled, made.chosen, trained.styles
    names, beyond = [style.name for style in styles], out_of_range(own, test)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(draw), 1 + trained.seed), 2)
    ways = [_score_way(way, test, chosen[: len(way.finite)], one) for way, one in zip(made.ways, realism, strict=True)]
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
        realism=realism[0],
        verified=ways[1],
        unsteered=ways[2] if len(ways) > 2 else None,
        shuffled_verified=made.reach.to_json(test),
        unscored={name: int((~own.scored[:, i]).sum()) for i, name in enumerate(names)},
        not_finite=int((~own.finite).sum()),
        stopped=trained.stopped,
        **_score_parts(trained, own, test, labels, key),
    )


def _score_way(
    scored: ScoredRollouts, test: Trajectories, chosen: Int[np.ndarray, " N"], realism: Realism
) -> WayOfSampling:
    tried, accepted = scored.tries, scored.accepted
    return WayOfSampling(
        joint=Share.of(scored.joint, chosen),
        joint_in_range=float((scored.joint & ~out_of_range(scored, test)).mean()),
        realism=realism,
        tries=None if tried is None else float(tried.mean()),
        never=None if accepted is None else float(1 - accepted.mean()),
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


def draw_starts(count: int, rollouts: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to start from, each at most once if there are enough, and rows whose labels are independent of them."""
    random = np.random.default_rng(draw)
    repeats = -(-rollouts // count)
    chosen = np.concatenate([random.permutation(count) for _ in range(repeats)])[:rollouts]
    return chosen, random.integers(0, count, size=rollouts)
