"""How many rollouts of trained runs go where no demonstration goes.

python experiments/astray.py OUT.json RUN RUN ...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from poise import load_run, origin, storage
from poise.evaluation import spread


def main(out: Path, folders: list[Path]) -> None:
    """Scores the runs in these folders on their test demonstrations."""
    began, rows = time.perf_counter(), {}
    for folder in folders:
        (scores,) = load_run(folder).evaluate().algorithms.values()
        told = [score.to_json() for score in scores]
        shares = {name: [seed[name] for seed in told] for name in ("joint", "astray", "joint_inside")}
        rows[folder.name] = {name: {**spread(seeds), "seeds": seeds} for name, seeds in shares.items()}
        print(folder.name, rows[folder.name])
    storage.write_json(out, {"runs": rows, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
