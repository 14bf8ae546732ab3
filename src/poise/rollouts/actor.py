"""An `Actor`: a trained policy in a loop of your own, such as a game, one action at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import Trajectories, Transition
from ..errors import PoiseError, check_whole
from ..models import Flow, Policy
from ..styles.labeling_functions import LabelingFunction
from ..styles.scoring import label_all
from .requests import (
    FREE,
    Request,
    Words,
    check_draw,
    check_state,
    draw_labels,
    find_classes,
    first_not_finite,
    with_classes,
)
from .simulate import Player, begin_of
from .steer import Steered

PUSHED = 0.1  # deviations of a change of state by which a state differs from the expected one if something pushed it
ROUNDING = 1e-4  # of the size of a state, which is no push


class Imagined(NamedTuple):
    """A rollout of each row to the end of its trajectory."""

    first: int
    """The step at which it begins."""
    states: Float[np.ndarray, "count left+1 S"]
    actions: Float[np.ndarray, "count left A"]


class Actor:
    """A policy in a loop of your own: a state in, an action out, frame after frame. `Run.actor` makes one.

    The actor remembers the steps so far. A flow follows its plan; it proposes anew when something pushed it, when the
    dial is turned, and when the plan ends. Two actors with the same draw that see the same states act the same. An
    actor is compiled when it is made, so that no frame waits for the compiler. An actor of many has one plan for all of
    them: what pushes one row makes all rows propose anew.

    Args:
        policy: A trained policy, steered or not.
        styles: The styles that it can be asked for.
        known_labels: Labels of demonstrations, from which styles that are not asked for take theirs.
        state_size: How many numbers a state is.
        words: The classes to act by, for example {"speed": "slow"}.
        count: Plays so many at once, from states [count, S]; by default one, from states [S].
        draw: Seed of the actor's randomness.
        steps: Steps of a trajectory; a labeling function is satisfied by one of that length.
        dynamics: Known dynamics, by which it notices that something pushed it, and looks ahead.
        moves: The deviation of a change of state; a push is large beside it.
        lookahead: Imagines so many plans whenever it proposes, and takes one that the labeling functions accept, in
            range if one is. A flow with short plans imagines so many rollouts to their end, at the first step after a
            reset or a turn of the dial, and follows one as long as the states are as imagined.
        imagine: Rolls the policy out, (request, key=) -> rollouts, where its plans are short.
        known_range: The smallest and largest states of demonstrations; plans that it imagines should stay between.
        arrange: Turns the labels of a request into those that the policy reads; as they are if not given.

    Raises:
        PoiseError: A style or a class is not known, or a number is out of range.

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
    """The labels that it acts by; -1 where a style is left free."""

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
        steps: int = 1,
        dynamics: Transition | None = None,
        moves: Float[np.ndarray, " S"] | None = None,
        lookahead: int = 1,
        imagine: Callable[..., Trajectories] | None = None,
        known_range: Float[np.ndarray, "2 S"] | None = None,
        arrange: Callable[[Int[np.ndarray, "count M"]], Int[np.ndarray, "count both"]] | None = None,
    ):
        count, steps = None if count is None else check_whole("count", count), check_whole("steps", steps)
        flow = _whole_flow(policy)
        ahead = policy.replan if flow is None else flow.horizon
        whole, short = ahead >= steps and dynamics is not None, isinstance(policy, Flow) and imagine is not None
        if check_whole("lookahead", lookahead) > 1 and not (whole or short):
            raise PoiseError("lookahead needs a flow; sample with tries instead")
        self._imagine = None if whole or lookahead == 1 else imagine
        self._policy, self._styles, self._known_labels = policy, styles, known_labels
        self._rows, self._shape = count or 1, (state_size,) if count is None else (count, state_size)
        self._random, self._key = np.random.default_rng(check_draw(draw)), jax.random.key(draw)
        self._steps, self._dynamics, self._lookahead = steps, dynamics, lookahead
        self._range, self._remembers = known_range, flow is not None or policy.replan > 1 or lookahead > 1
        self._moves = np.zeros(state_size) if moves is None else np.asarray(moves)
        self._arrange = arrange or (lambda labels: labels)
        self._free = range(0 if policy.open_labels else len(styles), len(styles))
        self.reset(words or {})
        self._compile(np.zeros((self._rows, state_size), np.float32))

    def step(self, state: Any) -> Float[np.ndarray, "*count A"]:
        """The action [A] in a state [S]; for an actor with a count, actions [count, A] in states [count, S]."""
        state = check_state(state, self._shape, "an actor takes").reshape(self._rows, -1)
        before = self._player.at
        if self._remembers and len(self._past) == self._steps:
            self._player, self._past, self._imagined = Player(self._policy, *self._begin()), [], None
        if self._was_pushed(state):
            self._player.propose_anew()
        if self._imagine is not None:
            action = self._follow_imagined(state)
        else:
            if self._lookahead > 1 and self._player.proposes:
                self._player.follow(self._look_ahead(state))
            action = self._player.act(state, self._noise)
        if not np.isfinite(action).all():
            self._player.at = before
            raise PoiseError(
                f"the policy has no finite action in {first_not_finite(state, action)}; is that far from the data?"
            )
        if self._remembers:
            self._past.append((state, action))
        return np.array(action).reshape(*self._shape[:-1], -1)

    def reset(self, words: Words | None = None) -> None:
        """Starts over with an empty memory and a new embedding; in another style, if words are given.

        A style that the words do not name is left free by a flow; by other policies it takes the label of a
        demonstration that has the ones they do name.
        """
        if words is not None:
            self._wanted = find_classes(self._styles, words)
        self.labels = draw_labels(self._known_labels, self._wanted, self._rows, self._random, self._free)[1]
        self._key, self._embedding_key = jax.random.split(self._key)
        self._player, self._past, self._imagined = Player(self._policy, *self._begin()), [], None

    def dial(self, words: Words) -> None:
        """Continues in another style: the memory, the embedding and the styles that are not named stay as they are."""
        wanted = find_classes(self._styles, words)
        self._wanted, self.labels = {**self._wanted, **wanted}, with_classes(self.labels, wanted)
        self._player.turn(self._policy, self._begin()[0])
        self._imagined = None

    def _begin(self) -> tuple[Any, Any]:
        labels, lengths = jnp.asarray(self._arrange(self.labels)), jnp.full(self._rows, self._steps)
        return begin_of(self._policy, labels, lengths, self._embedding_key)  # the same key: the same embedding

    def _noise(self) -> np.ndarray:
        return self._random.standard_normal((self._rows, self._policy.noise), np.float32)

    def _was_pushed(self, state: np.ndarray) -> bool:
        """Whether the state is not where the last action leads."""
        if self._dynamics is None or self._policy.replan == 1 or not self._past:
            return False
        before, action = self._past[-1]
        return not self._is_near(state, np.asarray(self._dynamics(before, action)))

    def _is_near(self, state: np.ndarray, expected: np.ndarray) -> bool:
        """Whether a state is as expected, but for rounding."""
        return bool((np.abs(state - expected) <= PUSHED * self._moves + ROUNDING * np.abs(expected)).all())

    def _look_ahead(self, state: np.ndarray) -> Float[np.ndarray, "count H A"]:
        """Of several plans for each row, the first whose trajectory shows most of the styles that are asked for.

        Of plans that show as many, one that stays in range is taken.
        """
        plans = np.stack([np.asarray(self._player.propose(state, self._noise())) for _ in range(self._lookahead)])
        left = self._steps - len(self._past)
        value = np.stack([self._value(self._past, *self._leads_to(state, plan[:, :left])) for plan in plans])
        return plans[value.argmax(axis=0), np.arange(self._rows)]

    def _leads_to(self, state: np.ndarray, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The states, from this one on, and the actions of a plan that is followed to its end."""
        assert self._dynamics is not None
        states = [state]
        for action in np.swapaxes(plan, 0, 1):
            states.append(np.asarray(self._dynamics(states[-1], action)))
        return np.stack(states, axis=1), plan

    def _value(
        self, past: list[tuple[np.ndarray, np.ndarray]], ahead: np.ndarray, plan: np.ndarray
    ) -> Float[np.ndarray, " N"]:
        """How many of the asked styles rollouts show that continue like this; half more if what is ahead is in range.

        They may be several of each row, one after the other.
        """
        several = (len(ahead) // self._rows, 1, 1)
        before = [np.tile(np.stack(both, axis=1), several) for both in zip(*past, strict=True)]
        states, actions = (
            np.concatenate([*old, new], axis=1) for old, new in (([*before[:1]], ahead), ([*before[1:]], plan))
        )
        seen = Trajectories.unchecked(states, actions, np.full(len(states), actions.shape[1]))
        found, wanted = label_all(self._styles, seen, strict=False), np.tile(self.labels, several[:2])
        right = ((found == wanted) & (wanted != FREE)).sum(axis=1).astype(float)
        if self._range is None:
            return right
        return right + 0.5 * ((ahead[:, 1:] >= self._range[0]) & (ahead[:, 1:] <= self._range[1])).all(axis=(1, 2))

    def _follow_imagined(self, state: np.ndarray) -> np.ndarray:
        """The next action of the rollout that is followed; the policy's own once a state is not as it was imagined."""
        if self._imagined is None:
            self._imagined = self._best_of_imagined(state)
        ahead = self._imagined
        number = len(self._past) - ahead.first
        if number < ahead.actions.shape[1] and self._is_near(state, ahead.states[:, number]):
            return ahead.actions[:, number]
        self._imagined = ahead._replace(actions=ahead.actions[:, :0])  # nothing is left of it
        return self._player.act(state, self._noise)

    def _best_of_imagined(self, state: np.ndarray) -> Imagined:
        """Of several rollouts of each row to its end, one that shows most of the styles, whose labels are kept."""
        assert self._imagine is not None
        several, left = np.tile(np.arange(self._rows), self._lookahead), self._steps - len(self._past)
        self._key, key = jax.random.split(self._key)
        labels = self._arrange(self.labels[several])
        lengths = np.full(len(several), self._steps, np.int32)  # always as long, so that it is one program
        made = self._imagine(Request(state[several], labels, lengths, self._steps), key=key)
        states, actions = np.asarray(made.states)[:, : left + 1], np.asarray(made.actions)[:, :left]
        value = self._value(self._past, states, actions).reshape(self._lookahead, self._rows)
        best = value.argmax(axis=0) * self._rows + np.arange(self._rows)
        context, _ = begin_of(self._policy, jnp.asarray(labels[best]), jnp.asarray(lengths[best]), key)
        self._player.turn(self._policy, context)
        return Imagined(len(self._past), states[best], actions[best])

    def _compile(self, state: np.ndarray) -> None:
        """Runs each program once; what a program returned may be placed otherwise than what it was given first."""
        fresh, noise = self._player.at, np.zeros((self._rows, self._policy.noise), np.float32)
        for _ in range(min(self._policy.replan, 3)):
            self._player.act(state, lambda: noise)
        self._player.propose_anew()
        self._player.act(state, lambda: noise)
        if self._imagine is not None:
            key = self._key
            self._best_of_imagined(state)
            self._key = key
        elif self._lookahead > 1:
            self._player.at = fresh
            for _ in range(2):
                plan = np.asarray(self._player.propose(state, noise))
                self._value([], *self._leads_to(state, plan[:, : self._steps]))
                self._player.follow(plan)
                self._player.act(state, lambda: noise)
        self._player.at = fresh


def _whole_flow(policy: Policy) -> Flow | None:
    """The flow of a policy that plans whole trajectories, steered or not."""
    flow = policy.flow if isinstance(policy, Steered) else policy
    return flow if isinstance(flow, Flow) and flow.whole else None
