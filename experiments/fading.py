"""How long the gradient of the style loss is, by how much of it fades at every step back through learned dynamics.

python experiments/fading.py OUT.json RUN         (a run of ctvae-style with learned dynamics, trained)
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from poise import load_run, origin, storage
from poise.losses import Batch, style
from poise.models import LearnedDynamics
from poise.runs import Run
from poise.trajectories import Trajectories

SHARES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5, 0.0)
BATCHES = 10


def batch_of(run: Run, number: int) -> Batch:
    """As many starts as training takes, with the labels of their demonstrations."""
    count, known = run.experiment.settings.training.batch, run.starts
    rows = np.random.default_rng(number).integers(0, len(known.starts), count)
    starts, steps, actions = np.asarray(known.starts)[rows], known.steps, known.actions.shape[-1]
    states = np.repeat(starts[:, None], steps + 1, axis=1)  # of a demonstration, rollouts ask for the start alone
    shown = Trajectories(states, np.zeros((count, steps, actions), np.float32))
    labels = np.random.default_rng(number).integers(0, len(run.styles[0].classes), (count, 1)).astype(np.int32)
    return Batch(jax.tree.map(jnp.asarray, shown), jnp.asarray(labels))


def length(parts, batch: Batch, key) -> float:
    """Of the gradient of the style loss by the policy."""

    def loss(policy):
        return style({**parts, "policy": policy}, batch, key)["style"]

    return float(optax.global_norm(eqx.filter_grad(loss)(parts["policy"])))


def main(out: Path, folder: Path) -> None:
    """Measures the first seed of a run."""
    began, run, rows = time.perf_counter(), load_run(folder), {}
    parts = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, run.parts)
    for share in SHARES:
        network, known = replace(run.experiment.settings.network, fading=share), parts["dynamics"]
        empty = LearnedDynamics(known.statistics, network, key=jax.random.key(0))
        dynamics = eqx.tree_at(lambda made: made.body, empty, known.body)
        lengths = [
            length({**parts, "dynamics": dynamics}, batch_of(run, number), jax.random.key(number))
            for number in range(BATCHES)
        ]
        rows[str(share)] = {"median": statistics.median(lengths), "min": min(lengths), "max": max(lengths)}
        print(share, rows[str(share)])
    storage.write_json(out, {"batches": BATCHES, "lengths": rows, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
