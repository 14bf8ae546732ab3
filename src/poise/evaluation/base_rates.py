"""Base rates: the style-consistency of policies that ignore labels, to compare others with."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from ..data.trajectories import Trajectories


def base_rates(
    known: Trajectories, known_labels: Int[np.ndarray, "N M"], test: Trajectories, labels: Int[np.ndarray, "K M"]
) -> dict[str, Any]:
    """The style-consistency, joint and by style, of policies that ignore labels.

    `own`: of replaying the known demonstration that starts nearest to each test start, any of them if several do.
    `shuffled`: of replaying any demonstration while the labels are shuffled, which is the chance that two
    demonstrations have the same labels.
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
        {"own": round(float(agree[:, i].mean()), 4), "shuffled": _chance(labels[:, i])} for i in range(labels.shape[1])
    ]
    joint = {"own": round(float(agree.all(axis=1).mean()), 4), "shuffled": _chance(labels)}
    return {**joint, "by_style": by_style}


def _chance(labels: np.ndarray) -> float:
    """The chance that two rows drawn at random are the same."""
    shares = np.unique(labels, axis=0, return_counts=True)[1] / len(labels)
    return round(float(np.square(shares).sum()), 4)


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
