"""Training experiments to their end, with progress, metrics and checkpoints, interrupted and resumed at will."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..algorithms import begins_with
from ..config import Settings
from ..data.splits import Splits
from ..data.trajectories import Array, Trajectories
from ..domains import Domain
from ..errors import PoiseError
from ..evaluation.reconstruction import log_units
from ..models import Statistics
from ..styles.label_spaces import shared_space
from ..system import storage, trust
from ..system.compile_cache import use_compile_cache
from ..system.devices import use_cpu_devices
from ..system.interrupts import CheckpointTimer, Interruptible
from ..training.fit import VALIDATION_ROWS, Progress, fit
from ..training.progress import PerStep, ProgressBar
from ..training.state import PerRun, State, running
from .experiment import DEFAULT_ALGORITHM, Experiment
from .folder import WEIGHTS, describe, write_config
from .in_training import RunInTraining, label_sets_of
from .load import load_run
from .prepare import Prepared, prepare_all
from .run import Run
from .training_data import make_sources


def train(
    algorithm: str = DEFAULT_ALGORITHM,
    data: str | Path | Trajectories | Splits | None = None,
    styles: Sequence[str | Callable] | None = None,
    *,
    domain: str | Domain | None = None,
    preset: str | None = None,
    settings: Settings | None = None,
    test: str | Path | None = None,
    split_by: str | None = None,
    count: int | None = None,
    classes: int | None = None,
    noise: float = 0.0,
    seeds: int = 1,
    first_seed: int = 0,
    out: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Trains a policy that can be dialled, all seeds as one compiled program.

    Args:
        algorithm: A row of `ALGORITHMS` by name, or file.py:NAME.
        data: Demonstrations: the name of a domain, a path, `Trajectories` or `Splits`. By default those that the domain
            makes, and without a domain simulated basketball.
        styles: Names of the domain's styles, file.py:function, or functions. By default the domain's default styles.
        domain: A name, file.py:NAME or a `Domain`. By default the domain that `data` names.
        preset: The name of the settings to start from, one of `PRESETS`.
        settings: Sizes, steps and weights, instead of a preset. By default the domain's.
        test: A file or folder of test demonstrations.
        split_by: A column of the metadata (game, player) whose groups are never divided by the split.
        count: How many demonstrations a domain makes.
        classes: Classes of every style that sets no thresholds of its own.
        noise: Gaussian noise on the scores of training labels, in units of each score's deviation.
        seeds: How many seeds to train.
        first_seed: The first seed; the others follow it.
        out: A folder in which everything is saved as training proceeds; the same call resumes what was interrupted.
        progress: Shows bars and one line about what is trained.

    Returns:
        The trained run.

    Raises:
        PoiseError: Something does not exist, does not fit together, or is out of range.

    Examples:
        >>> import poise
        >>> tiny = poise.Settings(
        ...     network=poise.Network(hidden=4, layers=(4,)),
        ...     training=poise.Training(policy_steps=1, batch=4),
        ... )
        >>> run = poise.train("ctvae", styles=["speed"], count=40, settings=tiny, progress=False)
        >>> run.sample(3, {"speed": "slow"}).states.shape
        (3, 25, 2)
    """
    experiment = Experiment(
        algorithm=algorithm,
        data=data,
        styles=styles,
        domain=domain,
        preset=preset,
        settings=settings,
        test=test,
        split_by=split_by,
        count=count,
        classes=classes,
        noise=noise,
        seeds=seeds,
        first_seed=first_seed,
    )
    return train_experiments([experiment], [out], progress)[0]


def train_many(experiments: Sequence[Experiment], *, out: str | Path | None = None, progress: bool = True) -> list[Run]:
    """Trains several experiments, each as if it were alone, in as few compiled programs as possible.

    They may differ in anything. Those that agree in algorithm, network, training settings and data train as one
    program: they may differ in seeds, styles, classes, noise and weights.

    Args:
        experiments: What to train.
        out: A folder in which each has a folder of its own (000, 001, ...); the same call resumes what was interrupted.
        progress: Shows bars and one line per experiment.

    Returns:
        One run per experiment, in their order.

    Raises:
        PoiseError: As `train`.

    Examples:
        >>> import poise
        >>> tiny = poise.Settings(
        ...     network=poise.Network(hidden=4, layers=(4,)),
        ...     training=poise.Training(policy_steps=1, batch=4),
        ... )
        >>> both = [poise.Experiment("ctvae", styles=[s], count=40, settings=tiny) for s in ("speed", "curvature")]
        >>> [run.styles[0].name for run in poise.train_many(both, progress=False)]
        ['speed', 'curvature']
    """
    folders = [None if out is None else Path(out) / f"{number:03}" for number in range(len(experiments))]
    return train_experiments(experiments, folders, progress)


def train_experiments(
    experiments: Sequence[Experiment], folders: Sequence[str | Path | None], progress: bool = True
) -> list[Run]:
    """Makes experiments ready and trains them: the way that `train`, `train_many` and the command line share."""
    use_compile_cache()
    use_cpu_devices()
    return train_prepared(prepare_all(experiments, progress=progress), folders, progress=progress)


def train_prepared(
    prepared: Sequence[Prepared],
    folders: Sequence[str | Path | None] | None = None,
    *,
    begun: Sequence[Run | None] | None = None,
    progress: bool = True,
    quiet: bool = False,
) -> list[Run]:
    """Trains experiments that are ready, each as if it were alone, in as few compiled programs as possible.

    Each has a folder of its own, or none; in a folder, a finished run is loaded and an interrupted one is resumed.
    `begun`: for each a trained run of the same experiment by an algorithm whose stages are its first ones, or None.
    They are not trained again, and the result is the same. `quiet`: with bars of progress, but without a line for each
    experiment.
    """
    given = [
        None if folder is None else storage.make_folder(Path(folder)) for folder in folders or [None] * len(prepared)
    ]
    if len(given) != len(prepared):
        raise PoiseError(f"every experiment has a folder of its own, or none; got {len(prepared)} and {len(given)}")
    runs: dict[int, Run] = {}
    with contextlib.ExitStack() as stack:
        waiting: list[RunInTraining] = []
        for number, (one, folder, earlier) in enumerate(
            zip(prepared, given, begun or [None] * len(given), strict=True)
        ):
            if folder is not None:
                finished = (folder / WEIGHTS).exists()  # it is only read, and may be where nobody writes
                stack.enter_context(storage.lock(folder, needed=not finished))
                write_config(folder, one.experiment, one.styles, one.domain, one.fingerprint)
                trust.remember(folder)  # what it names was named by this user
                if (folder / WEIGHTS).exists():
                    found = load_run(folder, one.styles, one.domain, one.algorithm)
                    runs[number] = replace(found, experiment=one.experiment, _splits=one.splits)
                    continue
            if earlier is not None:
                _check_begun(one, earlier)
            waiting.append(RunInTraining(number, one, folder, earlier))
        groups = _group(waiting)
        for done, group in enumerate(groups, start=1):
            title = f"{done}/{len(groups)} " if len(groups) > 1 else ""
            try:
                trained = _train(group, progress, title, quiet)
            except KeyboardInterrupt:
                if progress and any(given):
                    tqdm.write("interrupted; the same call continues from the last checkpoint", file=sys.stderr)
                raise
            runs |= {one.number: run for one, run in zip(group, trained, strict=True)}
    return [runs[number] for number in range(len(prepared))]


def _check_begun(prepared: Prepared, earlier: Run) -> None:
    """Refuses a run that is not the beginning of an experiment: it would end as another one."""
    asked, found = prepared.experiment, replace(earlier.experiment, algorithm=prepared.experiment.algorithm)
    same = json.dumps(found.to_json()) == json.dumps(asked.to_json()) and earlier.fingerprint == prepared.fingerprint
    same &= [describe(style) for style in earlier.styles] == [describe(style) for style in prepared.styles]
    if not (same and begins_with(prepared.algorithm, earlier.algorithm)):
        raise PoiseError(
            f"{earlier!r} is not the beginning of this {prepared.experiment.algorithm_name!r}: "
            "data, styles, settings and seeds must be the same, and its stages the first ones"
        )


def _group(runs: Sequence[RunInTraining]) -> list[list[RunInTraining]]:
    """The runs that one program can train, together."""
    found: dict[Any, list[RunInTraining]] = {}
    for run in runs:
        found.setdefault(run.program, []).append(run)
    return list(found.values())


def _train(group: list[RunInTraining], progress: bool, title: str, quiet: bool) -> list[Run]:
    """Trains runs of one program as one axis."""
    first = group[0].prepared
    settings, shared = first.settings, shared_space([one.space for one in group])
    if progress and not quiet:
        for one in group:
            tqdm.write(str(one.prepared), file=sys.stderr)
    statistics = Statistics.of(first.splits.train, first.domain.actions)
    shapes: dict[Any, State] = {}
    state = jax.tree.map(
        lambda *each: jnp.concatenate(each) if eqx.is_array(each[0]) else each[0],
        *(one.resume_or_start(statistics, shared, shapes) for one in group),
    )
    sources, validation = make_sources(group, shared, progress)
    weights: dict[str, Array] = {
        name: jnp.asarray([one.prepared.settings.weights.by_name()[name] for one in group for _ in one.seeds])
        for name in settings.weights.by_name()
    }
    per_run = PerRun(weights, jnp.asarray(label_sets_of(group)[1]))
    lengths = np.asarray(first.splits.validation.lengths)[:VALIDATION_ROWS]
    per_step = PerStep(float(lengths.mean()), log_units(first.domain))
    bar = ProgressBar(f"{title}{first.experiment.algorithm_name}", progress, per_step)
    timer, turn = CheckpointTimer(), group[0].log.position.turn
    rows = _rows(group)
    with contextlib.closing(bar), Interruptible(any(one.log.folder for one in group)) as stop:
        for now in fit(first.algorithm, state, sources, validation, settings, per_run=per_run, turn=turn):
            state, turn = now.state, now.turn
            bar.show(now)
            _keep(now, group, rows, timer, stop.asked)
            stop.check()
            if not running(state).any():
                raise PoiseError(
                    f"no seed has a finite loss any more (the first stopped at {group[0].log.stopped[0]}); "
                    "try a smaller --settings.training.learning-rate in another --out"
                )
    return [one.finish(runs_of(state, its), turn) for one, its in zip(group, rows, strict=True)]


def _keep(
    now: Progress, group: list[RunInTraining], rows: list[slice], timer: CheckpointTimer, interrupted: bool
) -> None:
    """Writes metrics, and checkpoints if they are due: those of all runs at one step, so that they resume together."""
    stopped = np.asarray(now.state.stopped)
    with timer.due(force=now.step == now.last or interrupted) as due:
        kept = _on_host(now.state) if due else now.state
        for one, its in zip(group, rows, strict=True):
            for message in one.log.mark_stopped(now, stopped[its]):
                tqdm.write(message, file=sys.stderr)
            one.log.write_metrics(now, its)
            if due and now.losses:
                one.log.save(now, one.unpad(runs_of(kept, its), now.turn))


def _rows(group: list[RunInTraining]) -> list[slice]:
    """The rows of the axis of runs that belong to each."""
    ends = itertools.accumulate(len(one.seeds) for one in group)
    return [slice(end - len(one.seeds), end) for one, end in zip(group, ends, strict=True)]


def _on_host(state: State) -> State:
    """The same state in NumPy, but for its keys: there, cutting it up compiles nothing."""
    return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, Array) and not storage.is_key(x) else x, state)


def runs_of(state: State, rows: slice) -> State:
    """The state of some runs."""
    if len(state.step) == rows.stop - rows.start:
        return state
    return jax.tree.map(lambda x: x[rows] if isinstance(x, Array) else x, state)
