"""Gaits that are chosen by a rule, so that nobody picks the best: median and worst rollouts beside demonstrations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..data.trajectories import Trajectories
from ..evaluation.rows import select_rows
from ..evaluation.scored import ScoredRollouts
from ..evaluation.support import Support

LEAST = 8  # demonstrations without which the rule says nothing
RULE = (
    "By rule, of all rollouts above and of held-out demonstrations: where their farthest window is at the median, and "
    "at the largest, distance from other demonstrations."
)
Gait = tuple[str, Float[np.ndarray, "_ S"]]
"""A title and the states of a trajectory."""


def choose_gaits(scored: Sequence[ScoredRollouts], demonstrations: Trajectories) -> tuple[Gait, ...]:
    """A median and the worst rollout beside a median and the worst demonstration.

    Half of the demonstrations are what the distances are measured to; the others are compared with the rollouts.
    """
    if len(demonstrations) < LEAST:
        return ()
    half = len(demonstrations) // 2
    known, others = (
        select_rows(demonstrations, rows) for rows in np.array_split(np.arange(len(demonstrations)), [half])
    )
    support = Support.fit(known, others)
    made = [select_rows(one.rollouts, np.flatnonzero(one.finite)) for one in scored if one.finite.any()]
    groups = [("demonstration", [others]), *([("rollout", made)] if made else [])]
    ranked = [(name, _rank(support, group)) for name, group in groups]
    places = {"median": lambda count: count // 2, "worst": lambda count: count - 1}
    return tuple(
        (f"{word} {name}", gaits[place(len(gaits))]) for word, place in places.items() for name, gaits in ranked
    )


def _rank(support: Support, groups: Sequence[Trajectories]) -> list[Float[np.ndarray, "_ S"]]:
    """The states of all trajectories, those near to demonstrations first."""
    far = np.concatenate([support.statistic(group) for group in groups])
    states = [
        np.asarray(states)[: int(length) + 1]
        for group in groups
        for states, length in zip(np.asarray(group.states), np.asarray(group.lengths), strict=True)
    ]
    return [states[i] for i in np.argsort(far, kind="stable")]
