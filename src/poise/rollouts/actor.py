"""An `Actor`: a trained policy in a loop of your own, such as a game, one action at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ..errors import PoiseError
from ..models import Policy
from ..styles.labeling_functions import LabelingFunction
from .requests import Words, check_draw, check_state, draw_labels, find_classes, first_not_finite, with_classes
from .simulate import compile_step, context_of


class Actor:
    """A policy in a loop of your own: a state in, an action out, frame after frame. `Run.actor` makes one.

    The actor remembers the steps so far. Two actors with the same draw that see the same states act the same. An actor
    is compiled when it is made, so that no frame waits for the compiler.

    Args:
        policy: A trained policy.
        styles: The styles that it can be asked for.
        known_labels: Labels of demonstrations, from which styles that are not asked for take theirs.
        state_size: How many numbers a state is.
        words: The classes to act by, for example {"speed": "slow"}.
        count: Plays so many at once, from states [count, S]; by default one, from states [S].
        draw: Seed of the actor's randomness.

    Raises:
        PoiseError: A style or a class is not known, or the count is below 1.

    Examples:
        >>> import poise
        >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
        >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
        >>> actor = run.actor({"speed": "slow"}, count=2)
        >>> actor.step([[30.0, 25.0], [20.0, 10.0]]).shape
        (2, 2)
        >>> actor.dial({"speed": "fast"})
    """

    labels: Int[np.ndarray, "count M"]
    """The labels that it acts by."""

    def __init__(
        self,
        policy: Policy,
        styles: Sequence[LabelingFunction],
        known_labels: Int[np.ndarray, "N M"],
        state_size: int,
        words: Words | None = None,
        *,
        count: int | None = None,
        draw: int = 0,
    ):
        if count is not None and count < 1:
            raise PoiseError(f"an actor plays at least one at a time; got a count of {count}")
        self._policy, self._styles, self._known_labels = policy, styles, known_labels
        self._rows, self._shape = count or 1, (state_size,) if count is None else (count, state_size)
        self._random, self._key = np.random.default_rng(check_draw(draw)), jax.random.key(draw)
        self._noise = self._rows, policy.noise
        self.reset(words or {})
        state, noise = np.zeros((self._rows, state_size), np.float32), np.zeros(self._noise, np.float32)
        _, memory = self._act(self._memory, state, noise)
        self._act(memory, state, noise)  # a memory that the program returned may be placed otherwise than the first one

    def step(self, state: Any) -> Float[np.ndarray, "*count A"]:
        """The action [A] in a state [S]; for an actor with a count, actions [count, A] in states [count, S]."""
        state = check_state(state, self._shape, "an actor takes")
        noise = self._random.standard_normal(self._noise, np.float32)
        made, memory = self._act(self._memory, state.reshape(self._rows, -1), noise)
        action = np.array(made)
        if not np.isfinite(action).all():
            raise PoiseError(
                f"the policy has no finite action in {first_not_finite(state, action)}; is that far from the data?"
            )
        self._memory = memory
        return action.reshape(*self._shape[:-1], -1)

    def reset(self, words: Words | None = None) -> None:
        """Starts over with an empty memory and a new embedding; in another style, if words are given.

        A style that the words do not name takes the label of a demonstration that has the ones they do name.
        """
        if words is not None:
            self._wanted = find_classes(self._styles, words)
        self.labels = draw_labels(self._known_labels, self._wanted, self._rows, self._random)[1]
        self._key, self._embedding_key = jax.random.split(self._key)
        self._memory = self._policy.memory(self._rows)
        self._prepare()

    def dial(self, words: Words) -> None:
        """Continues in another style: the memory, the embedding and the styles that are not named stay as they are."""
        wanted = find_classes(self._styles, words)
        self._wanted, self.labels = {**self._wanted, **wanted}, with_classes(self.labels, wanted)
        self._prepare()

    def _prepare(self) -> None:
        context = context_of(self._policy, jnp.asarray(self.labels), self._embedding_key)  # the same key: the same z
        self._act = compile_step(self._policy, context)
