"""Evaluation: rollouts of trained seeds in every way of sampling, scored by λ and measured for realism."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from ..config import Sampling
from ..data.trajectories import Trajectories
from ..models import KnownDynamics
from ..models.layers import on_cpu
from ..rollouts.requests import Request
from .consistency import SeedScore, WayOfSampling
from .feasibility import Confirmation, Feasibility, confirm, found_feasible
from .realism import Realism, Reference, RolloutSet
from .reconstruction import dynamics_error, estimate_labels, label_loss, reconstruction_metrics
from .scored import ScoredRollouts, TrainedSeed, out_of_range
from .shares import Share

REPEATED, REPEATS = 32, 8  # requests whose diversity is measured, and rollouts of each
FEW_VERIFIED = 128  # requests that are verified in an environment on the host, where every rollout has its price
FEW_SHUFFLED = 256  # shuffled requests whose feasibility is asked on a CPU
AT_ONCE = 4  # runs that are rolled out at once on an accelerator: one is compiled for while another one samples


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
    """As a flow was trained, without guidance or steering; None where rollouts are sampled so by default."""
    repeated: ScoredRollouts
    """Several rollouts of each of a few requests, for their diversity."""
    reach: ShuffledReach
    """Which of the shuffled requests are within reach."""

    @property
    def ways(self) -> list[ScoredRollouts]:
        """The rollouts whose realism is measured."""
        return [self.own, self.verified, *([self.unsteered] if self.unsteered else [])]

    def set_of(self, way: ScoredRollouts) -> RolloutSet:
        """The rollouts of a way of sampling, as realism is measured."""
        return RolloutSet(way.rollouts, way.joint, self.chosen[: len(way.finite)], way.finite)


class RunToScore(NamedTuple):
    """The seeds of a run, what they are asked for, and what their realism is measured by."""

    seeds: Sequence[TrainedSeed]
    labels: Int[np.ndarray, "N M"]
    """The labels of the test demonstrations."""
    sampling: Sampling
    reference: Reference | None
    """None if their realism cannot be measured."""


def score_runs(
    runs: Sequence[RunToScore], test: Trajectories, *, rollouts: int, draw: int = 0
) -> list[list[SeedScore]]:
    """The scores of the seeds of each run on the same test demonstrations.

    All two-sample tests are one compiled program; those of a hundred seeds take hardly longer than those of one.
    """

    def roll_out(run: RunToScore) -> list[SeedRollouts]:
        return [roll_out_seed(seed, test, run.labels, run.sampling, rollouts=rollouts, draw=draw) for seed in run.seeds]

    with ThreadPoolExecutor(1 if on_cpu() else AT_ONCE) as pool:
        made = list(pool.map(roll_out, runs))
    measured = _measure(runs, made)
    return [
        [
            score_seed(seed, test, run.labels, one, realism, draw)
            for seed, one, realism in zip(run.seeds, rolled_out, found, strict=True)
        ]
        for run, rolled_out, found in zip(runs, made, measured, strict=True)
    ]


def _measure(runs: Sequence[RunToScore], made: Sequence[Sequence[SeedRollouts]]) -> list[list[list[Realism]]]:
    """By run, seed and way of sampling, how real the rollouts look."""
    measurable = [run.reference for run in runs if run.reference is not None]
    sets = [
        [one.set_of(way) for one in rolled_out for way in one.ways]
        for run, rolled_out in zip(runs, made, strict=True)
        if run.reference is not None
    ]
    tests = iter(measurable[0].two_samples([each for own in sets for each in own]) if measurable else ())
    found = []
    for run, rolled_out in zip(runs, made, strict=True):
        if run.reference is None:
            found.append([[Realism()] * len(one.ways) for one in rolled_out])
            continue
        by_seed = [[run.reference.describe(one.set_of(way), next(tests)) for way in one.ways] for one in rolled_out]
        for one, realism in zip(rolled_out, by_seed, strict=True):
            realism[0] = replace(realism[0], diversity=run.reference.diversity(one.repeated.rollouts))
        found.append(by_seed)
    return found


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
    plain = None if trained.as_trained(sampling) else trained.score(request, first)
    few = slice(FEW_VERIFIED if trained.domain.environment and on_cpu() else None)
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
    few = slice(None if not on_cpu() else FEW_VERIFIED // 2 if trained.domain.environment else FEW_SHUFFLED)
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
