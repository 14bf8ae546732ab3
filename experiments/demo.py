"""Keeps the results of a demo or an evaluation: turns its report.json into results/basketball/demo.json, or another.

make demo && python experiments/demo.py
poise demo cheetah && python experiments/demo.py demo-cheetah/report.json results/cheetah/demo.json
poise evaluate runs/walker && python experiments/demo.py runs/walker/report.json results/walker/flow.json
"""

import json
import sys
from pathlib import Path

import numpy as np

from poise.system import storage

KEPT = ("base_rate", "units", "rollouts", "command", "commit", "hardware", "versions", "seconds")


def main(report: Path = Path("demo/report.json"), out: Path = Path("results/basketball/demo.json")) -> None:
    """Writes one cell per algorithm; the paper has no such experiment."""
    found = json.loads(report.read_text())
    styles = found["styles"]
    cells = [
        {
            "algorithm": name,
            "styles": [style["name"] for style in styles],
            "classes": len(styles[0]["classes"]),
            "seeds": [seed["joint"] for seed in scores["seeds"]],
            **scores["joint"],
            "in_range": [seed["joint_in_range"] for seed in scores["seeds"]],
            "nld": float(np.median([seed["nld"] for seed in scores["seeds"]]).round(4)),
            "by_seed": scores["seeds"],
            "paper": None,
        }
        for name, scores in found["algorithms"].items()
    ]
    storage.write_json(out, {"cells": cells, **{name: found[name] for name in KEPT}})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
