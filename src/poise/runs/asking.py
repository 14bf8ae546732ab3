"""What is asked of a trained seed: where rollouts start, in which labels, and for how many steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from ..config import Sampling
from ..data.trajectories import Trajectories
from ..errors import PoiseError
from ..evaluation.scored import ScoredRollouts, TrainedSeed
from ..rollouts.requests import Request, Words, check_draw, check_state, draw_labels, find_classes

MOST_ROLLOUTS = 10_000_000


class Asked(NamedTuple):
    """What is asked of a trained seed, and the randomness."""

    request: Request
    trained: TrainedSeed
    key: jax.Array

    def verified(self, sampling: Sampling, in_range: bool) -> ScoredRollouts:
        """The rollouts, scored; with more than one try made again until they are right, which their metadata tell."""
        if sampling.tries == 1:
            return self.trained.score(self.request, self.key, sampling)
        found = self.trained.score_verified(self.request, self.key, sampling, in_range=in_range)
        made = found.rollouts
        known = {**made.metadata, "accepted": found.accepted, "tries": found.tries}
        return replace(found, rollouts=Trajectories(made.states, made.actions, made.lengths, known))


def ask(
    trained: TrainedSeed,
    starts: Trajectories,
    labels: Int[np.ndarray, "N M"],
    count: int,
    words: Words | None,
    start: Sequence[float] | None,
    steps: int | None,
    draw: int,
) -> Asked:
    """What a trained seed is asked for.

    Args:
        trained: The seed.
        starts: Demonstrations to start from.
        labels: Their labels in all styles of the seed.
        count: How many rollouts.
        words: Classes by style.
        start: A state to start from; where demonstrations of that style start if not given.
        steps: Steps of a rollout; as many as the demonstrations have if not given.
        draw: Seed of the randomness.

    Raises:
        PoiseError: A style or a class is not known, or a number is out of range.
    """
    if not isinstance(count, int | np.integer):
        raise PoiseError(f"count is a whole number, as in sample(100, {{...}}); got a {type(count).__name__}")
    if not 1 <= count <= MOST_ROLLOUTS:
        raise PoiseError(f"sample between one and ten million rollouts at a time; got {count}")
    if steps is not None and steps < 1:
        raise PoiseError(f"a rollout has at least one step; got {steps}")
    random, wanted = np.random.default_rng(check_draw(draw)), find_classes(trained.styles, words or {})
    first_free = 0 if trained.parts["policy"].open_labels and wanted else len(trained.space.own.kinds)
    rows, asked = draw_labels(labels, wanted, count, random, range(first_free, labels.shape[1]))
    begins, lengths = np.asarray(starts.starts)[rows], np.asarray(starts.lengths)[rows]
    if start is not None:
        begins = np.tile(check_state(start, begins.shape[1:], "a start is"), (count, 1))
    if start is not None or steps is not None:
        lengths = np.full(count, steps or starts.steps, np.int32)
    return Asked(Request(begins, asked, lengths, steps or starts.steps), trained, jax.random.key(draw))
