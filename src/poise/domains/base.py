"""What a domain is, and the one that stands in for data without a domain of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import numpy as np

from ..config import Settings
from ..demonstrators import Skill
from ..errors import PoiseError
from ..labeling import LabelingFunction
from ..trajectories import Array, Trajectories, Transition, in_memory


@dataclass(frozen=True)
class Scene:
    """What to draw trajectories on: outlines in the units of the state, and the two columns that are a position."""

    outlines: tuple[tuple[tuple[float, float], ...], ...] = ()
    columns: tuple[int, int] = (0, 1)
    limits: tuple[float, float, float, float] | None = None
    unit: str = ""
    hertz: float | None = None
    """Steps a second, where it is known."""
    body: Callable[[Array], Array] | None = None
    """Lines [..., K, 2, 2] that draw a state [..., S] as a stick figure: K pairs of ends, across and up."""
    render: Callable[[Array], np.ndarray] | None = None
    """The simulator's own pictures [N, height, width, 3] of states [N, S], where it makes any."""


@dataclass(frozen=True)
class Domain:
    """A place where demonstrations come from: an environment, known dynamics if any, styles, presets, a scene."""

    name: str
    demonstrations: Callable[[int, int], Trajectories] | None = None
    """Makes (count, seed) demonstrations; None when the user brings them."""
    count: int = 0
    """How many demonstrations it makes unless told otherwise."""
    test: Callable[[int, int], Trajectories] | None = None
    """Makes the test demonstrations that go with (count, seed) others; None when some of those are set aside."""
    dynamics: Transition | None = None
    """Known dynamics (states, actions) -> next states, traced by JAX; None when they must be learned."""
    environment: Transition | None = None
    """The real environment where it is not the dynamics: (states, actions) -> next states, on the host."""
    sizes: tuple[int, int] | None = None
    """How many numbers a state and an action are; None when the data say it."""
    actions: tuple[float, float] | None = None
    """The range that every number of an action is cut to; None when it has none."""
    styles: dict[str, LabelingFunction] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    """Of networks, training and weights, where a user says nothing else."""
    presets: tuple[str, ...] = ()
    """The names in `config.PRESETS` that were made for it, the small one last; none when any may do."""
    rollouts: int = 4_000
    """Of a seed, to score it: as many as the paper has for basketball."""
    units: tuple[float, ...] | None = None
    """The action's units in which NLD is told, one a dimension; None for the data's own."""
    units_text: str = "the data's own units"
    scene: Scene = field(default_factory=Scene)
    skill: Skill | None = None
    """What the policies learn that make its demonstrations; None when no policies do."""

    @property
    def environment_text(self) -> str:
        """Where rollouts are simulated, in words."""
        if self.environment is not None:
            return f"the environment of {self.name}"
        if self.dynamics is integrator:
            return "next state = state + action"
        return "known dynamics" if self.dynamics is not None else "learned dynamics (no environment was given)"

    def check(self, demonstrations: Trajectories) -> None:
        """Refuses demonstrations that are not of this domain: states or actions of another size, actions out of range.

        JAX reads the last column where a style asks for one that is not there, so nothing else would notice.
        """
        found = demonstrations.states.shape[-1], demonstrations.actions.shape[-1]
        for one, size, given in zip(("a state", "an action"), self.sizes or found, found, strict=True):
            if given != size:
                differences = one == "an action" and given == found[0]
                hint = " (a file without 'actions' has the differences of its states for actions)" * differences
                raise PoiseError(f"{one} of {self.name} is {size} numbers; got {given}{hint}")
        first = 0
        for piece in demonstrations.pieces() if self.actions else ():
            self._check_range(np.asarray(piece.actions), np.asarray(piece.mask), first)
            first += len(piece)

    def _check_range(self, actions: np.ndarray, mask: np.ndarray, first: int) -> None:
        assert self.actions is not None
        low, high = self.actions
        beyond = ((actions < low) | (actions > high)) & mask[..., None]
        if beyond.any():
            row, step, number = np.argwhere(beyond)[0]
            raise PoiseError(
                f"number {number} of an action of {self.name} lies between {low:g} and {high:g}; "
                f"got {actions[row, step, number]:g} in row {first + row}, step {step}"
            )


def integrator(states: Array, actions: Array) -> Array:
    """Next state = state + action."""
    return states + actions


def plain(demonstrations: Trajectories, name: str = "data") -> Domain:
    """A domain for data that come alone: if next state = state + action holds in them, that is the environment."""
    demonstrations = in_memory(demonstrations)
    states, actions = np.asarray(demonstrations.states), np.asarray(demonstrations.actions)
    known = states.shape[2] == actions.shape[2] and _holds(states, actions, np.asarray(demonstrations.mask))
    scene = Scene(columns=(0, min(1, states.shape[2] - 1)))
    return Domain(name, dynamics=integrator if known else None, scene=scene)


def _holds(states: np.ndarray, actions: np.ndarray, mask: np.ndarray) -> bool:
    change = (states[:, 1:] - states[:, :-1])[mask]
    rounding = 4 * np.finfo(np.float32).eps * np.abs(states).max(axis=(0, 1))
    small = (change.std(axis=0) == 0) | (rounding < 0.1 * change.std(axis=0))  # otherwise nothing can be told
    close = np.abs(change - actions[mask]) <= 1e-3 * change.std(axis=0) + rounding
    return bool(close.all() and small.all())


def is_traced(transition: Transition, state_size: int, action_size: int) -> bool:
    """Whether JAX can trace a transition, so that whole rollouts compile to one program."""
    try:
        jax.eval_shape(transition, *(jax.ShapeDtypeStruct((2, n), np.float32) for n in (state_size, action_size)))
    except Exception:  # an environment in plain Python or C: it is stepped on the host
        return False
    return True
