"""Realism: whether rollouts pass for demonstrations, by several measures that are fitted once per evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError
from ..models.layers import on_cpu
from .distributions import Distributions
from .measures import measure_steps
from .rows import finite_rows, select_rows
from .scored import beyond
from .shares import rounded
from .support import Support
from .two_sample import FULL, SMALL, ClassifierSize, TwoSample, c2st, floor
from .variety import Variety

LEAST_ROWS = 20  # demonstrations without which a two-sample test says nothing
FLOOR_ROWS = 2_000  # demonstrations that are compared with others


class RolloutSet(NamedTuple):
    """Rollouts of one policy, as they are measured."""

    rollouts: Trajectories
    """Rollouts; the labels that were asked for may be in their metadata as `labels`."""
    right: Bool[np.ndarray, " N"]
    """True where λ gives the labels that were asked for."""
    rows: Int[np.ndarray, " N"]
    """The test demonstration that each rollout starts like. Several rollouts may share a row."""
    finite: Bool[np.ndarray, " N"] | None = None
    """False for rollouts that became NaN or infinite, if their numbers were replaced."""


@dataclass(frozen=True)
class Realism:
    """How real rollouts look. None stands for what was not measured."""

    c2st: float | None = None
    """The accuracy of a classifier that tells rollouts from the demonstrations they start like; 0.5 if it cannot."""
    c2st_interval: tuple[float, float] | None = None
    out_of_range: float | None = None
    """The share of rollouts with a state outside of the range of all test demonstrations."""
    off_support: float | None = None
    """The share of rollouts that leave the support; 0.01 of demonstrations do."""
    yield_: float | None = None
    """The share of rollouts that are right and on support."""
    distances: dict[str, float] = field(default_factory=dict)
    """Wasserstein distances to the distributions of test demonstrations, in deviations."""
    distance_floor: dict[str, float] = field(default_factory=dict)
    """The same between two halves of the test demonstrations."""
    measures: dict[str, float] = field(default_factory=dict)
    """The means of the domain's measures over all steps."""
    measures_of_demonstrations: dict[str, float] = field(default_factory=dict)
    """The same of test demonstrations."""
    diversity: float | None = None
    """How far rollouts of one request are from each other, relative to demonstrations; 1 is right."""
    novelty: float | None = None
    """The median distance to the nearest training demonstration; 0 for copies."""
    novelty_of_demonstrations: float | None = None
    """The same of test demonstrations."""

    @property
    def novelty_ratio(self) -> float | None:
        """The novelty of rollouts relative to that of test demonstrations: about 1 if they are as new."""
        if self.novelty is None or not self.novelty_of_demonstrations:
            return None
        return self.novelty / self.novelty_of_demonstrations

    def to_json(self) -> dict[str, Any]:
        """Plain numbers of four digits."""
        return {
            "c2st": rounded(self.c2st),
            "c2st_interval": self.c2st_interval and [rounded(end) for end in self.c2st_interval],
            "out_of_range": rounded(self.out_of_range),
            "off_support": rounded(self.off_support),
            "yield": rounded(self.yield_),
            "distances": {name: rounded(value) for name, value in self.distances.items()},
            "distance_floor": {name: rounded(value) for name, value in self.distance_floor.items()},
            "measures": {name: rounded(value) for name, value in self.measures.items()},
            "measures_of_demonstrations": {
                name: rounded(value) for name, value in self.measures_of_demonstrations.items()
            },
            "diversity": rounded(self.diversity),
            "novelty": rounded(self.novelty),
            "novelty_of_demonstrations": rounded(self.novelty_of_demonstrations),
        }


@dataclass(frozen=True)
class Reference:
    """What rollouts are compared with, fitted once per evaluation.

    Examples:
        >>> import numpy as np, poise
        >>> from poise.evaluation.realism import Reference, RolloutSet
        >>> walks = poise.Trajectories(np.random.default_rng(0).normal(size=(300, 9, 2)).cumsum(axis=1))
        >>> splits = poise.split(walks)
        >>> reference = Reference.fit(splits, poise.Domain("walks"))
        >>> copies = RolloutSet(splits.train[:30], np.ones(30, bool), np.arange(30))
        >>> reference.measure([copies])[0].novelty
        0.0
    """

    test: Trajectories
    support: Support
    distributions: Distributions
    variety: Variety
    novelty_of_demonstrations: float
    groups: Int[np.ndarray, " N"] | None
    """The group of each test demonstration, which a two-sample test does not divide."""
    size: ClassifierSize
    seed: int
    measures_of_demonstrations: dict[str, float] = field(default_factory=dict)
    out_of_range_floor: float | None = None
    """The share of validation demonstrations that are out of the range of test demonstrations."""
    off_support_floor: float | None = None
    """The share of test demonstrations that are off support."""

    @staticmethod
    def fit(
        splits: Splits,
        domain: Domain,
        *,
        labels: Int[np.ndarray, "N M"] | None = None,
        groups: Int[np.ndarray, " K"] | None = None,
        size: ClassifierSize | None = None,
        seed: int = 0,
    ) -> Reference:
        """The reference for rollouts from test starts.

        Args:
            splits: Training demonstrations, of which a sample is read; validation demonstrations, which say how far
                from training demonstrations the support goes; test demonstrations, with which rollouts are compared.
            domain: Where they come from.
            labels: The labels of training demonstrations, for the diversity of what was asked for.
            groups: The group of each test demonstration, such as its game.
            size: The size of the classifier; the default depends on whether JAX compiles for a CPU.
            seed: Of samples and classifiers.
        """
        variety, test = Variety.fit(splits.train, labels, seed), splits.test
        support, others = Support.fit(splits.train, splits.validation, seed), splits.validation[:FLOOR_ROWS]
        return Reference(
            test=test,
            support=support,
            distributions=Distributions.fit(test, domain, seed),
            variety=variety,
            novelty_of_demonstrations=variety.novelty(test),
            groups=groups,
            size=size or (SMALL if on_cpu() else FULL),
            seed=seed,
            measures_of_demonstrations=measure_steps(test, domain),
            out_of_range_floor=float(beyond(others, np.ones(len(others), bool), test).mean()),
            off_support_floor=float(support.off(select_rows(test, np.arange(min(len(test), FLOOR_ROWS)))).mean()),
        )

    def measure(self, sets: Sequence[tuple[Any, ...]]) -> list[Realism]:
        """The realism of each set of rollouts.

        Two-sample tests use one rollout of each row. Those of sets with the same rows are one compiled program.

        Args:
            sets: `RolloutSet`s, or tuples (rollouts, right, rows) or (rollouts, right, rows, finite).
        """
        given = [RolloutSet(*each) for each in sets]
        return [self.describe(one, found) for one, found in zip(given, self.two_samples(given), strict=True)]

    def with_labels(self, labels: Int[np.ndarray, "N M"] | None) -> Reference:
        """The same, for rollouts that are asked for the styles that these are training labels of."""
        return replace(self, variety=self.variety.with_labels(labels))

    def diversity(self, rollouts: Trajectories) -> float | None:
        """The diversity of rollouts that repeat requests, by their starts and the labels in their metadata."""
        starts = np.unique(np.asarray(rollouts.starts), axis=0, return_inverse=True)[1].reshape(-1)
        labels = rollouts.metadata.get("labels")
        return self.variety.diversity(rollouts, _requests(starts, labels), labels)

    def floor(self) -> TwoSample | None:
        """The two-sample test of test demonstrations against each other; None if there are too few."""
        if len(self.test) < 2 * LEAST_ROWS:
            return None
        try:
            return floor(self.test, groups=self.groups, size=self.size, seed=self.seed)
        except PoiseError:  # there are fewer than two groups with two demonstrations each
            return None

    def about(self) -> dict[str, Any]:
        """What the measures of rollouts are compared with, for a file."""
        found = self.floor()
        return {
            "c2st_floor": found and rounded(found.accuracy),
            "c2st_floor_interval": found and [rounded(end) for end in found.interval],
            "c2st_floor_rows": found and found.rows,
            "classifier": asdict(self.size),
            "out_of_range_floor": rounded(self.out_of_range_floor),
            "off_support_floor": rounded(self.off_support_floor),
            "support_held_out": self.support.held_out,
            "distance_floor": {name: rounded(value) for name, value in self.distributions.floor.items()},
            "novelty_of_demonstrations": rounded(self.novelty_of_demonstrations),
        }

    def _enough(self, rows: Int[np.ndarray, " n"]) -> bool:
        """Whether a two-sample test of these rows says anything."""
        return len(rows) >= LEAST_ROWS and (self.groups is None or len(np.unique(self.groups[rows])) > 1)

    def describe(self, one: RolloutSet, found: TwoSample | None) -> Realism:
        """The realism of a set of rollouts, of which this is the two-sample test."""
        rollouts, right, rows, finite = _mark(one)
        assert finite is not None
        off = self.support.off(rollouts)
        labels = rollouts.metadata.get("labels")
        return Realism(
            c2st=found and found.accuracy,
            c2st_interval=found and found.interval,
            out_of_range=float(beyond(rollouts, finite, self.test).mean()),
            off_support=float(off.mean()),
            yield_=float((right & ~off).mean()),
            distances=self.distributions.distances(rollouts),
            distance_floor=self.distributions.floor,
            measures=measure_steps(rollouts, self.distributions.domain),
            measures_of_demonstrations=self.measures_of_demonstrations,
            diversity=self.variety.diversity(rollouts, _requests(rows, labels), labels),
            novelty=self.variety.novelty(rollouts),
            novelty_of_demonstrations=self.novelty_of_demonstrations,
        )

    def two_samples(self, sets: Sequence[RolloutSet]) -> list[TwoSample | None]:
        """The two-sample test of each set; None where it has too few rows."""
        sets = [_mark(one) for one in sets]
        found: list[TwoSample | None] = [None] * len(sets)
        distinct = [np.unique(one.rows, return_index=True) for one in sets]
        for rows in {rows.tobytes(): rows for rows, _ in distinct}.values():
            if not self._enough(rows):
                continue
            alike = [i for i, (others, _) in enumerate(distinct) if np.array_equal(others, rows)]
            rollouts = [select_rows(sets[i].rollouts, distinct[i][1]) for i in alike]
            groups = None if self.groups is None else self.groups[rows]
            try:
                results = c2st(select_rows(self.test, rows), rollouts, groups=groups, size=self.size, seed=self.seed)
            except PoiseError:  # of the rows that it draws, all may be of one group
                continue
            for i, result in zip(alike, results, strict=True):
                found[i] = result
        return found


def _mark(one: RolloutSet) -> RolloutSet:
    """The set with NaN for the rollouts that are not finite, so that each measure notices them."""
    made, finite = one.rollouts, finite_rows(one.rollouts)
    finite = finite if one.finite is None else finite & one.finite
    states, actions = (np.where(finite[:, None, None], np.asarray(x), np.nan) for x in (made.states, made.actions))
    arrays = states.astype(np.float32), actions.astype(np.float32), np.asarray(made.lengths)
    rollouts = Trajectories.unchecked(*arrays, metadata=made.metadata)
    return RolloutSet(rollouts, np.asarray(one.right), np.asarray(one.rows), finite)


def _requests(rows: Int[np.ndarray, " N"], labels: np.ndarray | None) -> Int[np.ndarray, " N"]:
    """A number for each rollout that is the same for rollouts of the same row and labels."""
    both = rows[:, None] if labels is None else np.concatenate([rows[:, None], labels], axis=1)
    return np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
