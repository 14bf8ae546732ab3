"""Feasibility: which requests are within reach, found by asking the labeling functions again and again.

A request is called feasible if verified sampling reached it. Style-consistency must not be split by the same rollouts:
there, every feasible request is right by definition. So a first pass predicts, and a second, independent pass judges.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from ..config import Sampling
from ..rollouts.requests import FREE, Request
from ..styles.labeling_functions import LabelingFunction
from .scored import ScoredRollouts, TrainedSeed
from .shares import Share, rounded

MOST_NEIGHBOURS = 64
"""Requests that are tried, all at once, to find the nearest possible one; the first is what was asked for."""
SECOND_PASS = 2**31 - 1
"""What is folded into the key of a second pass; verified sampling folds the number of the try into its own."""


class Reach(NamedTuple):
    """How many requests were reached, and in how many tries."""

    share: Share
    """The share of requests that were reached. Its interval counts starts."""
    tries: float
    """Rollouts of a request until one was accepted, on average; all that were allowed where none was."""

    def to_json(self) -> dict[str, Any]:
        """Fractions as plain numbers, the interval beside them."""
        return {
            "reached": rounded(self.share.value),
            "reached_interval": self.share.interval,
            "tries": rounded(self.tries),
            "count": self.share.count,
        }


@dataclass(frozen=True)
class Feasibility:
    """Requests, and which of them one pass of verified sampling reached."""

    styles: tuple[LabelingFunction, ...]
    request: Request
    reached: Bool[np.ndarray, " N"]
    """True where a rollout was accepted."""
    tries: Int[np.ndarray, " N"]
    """Rollouts until one was accepted; all that were allowed where none was."""
    allowed: int
    """The most rollouts of one request."""

    @property
    def starts(self) -> Float[np.ndarray, "N S"]:
        """Where each request starts."""
        return np.asarray(self.request.starts)

    @property
    def labels(self) -> Int[np.ndarray, "N M"]:
        """The labels that each request asks for; -1 where a style is left free."""
        return np.asarray(self.request.labels)

    @property
    def overall(self) -> Reach:
        """How many of all requests were reached."""
        return self._reach(np.ones(len(self.reached), bool), number_starts(self.starts))

    def by_class(self) -> dict[str, dict[str, Reach]]:
        """How many requests for each class were reached, by style and class.

        A request for several styles counts for each of them, and is reached if all of them are shown at once.
        """
        numbers = number_starts(self.starts)
        return {
            style.name: {name: self._reach(asked == k, numbers) for k, name in enumerate(style.classes)}
            for style, asked in zip(self.styles, self.labels.T, strict=True)
        }

    def _reach(self, rows: Bool[np.ndarray, " N"], numbers: Int[np.ndarray, " N"]) -> Reach:
        tries = float(self.tries[rows].mean()) if rows.any() else float("nan")
        return Reach(Share.of(self.reached[rows], numbers[rows]), tries)

    def to_json(self) -> dict[str, Any]:
        """Shares with their intervals and mean tries, of all requests and by style and class."""
        by_style = {
            style: {name: reach.to_json() for name, reach in classes.items()}
            for style, classes in self.by_class().items()
        }
        return {**self.overall.to_json(), "allowed": self.allowed, "by_style": by_style}


@dataclass(frozen=True)
class Confirmation:
    """What a second, independent pass makes of requests that the first one reached, and of those that it did not."""

    feasible: Share
    """Of the requests called feasible, those that are right and in range again."""
    infeasible: Share
    """Of the requests called infeasible, those that are reached after all; small if the first pass had enough tries."""
    one_try: Share
    """Of the requests called feasible, those that are right and in range in the first try of the second pass."""

    def to_json(self) -> dict[str, Any]:
        """Fractions as plain numbers, intervals beside them."""
        shares = {"feasible": self.feasible, "infeasible": self.infeasible, "feasible_one_try": self.one_try}
        return {
            name: {"value": rounded(share.value), "interval": share.interval, "count": share.count}
            for name, share in shares.items()
        }


def measure_feasibility(
    trained: TrainedSeed,
    request: Request,
    sampling: Sampling,
    key: PRNGKeyArray,
    *,
    in_range: bool = True,
    named: Sequence[int] | None = None,
) -> Feasibility:
    """Which requests one pass of verified sampling reaches.

    Args:
        trained: The seed that is asked.
        request: What is asked for. With labels of its own style left free, `ask_each_class` asks for every class.
        sampling: How it is sampled, and the most tries.
        key: Randomness.
        in_range: Whether a rollout must also stay in the range of the demonstrations.
        named: The positions of the styles that a rollout must show; all that are not left free if not given.
    """
    scored = trained.score_verified(request, key, sampling, in_range=in_range, named=named)
    return found_feasible(trained.styles, request, scored, sampling.tries)


def found_feasible(
    styles: Sequence[LabelingFunction], request: Request, scored: ScoredRollouts, allowed: int
) -> Feasibility:
    """Which requests verified rollouts that were made already have reached."""
    assert scored.accepted is not None
    assert scored.tries is not None
    return Feasibility(tuple(styles), request, scored.accepted, scored.tries, allowed)


def confirm(
    feasibility: Feasibility,
    trained: TrainedSeed,
    sampling: Sampling,
    key: PRNGKeyArray,
    *,
    in_range: bool = True,
) -> Confirmation:
    """What a second pass over the same requests reaches, split by what the first pass called feasible.

    The rollouts are independent of the first pass, also if both are given the same key.
    """
    second = jax.random.fold_in(key, SECOND_PASS)
    again = measure_feasibility(trained, feasibility.request, sampling, second, in_range=in_range)
    called, numbers = feasibility.reached, number_starts(feasibility.starts)
    return Confirmation(
        feasible=Share.of(again.reached[called], numbers[called]),
        infeasible=Share.of(again.reached[~called], numbers[~called]),
        one_try=Share.of((again.reached & (again.tries == 1))[called], numbers[called]),
    )


def number_starts(starts: Float[np.ndarray, "N S"]) -> Int[np.ndarray, " N"]:
    """A number for each request that is the same where the start is: rollouts of one start are not independent."""
    return np.unique(starts, axis=0, return_inverse=True)[1].reshape(-1)


def ask_each_class(request: Request, style: int, classes: int) -> Request:
    """Every request once for each class of one style, its other labels as they are; class by class."""
    rows = np.tile(np.arange(len(request)), classes)
    labels = np.asarray(request.labels)[rows].copy()
    labels[:, style] = np.repeat(np.arange(classes), len(request))
    return request.rows(rows).with_labels(labels)


def nearest_feasible(
    trained: TrainedSeed,
    asked: Request,
    sampling: Sampling,
    styles: Sequence[int],
    key: PRNGKeyArray,
    *,
    most: int = MOST_NEIGHBOURS,
    in_range: bool = True,
    named: Sequence[int] | None = None,
) -> Int[np.ndarray, " M"] | None:
    """The labels nearest to those asked for that are reached from the same start; None if none of those tried is.

    Nearest is the request itself, then what changes fewer styles, then what moves by fewer classes. The request and its
    neighbours are tried in one call.

    Args:
        trained: The seed that is asked.
        asked: One request.
        sampling: How it is sampled, and the most tries of each request.
        styles: The positions of the styles that may change: those that a user named.
        key: Randomness.
        most: The most requests that are tried.
        in_range: Whether a rollout must also stay in the range of the demonstrations.
        named: The positions of the styles that a rollout must show; all that are not left free if not given.
    """
    assert len(asked) == 1, "one request at a time"
    wanted = np.asarray(asked.labels)[0]
    candidates = itertools.chain([tuple(wanted)], neighbours(trained.styles, wanted, styles))
    near = np.asarray([*itertools.islice(candidates, most)], wanted.dtype)
    request = asked.rows(np.zeros(len(near), int)).with_labels(near)
    reached = measure_feasibility(trained, request, sampling, key, in_range=in_range, named=named).reached
    return near[np.argmax(reached)] if reached.any() else None


def neighbours(
    styles: Sequence[LabelingFunction], wanted: Int[np.ndarray, " M"], asked: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """All other labels that differ in the asked styles only, the nearest first; a style that is left free stays so."""
    asked = [i for i in asked if wanted[i] != FREE]
    for changed in range(1, len(asked) + 1):
        group = []
        for positions in itertools.combinations(asked, changed):
            others = [[k for k in range(len(styles[i].classes)) if k != wanted[i]] for i in positions]
            for classes in itertools.product(*others):
                labels = wanted.tolist()
                for i, k in zip(positions, classes, strict=True):
                    labels[i] = k
                group.append(tuple(labels))
        yield from sorted(group, key=lambda labels: int(np.abs(np.subtract(labels, wanted)).sum()))


def describe_nearest(
    styles: Sequence[LabelingFunction],
    wanted: Sequence[int] | Int[np.ndarray, " M"],
    found: Sequence[int] | Int[np.ndarray, " M"] | None,
    asked: Sequence[int] | None = None,
) -> str:
    """One line that says whether a request is out of reach, and what is possible instead.

    Args:
        styles: All styles.
        wanted: The labels that were asked for.
        found: What `nearest_feasible` returned.
        asked: The positions of the styles to name: those that a user named. By default all that are not left free.
    """
    named = [i for i, k in enumerate(wanted) if k != FREE] if asked is None else list(asked)
    if found is not None and np.array_equal(found, wanted):
        return f"{_name_request(styles, wanted, named)} is possible from there"
    beyond = f"{_name_request(styles, wanted, named)} is out of reach from there"
    if found is None:
        return f"{beyond}, and so is every request near it that was tried"
    return f"{beyond}; {_name_request(styles, found, named)} is possible"


def _name_request(
    styles: Sequence[LabelingFunction], labels: Sequence[int] | Int[np.ndarray, " M"], named: Sequence[int]
) -> str:
    return " with ".join(f"{styles[i].name}={styles[i].classes[int(labels[i])]}" for i in named)
