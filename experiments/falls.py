"""How much of the time the Cheetah is tilted (by over 53 degrees) or upside down, by run, class and seed.

python experiments/falls.py OUT.json RUN [RUN ...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from poise import Run, ScoredRollouts, load_run
from poise.domains.cheetah import fallen, upside_down
from poise.system import provenance, storage

ROLLOUTS = 200


def labeler_estimate(run: Run, seed: int, scored: ScoredRollouts, word: str) -> float:
    """The share of rollouts that have the requested class by the labeler's estimate."""
    place = run.seeds.index(seed)
    labeler = jax.tree.map(lambda x: x[place] if eqx.is_array(x) else x, run.parts["labeler"])
    decided = labeler.space.decide(labeler(jax.tree.map(jnp.asarray, scored.rollouts)))
    return float((np.asarray(decided)[:, 0] == run.styles[0].index(word)).mean())


def count(run: Run) -> dict[str, list[dict[str, float]]]:
    """Per requested class and seed: the share of right rollouts, of steps upside down or tilted, and the estimate."""
    rows: dict[str, list[dict[str, float]]] = {}
    (style,) = run.styles
    for seed in run.seeds:
        for word in style.classes:
            scored = run.sample_scored(ROLLOUTS, {style.name: word}, seed=seed)
            states = np.asarray(scored.rollouts.states)[scored.finite]
            found = {"right": float(scored.right.mean()), "upside down": float(upside_down(states[:, 1:]).mean())}
            found["tilted"] = float(fallen(states[:, 1:]).mean())
            rows.setdefault(word, []).append({**found, "labeler_estimate": labeler_estimate(run, seed, scored, word)})
            print(seed, word, rows[word][-1])
    return rows


def main(out: Path, folders: list[Path]) -> None:
    """Counts for each run, from held-out starts, and writes the results."""
    began, found = time.perf_counter(), []
    for folder in folders:
        run = load_run(folder)
        settings = run.experiment.settings
        assert settings is not None
        about = {"run": folder.name, "style": run.styles[0].name, "weight": settings.weights.style}
        found.append({**about, "classes": count(run)})
    storage.write_json(out, {"rollouts": ROLLOUTS, "runs": found, **provenance.provenance(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
