"""Requests: where rollouts start, which labels they are asked for, and how the words of a user become labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from ..data.trajectories import Array, Trajectories
from ..errors import PoiseError, unknown
from ..styles.labeling_functions import LabelingFunction

Words = Mapping[str, str | int]
"""Classes by style, for example {"speed": "slow", "destination": 2}."""


class Request(eqx.Module):
    """What rollouts are asked for: one start, one set of labels and one length per rollout."""

    starts: Float[Array, "N S"]
    labels: Shaped[Array, "N M"]
    lengths: Int[Array, " N"]
    steps: int = eqx.field(static=True)
    """Steps that every rollout takes; those beyond its length do not count."""

    def __len__(self) -> int:
        return len(self.starts)

    @staticmethod
    def like(demonstrations: Trajectories, labels: Shaped[Array, "N M"]) -> Request:
        """Rollouts from where these demonstrations start, as long as they are, with these labels."""
        return Request(demonstrations.starts, labels, demonstrations.lengths, demonstrations.steps)

    def rows(self, rows: np.ndarray) -> Request:
        """The named rows, as arrays of JAX."""
        starts, labels, lengths = (jnp.asarray(np.asarray(x)[rows]) for x in (self.starts, self.labels, self.lengths))
        return Request(starts, labels, lengths, self.steps)

    def with_labels(self, labels: Shaped[Array, "N M"]) -> Request:
        """The same rollouts with other labels."""
        return Request(self.starts, labels, self.lengths, self.steps)


def parse_words(words: Sequence[str], styles: Sequence[LabelingFunction]) -> dict[str, int]:
    """The classes that words such as `speed=slow` ask for, by style."""
    by_name = {style.name: style for style in styles}
    wanted = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip()
        if not equals:
            raise PoiseError(f"a style is asked for as name=class, for example {_example(styles)}; got {word!r}")
        if name not in by_name:
            raise unknown("style", name, by_name)
        if name in wanted:
            raise PoiseError(f"style {name!r} is asked for twice; ask once")
        wanted[name] = by_name[name].index(value.strip())
    return wanted


def _example(styles: Sequence[LabelingFunction]) -> str:
    return f"{styles[0].name}={styles[0].classes[0]}" if styles else "speed=slow"


def find_classes(styles: Sequence[LabelingFunction], words: Words) -> dict[int, int]:
    """The class that is asked for, by the position of its style."""
    if not isinstance(words, Mapping):
        example = f"{{{styles[0].name!r}: {styles[0].classes[0]!r}}}" if styles else "{'speed': 'slow'}"
        raise PoiseError(f"words are classes by style, as in {example}; got {words!r}")
    names = [style.name for style in styles]
    for name in words:
        if name not in names:
            raise unknown("style", name, names)
    return {names.index(name): styles[names.index(name)].index(word) for name, word in words.items()}


FREE = -1
"""The label of a style that is left free."""


def draw_labels(
    kept: Int[np.ndarray, "N M"],
    wanted: dict[int, int],
    count: int,
    random: np.random.Generator,
    free: Sequence[int] = (),
) -> tuple[Int[np.ndarray, " count"], Int[np.ndarray, "count M"]]:
    """Rows drawn at random among those that have the wanted classes (among all if none has), and the labels to ask for.

    A style without a wanted class is left free if it is among `free`, and has the label of its row if not.
    """
    match = np.all([kept[:, i] == k for i, k in wanted.items()], axis=0) if wanted else np.ones(len(kept), bool)
    rows = random.choice(np.flatnonzero(match) if match.any() else len(kept), size=count)
    return rows, with_classes(kept[rows], {**dict.fromkeys(free, FREE), **wanted})


def with_classes(labels: Int[np.ndarray, "N M"], wanted: dict[int, int]) -> Int[np.ndarray, "N M"]:
    """The labels with the wanted classes in their columns."""
    labels = labels.copy()
    for i, k in wanted.items():
        labels[:, i] = k
    return labels


def check_draw(draw: int) -> int:
    """The draw, checked: it seeds random numbers."""
    if not isinstance(draw, int | np.integer) or not 0 <= draw < 2**31:
        raise PoiseError(f"a draw is a whole number between 0 and 2^31; got {draw}")
    return draw


def check_state(state: Any, shape: tuple[int, ...], what: str) -> Float[np.ndarray, "*count S"]:
    """The state, or the states, as finite numbers; `what` begins the message that refuses others."""
    rule = f"{what} {'one state' if len(shape) == 1 else f'{shape[0]} states'} of {shape[-1]} numbers"
    try:
        found = np.asarray(state, np.float32)
    except (TypeError, ValueError) as error:
        raise PoiseError(f"{rule}; got a {type(state).__name__} ({error})") from error
    if found.shape != shape:
        got = len(found) if len(shape) == found.ndim == 1 else f"the shape {list(found.shape)}"
        raise PoiseError(f"{rule}; got {got}")
    if not np.isfinite(found).all():
        raise PoiseError(f"{rule}, all finite; got {first_not_finite(found, found)}")
    return found


def first_not_finite(states: np.ndarray, values: np.ndarray) -> list[float]:
    """The first state whose values are NaN or infinite, as a message can show it."""
    bad = ~np.isfinite(np.atleast_2d(values)).all(axis=1)
    return np.atleast_2d(states)[bad][0].tolist()
