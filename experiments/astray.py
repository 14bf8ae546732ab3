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
        shares = {"joint": [s.joint.value for s in scores], "astray": [s.astray for s in scores]}
        shares["joint_inside"] = [s.joint_inside or 0.0 for s in scores]
        rows[folder.name] = {
            name: {**spread([round(v, 4) for v in values]), "seeds": values} for name, values in shares.items()
        }
        print(folder.name, rows[folder.name])
    storage.write_json(out, {"runs": rows, **origin.origin(time.perf_counter() - began)})


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]])
