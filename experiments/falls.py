"""How much of the time a trained Cheetah lies on its back, by seed and by what it is asked for.

python experiments/falls.py OUT.json RUN
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from poise import load_run, origin, storage
from poise.domains.cheetah import upside_down
from poise.runs import seeds_of

ROLLOUTS = 200


def main(out: Path, folder: Path) -> None:
    """Counts the steps of rollouts from held-out starts that show the class which is asked for."""
    began, run, rows = time.perf_counter(), load_run(folder), {}
    (style,) = run.styles
    for seed in seeds_of(run.experiment):
        for word in style.classes:
            made = run.sample_checked(ROLLOUTS, {style.name: word}, seed=seed)
            over = np.asarray(upside_down(made.rollouts.states[:, 1:]))
            rows.setdefault(word, []).append({"right": float(made.right.mean()), "upside down": float(over.mean())})
            print(seed, word, rows[word][-1])
    about = {"rollouts": ROLLOUTS, "style": style.name, "classes": rows}
    storage.write_json(out, {**about, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
