"""Puts measured cells into results/basketball/paper.json, and makes its tables again.

python experiments/merge_cells.py cells/flow.json cells/ctvae.json
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from poise.config import from_json
from poise.reproduce.cells import Cell
from poise.reproduce.grid import of_domain
from poise.reproduce.tables import write_tables
from poise.system import storage

RESULTS = Path(__file__).parent.parent / "results" / "basketball" / "paper.json"
ABOUT = ("format", "data", "test", "count", "split_by", "fingerprints", "seeds", "rollouts", "settings")


def main() -> None:
    """Merges the files that are named."""
    old = storage.read_json(RESULTS)
    measured = old["measured"]
    for path in sys.argv[1:]:
        result = storage.read_json(Path(path))
        measured[from_json(Cell, result["cell"]).name] = result
    shown = {
        name: table
        for name, table in of_domain("basketball").items()
        if any(cell.name in measured for *_, cell in table.cells())
    }
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), shown, measured, {name: old[name] for name in ABOUT})
        storage.write_bytes(RESULTS, (Path(folder) / "results.json").read_bytes())


if __name__ == "__main__":
    main()
