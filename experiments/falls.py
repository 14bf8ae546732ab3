"""How much of the time Cheetahs are tilted (by over 53 degrees) or on their back, by run, class and seed.

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

from poise import load_run, origin, storage
from poise.domains.cheetah import fallen, upside_down
from poise.evaluation import Checked
from poise.runs import Run, seeds_of

ROLLOUTS = 200


def believed(run: Run, seed: int, made: Checked, word: str) -> float:
    """The share of rollouts that the labeler takes for what was asked for."""
    place = seeds_of(run.experiment).index(seed)
    labeler = jax.tree.map(lambda x: x[place] if eqx.is_array(x) else x, run.parts["labeler"])
    decided = labeler.space.decide(labeler(jax.tree.map(jnp.asarray, made.rollouts)))
    return float((np.asarray(decided)[:, 0] == run.styles[0].index(word)).mean())


def count(run: Run) -> dict[str, list[dict[str, float]]]:
    """For each class that is asked for, and each seed: rollouts that are right, steps on its back, what is believed."""
    rows: dict[str, list[dict[str, float]]] = {}
    (style,) = run.styles
    for seed in seeds_of(run.experiment):
        for word in style.classes:
            made = run.sample_checked(ROLLOUTS, {style.name: word}, seed=seed)
            states = np.asarray(made.rollouts.states)[made.finite]
            found = {"right": float(made.right.mean()), "upside down": float(upside_down(states[:, 1:]).mean())}
            found["tilted"] = float(fallen(states[:, 1:]).mean())
            rows.setdefault(word, []).append({**found, "believed": believed(run, seed, made, word)})
            print(seed, word, rows[word][-1])
    return rows


def main(out: Path, folders: list[Path]) -> None:
    """Counts for each run, from held-out starts."""
    began, found = time.perf_counter(), []
    for folder in folders:
        run = load_run(folder)
        weight = run.experiment.settings.weights.style
        found.append({"run": folder.name, "style": run.styles[0].name, "weight": weight, "classes": count(run)})
    storage.write_json(out, {"rollouts": ROLLOUTS, "runs": found, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
