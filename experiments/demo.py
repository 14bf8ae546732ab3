"""Keeps a demo's figures: turns its report.json into results/basketball/demo.json, or another file.

make demo && python experiments/demo.py
poise demo cheetah && python experiments/demo.py demo-cheetah/report.json results/cheetah/demo.json
"""

import json
import sys
from pathlib import Path

import numpy as np

from poise import storage

KEPT = ("base_rate", "units", "rollouts", "command", "commit", "hardware", "versions", "seconds")


def main(report: Path = Path("demo/report.json"), out: Path = Path("results/basketball/demo.json")) -> None:
    """Writes one cell an algorithm; the paper has no such experiment on simulated data."""
    told = json.loads(report.read_text())
    styles = told["styles"]
    cells = [
        {
            "algorithm": name,
            "styles": [style["name"] for style in styles],
            "classes": len(styles[0]["classes"]),
            "seeds": [seed["joint"] for seed in scores["seeds"]],
            **scores["joint"],
            "nld": float(np.median([seed["nld"] for seed in scores["seeds"]]).round(4)),
            "paper": None,
        }
        for name, scores in told["algorithms"].items()
    ]
    storage.write_json(out, {"cells": cells, **{name: told[name] for name in KEPT}})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
