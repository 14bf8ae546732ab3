"""Training: stages, each one compiled program over all runs, in chunks that return to the host.

A run is a pure function of its seed, its labels and its weights, so runs are an axis: every array of a `State` has the
runs as its first axis, and demonstrations are shared. Each step is a function of the state alone, so where training is
cut into chunks, or interrupted and resumed, changes nothing; nor does in whose company a run is trained.
"""

from __future__ import annotations

import contextlib
import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
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
    """What may differ from run to run beside the seed: weights of the losses, the set of labels, own rollouts."""

    weights: dict[str, Float[Array, " runs"]]
    labels: Int[Array, " runs"]
    rollouts: Data | None = None
    """Rollouts of each run's policy in the environment, and the labels that were asked for."""

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
    optimisers: dict[str, Any]
    """By stage: of the current one, and of the one it takes turns with."""
    key: Key[Array, "*runs"]
    step: Int[Array, "*runs"]
    stopped: Int[Array, "*runs"]
    """The step of a stage at which a run was stopped because its loss was no longer finite; -1 while it goes on."""


class Turn(NamedTuple):
    """Steps of a stage that are taken one after the other."""

    stage: Stage
    first: int
    last: int


def turns(algorithm: Algorithm, training: Training) -> list[Turn]:
    """What is trained when: stage after stage, but one that collects rollouts takes turns with the one before it."""
    for before, after in itertools.pairwise(algorithm.stages):
        if before.collects and after.collects:
            raise PoiseError(
                f"stages {before.name!r} and {after.name!r} both collect rollouts: put a stage between them"
            )
    found: list[Turn] = []
    for stage in algorithm.stages:
        steps = training.steps(stage.name)
        if not stage.collects or not found:
            found.append(Turn(stage, 0, steps))
        elif steps:
            before, rounds = found.pop(), training.rounds
            for i in range(rounds):
                for one, all_steps in ((before.stage, before.last), (stage, steps)):
                    found.append(Turn(one, all_steps * i // rounds, all_steps * (i + 1) // rounds))
    return found


class Progress(NamedTuple):
    """What one chunk did: the mean of each named loss over its steps, one value a run."""

    stage: str
    number: int
    """The place of its turn among all turns."""
    step: int
    steps: int
    last: int
    """The step with which its turn ends."""
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
    return State(parts, {}, keys, jnp.zeros(runs, jnp.int32), jnp.full(runs, -1, jnp.int32))


def fit(
    algorithm: Algorithm,
    state: State,
    train: Source,
    validation: Data,
    settings: Settings,
    *,
    each: Each | None = None,
    turn: int = 0,
    wide: Source | None = None,
    collect: Callable[[State, int], Data] | None = None,
    devices: list[Any] | None = None,
) -> Iterator[Progress]:
    """Trains all runs, stage by stage; yields before a stage and after every chunk, last with the trained parts.

    Stages that ask for it draw their batches from `wide` instead of `train`, or also from what `collect` makes of the
    state at the beginning of a turn: rollouts of every run. A state that was yielded is gone once the next chunk runs
    (its memory is used again): copy what must last.
    To resume, pass the state and the number of the turn that an earlier `Progress` held.
    """
    runs = len(state.step)
    each = each or Each.alike(runs, settings)
    checked = validation.rows(np.arange(min(VALIDATION_ROWS, len(validation.demonstrations))))
    axes: dict[str, Axis] = {}
    programs: dict[str, Any] = {}
    order = turns(algorithm, settings.training)
    for number, (current, first, last) in enumerate(order):
        idle = first == last or not _has_parameters(state.parts, current) or (current.collects and collect is None)
        if number < turn or idle:
            continue
        source = wide if current.wide and wide is not None else train
        if number > turn or not state.optimisers:
            state = begin(state, order, number, settings.training)
        done, chunk, steps = int(state.step[0]), settings.training.chunk, settings.training.steps(current.name)
        if current.name not in axes:
            pieces = _pieces(current, state, checked, settings, runs, devices)
            axes[current.name] = Axis.over(runs, devices, pieces, settings.training.batch)
        axis = axes[current.name]
        progress = partial(Progress, current.name, number, steps=steps, last=last, axis=axis)
        yield progress(done, losses={}, validation={}, state=state)  # a bar is there while JAX compiles
        mine = each._replace(rollouts=collect(state, number)) if current.collects and collect else each
        arrays, static = eqx.partition(state, eqx.is_array)
        arrays, ours, seen = axis.fill(arrays), axis.fill(mine), axis.share(checked)
        if current.name not in programs:
            programs[current.name] = compile_stage(current, settings, axis, static)
        lasts, shared = source.lasts or steps, None
        with contextlib.closing(source.windows(done // lasts)) as windows:
            while done < last:
                if shared is None or done % lasts == 0:
                    shared = axis.share(next(windows))
                count = min(chunk - done % chunk, lasts - done % lasts, last - done)
                arrays, losses, checks = programs[current.name]((shared, seen, jnp.asarray(count), ours), arrays)
                done += count
                losses, checks = axis.cut(jax.device_get((losses, checks)))
                state = eqx.combine(axis.cut(arrays), static)
                yield progress(done, losses=losses, validation=checks, state=state)


def begin(state: State, order: Sequence[Turn], number: int, training: Training) -> State:
    """The state at the first step of a turn: new optimisers for stages that have none yet; a stopped run stays so."""
    current, first, _ = order[number]
    count = Counter(turn.stage.name for turn in order)
    together = [turn.stage for turn in order if min(count[turn.stage.name], count[current.name]) > 1] or [current]

    def new(stage: Stage) -> Any:
        optimiser = make_optimiser(stage, training)
        return eqx.filter_vmap(lambda parts: optimiser.init(_choose(parts, stage)[0]))(state.parts)

    optimisers = {stage.name: state.optimisers.get(stage.name) or new(stage) for stage in together}
    return State(state.parts, optimisers, state.key, jnp.full_like(state.step, first), state.stopped)


def make_optimiser(stage: Stage, training: Training) -> optax.GradientTransformation:
    """Adam with a cosine from the learning rate to zero, on clipped gradients."""
    schedule = optax.cosine_decay_schedule(training.learning_rate, training.steps(stage.name))
    decay = optax.add_decayed_weights(stage.l2) if stage.l2 else optax.identity()
    return optax.chain(optax.clip_by_global_norm(training.clip), decay, optax.adam(schedule))


def compile_stage(
    stage: Stage, settings: Settings, axis: Axis, static: Any
) -> Callable[[tuple[Data, Data, Array, Each], Any], tuple[Any, Named, Named]]:
    """A function ((data, checked, count, each), state) -> (state, losses, validation losses): all runs, `count` steps.

    It takes and returns the arrays of a state; `static` is the rest of it.
    """
    optimiser = make_optimiser(stage, settings.training)

    def objective(chosen, rest, batch: Batch, weights, key):
        named = losses_of(stage, eqx.combine(chosen, rest), batch, key)
        return weighted(stage, named, weights), named

    def take_step(data: Data, each: Each, state: State) -> tuple[State, Named]:
        key_rows, key_loss = jax.random.split(jax.random.fold_in(_stage_key(state, stage), state.step))
        batch_size = settings.training.batch
        rows = _draw(key_rows, len(data.demonstrations), min(batch_size, len(data.demonstrations)))
        chosen, rest = _choose(state.parts, stage)
        gradient_of = eqx.filter_value_and_grad(objective, has_aux=True)
        batch = axis.spread(data.batch(axis.spread(rows), each.labels))
        if stage.collects:
            assert each.rollouts is not None
            own = _draw(jax.random.fold_in(key_rows, 1), len(each.rollouts.demonstrations), len(rows))
            made = axis.spread(each.rollouts.batch(axis.spread(own), jnp.asarray(0)))
            batch = jax.tree.map(lambda *both: jnp.concatenate(both), batch, made)
        (loss, named), gradient = gradient_of(chosen, rest, batch, each.weights, key_loss)
        updates, moved = optimiser.update(gradient, state.optimisers[stage.name], chosen)
        fine = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient)) & (state.stopped < 0)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(fine, new, old))
        parts = eqx.combine(keep(eqx.apply_updates(chosen, updates), chosen), rest)
        stopped = jnp.where(fine | (state.stopped >= 0), state.stopped, state.step)
        optimisers = {**state.optimisers, stage.name: keep(moved, state.optimisers[stage.name])}
        return State(parts, optimisers, state.key, state.step + 1, stopped), named

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


def _draw(key: PRNGKeyArray, among: int, count: int) -> Int[Array, " count"]:
    """So many rows of a batch, among so many."""
    return jax.random.randint(key, (count,), 0, among)


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
    rows = jnp.zeros(settings.training.batch * (2 if stage.collects else 1), jnp.int32)

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
