"""A study: every cell of some tables, trained many at a time, each saved as soon as it is measured."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from .. import config
from ..algorithms import ALGORITHMS, begins_with
from ..config import Settings
from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import Domain, find_domain
from ..errors import PoiseError
from ..evaluation.report import Report
from ..runs.evaluating import evaluate_all
from ..runs.experiment import Experiment
from ..runs.folder import describe
from ..runs.load import load_run
from ..runs.prepare import Prepared, fingerprint, load_splits, prepare_all
from ..runs.run import Run
from ..runs.train import train_prepared
from ..styles.label_spaces import LabelSpace, shared_space
from ..styles.labeling_functions import label_space
from ..styles.scoring import label_all
from ..system import provenance, storage
from ..system.storage import make_folder
from .cells import SETUPS, Cell, experiment_of_all, name_among, program_of
from .grid import Table, of_domain

FORMAT = 1
EVALUATED_AT_ONCE = 9  # cells: their measures of realism share what they can, and are saved together


class Trained(NamedTuple):
    """Cells that one program trained."""

    cells: list[Cell]
    prepared: list[Prepared]
    runs: list[Run]
    space: LabelSpace
    """The label space that they share, so that one program evaluates all of them."""
    seeds: int
    """Seeds of all runs together."""


@dataclass(frozen=True)
class Study:
    """A folder with the cells of some tables: `cells/NAME.json` is what was measured, `runs/NAME` what was trained."""

    folder: Path
    shared: Experiment
    """What all experiments have in common: data, seeds, settings."""
    fingerprints: tuple[str, ...] = ()
    """Of the training and the test demonstrations."""
    rollouts: int = 4_000
    """Rollouts per seed."""
    splits: Splits | None = field(default=None, repr=False, compare=False)
    """The demonstrations; read once for all cells."""

    @property
    def domain(self) -> Domain:
        """The domain of all cells."""
        found = self.shared.find_domain()
        assert found is not None
        return found

    @staticmethod
    def open(
        folder: str | Path,
        data: str | None = None,
        test: str | None = None,
        seeds: int = 5,
        quick: bool = False,
        split_by: str | None = None,
        domain: str = "basketball",
    ) -> Study:
        """Opens the study in a folder, or begins one.

        Args:
            folder: Where the study is, or will be.
            data: The path of demonstrations; by default those that the domain makes. Demonstrations with a column
                `game` are split by game unless `split_by` says otherwise.
            test: The path of test demonstrations.
            seeds: Seeds per cell.
            quick: Small networks, few demonstrations and a quarter of the rollouts.
            split_by: A column whose groups are never divided by the split.
            domain: The domain of the tables.

        Raises:
            PoiseError: If the data cannot be read, or the folder holds a study with other data or settings.
        """
        setup, found = SETUPS[domain], find_domain(domain)
        shared = Experiment(
            data=domain,
            test=test,
            seeds=seeds,
            settings=setup.quick if quick else setup.settings,
            split_by=split_by,
            count=setup.quick_count if quick and data is None else None,
        )
        splits = None
        if data is not None:
            loaded = Trajectories.load(data)
            by = split_by or ("game" if "game" in loaded.metadata else None)
            shared = replace(shared, data=data, domain=domain, split_by=by)
            splits = load_splits(replace(shared, data=loaded), found)
        splits = splits or load_splits(shared, found)
        study = Study(
            folder=make_folder(Path(folder)),
            shared=shared,
            fingerprints=tuple(fingerprint(part) for part in (splits.train, splits.test)),
            rollouts=found.rollouts // 4 if quick else found.rollouts,
            splits=splits,
        )
        study._check_folder()
        storage.write_json(study.folder / "study.json", {**study.about(), "command": provenance.command()})
        return study

    def _check_folder(self) -> None:
        """Raises an error if the folder holds another study."""
        path = self.folder / "study.json"
        if not path.exists():
            return
        old, new = storage.read_json(path), json.loads(json.dumps(self.about()))
        old["settings"] = config.fill(Settings, old["settings"])
        for key in new:
            if old.get(key) != new[key]:
                raise PoiseError(
                    f"{self.folder} holds another study ({key}: {old.get(key)}, not {new[key]}); choose another --out"
                )

    def about(self) -> dict[str, Any]:
        """What sets this study apart from others. Data may be moved between two sittings, but not changed."""
        return {
            "format": FORMAT,
            "data": Path(str(self.shared.data)).name,
            "test": self.shared.test and Path(self.shared.test).name,
            "count": self.shared.count,
            "split_by": self.shared.split_by,
            "fingerprints": list(self.fingerprints),
            "seeds": self.shared.seeds,
            "rollouts": self.rollouts,
            "settings": config.to_json(self.shared.settings),
        }

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What was measured for a cell, or None."""
        path = self.folder / "cells" / f"{cell.name}.json"
        return storage.read_json(path) if path.exists() else None

    def results(self) -> dict[str, dict[str, Any]]:
        """Everything that was measured, by the name of the cell."""
        return {path.stem: storage.read_json(path) for path in sorted((self.folder / "cells").glob("*.json"))}

    def run(self, cell: Cell) -> Run | None:
        """The trained run of a cell, or None."""
        folder = self._run_folder(cell)
        if not (folder / "weights.safetensors").exists():
            return None
        found = load_run(folder)
        return _dialled_as(found, cell) if _answers_all(cell) else found

    def _run_folder(self, cell: Cell) -> Path:
        return self.folder / "runs" / (cell.algorithm if _answers_all(cell) else cell.name)

    def _begun(self, cell: Cell) -> Run | None:
        """A trained run of the same cell whose stages are the first ones of this cell's algorithm, if there is one."""
        whole = ALGORITHMS[cell.algorithm]
        others = [replace(cell, algorithm=name) for name, one in ALGORITHMS.items() if begins_with(whole, one)]
        folders = [folder for folder in map(self._run_folder, others) if (folder / "weights.safetensors").exists()]
        return load_run(folders[0]) if folders else None

    def missing(self, tables: Iterable[Table], algorithms: tuple[str, ...] = ()) -> list[list[Cell]]:
        """The cells that are not measured yet, in groups that one program trains; all algorithms if none is named."""
        wanted = {cell for table in tables for _, _, cell in table.cells()}
        wanted = [cell for cell in wanted if not algorithms or cell.algorithm in algorithms]
        left = sorted((cell for cell in wanted if self.result(cell) is None), key=lambda cell: cell.name)
        groups = itertools.groupby(sorted(left, key=program_of), program_of)
        return [list(group) for _, group in groups]

    def fill(self, tables: Iterable[Table], algorithms: tuple[str, ...] = (), progress: bool = True) -> None:
        """Trains and measures every cell that is missing."""
        tables = list(tables)
        wanted = len({cell for table in tables for _, _, cell in table.cells()})
        done = wanted - sum(map(len, self.missing(tables)))
        groups = self.missing(tables, algorithms)
        for number, group in enumerate(groups, start=1):
            if progress:
                title = f"{done} of {wanted} cells are done; program {number} of {len(groups)}, {group[0].algorithm}:"
                runs = 1 if _answers_all(group[0]) else len(group)
                tqdm.write(f"{title} {len(group)} cells, {runs * self.shared.seeds} runs at once", file=sys.stderr)
            for _ in self.measure(self.train(group, progress)):
                done += 1

    def train(self, group: Sequence[Cell], progress: bool = True) -> Trained:
        """Trains the cells of one program; what a folder holds already is loaded."""
        trained = group[:1] if _answers_all(group[0]) else group
        ready = prepare_all([self._experiment(cell) for cell in trained], splits=self.splits, progress=progress)
        folders, begun = [self._run_folder(cell) for cell in trained], [self._begun(cell) for cell in trained]
        runs = train_prepared(ready, folders, begun=begun, progress=progress, quiet=True)
        space, seeds = shared_space([label_space(run.styles) for run in runs]), len(runs) * self.shared.seeds
        if len(runs) < len(group):  # one run answers for all cells
            ready, runs = ready * len(group), [_dialled_as(runs[0], cell) for cell in group]
        return Trained(list(group), ready, runs, space, seeds)

    def measure(self, trained: Trained) -> Iterator[Cell]:
        """Measures trained cells, some at once; yields each when it is saved."""
        for first in range(0, len(trained.cells), EVALUATED_AT_ONCE):
            rows = slice(first, first + EVALUATED_AT_ONCE)
            reports = evaluate_all(trained.runs[rows], rollouts=self.rollouts, shared=trained.space)
            for cell, prepared, report in zip(trained.cells[rows], trained.prepared[rows], reports, strict=True):
                result = _cell_result(cell, prepared, report, trained.seeds)
                storage.write_json(make_folder(self.folder / "cells") / f"{cell.name}.json", result)
                yield cell

    def _experiment(self, cell: Cell) -> Experiment:
        """The experiment that is trained for a cell; where one run answers for all cells, in the styles of all."""
        if not _answers_all(cell):
            return cell.experiment(self.shared)
        tables = of_domain(self.domain.name).values()
        alike = {one for table in tables for _, _, one in table.cells() if program_of(one) == program_of(cell)}
        return experiment_of_all(sorted(alike, key=lambda one: one.name), self.shared, self.domain.styles)


def _answers_all(cell: Cell) -> bool:
    """Whether one run answers for all cells of the algorithm: where it can leave styles free."""
    return ALGORITHMS[cell.algorithm].steered


def _dialled_as(run: Run, cell: Cell) -> Run:
    """A run in the styles of all cells, dialled by those of one cell, which have the names of that cell."""
    found = run.only([name_among(style, cell.classes) for style in cell.styles])
    return replace(found, styles=tuple(replace(x, name=n) for x, n in zip(found.styles, cell.styles, strict=True)))


def _cell_result(cell: Cell, prepared: Prepared, report: Report, runs: int) -> dict[str, Any]:
    """The content of a cell's file."""
    scores = [score.to_json() for score in report.algorithms[cell.algorithm]]
    scores = [{**score, **(score.get("measures") or {})} for score in scores]
    if cell.dynamics != "known":  # its policy is not trained
        scores = [{key: score[key] for key in ("seed", "stopped", "dynamics_error")} for score in scores]
    return {
        "cell": config.to_json(cell),
        "seeds": scores,
        "styles": report.about["styles"],
        "base_rate": report.about["base_rate"],
        "realism": report.about["realism"],
        "disagreement": _disagreement(prepared),
        "train": len(prepared.splits.train),
        "test": report.about["test"],
        "steps": prepared.splits.test.steps,
        "runs_in_program": runs,
        "trained_in": [describe(style) for style in prepared.styles] if _answers_all(cell) else None,
        **report.provenance,
    }


def _disagreement(prepared: Prepared) -> float:
    """The share of training demonstrations whose noisy label differs from the true one in any style."""
    if not any(prepared.noise):
        return 0.0
    true = label_all(prepared.styles, prepared.splits.train)
    noisy = label_space(prepared.styles).classes_of(prepared.labels)
    return round(float(np.not_equal(true, noisy).any(axis=1).mean()), 4)
