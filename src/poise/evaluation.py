"""Evaluation with the true labeling functions in the true environment.

Style-consistency is the share of rollouts whose labels, by λ, are the labels that were asked for (Eq. 4): for each
style, for each class, and joint, when all styles are right at once (Eq. 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from .domains import Domain
from .joining import Place
from .labeling import LabelingFunction, label_all, label_space
from .losses import Parts
from .models import KnownDynamics
from .rollout import environment_of, simulate
from .trajectories import Trajectories

FEW = 30  # held-out demonstrations below which figures say little


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
    joint_independent: Share
    by_style: dict[str, Share]
    by_class: dict[str, dict[str, Share]]
    by_style_independent: dict[str, Share]
    believed: dict[str, float] | None
    """The share of each style that the labeler takes for right in the same rollouts; None without a labeler."""
    nld: float
    kl: float | None
    unscored: dict[str, int]
    """Rollouts that a labeling function could not score; they count as wrong."""
    astray: float = 0.0
    """The share of rollouts that leave the range of all states seen in test demonstrations: no label forbids it."""
    joint_inside: float | None = None
    """The share of rollouts that are right in all styles and do not go astray."""
    stopped: str | None = None
    """The stage and step at which the seed was stopped, if its loss turned non-finite."""
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
            "joint_independent": round(self.joint_independent.value, 4),
            "joint_independent_interval": self.joint_independent.interval,
            "by_style": {name: round(share.value, 4) for name, share in self.by_style.items()},
            "by_style_interval": {name: share.interval for name, share in self.by_style.items()},
            "by_style_independent": {name: round(share.value, 4) for name, share in self.by_style_independent.items()},
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
            "believed": self.believed and {name: round(value, 4) for name, value in self.believed.items()},
            "nld": round(self.nld, 4) if np.isfinite(self.nld) else None,
            "kl": round(self.kl, 4) if self.kl is not None and np.isfinite(self.kl) else None,
            "astray": round(self.astray, 4),
            "joint_inside": _rounded(self.joint_inside),
            "label_loss": _rounded(self.label_loss),
            "dynamics_error": _rounded(self.dynamics_error),
            "unscored": self.unscored,
            "stopped": self.stopped,
        }


def score_seed(
    parts: Parts,
    seed: int,
    domain: Domain,
    styles: Sequence[LabelingFunction],
    test: Trajectories,
    labels: Int[np.ndarray, "N M"],
    *,
    rollouts: int,
    draw: int = 0,
    stopped: str | None = None,
    place: Place | None = None,
) -> SeedScore:
    """The scores of one seed: rollouts from test starts, first with the labels of those demonstrations, then with
    labels drawn independently of the start; and how well it explains the test demonstrations.

    Parts may have room for more labels than those of these styles: `place` says where theirs are.
    """
    place = place or Place(label_space(styles), label_space(styles))
    chosen, shuffled = draw_starts(len(test), rollouts, draw)
    key, starts, told = jax.random.fold_in(jax.random.key(draw), 1 + seed), test[chosen], place.labels(labels)
    own = check(parts, domain, styles, starts, labels[chosen], jax.random.fold_in(key, 0), place)
    independent = check(parts, domain, styles, starts, labels[shuffled], jax.random.fold_in(key, 1), place)
    nld, kl = explain(parts["policy"], domain, test, told, jax.random.fold_in(key, 2))
    lost = astray(own, test)
    names = [style.name for style in styles]
    believed = label_loss = dynamics_error = None
    if "labeler" in parts:
        right = np.equal(place.labels_of(believe(parts["labeler"], own.rollouts)), labels[chosen])
        believed = dict(zip(names, right.mean(axis=0).tolist(), strict=True))
        label_loss = _mean(_label_loss, parts["labeler"], test, told)
    if "dynamics" in parts and not isinstance(parts["dynamics"], KnownDynamics):
        dynamics_error = _mean(partial(_dynamics_error, domain.units), parts["dynamics"], test, told)
    return SeedScore(
        seed=seed,
        joint=Share.of(np.all(own.right, axis=1), chosen),
        joint_independent=Share.of(np.all(independent.right, axis=1), chosen),
        by_style={name: Share.of(own.right[:, i], chosen) for i, name in enumerate(names)},
        by_class={
            style.name: {
                name: Share.of(own.right[asked == k, i], chosen[asked == k]) for k, name in enumerate(style.classes)
            }
            for i, (style, asked) in enumerate(zip(styles, labels[chosen].T, strict=True))
        },
        by_style_independent={name: Share.of(independent.right[:, i], chosen) for i, name in enumerate(names)},
        believed=believed,
        nld=nld,
        kl=kl,
        astray=float(lost.mean()),
        joint_inside=float((own.right.all(axis=1) & ~lost).mean()),
        label_loss=label_loss,
        dynamics_error=dynamics_error,
        unscored={name: int((~own.scored[:, i]).sum()) for i, name in enumerate(names)},
        stopped=stopped,
    )


def astray(checked: Checked, known: Trajectories) -> Bool[np.ndarray, " N"]:
    """True for rollouts with a state beyond those of the known trajectories, in any dimension."""
    seen = np.asarray(known.states)[:, 1:][np.asarray(known.mask)]
    states, real = np.asarray(checked.rollouts.states)[:, 1:], np.asarray(checked.rollouts.mask)
    beyond = ((states < seen.min(axis=0)) | (states > seen.max(axis=0))).any(axis=-1) & real
    return beyond.any(axis=1) | ~checked.finite


@dataclass(frozen=True)
class Checked:
    """Rollouts, and for each of them and each style whether λ agrees with the label that was asked for."""

    rollouts: Trajectories
    right: Bool[np.ndarray, "N M"]
    finite: Bool[np.ndarray, " N"]
    """False for a rollout that left the finite numbers; its values stand as zeros."""
    scored: Bool[np.ndarray, "N M"]
    """False where a labeling function could not score a finite rollout: it raised, or returned NaN."""

    def only(self, styles: Sequence[int]) -> Checked:
        """The same rollouts, judged by these styles alone."""
        return replace(self, right=self.right[:, list(styles)], scored=self.scored[:, list(styles)])


def check(
    parts: Parts,
    domain: Domain,
    styles: Sequence[LabelingFunction],
    starts: Trajectories,
    wanted: Int[np.ndarray, "N M"],
    key,
    place: Place | None = None,
) -> Checked:
    """Rollouts from the first states of `starts` with the wanted labels, checked by the true labeling functions.

    `place` says where these labels are, if the parts have room for more.
    """
    environment, told = environment_of(domain, parts), wanted if place is None else place.labels(wanted)
    made = simulate(parts["policy"], environment, starts.starts, told, starts.lengths, starts.steps, key=key)
    return judge(styles, made, wanted)


def judge(styles: Sequence[LabelingFunction], made: Trajectories, wanted: Int[np.ndarray, "N M"]) -> Checked:
    """Rollouts as they come, checked by the true labeling functions.

    A rollout that leaves the finite numbers is wrong in every style, and one that a function cannot score in that one.
    """
    states, actions, real = np.asarray(made.states), np.asarray(made.actions), np.asarray(made.mask)
    fine = np.isfinite(np.concatenate([states[:, 1:], actions], axis=-1)).all(axis=2) | ~real
    finite = np.asarray(fine.all(axis=1))
    states, actions = np.where(finite[:, None, None], states, 0), np.where(finite[:, None, None], actions, 0)
    rollouts = Trajectories(states, actions, np.asarray(made.lengths), {"labels": wanted})
    labels = label_all(styles, rollouts, strict=False)
    return Checked(rollouts, np.equal(labels, wanted) & finite[:, None], finite, labels >= 0)


def draw_starts(count: int, rollouts: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to start from, each at most once if there are enough, and rows whose labels are independent of them."""
    random = np.random.default_rng(draw)
    repeats = -(-rollouts // count)
    chosen = np.concatenate([random.permutation(count) for _ in range(repeats)])[:rollouts]
    return chosen, random.integers(0, count, size=rollouts)


@eqx.filter_jit
def _imitate(policy, demonstrations: Trajectories, labels, key):
    return policy.imitate(demonstrations, labels, key)


PIECE = 4_096  # test demonstrations at a time


@eqx.filter_jit
def _label_loss(labeler, demonstrations: Trajectories, labels):
    return labeler.space.loss(labeler(demonstrations), labels)


@eqx.filter_jit
def _dynamics_error(units: tuple[float, ...] | None, dynamics, demonstrations: Trajectories, labels):
    """The squared error of each demonstration, the mean over its steps and dimensions; of the mean if stochastic."""
    states, real = demonstrations.states, demonstrations.mask
    noise = jnp.zeros((*real.shape, dynamics.noise))
    error = (dynamics.step(states[:, :-1], demonstrations.actions, noise) - states[:, 1:]) ** 2
    if units is not None and len(units) == states.shape[-1]:
        error = error / jnp.square(jnp.asarray(units))
    return jnp.where(real, error.mean(axis=-1), 0.0).sum(axis=1) / demonstrations.lengths


def mean_change(domain: Domain, test: Trajectories, labels: np.ndarray) -> float:
    """The squared error of dynamics by which nothing ever moves: what that of learned ones is to be read beside."""
    return _mean(partial(_dynamics_error, domain.units), KnownDynamics(_still), test, labels)


def _still(states, actions):
    return states


def _mean(measure, part, test: Trajectories, labels: np.ndarray) -> float:
    """The mean over test demonstrations, piece by piece."""
    pieces = [slice(first, min(first + PIECE, len(test))) for first in range(0, len(test), PIECE)]
    found = [measure(part, test[np.arange(p.start, p.stop)].arrays, jnp.asarray(labels[p])) for p in pieces]
    return float(np.concatenate(found).mean())


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and np.isfinite(value) else None


def explain(
    policy, domain: Domain, test: Trajectories, labels: Int[np.ndarray, "N M"], key
) -> tuple[float, float | None]:
    """Negative log-density in the domain's units and KL, each per step, on demonstrations."""
    nld, kl, has_kl = 0.0, 0.0, False
    for first in range(0, len(test), PIECE):
        piece = test[np.arange(first, min(first + PIECE, len(test)))]
        told = jnp.asarray(labels[first : first + PIECE])
        seen = _imitate(policy, piece.arrays, told, jax.random.fold_in(key, first))
        nld, kl, has_kl = nld + float(seen.nld.sum()), kl + float(seen.kl.sum()), bool(seen.kl.shape[-1])
    steps = float(np.asarray(test.lengths).sum())
    units = float(np.log(domain.units).sum()) if domain.units else 0.0
    return nld / steps - units, kl / steps if has_kl else None


@eqx.filter_jit
def _label(labeler, trajectories: Trajectories):
    return labeler.space.decide(labeler(trajectories))


def believe(labeler, trajectories: Trajectories) -> Int[np.ndarray, "N M"]:
    """The labels that a labeler sees in trajectories."""
    return np.asarray(_label(labeler, trajectories.arrays))


def base_rates(
    known: Trajectories, known_labels: Int[np.ndarray, "N M"], test: Trajectories, labels: Int[np.ndarray, "K M"]
) -> dict[str, Any]:
    """The style-consistency, joint and by style, of policies that ignore labels.

    `own`: replays the known demonstration that starts nearest to each test start, any of them if several do.
    `independent`: replays any
    demonstration while the labels are drawn independently; the chance that two demonstrations have the same labels.
    """
    random, nearest = np.random.default_rng(0), []
    mean, deviation = (f(np.asarray(known.starts, np.float64), axis=0) for f in (np.mean, np.std))
    scale = np.where(deviation > 0, deviation, 1)
    starts, others = ((np.asarray(x.starts, np.float64) - mean) / scale for x in (known, test))
    for piece in np.array_split(others, max(1, len(test) // 500)):
        distance = _squared_distances(piece, starts)
        nearest.append(np.argmin(distance + 1e-6 * random.random(distance.shape), axis=1))
    agree = np.equal(known_labels[np.concatenate(nearest)], labels)
    by_style = [
        {"own": round(float(agree[:, i].mean()), 4), "independent": _chance(labels[:, i])}
        for i in range(labels.shape[1])
    ]
    joint = {"own": round(float(agree.all(axis=1).mean()), 4), "independent": _chance(labels)}
    return {**joint, "by_style": by_style}


def _chance(labels: np.ndarray) -> float:
    """The chance that two rows drawn at random are the same."""
    shares = np.unique(labels, axis=0, return_counts=True)[1] / len(labels)
    return round(float(np.square(shares).sum()), 4)


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)


def spread(values: Sequence[float]) -> dict[str, float]:
    """[min, median, max], as the paper's tables give them."""
    finite = [float(v) for v in values]
    return {"min": min(finite), "median": round(float(np.median(finite)), 4), "max": max(finite)}


@dataclass(frozen=True)
class Report:
    """Scores of one or more algorithms on the same test demonstrations, and where they come from."""

    algorithms: dict[str, list[SeedScore]]
    about: dict[str, Any]
    """What was evaluated: styles with classes and thresholds, environment, units, base rates, counts."""
    origin: dict[str, Any]

    def joint(self, algorithm: str) -> dict[str, float]:
        """[min, median, max] of the joint style-consistency over seeds."""
        return spread([round(score.joint.value, 4) for score in self.algorithms[algorithm]])

    def dynamics(self) -> str | None:
        """How good dynamics are that were learned, in a sentence; None if none were."""
        errors = {
            algorithm: np.median(found)
            for algorithm, scores in self.algorithms.items()
            if (found := [score.dynamics_error for score in scores if score.dynamics_error is not None])
        }
        told = ", ".join(f"{algorithm} {error:.2e}" for algorithm, error in errors.items())
        what = "Dynamics were learned; squared error a step and number of a state, on test demonstrations"
        return f"{what}: {told} ({self.about['change']:.3g} if nothing moved)." if errors else None

    def warnings(self) -> list[str]:
        """What a reader of the figures must know, one line each."""
        found = []
        for algorithm, scores in self.algorithms.items():
            for score in scores:
                for style, count in score.unscored.items():
                    if count:
                        found.append(
                            f"{style} could not score {count} of {self.about['rollouts']} rollouts of {algorithm}, "
                            f"seed {score.seed} (it raised or returned NaN): they count as wrong"
                        )
                if score.stopped:
                    found.append(
                        f"{algorithm}, seed {score.seed} was stopped at {score.stopped}: its loss was not finite"
                    )
        if self.about["test"] < FEW:
            found.append(f"only {self.about['test']} test demonstrations: the figures say little")
        return found

    def to_json(self) -> dict[str, Any]:
        """The content of report.json."""
        algorithms = {
            name: {"joint": self.joint(name), "seeds": [score.to_json() for score in scores]}
            for name, scores in self.algorithms.items()
        }
        return {"algorithms": algorithms, **self.about, **self.origin}

    def __str__(self) -> str:
        """The report as a table: one row a seed."""
        names = [style["name"] for style in self.about["styles"]]
        head = ["algorithm", "seed", "joint", "95 %", *names, "independent", "astray", "NLD", "KL"]
        rows = [head]
        for algorithm, scores in self.algorithms.items():
            for s in scores:
                rows.append(
                    [
                        algorithm,
                        str(s.seed),
                        f"{s.joint.value:.3f}",
                        f"{s.joint.low:.3f}-{s.joint.high:.3f}",
                        *(f"{s.by_style[name].value:.3f}" for name in names),
                        f"{s.joint_independent.value:.3f}",
                        f"{s.astray:.3f}",
                        f"{s.nld:.2f}",
                        "-" if s.kl is None else f"{s.kl:.3f}",
                    ]
                )
        widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(len(head))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, [*widths, 0], strict=False)).rstrip() for row in rows]
        base, about = self.about["base_rate"], self.about
        return "\n".join(
            [
                *lines,
                "",
                f"A policy that ignores labels: joint {base['own']:.3f}, independent {base['independent']:.3f}.",
                f"{about['rollouts']} rollouts a seed from {about['test']} test starts, in {about['environment']}.",
                "joint: labels of the start's own demonstration; independent: labels drawn independently of the start.",
                "astray: rollouts in which a number of the state leaves the range of all test demonstrations.",
                f"NLD and KL per step; NLD in {about['units']}.",
                *filter(None, [self.dynamics()]),
                *(f"warning: {warning}" for warning in self.warnings()),
            ]
        )
