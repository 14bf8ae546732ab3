"""DESTINATION with 3 quantile classes on real tracking data, 5 seeds, next to the paper's numbers.

    python experiments/destination.py --data players_train.npz --test players_test.npz

Writes results/basketball/destination.json: one cell per algorithm, with the value of every seed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

import poise
from poise.evaluation.report import spread
from poise.system import provenance, storage

# [min, median, max] of 5 seeds: the paper's tables of single styles with 3 classes, and of RNN policies
PAPER = {
    "ctvae": (0.81, 0.82, 0.82),
    "ctvae-style": (0.91, 0.97, 0.98),
    "rnn": (0.79, 0.80, 0.81),
    "rnn-style": (0.81, 0.91, 0.98),
}


@dataclass
class Arguments:
    """DESTINATION, 3 classes, 5 seeds, on real data."""

    data: Path
    """Training demonstrations (.npz)."""
    test: Path
    """Test demonstrations (.npz)."""
    algorithms: tuple[str, ...] = ("ctvae", "ctvae-style", "rnn", "rnn-style")
    seeds: int = 5
    policy_steps: int | None = None
    """Steps of the policy's stage; the domain's preset if not given."""
    out: Path = Path("results/basketball/destination.json")
    runs: Path = Path("runs/destination")
    """Where the runs are kept, so that an interrupted experiment continues."""


def main(arguments: Arguments) -> None:
    """Trains, evaluates and writes the cells, one algorithm after the other."""
    settings = poise.DOMAINS["basketball"].settings
    if arguments.policy_steps:
        settings = replace(settings, training=replace(settings.training, policy_steps=arguments.policy_steps))
    cells, began = [], time.perf_counter()
    for name in arguments.algorithms:
        run = poise.train(
            name,
            arguments.data,
            ["destination"],
            domain="basketball",
            test=str(arguments.test),
            split_by="game",
            classes=3,
            seeds=arguments.seeds,
            settings=settings,
            out=arguments.runs / name,
        )
        report = run.evaluate()
        print(report, flush=True)
        scores = report.algorithms[name]
        joint = [round(score.joint.value, 4) for score in scores]
        low, median, high = PAPER[name]
        cells.append(
            {
                "algorithm": name,
                "styles": ["destination"],
                "classes": 3,
                "seeds": joint,
                **spread(joint),
                "nld": spread([round(score.nld, 4) for score in scores])["median"],
                "paper": {"min": low, "median": median, "max": high},
                "seconds": round(run.seconds, 1),
                "joint_shuffled": [round(score.joint_shuffled.value, 4) for score in scores],
            }
        )
        result = {
            "cells": cells,
            "seeds": run.seeds,
            "units": run.domain.units_text,
            "rollouts": report.about["rollouts"],
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        storage.write_json(arguments.out, {**result, **provenance.provenance(time.perf_counter() - began)})


if __name__ == "__main__":
    main(tyro.cli(Arguments))
