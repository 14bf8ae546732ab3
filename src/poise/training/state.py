"""The state of training: everything that changes, with the runs as the first axis of every array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Key

from ..algorithms import Algorithm, Problem
from ..config import Settings
from ..data.batches import Data
from ..data.trajectories import Array
from ..losses import Parts
from ..models import Statistics


class PerRun(NamedTuple):
    """What may differ from run to run beside the seed: weights of the losses, the set of labels, own rollouts."""

    weights: dict[str, Float[Array, " runs"]]
    label_set: Int[Array, " runs"]
    rollouts: Data | None = None
    """Rollouts of each run's policy in the environment, and the labels that were asked for."""

    @staticmethod
    def equal(runs: int, settings: Settings) -> PerRun:
        """The same weights for all runs, and the first set of labels."""
        weights: dict[str, Array] = {
            name: jnp.full(runs, value, jnp.float32) for name, value in settings.weights.by_name().items()
        }
        return PerRun(weights, jnp.zeros(runs, jnp.int32))


class State(eqx.Module):
    """All that changes during training. Every array has the runs as its first axis, except inside of one run."""

    parts: Parts
    optimisers: dict[str, Any]
    """By stage: that of the current stage, and of the one it alternates with."""
    key: Key[Array, "*runs"]
    step: Int[Array, "*runs"]
    stopped: Int[Array, "*runs"]
    """The step of a stage at which a run was stopped because its loss was NaN or infinite; -1 while it continues."""


def start(algorithm: Algorithm, problem: Problem, seeds: Int[np.ndarray, " runs"]) -> State:
    """New parts for each seed, before any stage."""
    statistics = jax.tree.map(jnp.asarray, problem.statistics)
    parts, keys = compile_build(algorithm, problem)(statistics, jnp.asarray(seeds))
    runs = len(seeds)
    return State(parts, {}, keys, jnp.zeros(runs, jnp.int32), jnp.full(runs, -1, jnp.int32))


def compile_build(algorithm: Algorithm, problem: Problem) -> Callable[[Statistics, Array], tuple[Parts, Array]]:
    """One program that builds the parts of all seeds; as statistics are given to it, other data need no other one."""

    def one(statistics, seed):
        key = jax.random.key(seed)
        parts = algorithm.build(replace(problem, statistics=statistics), jax.random.fold_in(key, 0))
        return parts, jax.random.fold_in(key, 1)

    return eqx.filter_jit(eqx.filter_vmap(one, in_axes=(None, 0)))


def running(state: State) -> Bool[np.ndarray, " runs"]:
    """True for the runs that were not stopped."""
    return np.asarray(state.stopped) < 0


def one_run(parts: Parts, number: int) -> Parts:
    """The parts of one run, without the axis of runs."""
    return _take(parts, jnp.asarray(number))


@eqx.filter_jit
def _take(parts: Parts, number: Int[Array, ""]) -> Parts:
    return jax.tree.map(lambda x: x[number] if eqx.is_array(x) else x, parts)
