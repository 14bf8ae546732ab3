"""What is asked of a trained seed: where rollouts start, in which labels, and for how many steps; what is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ..config import Sampling
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError, check_list, check_whole, unknown
from ..evaluation.feasibility import (
    Feasibility,
    ask_each_class,
    describe_nearest,
    measure_feasibility,
    nearest_feasible,
)
from ..evaluation.scored import ScoredRollouts, TrainedSeed, mark_finite
from ..rollouts.free_styles import Examples
from ..rollouts.requests import FREE, Request, Words, check_draw, check_state, draw_labels, find_classes
from ..rollouts.simulate import check_environment
from ..styles.label_spaces import LabelSpace, SharedSpace
from ..styles.labeling_functions import LabelingFunction
from .prepare import load_styles
from .sizes import check_rollouts

MOST_ROLLOUTS = 10_000_000


@dataclass(frozen=True)
class Nearest:
    """The possible request that is nearest to what was asked for; `str` of it is a line for people."""

    asked: dict[str, str]
    """What was asked for: classes by style."""
    possible: dict[str, str] | None
    """What is possible, by the same styles: the same if it was reached, else the nearest; None if nothing was."""
    line: str

    def __str__(self) -> str:
        return self.line


class Asked(NamedTuple):
    """What is asked of a trained seed, and the randomness."""

    request: Request
    trained: TrainedSeed
    key: jax.Array
    named: tuple[int, ...] | None = None
    """The positions of the styles that a rollout must show to be accepted; all that are not left free if None."""

    def once(self, sampling: Sampling) -> Trajectories:
        """One rollout per request, of which no labeling function is asked."""
        made = self.trained.roll_out(self.request, self.key, sampling)
        check_environment(made.states, made.actions)
        return mark_finite(made, np.asarray(self.request.labels))

    def verified(self, sampling: Sampling, in_range: bool) -> ScoredRollouts:
        """The rollouts, scored; with more than one try made again until they are right, which their metadata tell."""
        if sampling.tries == 1:
            return self.trained.score(self.request, self.key, sampling)
        found = self.trained.score_verified(self.request, self.key, sampling, in_range=in_range, named=self.named)
        made = found.rollouts
        known = {**made.metadata, "accepted": found.accepted, "tries": found.tries}
        return replace(found, rollouts=Trajectories(made.states, made.actions, made.lengths, known))

    def nearest(self, words: Words, change: Sequence[str] | None, sampling: Sampling, in_range: bool) -> Nearest:
        """The nearest request that is possible; only the styles to change differ, by default all of the words."""
        names = list(words) if change is None else check_list("change", change, "['speed']")
        styles, wanted = self.trained.styles, np.asarray(self.request.labels)[0]
        named = sorted(find_classes(styles, dict.fromkeys(names, 0)))
        if not named:
            raise PoiseError("name the styles whose nearest possible classes you want, for example {'speed': 'slow'}")
        if free := [styles[i].name for i in named if wanted[i] == FREE]:
            raise PoiseError(f"only a style that is asked for can change; {free[0]!r} was left free")
        found = nearest_feasible(
            self.trained, self.request, sampling, named, self.key, in_range=in_range, named=self.named
        )
        line = describe_nearest(styles, wanted, found, named)
        return Nearest(self._words(wanted, named), None if found is None else self._words(found, named), line)

    def _words(self, labels: Int[np.ndarray, " M"], named: Sequence[int]) -> dict[str, str]:
        styles = self.trained.styles
        return {styles[i].name: styles[i].classes[int(labels[i])] for i in named}

    def reach(self, style: str, sampling: Sampling) -> Feasibility:
        """Which classes of a style are within reach from each start; the other styles are left free if they can be.

        Where they cannot be, a rollout must show their labels too.
        """
        ((position, _),) = find_classes(self.trained.styles, {style: 0}).items()
        labels = np.asarray(self.request.labels)
        others = np.full_like(labels, FREE) if self.trained.parts["policy"].open_labels else labels
        count = len(self.trained.styles[position].classes)
        each = ask_each_class(self.request.with_labels(others), position, count)
        return measure_feasibility(self.trained, each, sampling, self.key)


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
        words: Classes by style. The styles that they do not name are left free by a policy that can; by others, a
            rollout need not show them.
        start: A state to start from; where demonstrations of that style start if not given. If it is given and no style
            is named, all styles are left free by a policy that can: the labels of other starts say nothing of it.
        steps: Steps of a rollout; as many as the demonstrations have if not given.
        draw: Seed of the randomness.

    Raises:
        PoiseError: A style or a class is not known, or a number is out of range.
    """
    if check_whole("count", count) > MOST_ROLLOUTS:
        raise PoiseError(f"sample between one and ten million rollouts at a time; got {count}")
    steps = None if steps is None else check_whole("steps", steps)
    check_rollouts(count, steps or starts.steps, starts)
    random, wanted = np.random.default_rng(check_draw(draw)), find_classes(trained.styles, words or {})
    leaves_free = trained.parts["policy"].open_labels and (wanted or start is not None)
    first_free = 0 if leaves_free else len(trained.space.own.kinds)
    rows, asked = draw_labels(labels, wanted, count, random, range(first_free, labels.shape[1]))
    begins, lengths = np.asarray(starts.starts)[rows], np.asarray(starts.lengths)[rows]
    if start is not None:
        begins = np.tile(check_state(start, begins.shape[1:], "a start is"), (count, 1))
    if start is not None or steps is not None:
        lengths = np.full(count, steps or starts.steps, np.int32)
    request = Request(begins, asked, lengths, steps or starts.steps)
    return Asked(request, trained, jax.random.key(draw), tuple(wanted) or None)


def check_start(start: Sequence[float] | None) -> Sequence[float]:
    """The start, if there is one: what is possible differs from start to start."""
    if start is None:
        raise PoiseError("the nearest request is that of one start; got None: give a state, as start=[30.0, 25.0]")
    return start


def starts_outside(start: Sequence[float], starts: Trajectories, between: Float[np.ndarray, "2 S"]) -> bool:
    """Whether a state lies outside of what demonstrations show: of their starts, and of the range of their states."""
    seen = np.concatenate([np.asarray(starts.starts), between])
    state = np.asarray(start, seen.dtype)
    return bool(((state < seen.min(axis=0)) | (state > seen.max(axis=0))).any())


def fit_later(
    styles: Sequence[str | Callable], domain: Domain, trained: Sequence[LabelingFunction], starts: Trajectories
) -> tuple[LabelingFunction, ...]:
    """Labeling functions that were written after training, with thresholds from demonstrations."""
    listed = check_list("styles", styles, "[depth]", lambda style: isinstance(style, str) or callable(style))
    later = load_styles(listed, domain, None) if listed else []
    names = [style.name for style in trained]
    for style in later:
        if style.name in names:
            raise PoiseError(f"this run was trained in a style {style.name!r}; give the other one another name")
    return tuple(style.fit(starts) for style in later)


def find_examples(
    starts: Trajectories, labels: Int[np.ndarray, "N M"], space: SharedSpace, trained_in: LabelSpace
) -> Examples | None:
    """What free styles are drawn from: training demonstrations, or held-out ones where styles were written later.

    Args:
        starts: Held-out demonstrations, whose metadata may hold starts and labels of training demonstrations.
        labels: Labels of the held-out ones in the styles that can be asked for, those that were written later last.
        space: Where the policy reads the labels that it was trained in.
        trained_in: All labels that the run was trained in.

    Returns:
        Examples, or None for a run of a version that did not keep what was trained on.
    """
    kept, own = starts.metadata, len(space.own.kinds)
    if "example_labels" not in kept:
        return None
    if labels.shape[1] == own:
        every = SharedSpace(trained_in, space.shared)
        return Examples(kept["example_starts"], every.pad_labels(kept["example_labels"]), space.shared)
    every = SharedSpace(trained_in, space.shared).pad_labels(kept.get("trained_labels", labels[:, :own]))
    return Examples(np.asarray(starts.starts), np.concatenate([every, labels[:, own:]], axis=1), space.shared)


def find_styles(styles: Sequence[LabelingFunction], names: Sequence[str]) -> list[int]:
    """The positions of some styles of a run by their names."""
    names = check_list("only", names, "['speed']")
    if not names or len(set(names)) < len(names):
        raise PoiseError(f"name at least one style, and each once; got {', '.join(names) or 'none'}")
    known = [style.name for style in styles]
    for name in names:
        if name not in known:
            raise unknown("style of this run", name, known)
    return [known.index(name) for name in names]


def keep_labels(starts: Trajectories, columns: Sequence[int]) -> Trajectories:
    """Kept starts with the labels of some of their styles; those of all stay as `trained_labels`."""
    labels = starts.metadata["labels"]
    metadata = {"trained_labels": labels, **starts.metadata, "labels": labels[:, list(columns)]}
    return Trajectories(starts.states, starts.actions, starts.lengths, metadata)


def find_seed(seeds: Sequence[int], seed: int | None, best: int) -> int:
    """The position of a trained seed; the best one's if none is asked for."""
    if seed is None:
        return best
    if seed not in seeds:
        raise PoiseError(f"this run has the seeds {', '.join(map(str, seeds))}; got {seed}")
    return seeds.index(seed)
