"""What a domain is, and the one that stands in for data without a domain of their own."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from ..config import Settings
from ..data.splits import in_memory
from ..data.trajectories import Array, Trajectories, Transition
from ..errors import PoiseError
from ..styles.labeling_functions import LabelingFunction
from .demonstrators.policies import TaskSpec


@dataclass(frozen=True)
class Scene:
    """What to draw trajectories on: outlines in the units of the state, and the two columns that are a position.

    Examples:
        >>> from poise import Scene
        >>> pitch = Scene(outlines=(((0, 0), (105, 0), (105, 68), (0, 68), (0, 0)),), unit="m", hertz=10)
    """

    outlines: tuple[tuple[tuple[float, float], ...], ...] = ()
    """Lines of the field, each a sequence of points."""
    columns: tuple[int, int] = (0, 1)
    """The columns of the state that are drawn across and up; the same one twice is drawn against time."""
    limits: tuple[float, float, float, float] | None = None
    """Left, right, bottom and top of the picture; what the rollouts need if not given."""
    unit: str = ""
    """The unit of the position."""
    hertz: float | None = None
    """Steps per second, where it is known."""
    body: Callable[[Array], Array] | None = None
    """Lines [..., K, 2, 2] that draw a state [..., S] as a stick figure: K pairs of ends, across and up."""
    render: Callable[[Array], np.ndarray] | None = None
    """The simulator's own pictures [N, height, width, 3] of states [N, S], where it makes any."""


class Simulation(enum.Enum):
    """Where rollouts are simulated."""

    ENVIRONMENT = "environment"
    """In an environment, called on the host."""
    KNOWN_DYNAMICS = "known dynamics"
    """In the domain's dynamics, compiled."""
    LEARNED_DYNAMICS = "learned dynamics"
    """In a network that was trained on the demonstrations."""


@dataclass(frozen=True)
class Domain:
    """A place where demonstrations come from: an environment, known dynamics if any, styles, presets, a scene.

    Examples:
        >>> import poise
        >>> def glide(states, actions):
        ...     return states + 0.1 * actions
        >>> ice = poise.Domain("ice", dynamics=glide, actions=(-1.0, 1.0))
        >>> ice.describe_simulation()
        'known dynamics'
    """

    name: str
    demonstrations: Callable[[int, int], Trajectories] | None = None
    """Makes (count, seed) demonstrations; None when the user brings them."""
    count: int = 0
    """How many demonstrations it makes by default."""
    test: Callable[[int, int], Trajectories] | None = None
    """Makes the test demonstrations that go with (count, seed) others; None when some of those are set aside."""
    dynamics: Transition | None = None
    """Known dynamics (states, actions) -> next states, traced by JAX; None when they must be learned."""
    environment: Transition | None = None
    """The real environment where it is not the dynamics: (states, actions) -> next states, on the host."""
    sizes: tuple[int, int] | None = None
    """How many numbers a state and an action are; None when the data decide."""
    actions: tuple[float, float] | None = None
    """The range that every number of an action is clipped to; None when it has none."""
    position: tuple[int, ...] = ()
    """Columns of a state that only say where it is. A body moves alike everywhere, so short plans do not read them."""
    styles: dict[str, LabelingFunction] = field(default_factory=dict)
    """Its labeling functions by name."""
    default_styles: tuple[str, ...] = ()
    """The styles that are trained when none is named; all of them if empty."""
    settings: Settings = field(default_factory=Settings)
    """Of networks, training and weights, where the user gives none."""
    presets: tuple[str, ...] = ()
    """The names in `config.PRESETS` that were made for it, the small one last; none when any may do."""
    rollouts: int = 4_000
    """Rollouts per seed in an evaluation; the default is the paper's for basketball."""
    units: tuple[float, ...] | None = None
    """The units of the action in which NLD is reported, one per dimension; None for the data's own."""
    units_text: str = "the data's own units"
    """The same in words."""
    scene: Scene = field(default_factory=Scene)
    """What to draw its trajectories on."""
    measures: dict[str, Callable[[Array, Array], Array]] = field(default_factory=dict)
    """Numbers [N, T] for each step of states [N, T+1, S] and actions [N, T, A]. Reports show their means for rollouts
    and for demonstrations."""
    task: TaskSpec | None = None
    """What the policies learn that make its demonstrations; None when no policies do."""

    @property
    def simulation(self) -> Simulation:
        """Where rollouts are simulated: in the environment, else in known dynamics, else in learned ones."""
        if self.environment is not None:
            return Simulation.ENVIRONMENT
        return Simulation.LEARNED_DYNAMICS if self.dynamics is None else Simulation.KNOWN_DYNAMICS

    @property
    def transition(self) -> Transition | None:
        """The environment, or else the known dynamics; None where both are missing and dynamics are learned."""
        return self.dynamics if self.environment is None else self.environment

    def describe_simulation(self) -> str:
        """Where rollouts are simulated, in words."""
        if self.dynamics is integrator and self.environment is None:
            return "next state = state + action"
        return {
            Simulation.ENVIRONMENT: f"the environment of {self.name}",
            Simulation.KNOWN_DYNAMICS: "known dynamics",
            Simulation.LEARNED_DYNAMICS: "learned dynamics (no environment was given)",
        }[self.simulation]

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


def recognise_integrator(domain: Domain, demonstrations: Trajectories) -> Domain:
    """The domain with `integrator` for its dynamics, if theirs give the same next states for states of any size.

    A flow plans whole trajectories only there, and gradients of long rollouts are computed faster.
    """
    size = demonstrations.states.shape[-1]
    if domain.dynamics in (None, integrator) or size != demonstrations.actions.shape[-1]:
        return domain
    random = np.random.default_rng(0)
    scales = 10.0 ** random.uniform(-3, 4, (256, 1))  # dynamics that clip differ for large ones
    states, actions = (np.float32(scales * random.normal(size=(256, size))) for _ in range(2))
    same = np.array_equal(np.asarray(domain.dynamics(jnp.asarray(states), jnp.asarray(actions))), states + actions)
    return replace(domain, dynamics=integrator) if same else domain


def plain(demonstrations: Trajectories, name: str = "data") -> Domain:
    """A domain for data that come alone: if next state = state + action holds in them, that is the environment."""
    demonstrations = in_memory(demonstrations)
    states, actions = np.asarray(demonstrations.states), np.asarray(demonstrations.actions)
    known = states.shape[2] == actions.shape[2] and _holds(states, actions, np.asarray(demonstrations.mask))
    return plain_domain(name, states.shape[2], known)


def plain_domain(name: str, state_size: int, adds_up: bool) -> Domain:
    """The domain of data that come alone, by whether next state = state + action holds in them."""
    scene = Scene(columns=(0, min(1, state_size - 1)))
    return Domain(name, dynamics=integrator if adds_up else None, scene=scene)


def _holds(states: np.ndarray, actions: np.ndarray, mask: np.ndarray) -> bool:
    change = (states[:, 1:] - states[:, :-1])[mask]
    rounding = 4 * np.finfo(np.float32).eps * np.abs(states).max(axis=(0, 1))
    small = (change.std(axis=0) == 0) | (rounding < 0.1 * change.std(axis=0))  # otherwise rounding hides the answer
    close = np.abs(change - actions[mask]) <= 1e-3 * change.std(axis=0) + rounding
    return bool(close.all() and small.all())


def is_traced(transition: Transition, state_size: int, action_size: int) -> bool:
    """Whether JAX can trace a transition, so that whole rollouts compile to one program.

    Raises:
        PoiseError: It can, but the transition returns something other than next states.
    """
    given = [jax.ShapeDtypeStruct((2, size), np.float32) for size in (state_size, action_size)]
    try:
        found = jax.eval_shape(transition, *given)
    except Exception:  # an environment in plain Python or C: it is stepped on the host
        return False
    if getattr(found, "shape", None) != given[0].shape:
        got = list(found.shape) if hasattr(found, "shape") else f"a {type(found).__name__}"
        raise PoiseError(f"the environment must return states of shape [N, {state_size}]; got {got} for N = 2")
    return True
