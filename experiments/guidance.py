"""Guidance: how often a flow is right, and how real it looks, by how much its labels count.

Trains the small flow in five styles of four classes and samples it from validation demonstrations. Writes
results/basketball/guidance.json and docs/images/guidance.png.

    python experiments/guidance.py --data players_train.npz
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import poise
from poise.data.splits import Splits
from poise.evaluation.realism import Reference, RolloutSet
from poise.figures import draw_guidance, save
from poise.reproduce.cells import STYLES
from poise.rollouts.requests import Request
from poise.styles.scoring import label_all
from poise.system import provenance, storage

GUIDANCE = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
WAYS = {"unsteered": 0.0, "steered": 1.0}
"""The strength of steering, by name."""
ROOT = Path(__file__).parent.parent


def sweep(run: poise.Run, rollouts: int) -> list[dict]:
    """What the first seed does by guidance, steered and not, in one try."""
    splits = run.splits()
    shown = splits.validation
    rows = np.sort(np.random.default_rng(0).permutation(len(shown))[:rollouts])
    request = Request.like(shown[rows], label_all(run.styles, shown)[rows])
    seed, sampling = run.trained(None)(0), run.sampling()
    points = [(guidance, way) for way in WAYS for guidance in GUIDANCE]
    found = []
    for guidance, way in points:
        asked = replace(sampling, guidance=guidance, strength=WAYS[way])
        found.append(seed.score(request, jax.random.key(0), asked))
    reference = Reference.fit(Splits(splits.train, splits.validation, shown), run.domain)
    real = reference.measure([RolloutSet(one.rollouts, one.joint, rows, one.finite) for one in found])
    return [
        {"guidance": guidance, "way": way, "joint": round(float(one.joint.mean()), 4), **each.to_json()}
        for (guidance, way), one, each in zip(points, found, real, strict=True)
    ]


def main() -> None:
    """Trains, sweeps, writes and draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rollouts", type=int, default=2_000)
    parser.add_argument("--run", type=Path, help="a folder to train in, or to continue")
    given, began = parser.parse_args(), time.perf_counter()
    run = poise.train(
        "flow", given.data, STYLES, domain="basketball", classes=4, split_by="game", preset="small", out=given.run
    )
    measured = sweep(run, given.rollouts)
    made_by = provenance.provenance(time.perf_counter() - began)
    storage.write_json(ROOT / "results" / "basketball" / "guidance.json", {"measured": measured, **made_by})
    steered = [(one["guidance"], one["yield"], one["c2st"]) for one in measured if one["way"] == "unsteered"]
    save(draw_guidance(steered, chosen=run.sampling().guidance), ROOT / "docs" / "images" / "guidance.png")


if __name__ == "__main__":
    main()
