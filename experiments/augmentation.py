"""What augmentation does for the labeler: the demo's ctvae-style without it, as in the paper, and with it.

    python experiments/augmentation.py

Writes results/basketball/augmentation.json: joint style-consistency, and for each style the labeler's estimate of it
next to the labeling function's verdict on the same rollouts.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from poise.evaluation.report import spread
from poise.reproduce.demo import DEMOS
from poise.runs.prepare import prepare_all
from poise.runs.train import train_prepared
from poise.system import provenance, storage

OUT = Path("results/basketball/augmentation.json")


def mean(values: list[float]) -> float:
    """The mean over seeds."""
    return round(float(np.mean(values)), 4)


def cell(augment: float) -> dict[str, Any]:
    """The demo's experiment at one amount of augmentation."""
    demo = DEMOS["basketball"].experiment
    assert demo.settings is not None
    settings = replace(demo.settings, training=replace(demo.settings.training, augment=augment))
    experiment = replace(demo, seeds=2, settings=settings)
    (run,) = train_prepared(prepare_all([experiment]), [Path("runs/augmentation") / f"{augment:g}"])
    scores = run.evaluate().algorithms[experiment.algorithm]
    styles = [style.name for style in run.styles]
    joint = [round(score.joint.value, 4) for score in scores]
    return {
        "algorithm": experiment.algorithm,
        "styles": styles,
        "classes": experiment.classes,
        "augment": augment,
        "seeds": joint,
        **spread(joint),
        "nld": mean([score.nld for score in scores]),
        "labeler_estimate": {name: mean([(score.labeler_estimate or {})[name] for score in scores]) for name in styles},
        "true": {name: mean([score.by_style[name].value for score in scores]) for name in styles},
        "paper": None,
    }


if __name__ == "__main__":
    began = time.perf_counter()
    cells = [cell(augment) for augment in (0.0, 1.0)]
    storage.write_json(OUT, {"cells": cells, **provenance.provenance(time.perf_counter() - began)})
