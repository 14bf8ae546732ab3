"""Training: stages, each one compiled program over all runs, in chunks that return to the host.

A run is a pure function of its seed, its labels and its weights, so runs are an axis: every array of a `State` has the
runs as its first axis, and demonstrations are shared. Each step is a function of the state alone, so where training is
cut into chunks, or interrupted and resumed, changes nothing; nor does in whose company a run is trained.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Float, Int, Key, PRNGKeyArray, Shaped

from .algorithms import Algorithm, Problem, Stage
from .axis import Axis
from .config import Settings, Training
from .errors import PoiseError
from .losses import Batch, Named, Parts
from .memory import device_memory
from .models import Standardizer
from .trajectories import Array, Trajectories

VALIDATION_ROWS = 256


class Data(NamedTuple):
    """Labelled demonstrations on the device; one set of labels for all runs [N, M], or several [sets, N, M]."""

    demonstrations: Trajectories
    labels: Shaped[Array, "*sets N M"]

    @staticmethod
    def of(demonstrations: Trajectories, labels: Shaped[np.ndarray, "*sets N M"]) -> Data:
        """Demonstrations and labels, moved to the device."""
        return Data(demonstrations.arrays, jnp.asarray(labels))

    def rows(self, rows: Int[Array, " batch"]) -> Data:
        """The named rows."""
        states, actions, lengths = (x[rows] for x in jax.tree.leaves(self.demonstrations))
        return Data(Trajectories.trusted(states, actions, lengths), self.labels[..., rows, :])

    def batch(self, rows: Int[Array, " batch"], chosen: Int[Array, ""]) -> Batch:
        """The named rows with the chosen set of labels."""
        several = self.labels if self.labels.ndim == 3 else self.labels[None]
        demonstrations, _ = Data(self.demonstrations, several[0]).rows(rows)
        return Batch(demonstrations, several[chosen, rows])

    @property
    def lasts(self) -> int | None:
        """Steps that a window lasts: for ever."""
        return None

    def windows(self, first: int = 0) -> Generator[Data, None, None]:
        """What steps draw their batches from: always all of it."""
        while True:
            yield self


@runtime_checkable
class Source(Protocol):
    """Where batches come from: `Data` that are on the device, or a `Stream` of windows that follow one another."""

    @property
    def lasts(self) -> int | None: ...

    def windows(self, first: int = 0) -> Generator[Data, None, None]: ...


class Each(NamedTuple):
    """What may differ from run to run beside the seed: the weights of the losses, and the set of labels."""

    weights: dict[str, Float[Array, " runs"]]
    labels: Int[Array, " runs"]

    @staticmethod
    def alike(runs: int, settings: Settings) -> Each:
        """The same weights for all runs, and the first set of labels."""
        weights: dict[str, Array] = {
            name: jnp.full(runs, value, jnp.float32) for name, value in settings.weights.by_name().items()
        }
        return Each(weights, jnp.zeros(runs, jnp.int32))


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
    axis: Axis
    """How the runs were spread over devices and cut into pieces."""


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
    train: Source,
    validation: Data,
    settings: Settings,
    *,
    each: Each | None = None,
    stage: int = 0,
    wide: Source | None = None,
    devices: list[Any] | None = None,
) -> Iterator[Progress]:
    """Trains all runs, stage by stage; yields before a stage and after every chunk, last with the trained parts.

    Stages that ask for it draw their batches from `wide` instead of `train`. A state that was yielded is gone once the
    next chunk runs (its memory is used again): copy what must last.
    To resume, pass the state and the number of the stage that an earlier `Progress` held.
    """
    runs = len(state.step)
    each = each or Each.alike(runs, settings)
    checked = validation.rows(np.arange(min(VALIDATION_ROWS, len(validation.demonstrations))))
    for number, current in enumerate(algorithm.stages):
        steps = settings.training.steps(current.name)
        if number < stage or not steps or not _has_parameters(state.parts, current):
            continue
        source = wide if current.wide and wide is not None else train
        optimiser = make_optimiser(current, settings.training)
        if state.optimiser is None or number > stage:
            state = begin(state, current, optimiser)
        done, chunk = int(state.step[0]), settings.training.chunk
        pieces = _pieces(current, state, checked, settings, runs, devices)
        axis = Axis.over(runs, devices, pieces, settings.training.batch)
        yield Progress(current.name, number, done, steps, {}, {}, state, axis)  # a bar is there while JAX compiles
        arrays, static = eqx.partition(state, eqx.is_array)
        arrays, ours, seen = axis.fill(arrays), axis.fill(each), axis.share(checked)
        run_chunk = compile_stage(current, optimiser, settings, axis, static)
        lasts, shared = source.lasts or steps, None
        with contextlib.closing(source.windows(done // lasts)) as windows:
            while done < steps:
                if shared is None or done % lasts == 0:
                    shared = axis.share(next(windows))
                count = min(chunk - done % chunk, lasts - done % lasts, steps - done)
                arrays, losses, checks = run_chunk((shared, seen, jnp.asarray(count), ours), arrays)
                done += count
                losses, checks = axis.cut(jax.device_get((losses, checks)))
                state = eqx.combine(axis.cut(arrays), static)
                yield Progress(current.name, number, done, steps, losses, checks, state, axis)


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
    stage: Stage, optimiser: optax.GradientTransformation, settings: Settings, axis: Axis, static: Any
) -> Callable[[tuple[Data, Data, Array, Each], Any], tuple[Any, Named, Named]]:
    """A function ((data, checked, count, each), state) -> (state, losses, validation losses): all runs, `count` steps.

    It takes and returns the arrays of a state; `static` is the rest of it.
    """

    def objective(chosen, rest, batch: Batch, weights, key):
        named = losses_of(stage, eqx.combine(chosen, rest), batch, key)
        return weighted(stage, named, weights), named

    def take_step(data: Data, each: Each, state: State) -> tuple[State, Named]:
        key_rows, key_loss = jax.random.split(jax.random.fold_in(_stage_key(state, stage), state.step))
        rows = len(data.demonstrations)
        rows = jax.random.randint(key_rows, (min(settings.training.batch, rows),), 0, rows)
        chosen, rest = _choose(state.parts, stage)
        gradient_of = eqx.filter_value_and_grad(objective, has_aux=True)
        batch = axis.spread(data.batch(axis.spread(rows), each.labels))
        (loss, named), gradient = gradient_of(chosen, rest, batch, each.weights, key_loss)
        updates, moved = optimiser.update(gradient, state.optimiser, chosen)
        fine = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient)) & (state.stopped < 0)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        parts = eqx.combine(keep(eqx.apply_updates(chosen, updates), chosen), rest)
        stopped = jnp.where(fine | (state.stopped >= 0), state.stopped, state.step)
        return State(parts, keep(moved, state.optimiser), state.key, state.step + 1, stopped), named

    def take_steps(shared: tuple[Data, Data, Array], mine: tuple[Each, Any]) -> tuple[Any, Named, Named]:
        (data, checked, count), (each, arrays) = shared, mine

        def body(_, now):
            state, named = take_step(data, each, eqx.combine(now[0], static))
            return eqx.filter(state, eqx.is_array), jax.tree.map(jnp.add, now[1], named)

        def validate(arrays):
            state = eqx.combine(arrays, static)
            key = jax.random.fold_in(_stage_key(state, stage), 0x7FFFFFFF)
            batch = axis.spread(checked.batch(jnp.arange(len(checked.demonstrations)), each.labels))
            return losses_of(stage, state.parts, batch, key)

        empty = jax.tree.map(jnp.zeros_like, jax.eval_shape(validate, arrays))
        arrays, total = jax.lax.fori_loop(0, count, body, (arrays, empty))
        return arrays, jax.tree.map(lambda x: x / count, total), validate(arrays)

    @partial(jax.jit, donate_argnums=1)
    def all_runs(given, arrays):
        data, checked, count, each = given
        return axis.map(take_steps, (data, checked, count), (each, arrays))

    return all_runs


def _pieces(stage: Stage, state: State, data: Data, settings: Settings, runs: int, devices: list[Any] | None) -> int:
    """Pieces that the axis of runs is cut into so that a device's memory holds one of them."""
    axis = Axis.over(runs, devices)
    room = max(1, int(device_memory() / (MEMORY_MARGIN * bytes_of_a_run(stage, state, data, settings))))
    return -(-axis.piece // room)


MEMORY_MARGIN = 2.0  # over the estimate, for what XLA keeps beside; it took 1.5 times the estimate on two cores


def bytes_of_a_run(stage: Stage, state: State, data: Data, settings: Settings) -> int:
    """About how much memory a step of one run takes: what its gradient keeps, and its parts."""
    parts = one_run(state.parts, 0)
    chosen, rest = _choose(parts, stage)
    rows = jnp.zeros(settings.training.batch, jnp.int32)

    def kept(chosen):
        batch = data.batch(rows, jnp.asarray(0))
        return jax.vjp(lambda x: losses_of(stage, eqx.combine(x, rest), batch, jax.random.key(0)), chosen)[1]

    arrays = jax.tree.leaves((eqx.filter_eval_shape(kept, chosen), [chosen] * 4))
    return sum(x.size * x.dtype.itemsize for x in arrays if hasattr(x, "size"))


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
