"""Tasks: an experiment made ready to train. Everything is checked here, before any of it costs time."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int

from .algorithms import Algorithm, find_algorithm
from .config import Experiment
from .domains import DOMAINS, Domain, find_domain, plain
from .errors import PoiseError, unknown
from .evaluation import FEW
from .labeling import LabelingFunction, classify_all, labeling_function, load_style, score_all
from .trajectories import Splits, Trajectories, in_memory, split

IN_MEMORY = "(in memory)"


@dataclass(frozen=True)
class Task:
    """An experiment made ready: its data, domain and fitted styles."""

    experiment: Experiment
    splits: Splits
    domain: Domain
    styles: tuple[LabelingFunction, ...]
    labels: Int[np.ndarray, "N M"]
    """The labels of the training demonstrations, noisy if the experiment says so."""
    noise: tuple[float, ...] = ()
    """The deviation of the noise on the scores of each style."""

    @property
    def algorithm(self) -> Algorithm:
        """The experiment's row of the table."""
        return find_algorithm(self.experiment.algorithm, self.domain)

    @property
    def dynamics_known(self) -> bool:
        """Whether there are no dynamics to learn."""
        return self.domain.dynamics is not None and self.experiment.settings.network.dynamics == "known"

    def __str__(self) -> str:
        """What is about to be trained, on one line."""
        experiment, sizes = self.experiment, [len(part) for part in self.splits]
        needless = ("dynamics", "refine") if self.dynamics_known else ()
        if not (self.domain.environment or self.domain.dynamics):
            needless = ("refine",)
        stages = {s.name: experiment.settings.training.steps(s.name) for s in self.algorithm.stages}
        steps = [f"{name} {count}" for name, count in stages.items() if count and name not in needless]
        few = " (few: figures will say little)" if min(sizes[1:]) < FEW else ""
        return (
            f"{experiment.algorithm}, {', '.join(style.name for style in self.styles)}: {sizes[0]} train, {sizes[1]} "
            f"validation, {sizes[2]} test demonstrations{few}; {self.domain.environment_text}; "
            f"{experiment.seeds} seed{'s' if experiment.seeds > 1 else ''}, steps: {', '.join(steps)}"
        )

    @cached_property
    def fingerprint(self) -> str:
        """Tells these training demonstrations from others."""
        return fingerprint(self.splits.train)


def fingerprint(demonstrations: Trajectories) -> str:
    """Tells one set of demonstrations from another."""
    digest = hashlib.sha256()
    for name in ("states", "actions", "lengths"):
        for piece in demonstrations.pieces():
            digest.update(np.ascontiguousarray(getattr(piece, name)).data)
    return digest.hexdigest()[:16]


def prepare(
    experiment: Experiment,
    data: Trajectories | Splits | None = None,
    styles: Sequence[str | Callable] | None = None,
    domain: Domain | None = None,
    progress: bool = False,
    splits: Splits | None = None,
) -> Task:
    """The experiment's data, domain, and styles fitted to its training demonstrations.

    Data, styles and a domain that are already in memory take the place of those that the experiment names; `splits` are
    its very own, made earlier.
    """
    _check_numbers(experiment)
    domain = domain or named_domain(experiment.domain, experiment.data)
    find_algorithm(experiment.algorithm, domain or Domain("data"))  # a misspelt name is told before data are read
    if splits is None:
        splits = load_splits(experiment, domain) if data is None else _split_memory(experiment, domain, data)
    name = Path(experiment.data).stem if experiment.data != IN_MEMORY else "data"
    domain = domain or plain(in_memory(splits.train), name)
    chosen = load_styles(experiment.styles if styles is None else styles, domain, experiment.classes)
    whole, rows = splits.train.whole()  # on disk, rows that follow one another are the fastest to read
    scores = score_all(chosen, whole, progress)[:, rows]
    fitted = tuple(style.fit_scores(row) for style, row in zip(chosen, scores, strict=True))
    noise = tuple(experiment.noise * float(row.std()) for row in scores)
    return Task(experiment, splits, domain, fitted, classify_all(fitted, scores, noise), noise)


def prepare_all(
    experiments: Sequence[Experiment], data: Trajectories | Splits | None = None, progress: bool = False
) -> list[Task]:
    """Each experiment made ready; those of the same data share them in memory."""
    known: dict[tuple, Task] = {}
    tasks = []
    for experiment in experiments:
        if data is not None:
            experiment = replace(experiment, data=IN_MEMORY)
        key = experiment.data, experiment.count, experiment.domain, experiment.test, experiment.split_by
        if key in known:
            same = known[key]
            task = prepare(experiment, domain=same.domain, splits=same.splits, progress=progress)
        else:
            task = known[key] = prepare(experiment, data, progress=progress)
        tasks.append(task)
    return tasks


def named_domain(domain: str | None, data: str) -> Domain | None:
    """The domain that an experiment names, or that its data belong to."""
    if domain is not None:
        return find_domain(domain)
    return DOMAINS.get(data)


def load_splits(experiment: Experiment, domain: Domain | None) -> Splits:
    """The experiment's demonstrations in three parts; those made or kept for testing are for that alone."""
    data, made_by = load_data(experiment.data, experiment.count, domain), tests_made_by(experiment, domain)
    return _split_memory(experiment, domain, data, made_by.test(len(data), 0) if made_by and made_by.test else None)


def tests_made_by(experiment: Experiment, domain: Domain | None) -> Domain | None:
    """The domain that makes the test demonstrations apart from the others, if one does: they are never trained on."""
    source = _makers(domain).get(experiment.data)
    return source if source and source.test and experiment.test is None else None


def _split_memory(
    experiment: Experiment, domain: Domain | None, data: Trajectories | Splits, test: Trajectories | None = None
) -> Splits:
    """The demonstrations in three parts, if they are of the domain."""
    domain = domain or Domain("data")
    for part in data if isinstance(data, Splits) else (data,):
        domain.check(part)
    if isinstance(data, Splits):
        for name in ("test", "split_by"):
            if getattr(experiment, name) is not None:
                raise PoiseError(f"{name} does not go with demonstrations that are split already")
        return data
    if experiment.test is not None:
        test = Trajectories.load(experiment.test)
        domain.check(test)
        test = in_memory(test)
    if test is None:
        return split(data, by=experiment.split_by)
    check_sizes(test, data)
    train, *rest = split(data, (0.9, 0.05, 0.05), by=experiment.split_by)
    held_out = [np.concatenate([getattr(part, k) for part in rest]) for k in ("states", "actions", "lengths")]
    return Splits(train, Trajectories(*held_out), test)


def _check_numbers(experiment: Experiment) -> None:
    if experiment.seeds < 1:
        raise PoiseError(f"train at least one seed; got {experiment.seeds}")
    if not 0 <= experiment.first_seed < 2**31 - experiment.seeds:
        raise PoiseError(f"seeds lie between 0 and 2^31; got {experiment.first_seed}")
    if not 0 <= experiment.noise < np.inf:
        raise PoiseError(f"noise is a deviation, 0 or above; got {experiment.noise}")
    if experiment.data == IN_MEMORY and experiment.count is not None:
        raise PoiseError("count is for domains that make their demonstrations; these are in memory")


def load_data(data: str, count: int | None = None, domain: Domain | None = None) -> Trajectories:
    """Demonstrations by name, made by their domain, or by path."""
    made_by = _makers(domain)
    if data in made_by:
        source = made_by[data]
        if source.demonstrations is None:
            raise PoiseError(
                f"the domain {data!r} makes no demonstrations of its own; give the path of an .npz or a folder"
            )
        if count is not None and count < 1:
            raise PoiseError(f"--count is at least 1; got {count}")
        return source.demonstrations(source.count if count is None else count, 0)
    if data == IN_MEMORY:
        raise PoiseError("this run was trained on demonstrations in memory; pass the ones to test on")
    if not data.endswith(".npz") and not Path(data).exists():
        raise unknown("data", data, [*made_by, "PATH.npz", "FOLDER"])
    if count is not None:
        raise PoiseError(f"count is for domains that make their demonstrations; {data} is a file")
    return Trajectories.load(data)


def _makers(domain: Domain | None) -> dict[str, Domain]:
    """The domains that data may name."""
    return {**DOMAINS, **({domain.name: domain} if domain else {})}


def as_style(style: Callable) -> LabelingFunction:
    """A labeling function as it is, or one made of a plain function; one from a module remembers its file."""
    made = style if isinstance(style, LabelingFunction) else labeling_function(style)
    if made.source is None and inspect.isfunction(made.score) and made.score.__module__ != "__main__":
        file, name = inspect.getsourcefile(made.score), made.score.__qualname__
        if file and name.isidentifier():
            return replace(made, source=f"{file}:{name}")
    return made


def load_styles(styles: Sequence[str | Callable], domain: Domain, classes: int | None) -> list[LabelingFunction]:
    """The named styles, each once, in the number of classes asked for."""
    chosen = [load_style(style, domain.styles) if isinstance(style, str) else as_style(style) for style in styles]
    names = [style.name for style in chosen]
    if not names:
        raise PoiseError("there is nothing to dial without a style; name one with --styles NAME or file.py:function")
    for name in names:
        if names.count(name) > 1:
            raise PoiseError(f"style {name!r} is given twice; give each style once")
    if classes is None:
        return chosen
    return [style if style.thresholds is not None else style.with_classes(classes) for style in chosen]


def check_sizes(test: Trajectories, known: Trajectories) -> None:
    """Refuses demonstrations whose states or actions have another size than the known ones."""
    for name in ("states", "actions"):
        expected, found = getattr(known, name).shape[-1], getattr(test, name).shape[-1]
        if expected != found:
            raise PoiseError(f"this run knows {name} of {expected} numbers; got {found}")
