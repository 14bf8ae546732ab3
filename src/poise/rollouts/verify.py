"""Verified sampling: a request is rolled out again until the labeling functions agree, or its tries are used up.

A labeling function is a program: it can check a rollout as easily as it labels a demonstration. All requests are rolled
out at once, then only those that are not satisfied, several times each where that fills the program that is compiled
already. It works for every policy, labeling function and environment that can be started anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Bool, Int, PRNGKeyArray

from ..data.trajectories import NAMES, Trajectories
from .requests import Request
from .simulate import PIECE

RollOut = Callable[[Request, PRNGKeyArray, int], Trajectories]
"""(request, key, number of the pass) -> rollouts."""
Accept = Callable[[Trajectories, Request], Bool[np.ndarray, " N"]]


@dataclass(frozen=True)
class Verified:
    """Rollouts, which of them were accepted, and after how many tries.

    What was never accepted keeps its first rollout: it is marked, not replaced.
    """

    rollouts: Trajectories
    accepted: Bool[np.ndarray, " N"]
    tries: Int[np.ndarray, " N"]
    """Rollouts until one was accepted; all that were allowed where none was."""


def verify(
    roll_out: RollOut,
    accept: Accept,
    request: Request,
    tries: int,
    key: PRNGKeyArray,
    *,
    traced: bool = True,
    first: Trajectories | None = None,
) -> Verified:
    """Rollouts of a request, each made again until it is accepted.

    Args:
        roll_out: Makes the rollouts of a request; by the number of the pass it may sample another way than before.
        accept: Says which rollouts of a request are accepted.
        request: What is asked for.
        tries: The most rollouts of one request.
        key: Randomness. The first try has this key itself.
        traced: Whether rollouts are one compiled program, which costs the same for fewer requests.
        first: The rollouts of the first try, if they were made already.
    """
    made = roll_out(request, key, 0) if first is None else first
    kept = [np.array(getattr(made, name)) for name in NAMES]
    accepted, used = np.array(accept(made, request)), np.ones(len(request), np.int32)
    size = min(PIECE, 1 << (len(request) - 1).bit_length())
    for number in range(1, tries):
        open_rows = np.flatnonzero(~accepted & (used < tries))
        if not len(open_rows):
            break
        rows = np.resize(open_rows, -(-len(open_rows) // size) * size) if traced else open_rows
        attempt = np.arange(len(rows)) // len(open_rows)  # several tries of a request at once
        again = request.rows(rows)
        made = roll_out(again, jax.random.fold_in(key, number), number)
        allowed = used[rows] + attempt < tries
        right = np.asarray(accept(made, again)) & allowed
        found = np.flatnonzero(right)[::-1]  # backwards, so that the first of several stays
        for mine, name in zip(kept, NAMES, strict=True):
            mine[rows[found]] = np.asarray(getattr(made, name))[found]
        accepted[rows[found]] = True
        tried = np.bincount(rows[allowed], minlength=len(used))
        firsts = np.full(len(used), len(rows))
        np.minimum.at(firsts, rows[right], attempt[right])
        used += np.where(accepted & (tried > 0), np.minimum(firsts + 1, tried), tried).astype(np.int32)
    return Verified(Trajectories.unchecked(*kept), accepted, used)
