"""Reports: the scores of one or more algorithms on the same test demonstrations, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .consistency import SeedScore

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
        head = ["algorithm", "seed", "joint", "95 %", "& in range", *names, "shuffled", "out of range", "NLD", "KL"]
        rows = [head]
        for algorithm, scores in self.algorithms.items():
            rows += [_row(algorithm, score, names) for score in scores]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        base, about = self.about["base_rate"], self.about
        return "\n".join(
            [
                *lines,
                "",
                f"A policy that ignores labels: joint {base['own']:.3f}, shuffled {base['shuffled']:.3f}.",
                f"{about['rollouts']} rollouts per seed from {about['test']} test starts, in {about['environment']}.",
                "joint: the labels of the start's own demonstration; shuffled: labels independent of the start.",
                "out of range: rollouts with a state outside of the range of all test demonstrations.",
                f"NLD and KL per step; NLD in {about['units']}.",
                *filter(None, [self.dynamics()]),
                *(f"warning: {warning}" for warning in self.warnings()),
            ]
        )


def _row(algorithm: str, score: SeedScore, names: Sequence[str]) -> list[str]:
    return [
        algorithm,
        str(score.seed),
        f"{score.joint.value:.3f}",
        f"{score.joint.low:.3f}-{score.joint.high:.3f}",
        "-" if score.joint_in_range is None else f"{score.joint_in_range:.3f}",
        *(f"{score.by_style[name].value:.3f}" for name in names),
        f"{score.joint_shuffled.value:.3f}",
        f"{score.out_of_range:.3f}",
        f"{score.nld:.2f}",
        "-" if score.kl is None else f"{score.kl:.3f}",
    ]
