"""What perturbed demonstrations do for the labeler: the demo's ctvae-style without them (the paper's way) and with.

    python experiments/widening.py

Writes results/basketball/widening.json: joint style-consistency, and for each style what the labeler believes beside
what the labeling function says of the same rollouts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from poise import origin, storage
from poise.demo import SHOWS
from poise.evaluation import spread
from poise.jobs import train_task
from poise.tasks import prepare

OUT = Path("results/basketball/widening.json")


def cell(widen: float) -> dict:
    """The demo's experiment at one amount of widening."""
    demo = SHOWS["basketball"].experiment
    settings = replace(demo.settings, training=replace(demo.settings.training, widen=widen))
    experiment = replace(demo, seeds=2, settings=settings)
    run = train_task(prepare(experiment), Path("runs/widening") / f"{widen:g}")
    scores = run.evaluate().algorithms[experiment.algorithm]
    joint = [round(score.joint.value, 4) for score in scores]
    mean = lambda values: round(float(np.mean(values)), 4)  # noqa: E731
    return {
        "algorithm": experiment.algorithm,
        "styles": list(experiment.styles),
        "classes": experiment.classes,
        "widen": widen,
        "seeds": joint,
        **spread(joint),
        "nld": mean([score.nld for score in scores]),
        "believed": {name: mean([(score.believed or {})[name] for score in scores]) for name in experiment.styles},
        "true": {name: mean([score.by_style[name].value for score in scores]) for name in experiment.styles},
        "paper": None,
    }


if __name__ == "__main__":
    began = time.perf_counter()
    cells = [cell(widen) for widen in (0.0, 1.0)]
    storage.write_json(OUT, {"cells": cells, **origin.origin(time.perf_counter() - began)})
