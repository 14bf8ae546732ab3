"""Jobs: training an experiment to its end, with progress, metrics and checkpoints, interrupted and resumed at will."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from tqdm import tqdm

from . import storage
from .algorithms import Algorithm, Problem
from .config import Experiment, Settings
from .domains import Domain, find_domain
from .errors import PoiseError
from .evaluation import check
from .labeling import label_all, label_space
from .models import Statistics
from .runs import Run, clear_errors, load_run, make_folder, seeds_of, write_config, write_result
from .tasks import IN_MEMORY, Task, as_style, named_domain, prepare
from .training import Data, Progress, State, begin, fit, make_optimiser, one_run, running, start
from .trajectories import Splits, Trajectories
from .widening import widened

SECONDS_BETWEEN_CHECKPOINTS = 5.0
STARTS_KEPT = 1_000


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


def train_task(task: Task, out: str | Path | None = None, progress: bool = True) -> Run:
    """Trains a task, or what is left of it in the folder `out`; a task that is done already is loaded."""
    if out is None:
        return _train(task, None, progress)
    folder = make_folder(Path(out))
    with storage.lock(folder):
        write_config(folder, task.experiment, task.styles, task.domain, task.fingerprint)
        if (folder / "weights.safetensors").exists():
            (folder / "checkpoint.safetensors").unlink(missing_ok=True)
            return replace(load_run(folder, task.styles, task.domain), _splits=task.splits)
        return _train(task, folder, progress)


def _train(task: Task, folder: Path | None, progress: bool) -> Run:
    settings = task.experiment.settings
    validation_labels = label_all(task.styles, task.splits.validation, progress)
    problem = Problem(Statistics.of(task.splits.train), label_space(task.styles), settings.network, task.domain)
    log = _Log(folder, task.experiment, progress)
    state, stage = log.resume(start(task.algorithm, problem, np.asarray(seeds_of(task.experiment))), task.algorithm)
    train_data = Data.of(task.splits.train, task.labels)
    validation = Data.of(task.splits.validation, validation_labels)
    wide = _wide(task) if any(one.wide for one in task.algorithm.stages) else None
    if progress:
        tqdm.write(str(task), file=sys.stderr)
    with contextlib.closing(log):
        for now in fit(task.algorithm, state, train_data, validation, settings, stage=stage, wide=wide):
            state = log.write(now)
            if not running(state).any():
                raise PoiseError(
                    f"no seed has a finite loss any more (the first stopped at {log.stopped[0]}); "
                    "try a smaller --settings.training.learning-rate in another --out"
                )
    return log.finish(task, state, validation_labels)


def _wide(task: Task) -> Data:
    """Demonstrations and perturbed copies of them, for the labeler."""
    amount = task.experiment.settings.training.widen
    return Data.of(*widened(task.splits.train, task.labels, task.domain, task.styles, amount))


class _Log:
    """Progress on the screen, metrics and checkpoints in the folder."""

    def __init__(self, folder: Path | None, experiment: Experiment, progress: bool):
        self.folder, self.experiment = folder, experiment
        self.bar, self.shown = tqdm(disable=True), progress
        self.stopped: list[str | None] = [None] * experiment.seeds
        self.began = self.saved = time.perf_counter()
        self.earlier = 0.0

    def resume(self, state: State, algorithm: Algorithm) -> tuple[State, int]:
        """The state of the last checkpoint and its stage, or the given one if there is none."""
        if self.folder is None:
            return state, 0
        path = self.folder / "checkpoint.safetensors"
        if not path.exists():
            (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return state, 0
        notes = storage.read_notes(path)
        stage = algorithm.stages[notes["stage"]]
        optimiser = make_optimiser(stage, self.experiment.settings.training)
        like = eqx.filter_eval_shape(lambda: begin(state, stage, optimiser))
        self.stopped, self.earlier = notes["stopped"], notes["seconds"]
        self._cut_metrics(notes["stage"], notes["step"])
        return storage.read_tree(path, like), notes["stage"]

    def write(self, now: Progress) -> State:
        """Shows and keeps one chunk's figures; saves the state every few seconds and at a stage's end."""
        for run, step in enumerate(np.asarray(now.state.stopped)):
            if step >= 0 and self.stopped[run] is None:
                self.stopped[run] = f"{now.stage} step {step}"
                seed = seeds_of(self.experiment)[run]
                tqdm.write(f"seed {seed} stopped at {self.stopped[run]}: its loss is not finite", file=sys.stderr)
        self._show(now)
        if self.folder is not None and now.losses:
            line = {
                "stage": now.stage,
                "number": now.number,
                "step": now.step,
                "seconds": round(self.seconds, 2),
                "losses": _plain(now.losses),
                "validation": _plain(now.validation),
            }
            with clear_errors(self.folder / "metrics.jsonl"), open(self.folder / "metrics.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")
            if now.step == now.steps or time.perf_counter() - self.saved > SECONDS_BETWEEN_CHECKPOINTS:
                notes = {"stage": now.number, "step": now.step, "stopped": self.stopped, "seconds": self.seconds}
                storage.write_tree(self.folder / "checkpoint.safetensors", now.state, notes)
                self.saved = time.perf_counter()
        return now.state

    def finish(self, task: Task, state: State, labels: np.ndarray) -> Run:
        """The trained run; the seed to sample from is chosen on validation demonstrations."""
        kept = task.splits.validation[:STARTS_KEPT]
        starts = Trajectories(kept.states, kept.actions, kept.lengths, {"labels": labels[:STARTS_KEPT]})
        joint = _joint(task, state, starts)
        run = Run(
            experiment=task.experiment,
            domain=task.domain,
            styles=task.styles,
            parts=state.parts,
            starts=starts,
            stopped=tuple(self.stopped),
            best=int(np.argmax(np.where(running(state), joint, -1))),
            seconds=self.seconds,
            fingerprint=task.fingerprint,
            folder=self.folder,
            _splits=task.splits,
        )
        if self.folder is not None:
            write_result(self.folder, run)
            (self.folder / "checkpoint.safetensors").unlink(missing_ok=True)
        return run

    def close(self) -> None:
        """Leaves the screen as it is."""
        self.bar.close()

    @property
    def seconds(self) -> float:
        """Seconds of training, earlier sittings included."""
        return self.earlier + time.perf_counter() - self.began

    def _show(self, now: Progress) -> None:
        if not now.losses:
            title = f"{self.experiment.algorithm} {now.stage} (compiling)"
            self.bar = tqdm(total=now.steps, initial=now.step, desc=title, unit="step", disable=not self.shown)
            return
        self.bar.set_description(f"{self.experiment.algorithm} {now.stage}", refresh=False)
        figures = {name: f"{_mean(values):.3g}" for name, values in now.validation.items()}
        self.bar.set_postfix(figures, refresh=False)
        self.bar.update(now.step - self.bar.n)
        if now.step == now.steps:
            self.bar.close()

    def _cut_metrics(self, stage: int, step: int) -> None:
        """Forgets what was logged after the checkpoint: it will be logged again."""
        assert self.folder is not None
        path = self.folder / "metrics.jsonl"
        kept = []
        for line in path.read_text().splitlines() if path.exists() else []:
            with contextlib.suppress(json.JSONDecodeError):
                entry = json.loads(line)
                if (entry["number"], entry["step"]) <= (stage, step):
                    kept.append(line)
        storage.write_bytes(path, "".join(line + "\n" for line in kept).encode())


def _joint(task: Task, state: State, starts: Trajectories) -> np.ndarray:
    """The joint style-consistency of each seed from these starts."""
    seeds = range(task.experiment.seeds)
    checked = [
        check(one_run(state.parts, i), task.domain, task.styles, starts, starts.metadata["labels"], jax.random.key(0))
        for i in seeds
    ]
    return np.asarray([one.right.all(axis=1).mean() for one in checked])


def _mean(values: np.ndarray) -> float:
    """The mean over the seeds that go on."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def _plain(named: dict[str, np.ndarray]) -> dict[str, list[float | None]]:
    return {
        name: [float(np.format_float_positional(v, 7, fractional=False)) if np.isfinite(v) else None for v in values]
        for name, values in named.items()
    }
