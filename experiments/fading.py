"""How long the gradient of the style loss is, by how much of it fades at every step back through learned dynamics.

python experiments/fading.py OUT.json RUN         (a run of ctvae-style with learned dynamics, trained)
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from poise import load_run, origin, storage
from poise.labeling import label_all
from poise.losses import Batch, imitation, style
from poise.models import LearnedDynamics
from poise.runs import Run

SHARES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5, 0.0)
BATCHES = 10


def batch_of(run: Run, number: int) -> Batch:
    """As many held-out demonstrations as training takes at a time, with their labels."""
    rows = np.random.default_rng(number).integers(0, len(run.starts), run.experiment.settings.training.batch)
    shown = run.starts[rows]
    return Batch(jax.tree.map(jnp.asarray, shown), jnp.asarray(label_all(run.styles, shown)))


def lengths(parts: dict[str, Any], run: Run, loss: Callable[[dict[str, Any], Batch, Any], Any]) -> dict[str, float]:
    """Of the gradient of a loss by the policy, over some batches."""
    found = []
    for number in range(BATCHES):
        given = batch_of(run, number), jax.random.key(number)
        gradient = eqx.filter_grad(lambda policy, given=given: loss({**parts, "policy": policy}, *given))
        found.append(float(optax.global_norm(gradient(parts["policy"]))))
    return {"median": statistics.median(found), "min": min(found), "max": max(found)}


def main(out: Path, folder: Path) -> None:
    """Measures the first seed of a run."""
    began, run, rows = time.perf_counter(), load_run(folder), {}
    weights, network = run.experiment.settings.weights, run.experiment.settings.network
    parts = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, run.parts)
    known = parts["dynamics"]
    for share in SHARES:
        empty = LearnedDynamics(known.statistics, replace(network, fading=share), key=jax.random.key(0))
        dynamics = eqx.tree_at(lambda made: made.body, empty, known.body)
        rows[str(share)] = lengths(
            {**parts, "dynamics": dynamics}, run, lambda *given: weights.style * style(*given)["style"]
        )
        print(share, rows[str(share)])
    beside = lengths(parts, run, lambda *given: sum(imitation(*given).values()))
    print("imitation", beside)
    about = {"batches": BATCHES, "lengths": rows, "imitation": beside}
    storage.write_json(out, {**about, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
