"""Reports: the scores of one or more algorithms on the same test demonstrations, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .consistency import SeedScore
from .realism import Realism
from .shares import Share

VERIFIED = (
    "verified: the same requests, rolled out again until the labeling functions agree. They are asked while sampling, "
    "so this is another question than the paper's."
)
WAYS = ["algorithm", "seed", "sampled", "joint", "95 %", "& in range", "yield", "C2ST", "tries", "never"]
WIDEST = 200  # letters in a line of the table; styles have a table of their own where it would be wider
FEW = 30  # test demonstrations below which metrics are noisy


def spread(values: Sequence[float]) -> dict[str, float]:
    """Minimum, median and maximum, as in the paper's tables."""
    numbers = [float(v) for v in values]
    return {"min": min(numbers), "median": round(float(np.median(numbers)), 4), "max": max(numbers)}


@dataclass(frozen=True)
class Report:
    """Scores of one or more algorithms on the same test demonstrations, and where they come from.

    `Run.evaluate` makes one. `print(report)` shows it as a table, `report.to_json()` is the content of report.json, and
    `poise.figures.write_report` writes it as a page.

    Args:
        algorithms: The scores of each algorithm, one per seed.
        about: What was evaluated: styles with classes and thresholds, environment, units, base rates, counts.
        provenance: Command, commit, hardware, versions and seconds.
        notes: Warnings that belong to the evaluation as a whole.

    Examples:
        >>> import poise
        >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
        >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
        >>> report = run.evaluate(rollouts=8)
        >>> sorted(report.joint("rnn"))
        ['max', 'median', 'min']
    """

    algorithms: dict[str, list[SeedScore]]
    about: dict[str, Any]
    provenance: dict[str, Any]
    notes: tuple[str, ...] = ()

    def joint(self, algorithm: str) -> dict[str, float]:
        """Minimum, median and maximum of the joint style-consistency over seeds."""
        return spread([round(score.joint.value, 4) for score in self.algorithms[algorithm]])

    def dynamics(self) -> str | None:
        """How good learned dynamics are, in a sentence; None if none were learned."""
        errors = {
            algorithm: np.median(found)
            for algorithm, scores in self.algorithms.items()
            if (found := [score.dynamics_error for score in scores if score.dynamics_error is not None])
        }
        by_algorithm = ", ".join(f"{algorithm} {error:.2e}" for algorithm, error in errors.items())
        what = "Dynamics were learned; squared error per step and dimension of the state, on test demonstrations"
        return f"{what}: {by_algorithm} ({self.about['change']:.3g} if nothing moved)." if errors else None

    def realism(self) -> str | None:
        """What realism is measured by, in a sentence; None if it was not measured."""
        about = self.about.get("realism")
        if not about or about["c2st_floor"] is None:
            return None
        small = (
            "" if about["classifier"]["rows"] >= 4_000 else f" (a small one, of {about['classifier']['rows']} rollouts)"
        )
        return (
            f"C2ST: how often a classifier{small} tells rollouts from the demonstrations they start like; "
            f"demonstrations among themselves {about['c2st_floor']:.3f}. "
            "Yield: right and on the support of the demonstrations."
        )

    def warnings(self) -> list[str]:
        """What a reader of the numbers must know, one line each."""
        found = list(self.notes)
        for algorithm, scores in self.algorithms.items():
            for score in scores:
                found += self._warnings(f"{algorithm}, seed {score.seed}", score)
        if self.about["test"] < FEW:
            found.append(f"only {self.about['test']} test demonstrations: metrics are noisy")
        return found

    def _warnings(self, who: str, score: SeedScore) -> list[str]:
        total = self.about["rollouts"]
        found = [
            f"{style} could not score {count} of {total} rollouts of {who} (it raised or returned NaN): "
            "they count as wrong"
            for style, count in score.unscored.items()
            if count
        ]
        if score.not_finite:
            found.append(f"{score.not_finite} of {total} rollouts of {who} became NaN or infinite: they count as wrong")
        if score.stopped:
            found.append(f"{who}, was stopped at {score.stopped}: its loss was not finite")
        return found

    def to_json(self) -> dict[str, Any]:
        """The content of report.json."""
        algorithms = {
            name: {"joint": self.joint(name), "seeds": [score.to_json() for score in scores]}
            for name, scores in self.algorithms.items()
        }
        return {"algorithms": algorithms, **self.about, "notes": list(self.notes), **self.provenance}

    def __str__(self) -> str:
        """The report as a table, one row per seed."""
        names = [style["name"] for style in self.about["styles"]]
        scores = [(algorithm, score) for algorithm, found in self.algorithms.items() for score in found]
        rows = [WAYS, *(row for algorithm, score in scores for row in _rows(algorithm, score))]
        more = [_by_style(score, names) for _, score in scores]
        head = [*names, "shuffled", "out of range", "NLD", "KL"]
        wide = [[*row, *cells] for row, cells in zip(rows, _fill(rows, [head, *more]), strict=True)]
        lines = _aligned(wide)
        if max(map(len, lines)) > WIDEST:
            narrow = [
                [algorithm, str(score.seed), *cells] for (algorithm, score), cells in zip(scores, more, strict=True)
            ]
            lines = [*_aligned(rows), "", *_aligned([["algorithm", "seed", *head], *narrow])]
        base, about = self.about["base_rate"], self.about
        return "\n".join(
            [
                *lines,
                "",
                f"A policy that ignores labels: joint {base['own']:.3f}, shuffled {base['shuffled']:.3f}.",
                f"{about['rollouts']} rollouts per seed from {about['test']} test starts, in {about['environment']}.",
                "joint: the labels of the start's own demonstration; shuffled: labels independent of the start.",
                "out of range: rollouts with a state outside of the range of all test demonstrations.",
                VERIFIED,
                *filter(None, [self.realism()]),
                f"NLD and KL per step; NLD in {about['units']}.",
                *filter(None, [self.dynamics()]),
                *(f"warning: {warning}" for warning in self.warnings()),
            ]
        )


def _rows(algorithm: str, score: SeedScore) -> list[list[str]]:
    """One row for the default way of sampling, and one for each other way."""
    rows = [
        [algorithm, str(score.seed), "one try", *_joint(score.joint, score.joint_in_range, score.realism), "1", "-"]
    ]
    for name, way in (("unsteered", score.unsteered), ("verified", score.verified)):
        if way is not None:
            numbers = ["1" if way.tries is None else f"{way.tries:.2f}", _number(way.never)]
            rows.append(["", "", name, *_joint(way.joint, way.joint_in_range, way.realism), *numbers])
    return rows


def _by_style(score: SeedScore, names: Sequence[str]) -> list[str]:
    """The cells that only the default way of sampling has."""
    cells = [f"{score.by_style[name].value:.3f}" for name in names]
    cells += [f"{score.joint_shuffled.value:.3f}", f"{score.out_of_range:.3f}", f"{score.nld:.2f}"]
    return [*cells, "-" if score.kl is None else f"{score.kl:.3f}"]


def _fill(rows: Sequence[Sequence[str]], cells: Sequence[list[str]]) -> list[list[str]]:
    """The cells in the rows that begin with a name, empty ones in the others."""
    left = iter(cells)
    return [next(left) if row[0] else [""] * len(cells[0]) for row in rows]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines, every column as wide as its longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _joint(joint: Share, in_range: float | None, realism: Realism) -> list[str]:
    """The cells that every way of sampling has."""
    interval = f"{joint.low:.3f}-{joint.high:.3f}"
    return [f"{joint.value:.3f}", interval, _number(in_range), _number(realism.yield_), _number(realism.c2st)]


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
