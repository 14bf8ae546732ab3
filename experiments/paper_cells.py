"""The paper's cells of a domain for some algorithms, on an accelerator that is lent for minutes.

As `poise reproduce`, but without checkpoints, which would take longer than the training, and measuring one algorithm
while the next is trained. A call that is cut keeps what was trained and measured, and the same call continues. Once the
flow is trained it times 100,000 verified rollouts for five styles of four classes, before anything else shares the
device. `experiments/merge_cells.py` puts the files into the domain's paper.json.

    python experiments/paper_cells.py --data players_train.npz --test players_test.npz --out cells
    python experiments/paper_cells.py --domain cheetah --algorithms flow ctvae-style ctvae --out cells
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import poise
from poise.evaluation.evaluate import draw_starts
from poise.evaluation.realism import RolloutSet
from poise.evaluation.scored import out_of_range
from poise.reproduce.cells import STYLES, Cell
from poise.reproduce.grid import TABLES, Table
from poise.reproduce.study import Study, Trained
from poise.rollouts.requests import Request
from poise.runs.evaluating import find_reference
from poise.styles.scoring import label_all
from poise.system import provenance, storage
from poise.system.interrupts import CheckpointTimer

NAMES = {
    "basketball": ("single-styles", "displacement", "destination", "joint"),
    "cheetah": ("cheetah-single-styles", "cheetah-speed", "cheetah-joint"),
}
JOINT = Cell("flow", STYLES, classes=4)
COUNT = 100_000
TRIES = 32


@contextlib.contextmanager
def never(self: CheckpointTimer, force: bool) -> Iterator[bool]:
    """Checkpoints are never due."""
    yield False


def time_verified(run: poise.Run) -> dict:
    """How long 100,000 verified rollouts of the flow take: with compilation, and again."""
    test, seed, seconds, found = run.splits().test, run.trained(None)(0), [], []
    request = Request.like(test, label_all(run.styles, test)).rows(np.resize(np.arange(len(test)), COUNT))
    for draw in range(2):
        began = time.perf_counter()
        found.append(seed.score_verified(request, jax.random.key(draw), run.sampling()))
        seconds.append(round(time.perf_counter() - began, 2))
    accepted = [round(float(np.mean(one.accepted)), 5) for one in found]
    return {"rollouts": COUNT, "seconds": seconds, "accepted": accepted}


def unsteered_verified(run: poise.Run, rollouts: int) -> list[dict]:
    """Each seed neither guided nor steered, but verified."""
    test, rows = run.splits().test, draw_starts(len(run.splits().test), rollouts, 0)[0]
    request = Request.like(test[rows], label_all(run.styles, test)[rows])
    sampling = replace(run.sampling(), strength=0.0, guidance=1.0, tries=TRIES)
    seeds = [run.trained(None)(i) for i in range(len(run.seeds))]
    found = [seed.score_verified(request, jax.random.key(seed.seed), sampling) for seed in seeds]
    reference = find_reference(run, test)
    assert reference is not None
    real = reference.measure([RolloutSet(one.rollouts, one.joint, rows, one.finite) for one in found])
    return [
        {
            "seed": seed.seed,
            "joint": round(float(one.joint.mean()), 4),
            "joint_in_range": round(float((one.joint & ~out_of_range(one, test)).mean()), 4),
            **each.to_json(),
            "tries": round(float(np.mean(one.tries)), 4),
            "never": round(float(1 - np.mean(one.accepted)), 4),
        }
        for seed, one, each in zip(seeds, found, real, strict=True)
    ]


def _time(trained: Trained, out: Path) -> None:
    """Writes verified.json, once."""
    path, began = out / "verified.json", time.perf_counter()
    if path.exists() or JOINT not in trained.cells:
        return
    run = trained.runs[trained.cells.index(JOINT)]
    found = {**time_verified(run), "train_seconds": round(run.seconds, 1), "seeds": len(run.seeds)}
    storage.write_json(path, provenance.provenance(time.perf_counter() - began) | found)  # seconds: of the rollouts


def _measure_unsteered(trained: Trained, rollouts: int, out: Path) -> None:
    """Adds the flow that is verified but not steered to verified.json, once."""
    path = out / "verified.json"
    found = storage.read_json(path) if path.exists() else {"unsteered": []}
    if JOINT in trained.cells and "unsteered" not in found:
        run = trained.runs[trained.cells.index(JOINT)]
        storage.write_json(path, {**found, "unsteered": unsteered_verified(run, rollouts), "tries": TRIES})


def fill(study: Study, tables: list[Table], algorithms: list[str], until: float) -> None:
    """Trains one algorithm after the other, while the one before is measured; none is begun after so many seconds."""
    began, waiting = time.perf_counter(), list[Future]()

    def say(*words: object) -> None:
        print(f"{time.perf_counter() - began:6.1f} s", *words, flush=True)

    def measure(trained: Trained) -> None:
        for cell in study.measure(trained):
            say("measured", cell.name)
        _measure_unsteered(trained, study.rollouts, study.folder)

    with ThreadPoolExecutor(1) as pool:
        for algorithm in algorithms:
            for group in study.missing(tables, (algorithm,)):
                if time.perf_counter() - began > until:
                    return say("no time is left for", algorithm)
                trained = study.train(group)
                say("trained", algorithm, f"{trained.runs[0].seconds:.1f} s")
                _time(trained, study.folder)
                waiting.append(pool.submit(measure, trained))
        for each in waiting:
            each.result()
    say("done")


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", choices=list(NAMES), default="basketball")
    parser.add_argument("--data", help="demonstrations; those that the domain makes if not given")
    parser.add_argument("--test")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--algorithms", nargs="+", default=["flow", "flow-style", "ctvae", "ctvae-style"])
    parser.add_argument("--until", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    CheckpointTimer.due = never
    study = Study.open(given.out, given.data, given.test, given.seeds, domain=given.domain)
    tables = [TABLES[name] for name in given.tables or NAMES[given.domain]]
    fill(study, tables, given.algorithms, given.until)


if __name__ == "__main__":
    main()
