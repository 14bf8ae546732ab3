"""The hardest cell of the paper, five styles of four classes at once, with realism and verified rollouts.

Trains it for some algorithms and writes ALGORITHM.json for each as soon as it is measured; then times 100,000 verified
rollouts of the flow. `experiments/merge_cells.py` puts the files into results/basketball/paper.json.

    python experiments/joint_cell.py --data players_train.npz --test players_test.npz --out cells
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from poise.reproduce.cells import STYLES, Cell
from poise.reproduce.grid import Table
from poise.reproduce.study import Study
from poise.rollouts.requests import Request
from poise.styles.scoring import label_all
from poise.system import provenance, storage

CELL = Cell("", STYLES, classes=4)
COUNT = 100_000


def time_verified(study: Study) -> dict:
    """How long 100,000 verified rollouts of the flow take: with compilation, and again."""
    run = study.run(replace(CELL, algorithm="flow"))
    assert run is not None
    test, seed, seconds = run.splits().test, run.trained(None)(0), []
    request = Request.like(test, label_all(run.styles, test)).rows(np.resize(np.arange(len(test)), COUNT))
    for draw in range(2):
        began = time.perf_counter()
        seed.score_verified(request, jax.random.key(draw), run.sampling())
        seconds.append(round(time.perf_counter() - began, 2))
    return {"rollouts": COUNT, "seconds": seconds, "train_seconds": run.seconds}


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--algorithms", nargs="+", default=["flow", "ctvae", "ctvae-style"])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    study = Study.open(given.out / "study", given.data, given.test, given.seeds)
    for algorithm in given.algorithms:
        cell = replace(CELL, algorithm=algorithm)
        study.fill([Table(algorithm, {"5x4": CELL}, (algorithm,))], (algorithm,))
        storage.write_json(given.out / f"{algorithm}.json", study.result(cell))
    if "flow" in given.algorithms:
        began = time.perf_counter()
        found = time_verified(study)
        storage.write_json(given.out / "verified.json", {**found, **provenance.provenance(time.perf_counter() - began)})


if __name__ == "__main__":
    main()
