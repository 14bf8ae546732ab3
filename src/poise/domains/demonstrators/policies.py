"""`TaskSpec`, which says what the demonstrators of a domain learn, and `Demonstrators`, the trained policies."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...data.trajectories import Array
from ...system import storage
from ..mujoco import physics
from .ppo import Actor, Network, PPOConfig, RewardSpec, RunningNorm


@dataclass(frozen=True)
class TaskSpec:
    """What the demonstrators of a domain learn, and in which physics."""

    reward: RewardSpec
    """What they observe and are rewarded for."""
    targets: tuple[float, float]
    """The lowest and the highest target."""
    unit: str
    """The unit of the targets."""
    hertz: int
    """Control steps per second."""
    steps: int
    """Control steps per demonstration."""
    resets: Callable[[int, int], np.ndarray]
    """Returns `count` first states [count, S] for (count, seed)."""
    threads: Callable[[], physics.Driver]
    """Returns the physics on the host, in which demonstrations are made."""
    compiled: Callable[..., physics.Compiled]
    """Returns the physics compiled by JAX, for (solver, iterations, line_search_iterations)."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    """The hyperparameters of their training."""
    measures: dict[str, Callable[[Array], Array]] = field(default_factory=dict)
    """Quantities [...] of states [..., S] whose quantiles over all demonstrations are reported, by name."""
    shares: dict[str, Callable[[Array], Array]] = field(default_factory=dict)
    """Conditions [...] on states [..., S] whose share of all time steps is reported, by name."""


class Demonstrators(eqx.Module):
    """P policies, each trained for one target. Every array has the policies as its first axis."""

    targets: Float[Array, " P"]
    norm: RunningNorm
    actor: Actor

    def __len__(self) -> int:
        return len(self.targets)

    def save(self, path: Path) -> None:
        """Writes the policies as one safetensors file."""
        sizes = [self.norm.mean.shape[1], *(bias.shape[1] for bias in self.actor.network.biases)]
        storage.write_tree(path, self, {"policies": len(self), "sizes": sizes})

    @staticmethod
    def load(path: str | Path) -> Demonstrators:
        """Reads the policies that `save` wrote."""
        path = Path(path)
        notes = storage.read_notes(path)
        P, sizes = notes["policies"], notes["sizes"]

        def like() -> Demonstrators:
            weights = tuple(jnp.zeros((P, *shape)) for shape in itertools.pairwise(sizes))
            network = Network(weights, tuple(jnp.zeros((P, size)) for size in sizes[1:]))
            norm = RunningNorm(jnp.zeros(P), jnp.zeros((P, sizes[0])), jnp.zeros((P, sizes[0])))
            return Demonstrators(jnp.zeros(P), norm, Actor(network, jnp.zeros((P, sizes[-1]))))

        return storage.read_tree(path, jax.eval_shape(like))
