"""Jobs: training an experiment to its end, with progress, metrics and checkpoints, interrupted and resumed at will."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from . import storage
from .algorithms import Problem
from .bar import Bar
from .collecting import collect
from .config import Experiment, Settings
from .cores import use_cores
from .domains import Domain, find_domain
from .errors import PoiseError
from .evaluation import check
from .files import clear_errors, make_folder
from .joining import Place, join
from .labeling import LabelSpace, label_all, label_space
from .memory import fits_on_device, total_memory
from .models import Statistics
from .pacing import Pace, Stop
from .program_cache import use_program_cache
from .records import write_config
from .runs import Run, load_run, seeds_of, write_result
from .streaming import WINDOW, Stream
from .tasks import IN_MEMORY, Task, as_style, named_domain, prepare, prepare_all
from .training import Data, Each, Progress, Source, State, begin, fit, one_run, running, start, turns
from .trajectories import Array, Splits, Trajectories
from .widening import label_sets, widened

STARTS_KEPT = 1_000
WINDOWS_IN_MEMORY = 16  # a window of streamed data is no larger than memory over this number


def train(
    algorithm: str = "ctvae-style",
    data: Any = None,
    styles: Sequence[str | Callable] = ("speed", "destination"),
    *,
    domain: str | Domain | None = None,
    settings: Settings | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    **more: Any,
) -> Run:
    """Trains a policy that can be dialled: an algorithm by name, demonstrations, styles; all seeds as one program.

    Data are the name of a domain, a path, `Trajectories` or `Splits`; without them, those that the domain makes, and
    without a domain simulated basketball. A style is a name, file.py:function, or a function.

    With `out`, everything is saved in that folder as training goes on, and the same call resumes what was interrupted.
    `more` are fields of `Experiment`: seeds, classes, test, split_by, count.
    """
    use_program_cache()
    use_cores()
    in_memory = isinstance(data, Trajectories | Splits)
    if not in_memory and not isinstance(data, str | Path | None):
        raise PoiseError(f"data are a name, a path or poise.Trajectories(states); got a {type(data).__name__}")
    styles = [style if isinstance(style, str) else as_style(style) for style in styles]
    found = find_domain(domain) if isinstance(domain, str) else domain
    named = IN_MEMORY if in_memory else str(data or (found.name if found else Experiment.data))
    found = found or named_domain(None, named)
    experiment = Experiment(
        algorithm=algorithm,
        data=named,
        domain=None if found is None or found.name == named else found.name,
        styles=tuple(style if isinstance(style, str) else style.name for style in styles),
        settings=settings or (found.settings if found else Settings()),
        **more,
    )
    return train_task(prepare(experiment, data if in_memory else None, styles, found, progress), out, progress)


def train_many(
    experiments: Sequence[Experiment],
    data: Trajectories | Splits | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
) -> list[Run]:
    """Trains several experiments, each as if it were alone, in as few compiled programs as possible.

    They may differ in anything; those that differ in seeds, styles, classes, noise and weights alone train at once.
    With `out`, each has a folder of its own there (000, 001, ...), and the same call resumes what was interrupted.
    """
    use_program_cache()
    use_cores()
    tasks = prepare_all(experiments, data, progress)
    outs = [None if out is None else Path(out) / f"{number:03}" for number in range(len(tasks))]
    return train_tasks(tasks, outs, progress)


def train_task(task: Task, out: str | Path | None = None, progress: bool = True) -> Run:
    """Trains a task, or what is left of it in the folder `out`; a task that is done already is loaded."""
    return train_tasks([task], [out], progress)[0]


def train_tasks(
    tasks: Sequence[Task],
    outs: Sequence[str | Path | None] | None = None,
    progress: bool = True,
    quiet: bool = False,
) -> list[Run]:
    """Trains many tasks, each as if it were alone, in as few compiled programs as possible.

    Tasks whose networks and steps agree train at once: they may differ in seeds, styles, classes, labels and weights.
    Each has a folder of its own, or none; in a folder, what is done is loaded and what was interrupted goes on.
    `quiet`: with bars of progress, but without a line for each task.
    """
    folders = [None if out is None else make_folder(Path(out)) for out in outs or [None] * len(tasks)]
    if len(folders) != len(tasks):
        raise PoiseError(f"every task has a folder of its own, or none; got {len(tasks)} tasks, {len(folders)} folders")
    runs: dict[int, Run] = {}
    with contextlib.ExitStack() as stack:
        waiting: list[_Job] = []
        for number, (task, folder) in enumerate(zip(tasks, folders, strict=True)):
            if folder is not None:
                stack.enter_context(storage.lock(folder))
                write_config(folder, task.experiment, task.styles, task.domain, task.fingerprint)
                if (folder / "weights.safetensors").exists():
                    (folder / "checkpoint.safetensors").unlink(missing_ok=True)
                    runs[number] = replace(load_run(folder, task.styles, task.domain), _splits=task.splits)
                    continue
            waiting.append(_Job(number, task, folder))
        groups = _group(waiting)
        for done, jobs in enumerate(groups, start=1):
            try:
                title = f"{done}/{len(groups)} " if len(groups) > 1 else ""
                trained = _train(jobs, progress, title, quiet)
            except KeyboardInterrupt:
                if progress and any(folders):
                    tqdm.write("interrupted; the same call goes on from the last checkpoint", file=sys.stderr)
                raise
            runs |= {job.number: run for job, run in zip(jobs, trained, strict=True)}
    return [runs[number] for number in range(len(tasks))]


def _group(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """The jobs that one program can train, together."""
    found: dict[Any, list[_Job]] = {}
    for job in jobs:
        found.setdefault(job.shape, []).append(job)
    return list(found.values())


def _train(jobs: list[_Job], progress: bool, title: str, quiet: bool) -> list[Run]:
    """Trains the runs of jobs of one shape as one axis."""
    task, turn = jobs[0].task, jobs[0].position[0]
    settings, algorithm = task.experiment.settings, task.algorithm
    joint, likes = join([job.space for job in jobs]), {}
    if progress and not quiet:
        for job in jobs:
            tqdm.write(str(job.task), file=sys.stderr)
    statistics = Statistics.of(task.splits.train, task.domain.actions)
    state = jax.tree.map(
        lambda *each: jnp.concatenate(each) if eqx.is_array(each[0]) else each[0],
        *(job.state(statistics, joint, likes) for job in jobs),
    )
    train, validation, wide = _data(jobs, joint)
    if progress and isinstance(train, Stream):
        tqdm.write(f"the demonstrations are streamed, in windows of {train.rows}", file=sys.stderr)
    weights: dict[str, Array] = {
        name: jnp.asarray([job.task.experiment.settings.weights.by_name()[name] for job in jobs for _ in job.seeds])
        for name in settings.weights.by_name()
    }
    each = Each(weights, jnp.asarray(_distinct(jobs)[1]))
    bar, pace = Bar(f"{title}{task.experiment.algorithm}", progress), Pace()
    ends = list(itertools.accumulate(len(job.seeds) for job in jobs))
    with contextlib.closing(bar), Stop(any(job.folder for job in jobs)) as stop:
        sources = {"wide": wide, "collect": _collector(jobs, joint)}
        for now in fit(algorithm, state, train, validation, settings, each=each, turn=turn, **sources):
            state, stopped, turn = now.state, np.asarray(now.state.stopped), now.number
            bar.show(now)
            with pace.writing(now.step == now.last or stop.asked) as due:  # all at one step, to go on together
                kept = _on_host(state) if due else state
                for job, end in zip(jobs, ends, strict=True):
                    rows = slice(end - len(job.seeds), end)
                    job.write(now, rows, stopped[rows])
                    if due and now.losses:
                        job.save(now, job.take(_runs(kept, rows), joint, now.number))
            stop.check()
            if not running(state).any():
                raise PoiseError(
                    f"no seed has a finite loss any more (the first stopped at {jobs[0].stopped[0]}); "
                    "try a smaller --settings.training.learning-rate in another --out"
                )
    slices = [slice(end - len(job.seeds), end) for job, end in zip(jobs, ends, strict=True)]
    return [job.finish(_runs(state, rows), joint, turn) for job, rows in zip(jobs, slices, strict=True)]


def _data(jobs: list[_Job], joint: LabelSpace) -> tuple[Source, Data, Source | None]:
    """What jobs of one shape train on, what they are validated on, and what their labelers see."""
    task, different = jobs[0].task, _distinct(jobs)[0]
    splits, training = task.splits, task.experiment.settings.training

    def placed(labels: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([Place(job.space, joint).labels(mine) for job, mine in zip(different, labels, strict=True)])

    def label(copies: Trajectories) -> np.ndarray:
        tasks = [job.task for job in different]
        return placed(label_sets([task.styles for task in tasks], copies, [task.noise for task in tasks]))

    def widen(demonstrations: Trajectories, labels: np.ndarray, seed: int = 0) -> tuple[Trajectories, np.ndarray]:
        return widened(demonstrations, labels, task.domain, label, training.widen, seed)

    labels = placed([job.task.labels for job in different])
    validation = Data.of(splits.validation, placed([job.validation_labels for job in different]))

    needs_wide = any(stage.wide and training.steps(stage.name) for stage in task.algorithm.stages) and training.widen
    size = (splits.train.nbytes + labels.nbytes) * (3 if needs_wide else 1)  # the copies come on top
    if splits.train.on_disk() or not fits_on_device(size):
        a_row = (splits.train.nbytes + labels.nbytes) // len(splits.train)
        rows = max(2 * training.batch, min(WINDOW, total_memory() // (WINDOWS_IN_MEMORY * a_row)))
        wide = Stream(splits.train, labels, rows, seed=1, widen=widen) if needs_wide else None
        return Stream(splits.train, labels, rows), validation, wide
    return Data.of(splits.train, labels), validation, Data.of(*widen(splits.train, labels)) if needs_wide else None


def _collector(jobs: list[_Job], joint: LabelSpace) -> Callable[[State, int], Data] | None:
    """What rolls out the policies of all runs in the real environment for a turn of training, if there is one."""
    task, (different, sets) = jobs[0].task, _distinct(jobs)
    environment = task.domain.environment or task.domain.dynamics
    if environment is None or not task.experiment.settings.training.refine_steps:
        return None
    labels = np.stack([Place(job.space, joint).labels(job.task.labels) for job in different])

    def made(state: State, turn: int) -> Data:
        keys = jax.vmap(jax.random.fold_in, (0, None))(state.key, turn)
        count, train = task.experiment.settings.training.rollouts, task.splits.train
        return Data.of(*collect(state.parts["policy"], environment, train, labels, np.asarray(sets), count, keys))

    return made


def _distinct(jobs: list[_Job]) -> tuple[list[_Job], list[int]]:
    """The jobs whose labels differ, and for each run which of them has its labels."""
    found: dict[bytes, int] = {}
    different, of_run = [], []
    for job in jobs:
        key = hashlib.sha256(np.ascontiguousarray(job.task.labels).tobytes()).digest() + repr(job.task.styles).encode()
        if key not in found:
            found[key] = len(different)
            different.append(job)
        of_run += [found[key]] * len(job.seeds)
    return different, of_run


class _Job:
    """One task on its way: where it stands, and its metrics and checkpoints in its folder."""

    def __init__(self, number: int, task: Task, folder: Path | None):
        self.number, self.task, self.folder = number, task, folder
        self.seeds = seeds_of(task.experiment)
        self.stopped: list[str | None] = [None] * len(self.seeds)
        self.began, self.earlier = time.perf_counter(), 0.0
        self.position = self._read_position()

    @property
    def shape(self) -> tuple:
        """Equal for jobs that one program can train."""
        settings = self.task.experiment.settings
        weights = tuple(settings.weights.by_name())
        shared = self.task.experiment.algorithm, settings.network, repr(settings.training), weights
        return *shared, id(self.task.splits.train), id(self.task.domain), self.position

    @property
    def space(self) -> LabelSpace:
        """The labels of its styles."""
        return label_space(self.task.styles)

    def state(self, statistics: Statistics, joint: LabelSpace, likes: dict[Any, State]) -> State:
        """The state of the last checkpoint, or one from the start, with room for the labels of others."""
        self.statistics, self.likes = statistics, likes
        turn = self.position[0] if self.position[1] else None
        if turn is None:
            own = self._made(self.space)
        else:
            assert self.folder is not None
            own = storage.read_tree(self.folder / "checkpoint.safetensors", self._like(self.space, turn))
        return Place(self.space, joint).put(own, self._like(joint, turn))

    def take(self, state: State, joint: LabelSpace, turn: int) -> State:
        """Its own state in a turn, without the room for the labels of others."""
        return Place(self.space, joint).take(state, self._like(self.space, turn if state.optimisers else None))

    def _like(self, space: LabelSpace, turn: int | None) -> State:
        """The shapes of a state, traced once for all jobs that train together and have as many seeds."""
        key = len(self.seeds), space, turn
        if key not in self.likes:
            self.likes[key] = eqx.filter_eval_shape(lambda: self._made(space, turn))
        return self.likes[key]

    def _made(self, space: LabelSpace, turn: int | None = None) -> State:
        """A new state for these labels: before any turn, or at the first step of one."""
        task, settings = self.task, self.task.experiment.settings
        problem = Problem(self.statistics, space, settings.network, task.domain)
        state = start(task.algorithm, problem, np.asarray(self.seeds))
        if turn is None:
            return state
        return begin(state, turns(task.algorithm, settings.training), turn, settings.training)

    @functools.cached_property
    def validation_labels(self) -> np.ndarray:
        """The labels of validation demonstrations."""
        return label_all(self.task.styles, self.task.splits.validation)

    def write(self, now: Progress, rows: slice, stopped: np.ndarray) -> None:
        """Keeps one chunk's figures of its own runs, and says which of them had to stop."""
        for run, step in enumerate(stopped):
            if step >= 0 and self.stopped[run] is None:
                self.stopped[run] = f"{now.stage} step {step}"
                message = f"seed {self.seeds[run]} stopped at {self.stopped[run]}: its loss is not finite"
                tqdm.write(message, file=sys.stderr)
        if self.folder is None or not now.losses:
            return
        line = {
            "stage": now.stage,
            "number": now.number,
            "step": now.step,
            "seconds": round(self.seconds, 2),
            "losses": _plain(now.losses, rows),
            "validation": _plain(now.validation, rows),
        }
        with clear_errors(self.folder / "metrics.jsonl"), open(self.folder / "metrics.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")

    def save(self, now: Progress, state: State) -> None:
        """Writes its checkpoint."""
        if self.folder is not None:
            notes = {"turn": now.number, "step": now.step, "stopped": self.stopped, "seconds": self.seconds}
            storage.write_tree(self.folder / "checkpoint.safetensors", state, notes)

    def finish(self, state: State, joint: LabelSpace, turn: int) -> Run:
        """The trained run; the seed to sample from is chosen on validation demonstrations."""
        task, labels = self.task, self.validation_labels
        kept = task.splits.validation[:STARTS_KEPT]
        starts = Trajectories(kept.states, kept.actions, kept.lengths, {"labels": labels[:STARTS_KEPT]})
        run = Run(
            experiment=task.experiment,
            domain=task.domain,
            styles=task.styles,
            parts=self.take(state, joint, turn).parts,
            starts=starts,
            stopped=tuple(self.stopped),
            best=self._best(state, starts, joint),
            seconds=self.seconds,
            fingerprint=task.fingerprint,
            folder=self.folder,
            _splits=task.splits,
        )
        if self.folder is not None:
            write_result(self.folder, run)
            (self.folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return run

    def _best(self, state: State, starts: Trajectories, joint: LabelSpace) -> int:
        """The place of the best seed; what is trained is not lost if the user's environment fails."""
        if len(self.seeds) == 1:
            return 0
        try:
            right = _joint(self.task, state, starts, Place(self.space, joint))
        except Exception as error:
            tqdm.write(f"the seeds could not be compared, so that the first one is sampled: {error}", file=sys.stderr)
            return 0
        return int(np.argmax(np.where(running(state), right, -1)))

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier sittings included."""
        return self.earlier + time.perf_counter() - self.began

    def _read_position(self) -> tuple[int, int]:
        """The turn and step of the last checkpoint; what was logged after it is forgotten, to be logged again."""
        if self.folder is None:
            return 0, 0
        path, metrics = self.folder / "checkpoint.safetensors", self.folder / "metrics.jsonl"
        if not path.exists():
            metrics.unlink(missing_ok=True)
            return 0, 0
        notes = storage.read_notes(path)
        position = notes["turn"], notes["step"]
        self.stopped, self.earlier = notes["stopped"], notes["seconds"]
        kept = []
        for line in metrics.read_text().splitlines() if metrics.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                if (entry["number"], entry["step"]) <= position:
                    kept.append(line)
        storage.write_bytes(metrics, "".join(line + "\n" for line in kept).encode())
        return position


def _on_host(state: State) -> State:
    """The same state in NumPy, but for its keys: there, cutting it up compiles nothing."""
    return jax.tree.map(lambda x: np.asarray(x) if isinstance(x, Array) and not storage.is_key(x) else x, state)


def _runs(state: State, rows: slice) -> State:
    """The state of some runs."""
    if len(state.step) == rows.stop - rows.start:
        return state
    return jax.tree.map(lambda x: x[rows] if isinstance(x, Array) else x, state)


def _joint(task: Task, state: State, starts: Trajectories, place: Place) -> np.ndarray:
    """The joint style-consistency of each seed from these starts."""
    given, key = (task.domain, task.styles, starts, starts.metadata["labels"]), jax.random.key(0)
    checked = [check(one_run(state.parts, i), *given, key, place) for i in range(task.experiment.seeds)]
    return np.asarray([one.right.all(axis=1).mean() for one in checked])


def _plain(named: dict[str, np.ndarray], rows: slice) -> dict[str, list[float | None]]:
    return {
        name: [
            float(np.format_float_positional(v, 7, fractional=False)) if np.isfinite(v) else None for v in values[rows]
        ]
        for name, values in named.items()
    }
