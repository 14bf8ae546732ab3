"""The demo: ctvae and ctvae-style on simulated basketball, speed x destination, on two cores in minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from . import origin
from .config import PRESETS, Experiment
from .errors import PoiseError
from .evaluation import Report
from .jobs import train_task
from .report import write_report
from .runs import Run
from .tasks import prepare

EXPERIMENT = Experiment(data="basketball", styles=("speed", "destination"), classes=3, settings=PRESETS["small"])
COMPARED = ("ctvae", "ctvae-style")


def run_demo(out: Path, seeds: int) -> Report:
    """Trains both algorithms, scores them on held-out demonstrations and writes the report."""
    print("Poise demo: a player you can tell how fast to move and where to end up.")
    print("Training ctvae (told the labels) and ctvae-style (held to them) on simulated basketball.\n")
    runs = [_train(name, out, seeds) for name in COMPARED]
    reports = [run.evaluate() for run in runs]
    scores = {name: report.algorithms[name] for name, report in zip(COMPARED, reports, strict=True)}
    seconds = sum(report.origin["seconds"] for report in reports)
    report = Report(scores, reports[-1].about, origin.origin(seconds))
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
        raise PoiseError(f"{error} (or remove {out} to start the demo afresh)") from error
