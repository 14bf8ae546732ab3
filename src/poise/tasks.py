"""Tasks: an experiment made ready to train. Everything is checked here, before any of it costs time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .algorithms import Algorithm, find_algorithm
from .config import Experiment
from .domains import DOMAINS, Domain, find_domain, plain
from .errors import PoiseError, unknown
from .labeling import LabelingFunction, load_style
from .trajectories import Splits, Trajectories, split

IN_MEMORY = "(in memory)"


@dataclass(frozen=True)
class Task:
    """An experiment made ready: its data, domain and fitted styles."""

    experiment: Experiment
    splits: Splits
    domain: Domain
    styles: tuple[LabelingFunction, ...]

    @property
    def algorithm(self) -> Algorithm:
        """The experiment's row of the table."""
        return find_algorithm(self.experiment.algorithm, self.domain)

    @property
    def fingerprint(self) -> str:
        """Tells one set of training demonstrations from another."""
        digest = hashlib.sha256()
        for array in (self.splits.train.states, self.splits.train.actions, self.splits.train.lengths):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def prepare(
    experiment: Experiment,
    data: Trajectories | Splits | None = None,
    styles: Sequence[str | LabelingFunction] | None = None,
    domain: Domain | None = None,
    progress: bool = False,
) -> Task:
    """The experiment's data, domain, and styles fitted to its training demonstrations.

    Data, styles and a domain that are already in memory take the place of those that the experiment names.
    """
    if experiment.seeds < 1:
        raise PoiseError(f"train at least one seed; got {experiment.seeds}")
    domain = domain or named_domain(experiment.domain, experiment.data)
    find_algorithm(experiment.algorithm, domain or Domain("data"))  # a misspelt name is told before data are read
    splits = load_splits(experiment) if data is None else data
    if isinstance(splits, Trajectories):
        splits = split(splits, by=experiment.split_by)
    domain = domain or plain(splits.train, Path(experiment.data).stem if experiment.data != IN_MEMORY else "data")
    chosen = [
        s if isinstance(s, LabelingFunction) else load_style(s, domain.styles) for s in styles or experiment.styles
    ]
    names = [style.name for style in chosen]
    for name in names:
        if names.count(name) > 1:
            raise PoiseError(f"style {name!r} is given twice; give each style once")
    if not names:
        raise PoiseError("there is nothing to dial without a style; name one with --styles")
    if experiment.classes is not None:
        chosen = [s if s.thresholds is not None else s.with_classes(experiment.classes) for s in chosen]
    return Task(experiment, splits, domain, tuple(style.fit(splits.train, progress) for style in chosen))


def named_domain(domain: str | None, data: str) -> Domain | None:
    """The domain that an experiment names, or that its data belong to."""
    if domain is not None:
        return find_domain(domain)
    return DOMAINS.get(data)


def load_splits(experiment: Experiment) -> Splits:
    """The experiment's demonstrations: made by a domain or read from a path; a test file is kept for testing alone."""
    if experiment.data in DOMAINS:
        source = DOMAINS[experiment.data]
        assert source.demonstrations is not None
        demonstrations = source.demonstrations(experiment.count or source.count, 0)
    elif experiment.data == IN_MEMORY:
        raise PoiseError("this run was trained on demonstrations in memory; pass the ones to test on")
    elif not experiment.data.endswith(".npz") and not Path(experiment.data).exists():
        raise unknown("data", experiment.data, [*DOMAINS, "PATH.npz"])
    else:
        demonstrations = Trajectories.load(experiment.data)
    if experiment.test is None:
        return split(demonstrations, by=experiment.split_by)
    test = Trajectories.load(experiment.test)
    check_sizes(test, demonstrations)
    train, *rest = split(demonstrations, (0.9, 0.05, 0.05), by=experiment.split_by)
    held_out = [np.concatenate([getattr(part, k) for part in rest]) for k in ("states", "actions", "lengths")]
    return Splits(train, Trajectories(*held_out), test)


def check_sizes(test: Trajectories, known: Trajectories) -> None:
    """Refuses demonstrations whose states or actions have another size than the known ones."""
    for name in ("states", "actions"):
        expected, found = getattr(known, name).shape[-1], getattr(test, name).shape[-1]
        if expected != found:
            raise PoiseError(f"this run knows {name} of {expected} numbers; got {found}")
