"""Inspection of labels before training: class balance, coverage, correlation between styles, counts of joint styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import Trajectories
from .labeling_functions import LabelingFunction
from .scoring import classify_all, score_all

TINY = 0.02  # a class with a smaller share of the demonstrations is hard to learn
FEW = 20  # and so is a class, or a joint style, with fewer demonstrations
SIMILAR = 0.8  # correlation above which two styles are nearly the same


@dataclass(frozen=True)
class Inspection:
    """The scores and labels of demonstrations, and what they say about training on them.

    `Inspection.of` makes one, and `poise label` prints one.

    Args:
        styles: Labeling functions with thresholds.
        scores: The score of each demonstration in each style; NaN where a function has none.
        labels: The class of each demonstration in each style; -1 where there is no score.

    Examples:
        >>> import numpy as np
        >>> import poise
        >>> from poise.styles.inspection import Inspection
        >>> end = poise.labeling_function(lambda states, actions: states[-1, 0], name="end", classes=("left", "right"))
        >>> walks = poise.Trajectories(np.arange(100.0)[:, None, None] * np.ones((3, 1)))
        >>> found = Inspection.of([end], walks)
        >>> found.counts(0), found.coverage(0), found.warnings()
        ([50, 50], 1.0, [])
        >>> print(str(found).splitlines()[2])
        end: median 49.5, 5-95 % 4.95 to 94; covers 100%
    """

    styles: tuple[LabelingFunction, ...]
    scores: Float[np.ndarray, "M N"]
    labels: Int[np.ndarray, "N M"]

    @staticmethod
    def of(styles: Sequence[LabelingFunction], demonstrations: Trajectories, progress: bool = False) -> Inspection:
        """Scores and labels demonstrations; a style without thresholds is fitted to them.

        Args:
            styles: Labeling functions.
            demonstrations: What is inspected.
            progress: Shows a bar while they are scored.

        Raises:
            PoiseError: A style scores no demonstration at all, or cannot be fitted.
        """
        scores = score_all(styles, demonstrations, progress, strict=False)
        for style, row in zip(styles, scores, strict=True):
            if not np.isfinite(row).any():
                score_all([style], demonstrations)  # raises the error of the function
        fitted = tuple(style.fit_scores(row[np.isfinite(row)]) for style, row in zip(styles, scores, strict=True))
        return Inspection(fitted, scores, classify_all(fitted, scores))

    def counts(self, style: int) -> list[int]:
        """Demonstrations in each class of a style."""
        labelled = self.labels[self.labels[:, style] >= 0, style]
        return np.bincount(labelled, minlength=len(self.styles[style].classes)).tolist()

    def coverage(self, style: int) -> float:
        """The share of demonstrations that a style has a score for."""
        return float(np.isfinite(self.scores[style]).mean())

    def correlation(self) -> Float[np.ndarray, "M M"]:
        """Rank correlation between the scores of every two styles, over demonstrations that all styles score."""
        scored = self.scores[:, np.isfinite(self.scores).all(axis=0)]
        if not scored.size:
            return np.zeros((len(self.styles), len(self.styles)))
        ranks = np.stack([_ranks(row) for row in scored])
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(centred, axis=1)
        norms = np.where(norms > 0, norms, 1.0)  # a style that is constant has the correlation 0 with every other
        return centred @ centred.T / np.outer(norms, norms)

    def joint(self) -> tuple[int, list[tuple[tuple[str, ...], int]]]:
        """The number of possible joint styles, and those that occur, rarest first, with their counts."""
        possible = int(np.prod([len(style.classes) for style in self.styles]))
        rows, counts = np.unique(self.labels[(self.labels >= 0).all(axis=1)], axis=0, return_counts=True)
        named = [
            (tuple(style.classes[k] for style, k in zip(self.styles, row, strict=True)), int(count))
            for row, count in zip(rows, counts, strict=True)
        ]
        return possible, sorted(named, key=lambda item: item[1])

    def warnings(self) -> list[str]:
        """What will be hard to learn, one line each."""
        by_style = [line for i in range(len(self.styles)) for line in self._warnings_of_style(i)]
        return [*by_style, *self._warnings_of_pairs(), *self._warnings_of_joint_styles()]

    def _warnings_of_style(self, style: int) -> list[str]:
        total, found, name = len(self.labels), [], self.styles[style].name
        missing = int((~np.isfinite(self.scores[style])).sum())
        if missing:
            found.append(f"{name} has no score for {missing} of {total} demonstrations: training will refuse it")
        for word, count in zip(self.styles[style].classes, self.counts(style), strict=True):
            if count == 0:
                found.append(f"class {word!r} of {name} is empty: no demonstration shows it")
            elif count < max(FEW, TINY * total):
                found.append(f"class {word!r} of {name} is tiny: {count} of {total} demonstrations")
        return found

    def _warnings_of_pairs(self) -> list[str]:
        names, correlation = [style.name for style in self.styles], self.correlation()
        return [
            f"{names[a]} and {names[b]} are nearly the same (correlation {correlation[a, b]:+.2f})"
            for a, b in combinations(range(len(names)), 2)
            if abs(correlation[a, b]) > SIMILAR
        ]

    def _warnings_of_joint_styles(self) -> list[str]:
        possible, seen = self.joint()
        rare = sum(count < FEW for _, count in seen)
        counts = {"have no demonstration": possible - len(seen), f"have fewer than {FEW}": rare}
        scarce = [f"{count} {words}" for words, count in counts.items() if count]
        if len(self.styles) == 1 or not scarce:
            return []
        return [f"of {possible} joint styles {' and '.join(scarce)}: they may not be feasible"]

    def to_json(self) -> dict[str, Any]:
        """What `poise label --json` prints."""
        possible, seen = self.joint()
        names = [style.name for style in self.styles]
        return {
            "trajectories": len(self.labels),
            "styles": [
                {
                    "name": style.name,
                    "unit": style.unit,
                    "classes": list(style.classes),
                    "thresholds": list(style.thresholds or ()),
                    "counts": self.counts(i),
                    "coverage": self.coverage(i),
                    "quantiles": dict(zip(("5", "50", "95"), _quantiles(self.scores[i]), strict=True)),
                }
                for i, style in enumerate(self.styles)
            ],
            "correlation": {"styles": names, "matrix": self.correlation().round(4).tolist()},
            "joint": {
                "possible": possible,
                "seen": len(seen),
                "counts": [{"classes": list(classes), "count": count} for classes, count in seen],
            },
            "warnings": self.warnings(),
        }

    def __str__(self) -> str:
        """What `poise label` prints."""
        lines = [f"{len(self.labels)} demonstrations", ""]
        for i in range(len(self.styles)):
            lines += [*self._table_of_style(i), ""]
        if len(self.styles) > 1:
            lines += ["rank correlation between styles", *_matrix(self.styles, self.correlation()), ""]
        possible, seen = self.joint()
        lines.append(f"joint styles: {len(seen)} of {possible} have demonstrations")
        lines += [f"  {count:>8}  {', '.join(classes)}" for classes, count in seen[:3] if len(self.styles) > 1]
        if len(seen) > 3 and len(self.styles) > 1:
            lines.append(f"  … and {len(seen) - 3} with {seen[3][1]} or more")
        lines += [f"warning: {warning}" for warning in self.warnings()]
        return "\n".join(lines)

    def _table_of_style(self, number: int) -> list[str]:
        style, total = self.styles[number], len(self.labels)
        low, middle, high = _quantiles(self.scores[number])
        unit = f" {style.unit}" if style.unit else ""
        covers = f"covers {self.coverage(number):.0%}"
        lines = [f"{style.name}: median {middle:.3g}{unit}, 5-95 % {low:.3g} to {high:.3g}; {covers}"]
        ends = [None, *(style.thresholds or ()), None]
        for k, (name, count) in enumerate(zip(style.classes, self.counts(number), strict=True)):
            bar = "#" * round(40 * count / total)
            lines.append(f"  {name:<10} {_range(ends[k], ends[k + 1]):<18} {count:>8} {count / total:>6.1%}  {bar}")
        return lines


def _ranks(scores: np.ndarray) -> np.ndarray:
    """The rank of each score; equal scores share the mean of their ranks."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[place]


def _quantiles(scores: np.ndarray) -> list[float]:
    return [float(q) for q in np.nanquantile(scores, [0.05, 0.5, 0.95])]


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {high:.4g}"
    return f"{low:.4g} and up" if high is None else f"{low:.4g} to {high:.4g}"


def _matrix(styles: Sequence[LabelingFunction], matrix: np.ndarray) -> list[str]:
    width = max(len(style.name) for style in styles) + 1
    head = " " * (width + 2) + " ".join(f"{style.name[:7]:>7}" for style in styles)
    rows = [f"  {s.name:<{width}}" + " ".join(f"{v:>7.2f}" for v in row) for s, row in zip(styles, matrix, strict=True)]
    return [head, *rows]
