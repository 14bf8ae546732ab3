"""Training: stages, each one compiled program over all runs, in chunks that return to the host.

A run is a pure function of its seed and its labels, so runs are a `vmap` axis: every array of a `State` has the runs
as its first axis, and data are shared. Each step is a function of the state alone, so where training is cut into
chunks, or interrupted and resumed, changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Int, Key, PRNGKeyArray, Shaped

from .algorithms import Algorithm, Problem, Stage
from .config import Settings, Training
from .errors import PoiseError
from .losses import Batch, Named, Parts
from .models import Standardizer
from .trajectories import Array, Trajectories

VALIDATION_ROWS = 256


class Data(NamedTuple):
    """Labelled demonstrations on the device; labels are shared by all runs [N, M] or one set a run [runs, N, M]."""

    demonstrations: Trajectories
    labels: Shaped[Array, "*runs N M"]

    @staticmethod
    def of(demonstrations: Trajectories, labels: Shaped[np.ndarray, "*runs N M"]) -> Data:
        """Demonstrations and labels, moved to the device."""
        return Data(demonstrations.arrays, jnp.asarray(labels))

    def rows(self, rows: Int[Array, " batch"]) -> Data:
        """The named rows."""
        states, actions, lengths = (x[rows] for x in jax.tree.leaves(self.demonstrations))
        return Data(Trajectories.trusted(states, actions, lengths), self.labels[..., rows, :])


class State(eqx.Module):
    """All that changes during training; every array has the runs as its first axis, but inside of one run."""

    parts: Parts
    optimiser: Any
    key: Key[Array, "*runs"]
    step: Int[Array, "*runs"]
    stopped: Int[Array, "*runs"]
    """The step of a stage at which a run was stopped because its loss was no longer finite; -1 while it goes on."""


class Progress(NamedTuple):
    """What one chunk did: the mean of each named loss over its steps, one value a run."""

    stage: str
    number: int
    """The stage's place in the algorithm."""
    step: int
    steps: int
    losses: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    state: State


def trainable(part: Any) -> Any:
    """True for the arrays of a part that a stage may change: all but its standardisation."""

    def leaf(x):
        return False if isinstance(x, Standardizer) else eqx.is_inexact_array(x)

    return jax.tree.map(leaf, part, is_leaf=lambda x: isinstance(x, Standardizer))


def start(algorithm: Algorithm, problem: Problem, seeds: Int[np.ndarray, " runs"]) -> State:
    """New parts for each seed, before any stage."""

    def one(seed):
        key = jax.random.key(seed)
        return algorithm.build(problem, jax.random.fold_in(key, 0)), jax.random.fold_in(key, 1)

    parts, keys = eqx.filter_vmap(one)(jnp.asarray(seeds))
    runs = len(seeds)
    return State(parts, None, keys, jnp.zeros(runs, jnp.int32), jnp.full(runs, -1, jnp.int32))


def fit(
    algorithm: Algorithm,
    state: State,
    train: Data,
    validation: Data,
    settings: Settings,
    *,
    stage: int = 0,
    wide: Data | None = None,
) -> Iterator[Progress]:
    """Trains all runs, stage by stage; yields before a stage and after every chunk, last with the trained parts.

    Stages that ask for it draw their batches from `wide` instead of `train`. A state that was yielded is gone once the
    next chunk runs (its memory is used again): copy what must last.
    To resume, pass the state and the number of the stage that an earlier `Progress` held.
    """
    weights: dict[str, Array] = {name: jnp.asarray(value) for name, value in settings.weights.by_name().items()}
    for number, current in enumerate(algorithm.stages):
        steps = settings.training.steps(current.name)
        if number < stage or not steps or not _has_parameters(state.parts, current):
            continue
        data = wide if current.wide and wide is not None else train
        optimiser = make_optimiser(current, settings.training)
        if state.optimiser is None or number > stage:
            state = begin(state, current, optimiser)
        run_chunk = compile_stage(current, optimiser, settings, data, validation)
        done = int(state.step[0])
        yield Progress(current.name, number, done, steps, {}, {}, state)  # so that a bar is there while JAX compiles
        while done < steps:
            count = min(settings.training.chunk - done % settings.training.chunk, steps - done)
            state, losses, checks = run_chunk(state, weights, count)
            done += count
            losses, checks = jax.device_get((losses, checks))
            yield Progress(current.name, number, done, steps, losses, checks, state)


def begin(state: State, stage: Stage, optimiser: optax.GradientTransformation) -> State:
    """The state at a stage's first step: a new optimiser for the parts it trains; a stopped run stays stopped."""
    chosen = eqx.filter_vmap(lambda parts: optimiser.init(_choose(parts, stage)[0]))(state.parts)
    return State(state.parts, chosen, state.key, jnp.zeros_like(state.step), state.stopped)


def make_optimiser(stage: Stage, training: Training) -> optax.GradientTransformation:
    """Adam with a cosine from the learning rate to zero, on clipped gradients."""
    schedule = optax.cosine_decay_schedule(training.learning_rate, training.steps(stage.name))
    decay = optax.add_decayed_weights(stage.l2) if stage.l2 else optax.identity()
    return optax.chain(optax.clip_by_global_norm(training.clip), decay, optax.adam(schedule))


def compile_stage(
    stage: Stage, optimiser: optax.GradientTransformation, settings: Settings, train: Data, validation: Data
) -> Callable[[State, dict[str, Array], int], tuple[State, Named, Named]]:
    """A function (state, weights, count) -> (state, losses, validation losses): `count` steps of every run."""
    axes = Data(None, 0 if train.labels.ndim == 3 else None)  # pyright: ignore[reportArgumentType]
    checked = validation.rows(np.arange(min(VALIDATION_ROWS, len(validation.demonstrations))))

    def objective(chosen, rest, batch: Batch, weights, key):
        named = losses_of(stage, eqx.combine(chosen, rest), batch, key)
        return weighted(stage, named, weights), named

    def take_step(data: Data, weights, state: State) -> tuple[State, Named]:
        key_rows, key_loss = jax.random.split(jax.random.fold_in(_stage_key(state, stage), state.step))
        rows = len(data.demonstrations)
        batch = Batch(*data.rows(jax.random.randint(key_rows, (min(settings.training.batch, rows),), 0, rows)))
        chosen, rest = _choose(state.parts, stage)
        gradient_of = eqx.filter_value_and_grad(objective, has_aux=True)
        (loss, named), gradient = gradient_of(chosen, rest, batch, weights, key_loss)
        updates, moved = optimiser.update(gradient, state.optimiser, chosen)
        fine = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient)) & (state.stopped < 0)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        parts = eqx.combine(keep(eqx.apply_updates(chosen, updates), chosen), rest)
        stopped = jnp.where(fine | (state.stopped >= 0), state.stopped, state.step)
        return State(parts, keep(moved, state.optimiser), state.key, state.step + 1, stopped), named

    def take_steps(data: Data, checked: Data, weights, count, state: State) -> tuple[State, Named, Named]:
        step = partial(take_step, data, weights)
        empty = jax.tree.map(lambda x: jnp.zeros(x.shape), eqx.filter_eval_shape(step, state)[1])
        arrays, static = eqx.partition(state, eqx.is_array)

        def body(_, now):
            state, named = step(eqx.combine(now[0], static))
            return eqx.filter(state, eqx.is_array), jax.tree.map(jnp.add, now[1], named)

        arrays, total = jax.lax.fori_loop(0, count, body, (arrays, empty))
        state = eqx.combine(arrays, static)
        seen = losses_of(stage, state.parts, Batch(*checked), jax.random.fold_in(_stage_key(state, stage), 0x7FFFFFFF))
        return state, jax.tree.map(lambda x: x / count, total), seen

    @eqx.filter_jit(donate="all-except-first")
    def all_runs(given, state: State):
        in_axes = (axes, axes, None, None, eqx.if_array(0))
        return eqx.filter_vmap(take_steps, in_axes=in_axes)(*given, state)

    return lambda state, weights, count: all_runs((train, checked, weights, jnp.asarray(count)), state)


def losses_of(stage: Stage, parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Every named loss of a stage's terms; two terms never share a name."""
    named: Named = {}
    for number, term in enumerate(stage.terms):
        for name, value in term(parts, batch, jax.random.fold_in(key, number)).items():
            if name in named:
                raise PoiseError(f"two terms of stage {stage.name!r} return a loss named {name!r}")
            named[name] = value
    return named


def weighted(stage: Stage, named: Named, weights: dict[str, Array]) -> Array:
    """The sum of the named losses, each times its weight; a loss without a weight is refused."""
    for name in named:
        if name not in weights:
            raise PoiseError(
                f"stage {stage.name!r} returns a loss {name!r} without a weight; known: {', '.join(weights)}"
            )
    return jnp.stack([weights[name] * value for name, value in named.items()]).sum()


def running(state: State) -> Bool[np.ndarray, " runs"]:
    """True for the runs that were not stopped."""
    return np.asarray(state.stopped) < 0


def one_run(parts: Parts, number: int) -> Parts:
    """The parts of one run, without the axis of runs."""
    return jax.tree.map(lambda x: x[number] if eqx.is_array(x) else x, parts)


def _choose(parts: Parts, stage: Stage) -> tuple[Parts, Parts]:
    chosen = {name: trainable(part) if name in stage.trains else False for name, part in parts.items()}
    return eqx.partition(parts, chosen)


def _has_parameters(parts: Parts, stage: Stage) -> bool:
    return bool(jax.tree.leaves(_choose(parts, stage)[0]))


def _stage_key(state: State, stage: Stage) -> PRNGKeyArray:
    return jax.random.fold_in(state.key, zlib.crc32(stage.name.encode()) & 0x7FFFFFFF)
