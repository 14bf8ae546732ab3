"""Puts measured cells into results/<domain>/paper.json, and makes its tables again.

python experiments/merge_cells.py cells/flow.json cells/ctvae.json
python experiments/merge_cells.py --domain cheetah cells/flow.json
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from poise.config import from_json
from poise.reproduce.cells import Cell
from poise.reproduce.grid import of_domain
from poise.reproduce.tables import write_tables
from poise.system import storage

RESULTS = Path(__file__).parent.parent / "results"
ABOUT = ("format", "data", "test", "count", "split_by", "fingerprints", "seeds", "rollouts", "settings")


def main() -> None:
    """Merges the files that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--domain", default="basketball")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    results = RESULTS / given.domain / "paper.json"
    old = storage.read_json(results)
    measured = old["measured"]
    for path in given.files:
        result = storage.read_json(path)
        measured[from_json(Cell, result["cell"]).name] = result
    shown = {
        name: table
        for name, table in of_domain(given.domain).items()
        if any(cell.name in measured for *_, cell in table.cells())
    }
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), shown, measured, {name: old[name] for name in ABOUT})
        storage.write_bytes(results, (Path(folder) / "results.json").read_bytes())


if __name__ == "__main__":
    main()
