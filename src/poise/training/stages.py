"""Stages: in which order they are trained, what each minimises, and its compiled program over all runs.

A step is a function of the state alone, so dividing training into chunks, or interrupting and resuming it, changes
nothing in the result; nor do the other runs that are trained beside a run.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Int, PRNGKeyArray

from ..algorithms import Algorithm, Stage
from ..config import Settings, Training
from ..data.batches import Batch, Data
from ..data.trajectories import Array
from ..errors import PoiseError
from ..losses import Named, Parts
from ..models import Standardizer
from .run_axis import Axis
from .state import PerRun, State


class Turn(NamedTuple):
    """Steps of one stage that follow one another without another stage in between."""

    stage: Stage
    first: int
    last: int


def turns(algorithm: Algorithm, training: Training) -> list[Turn]:
    """What is trained when: stage after stage; a stage that alternates takes turns with the one before it."""
    found: list[Turn] = []
    for stage in algorithm.stages:
        _check_pair(algorithm, stage)
        steps = training.steps(stage.name)
        if stage.alternates_with is None:
            found.append(Turn(stage, 0, steps))
        elif steps:
            before, rounds = found.pop(), training.rounds
            for i in range(rounds):
                for one, all_steps in ((before.stage, before.last), (stage, steps)):
                    found.append(Turn(one, all_steps * i // rounds, all_steps * (i + 1) // rounds))
    return found


def _check_pair(algorithm: Algorithm, stage: Stage) -> None:
    """Refuses a stage that alternates with one that alternates with another: two stages take turns, not three."""
    other = None if stage.alternates_with is None else algorithm.stage(stage.alternates_with)
    if other is not None and other.alternates_with is not None:
        raise PoiseError(
            f"stage {stage.name!r} alternates with {other.name!r}, which already alternates with "
            f"{other.alternates_with!r}; put a stage that does not alternate between them"
        )


def trainable(part: Any) -> Any:
    """True for the arrays of a part that a stage may change: all but its standardisation."""

    def leaf(x):
        return False if isinstance(x, Standardizer) else eqx.is_inexact_array(x)

    return jax.tree.map(leaf, part, is_leaf=lambda x: isinstance(x, Standardizer))


def split_parts(parts: Parts, stage: Stage) -> tuple[Parts, Parts]:
    """The arrays that a stage trains, and the rest."""
    trained = {name: trainable(part) if name in stage.trains else False for name, part in parts.items()}
    return eqx.partition(parts, trained)


def has_parameters(parts: Parts, stage: Stage) -> bool:
    """Whether there is anything for a stage to train; known dynamics, for example, have no parameters."""
    return bool(jax.tree.leaves(split_parts(parts, stage)[0]))


def alternate(one: Stage, other: Stage) -> bool:
    """Whether two stages are the same or take turns."""
    return one.name in (other.name, other.alternates_with) or other.name == one.alternates_with


def begin(state: State, order: Sequence[Turn], number: int, training: Training) -> State:
    """The state at the first step of a turn: new optimisers for stages that have none yet; a stopped run stays so."""
    current, first, _ = order[number]
    several = len([turn for turn in order if turn.stage.name == current.name]) > 1
    paired = [turn.stage for turn in order if several and alternate(turn.stage, current)]
    together = {stage.name: stage for stage in paired if training.steps(stage.name)}  # no steps, no learning rate

    def new(stage: Stage) -> Any:
        optimiser = Optimisation.of(stage, training).optimiser(stage.l2)
        return eqx.filter_jit(eqx.filter_vmap(lambda parts: optimiser.init(split_parts(parts, stage)[0])))(state.parts)

    optimisers = {
        name: state.optimisers.get(name) or new(stage) for name, stage in (together or {current.name: current}).items()
    }
    return State(state.parts, optimisers, state.key, jnp.full_like(state.step, first), state.stopped)


class Optimisation(NamedTuple):
    """The numbers of the training settings that the program of a stage depends on."""

    steps: int
    batch: int
    learning_rate: float
    clip: float
    average: float

    @staticmethod
    def of(stage: Stage, training: Training) -> Optimisation:
        """Those of one stage."""
        steps, batch = training.steps(stage.name), training.batch_of(stage.name)
        return Optimisation(steps, batch, training.learning_rate, training.clip, stage.average)

    def optimiser(self, l2: float) -> optax.GradientTransformation:
        """Adam with a cosine from the learning rate to zero, on clipped gradients; averaged if the stage is."""
        schedule = optax.cosine_decay_schedule(self.learning_rate, self.steps)
        decay = optax.add_decayed_weights(l2) if l2 else optax.identity()
        adam = optax.chain(optax.clip_by_global_norm(self.clip), decay, optax.adam(schedule))
        return averaged(adam, self.average, self.steps) if self.average else adam


class Averaged(NamedTuple):
    """The state of an optimiser whose last step goes to the average."""

    inner: Any
    average: Any
    step: Int[Array, ""]


def averaged(inner: optax.GradientTransformation, decay: float, steps: int) -> optax.GradientTransformation:
    """The same optimiser; its last step goes to the running average of the parameters, young at the beginning."""

    def init(params):
        return Averaged(inner.init(params), params, jnp.zeros((), jnp.int32))

    def update(updates, state, params=None):
        updates, inside = inner.update(updates, state.inner, params)
        now = jnp.minimum(decay, (1.0 + state.step) / (10.0 + state.step))
        following = eqx.apply_updates(params, updates)
        average = jax.tree.map(lambda a, x: now * a + (1 - now) * x, state.average, following)
        last = state.step + 1 == steps
        updates = jax.tree.map(lambda u, a, x: jnp.where(last, a - x, u), updates, average, params)
        return updates, Averaged(inside, average, state.step + 1)

    return optax.GradientTransformation(init, update)


Program = Callable[[tuple[Data, Data, Array, PerRun], Any], tuple[Any, Named, Named]]
"""((data, validation, count, per run), state) -> (state, losses, validation losses)."""


def compile_stage(stage: Stage, optimisation: Optimisation, axis: Axis, static: Any) -> Program:
    """A program that takes `count` steps of all runs; the losses are means over the steps.

    It takes and returns the arrays of a state; `static` is the rest of the state.
    """
    optimiser = optimisation.optimiser(stage.l2)

    def objective(trained, rest, batch: Batch, weights, key):
        named = losses_of(stage, eqx.combine(trained, rest), batch, key)
        return weighted_sum(named, weights), named

    def draw_batch(data: Data, mine: PerRun, key: PRNGKeyArray) -> Batch:
        rows = _draw(key, len(data.demonstrations), min(optimisation.batch, len(data.demonstrations)))
        batch = axis.spread(data.batch(axis.spread(rows), mine.label_set))
        if not stage.collects:
            return batch
        assert mine.rollouts is not None
        own = _draw(jax.random.fold_in(key, 1), len(mine.rollouts.demonstrations), len(rows))
        collected = axis.spread(mine.rollouts.batch(axis.spread(own), jnp.asarray(0)))
        return jax.tree.map(lambda *both: jnp.concatenate(both), batch, collected)

    def take_step(data: Data, mine: PerRun, state: State) -> tuple[State, Named]:
        key_rows, key_loss = jax.random.split(jax.random.fold_in(_stage_key(state, stage), state.step))
        trained, rest = split_parts(state.parts, stage)
        gradient_of = eqx.filter_value_and_grad(objective, has_aux=True)
        batch = draw_batch(data, mine, key_rows)
        (loss, named), gradient = gradient_of(trained, rest, batch, mine.weights, key_loss)
        updates, optimiser_state = optimiser.update(gradient, state.optimisers[stage.name], trained)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient)) & (state.stopped < 0)
        keep = partial(jax.tree.map, lambda new, old: jnp.where(finite, new, old))
        parts = eqx.combine(keep(eqx.apply_updates(trained, updates), trained), rest)
        stopped = jnp.where(finite | (state.stopped >= 0), state.stopped, state.step)
        optimisers = {**state.optimisers, stage.name: keep(optimiser_state, state.optimisers[stage.name])}
        return State(parts, optimisers, state.key, state.step + 1, stopped), named

    def take_steps(shared: tuple[Data, Data, Array], per_run: tuple[PerRun, Any]) -> tuple[Any, Named, Named]:
        (data, validation, count), (mine, arrays) = shared, per_run

        def body(_, carry):
            state, named = take_step(data, mine, eqx.combine(carry[0], static))
            return eqx.filter(state, eqx.is_array), jax.tree.map(jnp.add, carry[1], named)

        @jax.jit  # so that it is traced once, for the names of the losses and for their values
        def validate(arrays):
            state = eqx.combine(arrays, static)
            key = jax.random.fold_in(_stage_key(state, stage), 0x7FFFFFFF)
            batch = axis.spread(validation.batch(jnp.arange(len(validation.demonstrations)), mine.label_set))
            return losses_of(stage, state.parts, batch, key)

        zeros = jax.tree.map(jnp.zeros_like, jax.eval_shape(validate, arrays))
        arrays, total = jax.lax.fori_loop(0, count, body, (arrays, zeros))
        return arrays, jax.tree.map(lambda x: x / count, total), validate(arrays)

    @partial(jax.jit, donate_argnums=1)
    def all_runs(given, arrays):
        data, validation, count, per_run = given
        return axis.map(take_steps, (data, validation, count), (per_run, arrays))

    return all_runs


def _draw(key: PRNGKeyArray, among: int, count: int) -> Int[Array, " count"]:
    return jax.random.randint(key, (count,), 0, among)


def losses_of(stage: Stage, parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Every named loss of a stage's terms; two terms never share a name."""
    named: Named = {}
    for number, term in enumerate(stage.terms):
        for name, value in term(parts, batch, jax.random.fold_in(key, number)).items():
            if name in named:
                raise PoiseError(f"two terms of stage {stage.name!r} return a loss named {name!r}")
            named[name] = value
    return named


def weighted_sum(named: Named, weights: dict[str, Array]) -> Array:
    """The sum of the named losses, each times its weight."""
    return jnp.stack([weights[name] * value for name, value in named.items()]).sum()


class Estimate(NamedTuple):
    """What one step of a stage returns and needs, found by tracing it."""

    losses: tuple[str, ...]
    bytes_per_run: int
    """What the gradient of one run keeps, and its parts."""


def estimate(stage: Stage, parts: Parts, data: Data, settings: Settings) -> Estimate:
    """The losses of a stage, and about how much memory a step of one run takes; the shapes of its parts suffice."""
    rows = settings.training.batch_of(stage.name) * (2 if stage.collects else 1)
    names: list[str] = []

    def residuals(parts: Parts, data: Data):
        trained, rest = split_parts(parts, stage)
        batch = data.batch(jnp.zeros(rows, jnp.int32), jnp.asarray(0))

        def losses(trained):
            named = losses_of(stage, eqx.combine(trained, rest), batch, jax.random.key(0))
            names[:] = named
            return named

        return jax.vjp(losses, trained)[1], [trained] * 4

    arrays = jax.tree.leaves(eqx.filter_eval_shape(residuals, parts, data))
    size = sum(x.size * x.dtype.itemsize for x in arrays if hasattr(x, "size"))
    return Estimate(tuple(names), size)


def check_names(algorithm: Algorithm, estimates: dict[str, Estimate], settings: Settings) -> None:
    """Refuses a loss without a weight, and extra weights or steps that belong to no loss or stage."""
    weights, returned = settings.weights.by_name(), set()
    for name, found in estimates.items():
        returned |= set(found.losses)
        for loss in found.losses:
            if loss not in weights:
                raise PoiseError(
                    f"stage {name!r} returns a loss {loss!r} without a weight; give Weights(extra={{{loss!r}: ...}})"
                )
    for loss in settings.weights.extra:
        if loss not in returned:
            known = ", ".join(sorted(returned))
            raise PoiseError(f"Weights(extra=...) names {loss!r}, which no stage returns; the losses are: {known}")
    stages = [stage.name for stage in algorithm.stages]
    for stage in settings.training.extra_steps:
        if stage not in stages:
            raise PoiseError(
                f"Training(extra_steps=...) names {stage!r}, which is not a stage; the stages are: {', '.join(stages)}"
            )


def _stage_key(state: State, stage: Stage) -> PRNGKeyArray:
    return jax.random.fold_in(state.key, zlib.crc32(stage.name.encode()) & 0x7FFFFFFF)
