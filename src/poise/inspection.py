"""A look at labels before training: class balance, coverage, correlation between styles, support of joint styles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .labeling import LabelingFunction, classify_all, score_all
from .trajectories import Trajectories

TINY = 0.02  # a class, or a joint style, with a smaller share is hard to learn
FEW = 20  # and so is one with fewer demonstrations


@dataclass(frozen=True)
class Inspection:
    """What the labels of a set of demonstrations look like; a pure read of the label matrix."""

    styles: tuple[LabelingFunction, ...]
    scores: Float[np.ndarray, "M N"]
    labels: Int[np.ndarray, "N M"]

    @staticmethod
    def of(styles: Sequence[LabelingFunction], demonstrations: Trajectories, progress: bool = False) -> Inspection:
        """Scores the demonstrations, fits what has no thresholds, and labels them."""
        scores = score_all(styles, demonstrations, progress, strict=False)
        for style, row in zip(styles, scores, strict=True):
            if not np.isfinite(row).any():
                score_all([style], demonstrations)  # raises, and says what is wrong
        fitted = tuple(style.fit_scores(row[np.isfinite(row)]) for style, row in zip(styles, scores, strict=True))
        return Inspection(fitted, scores, classify_all(fitted, scores))

    def counts(self, style: int) -> list[int]:
        """Demonstrations in each class of a style."""
        labelled = self.labels[self.labels[:, style] >= 0, style]
        return np.bincount(labelled, minlength=len(self.styles[style].classes)).tolist()

    def coverage(self, style: int) -> float:
        """The share of demonstrations that a style can score."""
        return float(np.isfinite(self.scores[style]).mean())

    def correlation(self) -> Float[np.ndarray, "M M"]:
        """Rank correlation between the scores of every two styles."""
        ranks = np.stack([_ranks(row) for row in self.scores[:, np.isfinite(self.scores).all(axis=0)]])
        centred = ranks - ranks.mean(axis=1, keepdims=True)
        norms = np.linalg.norm(centred, axis=1)
        norms = np.where(norms > 0, norms, 1.0)  # a style that scores all alike correlates with nothing
        return centred @ centred.T / np.outer(norms, norms)

    def joint(self) -> tuple[int, list[tuple[tuple[str, ...], int]]]:
        """The number of possible joint styles, and those that occur with their counts, rarest first."""
        possible = int(np.prod([len(style.classes) for style in self.styles]))
        rows, counts = np.unique(self.labels[(self.labels >= 0).all(axis=1)], axis=0, return_counts=True)
        named = [
            (tuple(style.classes[k] for style, k in zip(self.styles, row, strict=True)), int(count))
            for row, count in zip(rows, counts, strict=True)
        ]
        return possible, sorted(named, key=lambda item: item[1])

    def warnings(self) -> list[str]:
        """What will be hard to learn, one line each."""
        total, found = len(self.labels), []
        for i, style in enumerate(self.styles):
            if self.coverage(i) < 1:
                missing = int(np.isnan(self.scores[i]).sum())
                found.append(
                    f"{style.name} has no score for {missing} of {total} demonstrations: training will refuse it"
                )
            for name, count in zip(style.classes, self.counts(i), strict=True):
                if count == 0:
                    found.append(f"class {name!r} of {style.name} is empty: no demonstration shows it")
                elif count < max(FEW, TINY * total):
                    found.append(f"class {name!r} of {style.name} is tiny: {count} of {total} demonstrations")
        correlation = self.correlation()
        for a, b in combinations(range(len(self.styles)), 2):
            if abs(correlation[a, b]) > 0.8:
                names = f"{self.styles[a].name} and {self.styles[b].name}"
                found.append(f"{names} say nearly the same (correlation {correlation[a, b]:+.2f})")
        possible, seen = self.joint()
        rare = sum(count < FEW for _, count in seen)
        counts = {"have no demonstration": possible - len(seen), f"have fewer than {FEW}": rare}
        scarce = [f"{count} {words}" for words, count in counts.items() if count]
        if len(self.styles) > 1 and scarce:
            found.append(f"of {possible} joint styles {' and '.join(scarce)}: they may not be feasible")
        return found

    def to_json(self) -> dict[str, Any]:
        """All of it, for machines."""
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
        """The same as a page of text."""
        total, lines = len(self.labels), [f"{len(self.labels)} demonstrations", ""]
        for i, style in enumerate(self.styles):
            low, middle, high = _quantiles(self.scores[i])
            unit = f" {style.unit}" if style.unit else ""
            covered = self.coverage(i)
            lines.append(
                f"{style.name}: median {middle:.3g}{unit}, 5-95 % {low:.3g} to {high:.3g}; covers {covered:.0%}"
            )
            cuts = [None, *(style.thresholds or ()), None]
            for k, (name, count) in enumerate(zip(style.classes, self.counts(i), strict=True)):
                bar = "#" * round(40 * count / total)
                lines.append(f"  {name:<10} {_range(cuts[k], cuts[k + 1]):<18} {count:>8} {count / total:>6.1%}  {bar}")
            lines.append("")
        if len(self.styles) > 1:
            lines += ["rank correlation between styles", *_matrix(self.styles, self.correlation()), ""]
        possible, seen = self.joint()
        lines.append(f"joint styles: {len(seen)} of {possible} have demonstrations")
        lines += [f"  {count:>8}  {', '.join(classes)}" for classes, count in seen[:3] if len(self.styles) > 1]
        if len(seen) > 3 and len(self.styles) > 1:
            lines.append(f"  … and {len(seen) - 3} with {seen[3][1]} or more")
        lines += [f"warning: {warning}" for warning in self.warnings()]
        return "\n".join(lines)


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
