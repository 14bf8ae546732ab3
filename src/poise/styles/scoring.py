"""Scores and labels of many trajectories in several styles: traced where JAX can trace a function, else on the host."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from tqdm import tqdm

from ..data.trajectories import Trajectories
from ..errors import PoiseError
from . import host, traced


@runtime_checkable
class Style(Protocol):
    """What scoring needs of a labeling function."""

    @property
    def name(self) -> str: ...

    @property
    def score(self) -> Any: ...

    def classify(self, scores: Any) -> Any: ...

    def grade(self, scores: Any) -> Any: ...


def score_all(
    styles: Sequence[Style], trajectories: Trajectories, progress: bool = False, strict: bool = True
) -> Float[np.ndarray, "M N"]:
    """The scores of all trajectories in every style.

    Args:
        styles: The labeling functions; thresholds are not needed.
        trajectories: What is scored, in memory or on disk.
        progress: Shows a bar if it takes more than a second.
        strict: Whether a trajectory that a function cannot score (it raises, or returns NaN) is an error. If not, its
            score is NaN.

    Raises:
        PoiseError: A function does not return one number per trajectory; if strict, one that is finite.
    """
    scores = np.empty((len(styles), len(trajectories)), np.float32)
    with tqdm(
        total=scores.size, desc="label", unit="score", unit_scale=True, disable=not progress, leave=False, delay=1
    ) as bar:
        left = _score_traced(styles, trajectories, scores, bar)
        for i in sorted(range(len(styles)), key=lambda i: len(left[i])):  # done already: it is checked first
            name, score = styles[i].name, styles[i].score
            if len(left[i]):
                bar.set_description(f"label {name}", refresh=False)
                scores[i, left[i]] = host.map_rows(name, score, trajectories, left[i], strict, bar.update)
            bad = np.flatnonzero(~np.isfinite(scores[i]))
            if strict and len(bad):
                raise PoiseError(
                    f"style {name!r} returned {scores[i, bad[0]]} for trajectory {bad[0]} (and {len(bad) - 1} others); "
                    "a score is a finite number: handle that case in the function"
                )
    return scores


def label_all(
    styles: Sequence[Style],
    trajectories: Trajectories,
    progress: bool = False,
    strict: bool = True,
    noise: Sequence[float] = (),
) -> Int[np.ndarray, "N M"]:
    """The labels of all trajectories in every fitted style; if not `strict`, -1 where a function has no score."""
    return classify_all(styles, score_all(styles, trajectories, progress, strict), noise)


def classify_all(
    styles: Sequence[Style], scores: Float[np.ndarray, "M N"], noise: Sequence[float] = (), graded: bool = False
) -> Int[np.ndarray, "N M"]:
    """The labels of the scores of every style, after adding Gaussian noise of these deviations, one per style.

    With their grades if asked for, where a style has grades.
    """
    labels = np.empty(scores.shape[::-1], np.int32)
    for style, row, column, deviation in zip(styles, scores, labels.T, noise or [0.0] * len(styles), strict=True):
        if deviation:  # the same noise for the same style and scores, whatever the other styles are
            random = np.random.default_rng([zlib.crc32(style.name.encode()), zlib.crc32(row.tobytes())])
            row = row + deviation * random.standard_normal(len(row), np.float32)
        column[:] = style.grade(row) if graded else style.classify(row)
    return labels


def _score_traced(
    styles: Sequence[Style], trajectories: Trajectories, scores: np.ndarray, bar: tqdm
) -> list[np.ndarray]:
    """Scores what JAX can trace, with one program per length for all styles; returns the other rows of every style."""
    states, actions, lengths = (
        np.asarray(x) for x in (trajectories.states, trajectories.actions, trajectories.lengths)
    )
    left = np.zeros((len(styles), states.shape[1]), bool)  # per length: some functions fail on short trajectories only
    for length, rows in traced.groups(states, actions, lengths):
        parts = states[:, : length + 1], actions[:, :length]
        left[:, length] = [not traced.can_trace(style.name, style.score, *parts) for style in styles]
        chosen = [i for i in range(len(styles)) if not left[i, length]]
        if not chosen:
            continue
        program = traced.vectorise(*(styles[i].score for i in chosen))
        for where, answers in traced.map_traced(program, *parts, rows):
            for i, answer in zip(chosen, answers, strict=True):
                scores[i, where] = answer
            bar.update(len(chosen) * len(answers[0]))
    return [np.flatnonzero(by_length[lengths]) for by_length in left]
