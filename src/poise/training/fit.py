"""Fitting: all stages of an algorithm for all runs, in chunks that return to the host.

A run is a pure function of its seed, its labels and its weights, so runs are an axis: every array of a `State` has the
runs as its first axis, and the demonstrations are shared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..algorithms import Algorithm, Stage
from ..config import Settings
from ..data.batches import Data, Source
from ..system.memory import device_memory
from .run_axis import Axis
from .stages import Estimate, Optimisation, Turn, begin, check_names, compile_stage, estimate, has_parameters, turns
from .state import PerRun, State, one_run

VALIDATION_ROWS = 256  # validation demonstrations that are scored after every chunk
MEMORY_MARGIN = 2.0  # over the estimate, for what XLA keeps beside; it took 1.5 times the estimate on two cores

Collect = Callable[[State, int], Data]
"""(state, number of the turn) -> rollouts of every run's policy in the environment."""


class Sources(NamedTuple):
    """What stages draw their batches from."""

    train: Source
    augmented: Source | None = None
    """For stages that are augmented; `train` if there is none."""
    collect: Collect | None = None
    """For stages that collect; without it they are skipped."""


class Progress(NamedTuple):
    """What one chunk did: the mean of each named loss over its steps, one value per run."""

    stage: str
    turn: int
    """The position of its turn among all turns."""
    step: int
    steps: int
    last: int
    """The step with which its turn ends."""
    losses: dict[str, np.ndarray]
    """Empty at the beginning of a turn."""
    validation: dict[str, np.ndarray]
    state: State
    axis: Axis
    """How the runs are spread over devices and divided into pieces."""


def fit(
    algorithm: Algorithm,
    state: State,
    sources: Sources,
    validation: Data,
    settings: Settings,
    *,
    per_run: PerRun | None = None,
    turn: int = 0,
    devices: list[Any] | None = None,
) -> Iterator[Progress]:
    """Trains all runs, stage by stage; yields before a turn and after every chunk, last with the trained parts.

    The memory of a state that was yielded is used again by the next chunk: copy what must last. To resume, pass the
    state and the number of the turn that an earlier `Progress` held.

    Raises:
        PoiseError: Losses, weights and steps do not match. This is found before the first step.
    """
    runs = len(state.step)
    checked = validation.rows(np.arange(min(VALIDATION_ROWS, len(validation.demonstrations))))
    one = eqx.filter_eval_shape(lambda parts: one_run(parts, 0), state.parts)
    estimates = {stage.name: estimate(stage, one, checked, settings) for stage in algorithm.stages}
    check_names(algorithm, estimates, settings)
    fitting = _Fitting(sources, checked, settings, per_run or PerRun.equal(runs, settings), estimates, devices)
    order = turns(algorithm, settings.training)
    for number, current in enumerate(order):
        if number < turn or fitting.skips(current, state):
            continue
        if number > turn or not state.optimisers:
            state = begin(state, order, number, settings.training)
        for progress in fitting.train(current, number, state):
            state = progress.state
            yield progress


@dataclass
class _Fitting:
    """One call of `fit`: what its turns share. Programs and axes are made once per stage."""

    sources: Sources
    validation: Data
    settings: Settings
    per_run: PerRun
    estimates: dict[str, Estimate]
    devices: list[Any] | None
    axes: dict[str, Axis] = field(default_factory=dict)
    programs: dict[str, Any] = field(default_factory=dict)

    def skips(self, turn: Turn, state: State) -> bool:
        """Whether there is nothing to do in a turn."""
        nothing_to_collect = turn.stage.collects and self.sources.collect is None
        return turn.first == turn.last or not has_parameters(state.parts, turn.stage) or nothing_to_collect

    def train(self, turn: Turn, number: int, state: State) -> Iterator[Progress]:
        """The chunks of one turn."""
        stage, training, axis = turn.stage, self.settings.training, self._axis(turn.stage, len(state.step))
        done, steps = int(state.step[0]), training.steps(stage.name)
        progress = partial(Progress, stage.name, number, steps=steps, last=turn.last, axis=axis)
        yield progress(done, losses={}, validation={}, state=state)  # a bar is there while JAX compiles
        per_run = self.per_run
        if stage.collects and self.sources.collect is not None:
            per_run = per_run._replace(rollouts=self.sources.collect(state, number))
        arrays, static = eqx.partition(state, eqx.is_array)
        arrays, per_run, validation = axis.fill(arrays), axis.fill(per_run), axis.share(self.validation)
        if stage.name not in self.programs:
            self.programs[stage.name] = compile_stage(stage, Optimisation.of(stage, training), axis, static)
        source = self.sources.augmented if stage.augmented and self.sources.augmented else self.sources.train
        each, data = source.steps_per_window or steps, None
        with contextlib.closing(source.windows(done // each)) as windows:
            while done < turn.last:
                if data is None or done % each == 0:
                    data = axis.share(next(windows))
                count = min(training.chunk - done % training.chunk, each - done % each, turn.last - done)
                given = data, validation, jnp.asarray(count), per_run
                arrays, losses, checks = self.programs[stage.name](given, arrays)
                done += count
                losses, checks = axis.cut(jax.device_get((losses, checks)))
                state = eqx.combine(axis.cut(arrays), static)
                yield progress(done, losses=losses, validation=checks, state=state)

    def _axis(self, stage: Stage, runs: int) -> Axis:
        """How the runs are spread, in pieces that fit into a device's memory."""
        if stage.name not in self.axes:
            fitting = int(device_memory() / (MEMORY_MARGIN * self.estimates[stage.name].bytes_per_run))
            pieces = -(-Axis.over(runs, self.devices).piece // max(1, fitting))
            self.axes[stage.name] = Axis.over(runs, self.devices, pieces, self.settings.training.batch)
        return self.axes[stage.name]
