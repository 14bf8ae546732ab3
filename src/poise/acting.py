"""Asking a trained policy for a style: words become labels, and an `Actor` acts on them in a loop of your own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from .errors import PoiseError, unknown
from .labeling import LabelingFunction
from .models import Policy
from .rollout import compile_step, context_of

Words = Mapping[str, str | int]
"""Classes by style, for example {"speed": "slow", "destination": 2}."""


class Actor:
    """A policy at work in a loop of your own, such as a game: a state in, an action out, frame after frame.

    The actor remembers the steps so far; the policy itself never does. Actors with the same draw that see the same
    states act the same. An actor is compiled when it is made, so that no frame waits for it.
    """

    labels: Int[np.ndarray, "count M"]
    """The labels that it acts by."""

    def __init__(
        self,
        policy: Policy,
        styles: Sequence[LabelingFunction],
        kept: Int[np.ndarray, "N M"],
        size: int,
        words: Words | None = None,
        *,
        count: int | None = None,
        draw: int = 0,
    ):
        """`kept` are the labels of demonstrations, `size` is that of a state."""
        if count is not None and count < 1:
            raise PoiseError(f"an actor plays at least one part; got a count of {count}")
        self._policy, self._styles, self._kept = policy, styles, kept
        self._rows, self._shape = count or 1, (size,) if count is None else (count, size)
        self._random, self._key = np.random.default_rng(check_draw(draw)), jax.random.key(draw)
        self._noise = self._rows, policy.noise
        self.reset(words or {})
        self._act(self._memory, np.zeros((self._rows, size), np.float32), np.zeros(self._noise, np.float32))

    def step(self, state: Any) -> Float[np.ndarray, "*count A"]:
        """The action [A] in a state [S]; for an actor with a count, actions [count, A] in states [count, S]."""
        state = check_state(state, self._shape, "an actor takes")
        noise = self._random.standard_normal(self._noise, np.float32)
        made, memory = self._act(self._memory, state.reshape(self._rows, -1), noise)
        action = np.array(made)
        if not np.isfinite(action).all():
            raise PoiseError(
                f"the policy has no finite action in {_not_finite(state, action)}; is that far from the data?"
            )
        self._memory = memory
        return action.reshape(*self._shape[:-1], -1)

    def reset(self, words: Words | None = None) -> None:
        """Starts anew with nothing remembered and another embedding; in another style, if words are given.

        A style that the words do not name takes the label of a demonstration that has the ones they do name.
        """
        if words is not None:
            self._wanted = find_classes(self._styles, words)
        self.labels = draw_labels(self._kept, self._wanted, self._rows, self._random)[1]
        self._key, self._embedding = jax.random.split(self._key)
        self._memory = self._policy.memory(self._rows)
        self._prepare()

    def dial(self, words: Words) -> None:
        """Goes on in another style: what is remembered stays, and so do the embedding and the styles not named."""
        wanted = find_classes(self._styles, words)
        self._wanted, self.labels = {**self._wanted, **wanted}, _with_classes(self.labels, wanted)
        self._prepare()

    def _prepare(self) -> None:
        context = context_of(self._policy, jnp.asarray(self.labels), self._embedding)  # the same key: the same z
        self._act = compile_step(self._policy, context)


def find_classes(styles: Sequence[LabelingFunction], words: Words) -> dict[int, int]:
    """The class that is asked for, by the style's place."""
    names = [style.name for style in styles]
    for name in words:
        if name not in names:
            raise unknown("style", name, names)
    return {names.index(name): styles[names.index(name)].index(word) for name, word in words.items()}


def draw_labels(
    kept: Int[np.ndarray, "N M"], wanted: dict[int, int], count: int, random: np.random.Generator
) -> tuple[Int[np.ndarray, " count"], Int[np.ndarray, "count M"]]:
    """Rows that have the wanted classes, or any if none has, drawn at random; and the labels to ask for there."""
    match = np.all([kept[:, i] == k for i, k in wanted.items()], axis=0) if wanted else np.ones(len(kept), bool)
    rows = random.choice(np.flatnonzero(match) if match.any() else len(kept), size=count)
    return rows, _with_classes(kept[rows], wanted)


def _with_classes(labels: np.ndarray, wanted: dict[int, int]) -> np.ndarray:
    labels = labels.copy()
    for i, k in wanted.items():
        labels[:, i] = k
    return labels


def check_draw(draw: int) -> int:
    """The draw, if it can seed random numbers."""
    if not isinstance(draw, int | np.integer) or not 0 <= draw < 2**31:
        raise PoiseError(f"a draw is a whole number between 0 and 2^31; got {draw}")
    return draw


def check_state(state: Any, shape: tuple[int, ...], what: str) -> Float[np.ndarray, "*count S"]:
    """The state, or the states, as finite numbers; `what` begins the sentence that refuses others."""
    rule = f"{what} {'one state' if len(shape) == 1 else f'{shape[0]} states'} of {shape[-1]} numbers"
    try:
        found = np.asarray(state, np.float32)
    except (TypeError, ValueError) as error:
        raise PoiseError(f"{rule}; got a {type(state).__name__} ({error})") from error
    if found.shape != shape:
        got = len(found) if len(shape) == found.ndim == 1 else f"the shape {list(found.shape)}"
        raise PoiseError(f"{rule}; got {got}")
    if not np.isfinite(found).all():
        raise PoiseError(f"{rule}, all finite; got {_not_finite(found, found)}")
    return found


def _not_finite(states: np.ndarray, values: np.ndarray) -> list[float]:
    """The first state whose values are not finite, as a line can show it."""
    bad = ~np.isfinite(np.atleast_2d(values)).all(axis=1)
    return np.atleast_2d(states)[bad][0].tolist()
