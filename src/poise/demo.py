"""The demo: ctvae and ctvae-style on simulated basketball, speed x destination, on two cores in minutes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from . import origin
from .config import Experiment, Network, Settings, Training, Weights
from .errors import PoiseError
from .evaluation import Report
from .jobs import train_task
from .report import write_report
from .runs import Run
from .tasks import prepare

# Smaller than the paper's, so that two cores need minutes; the presets of the domain are the paper's sizes.
SETTINGS = Settings(
    network=Network(hidden=64, layers=(64, 64)),
    training=Training(policy_steps=2_500, labeler_steps=2_500, batch=64, learning_rate=2e-3),
    weights=Weights(style=5.0),
)
EXPERIMENT = Experiment(data="basketball", styles=("speed", "destination"), classes=3, settings=SETTINGS)
ALGORITHMS = ("ctvae", "ctvae-style")


def run_demo(out: Path, seeds: int) -> Report:
    """Trains both algorithms, scores them on held-out demonstrations and writes the report."""
    began = time.perf_counter()
    print("Poise demo: a player you can tell how fast to move and where to end up.")
    print("Training ctvae (told the labels) and ctvae-style (held to them) on simulated basketball.\n")
    runs = [_train(name, out, seeds) for name in ALGORITHMS]
    reports = [run.evaluate() for run in runs]
    scores = {name: report.algorithms[name] for name, report in zip(ALGORITHMS, reports, strict=True)}
    report = Report(scores, reports[-1].about, origin.origin(time.perf_counter() - began))
    write_report(out, report, runs)
    print(f"\n{report}\n")
    print(f"The report: {out / 'report.html'} (numbers: {out / 'report.json'})")
    words = "--style speed=slow --style destination=near"
    print(f"Now dial it: poise sample {out / 'ctvae-style'} {words} --picture dial.png")
    return report


def _train(algorithm: str, out: Path, seeds: int) -> Run:
    task = prepare(replace(EXPERIMENT, algorithm=algorithm, seeds=seeds))
    try:
        return train_task(task, out / algorithm)
    except PoiseError as error:
        raise PoiseError(f"{error} (or remove {out / algorithm} to start the demo afresh)") from error
