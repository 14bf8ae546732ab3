"""Training and scoring all cells of some tables: many at once, each saved when it is done, continued at will."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import config, origin, storage
from ..config import Experiment, Settings
from ..domains import Domain, find_domain
from ..errors import PoiseError
from ..files import make_folder
from ..jobs import train_tasks
from ..joining import join
from ..labeling import label_all, label_space
from ..runs import Run, load_run
from ..tasks import Task, fingerprint, load_splits, prepare_all
from ..trajectories import Trajectories
from . import grid
from .grid import Cell, Table

FORMAT = 1


@dataclass(frozen=True)
class Study:
    """A folder with the cells of some tables: `cells/NAME.json` what was measured, `runs/NAME` what was trained."""

    folder: Path
    like: Experiment
    """What all experiments have in common: data, seeds, settings."""
    fingerprints: tuple[str, ...] = ()
    """Of the demonstrations to train on and to test on."""
    rollouts: int = 4_000

    @property
    def domain(self) -> Domain:
        """Where its demonstrations come from."""
        return find_domain(self.like.domain or self.like.data)

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
        """The study in a folder, new or to be continued; without data, on those that the domain makes.

        Data that name the game of each row are split by game, if nothing else is asked for.
        """
        setup = grid.SETUPS[domain]
        rollouts = find_domain(domain).rollouts
        settings, rollouts = (setup.quick, rollouts // 4) if quick else (setup.settings, rollouts)
        like = Experiment(data=domain, test=test, seeds=seeds, settings=settings, split_by=split_by)
        if data is not None:
            by = split_by or ("game" if "game" in Trajectories.load(data).metadata else None)
            like = replace(like, data=data, domain=domain, split_by=by)
        elif quick:
            like = replace(like, count=setup.few)
        splits = load_splits(like, find_domain(domain))  # what is wrong is told before anything is written
        known = tuple(fingerprint(part) for part in (splits.train, splits.test))
        study = Study(make_folder(Path(folder)), like, known, rollouts)
        path, about = study.folder / "study.json", json.loads(json.dumps(study.about()))
        if path.exists():
            old = storage.read_json(path)
            old["settings"] = config.fill(Settings, old["settings"])
            for key in about:
                if old.get(key) != about[key]:
                    raise PoiseError(
                        f"{folder} holds another study ({key}: {old.get(key)}, not {about[key]}); choose another --out"
                    )
        storage.write_json(path, {**about, "command": origin.command()})
        return study

    def about(self) -> dict[str, Any]:
        """What makes it this study, and no other; data may lie elsewhere the next time, but must be the same."""
        return {
            "format": FORMAT,
            "data": Path(self.like.data).name,
            "test": self.like.test and Path(self.like.test).name,
            "count": self.like.count,
            "split_by": self.like.split_by,
            "fingerprints": list(self.fingerprints),
            "seeds": self.like.seeds,
            "rollouts": self.rollouts,
            "settings": config.to_json(self.like.settings),
        }

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What was measured for a cell, if it was."""
        path = self.folder / "cells" / f"{cell.name}.json"
        return storage.read_json(path) if path.exists() else None

    def run(self, cell: Cell) -> Run | None:
        """The trained run of a cell, if it is here."""
        folder = self.folder / "runs" / cell.name
        return load_run(folder) if (folder / "weights.safetensors").exists() else None

    def results(self) -> dict[str, dict[str, Any]]:
        """All that was measured, by the name of a cell."""
        return {path.stem: storage.read_json(path) for path in sorted((self.folder / "cells").glob("*.json"))}

    def missing(self, tables: Iterable[Table], algorithms: tuple[str, ...] = ()) -> list[list[Cell]]:
        """The cells that are not measured yet, those that one program trains together."""
        wanted = {cell for table in tables for _, _, cell in table.cells()}
        wanted = [cell for cell in wanted if not algorithms or cell.algorithm in algorithms]
        left = sorted((cell for cell in wanted if self.result(cell) is None), key=lambda cell: cell.name)
        groups = itertools.groupby(sorted(left, key=grid.same_program), grid.same_program)
        return [list(group) for _, group in groups]

    def fill(self, tables: Iterable[Table], algorithms: tuple[str, ...] = (), progress: bool = True) -> None:
        """Trains and scores every cell that is missing."""
        tables = list(tables)
        wanted = len({cell for table in tables for _, _, cell in table.cells()})
        done = wanted - sum(map(len, self.missing(tables)))
        groups = self.missing(tables, algorithms)
        for number, group in enumerate(groups, start=1):
            if progress:
                said = f"{done} of {wanted} cells are done; program {number} of {len(groups)}, {group[0].algorithm}:"
                runs = len(group) * self.like.seeds
                tqdm.write(f"{said} {len(group)} cells, {runs} runs at once", file=sys.stderr)
            for cell, result in self._measure(group, progress):
                storage.write_json(make_folder(self.folder / "cells") / f"{cell.name}.json", result)
                done += 1

    def _measure(self, group: list[Cell], progress: bool) -> Iterator[tuple[Cell, dict[str, Any]]]:
        tasks = prepare_all([cell.experiment(self.like) for cell in group], progress=progress)
        runs = train_tasks(tasks, [self.folder / "runs" / cell.name for cell in group], progress, quiet=True)
        joint = join([label_space(run.styles) for run in runs])
        for cell, task, run in zip(group, tasks, runs, strict=True):
            report = run.evaluate(rollouts=self.rollouts, joint=joint)
            scores = [score.to_json() for score in report.algorithms[cell.algorithm]]
            if cell.dynamics != "known":  # its policy is not trained
                scores = [{key: score[key] for key in ("seed", "stopped", "dynamics_error")} for score in scores]
            yield (
                cell,
                {
                    "cell": config.to_json(cell),
                    "seeds": scores,
                    "styles": report.about["styles"],
                    "base_rate": report.about["base_rate"],
                    "disagreement": _disagreement(task),
                    "train": len(task.splits.train),
                    "test": report.about["test"],
                    "steps": task.splits.test.steps,
                    "runs_in_program": len(group) * self.like.seeds,
                    **report.origin,
                },
            )


def _disagreement(task: Task) -> float:
    """The share of training demonstrations whose noisy label is not the true one, in any style."""
    if not any(task.noise):
        return 0.0
    true = label_all(task.styles, task.splits.train)
    return round(float(np.not_equal(true, task.labels).any(axis=1).mean()), 4)
