"""The norm of the style loss's gradient, by how much it decays per step back through learned dynamics.

python experiments/gradient_decay.py OUT.json RUN         (a run of ctvae-style with learned dynamics, trained)
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

from poise import Run, load_run
from poise.data.batches import Batch
from poise.losses import imitation, style
from poise.models import LearnedDynamics
from poise.styles.scoring import label_all
from poise.system import provenance, storage

SHARES = (1.0, 0.98, 0.95, 0.9, 0.8, 0.5, 0.0)
BATCHES = 10


def batch_of(run: Run, number: int) -> Batch:
    """One batch of held-out demonstrations, with their labels."""
    assert run.experiment.settings is not None
    rows = np.random.default_rng(number).integers(0, len(run.starts), run.experiment.settings.training.batch)
    chosen = run.starts[rows]
    return Batch(jax.tree.map(jnp.asarray, chosen), jnp.asarray(label_all(run.styles, chosen)))


def lengths(parts: dict[str, Any], run: Run, loss: Callable[[dict[str, Any], Batch, Any], Any]) -> dict[str, float]:
    """The norm of the gradient of a loss with respect to the policy, over some batches."""
    found = []
    for number in range(BATCHES):
        given = batch_of(run, number), jax.random.key(number)
        gradient = eqx.filter_grad(lambda policy, given=given: loss({**parts, "policy": policy}, *given))
        found.append(float(optax.global_norm(gradient(parts["policy"]))))
    return {"median": statistics.median(found), "min": min(found), "max": max(found)}


def main(out: Path, folder: Path) -> None:
    """Measures the first seed of a run and writes the results."""
    began, run, rows = time.perf_counter(), load_run(folder), {}
    settings = run.experiment.settings
    assert settings is not None
    parts = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, run.parts)
    known = parts["dynamics"]
    for share in SHARES:
        empty = LearnedDynamics(
            known.statistics, replace(settings.network, gradient_decay=share), key=jax.random.key(0)
        )
        dynamics = eqx.tree_at(lambda made: made.body, empty, known.body)
        rows[str(share)] = lengths(
            {**parts, "dynamics": dynamics}, run, lambda *given: settings.weights.style * style(*given)["style"]
        )
        print(share, rows[str(share)])
    baseline = lengths(parts, run, lambda *given: sum(imitation(*given).values()))
    print("imitation", baseline)
    about = {"batches": BATCHES, "lengths": rows, "imitation": baseline}
    storage.write_json(out, {**about, **provenance.provenance(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
