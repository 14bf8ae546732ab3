"""The demos: ctvae and ctvae-style, told a style and held to it, on two cores in minutes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import origin, plots
from .config import PRESETS, Experiment
from .errors import PoiseError, unknown
from .evaluation import Report
from .jobs import train_task
from .report import write_report
from .runs import Run
from .tasks import prepare

COMPARED = ("ctvae", "ctvae-style")
GAITS = 100  # rollouts behind a gait that is drawn


class Show(NamedTuple):
    """One demo: what is trained, and what is said of it."""

    experiment: Experiment
    folder: str
    """Where it goes if nothing else is said."""
    promise: str
    on: str
    words: str
    """What to ask the policy for."""
    draw: Callable[[Run, Path], list[Path]] | None = None
    """Draws more than a report does."""


def run_demo(out: Path | None = None, seeds: int | None = None, name: str = "basketball") -> Report:
    """Trains both algorithms, scores them on held-out demonstrations and writes the report."""
    if name not in SHOWS:
        raise unknown("demo", name, SHOWS)
    show, out = SHOWS[name], out or Path(SHOWS[name].folder)
    print(f"Poise demo: {show.promise}")
    print(f"Training ctvae (told the labels) and ctvae-style (held to them) on {show.on}.\n")
    asked = show.experiment if seeds is None else replace(show.experiment, seeds=seeds)
    runs = [_train(replace(asked, algorithm=one), out / one) for one in COMPARED]
    reports = [run.evaluate() for run in runs]
    scores = {one: report.algorithms[one] for one, report in zip(COMPARED, reports, strict=True)}
    seconds = sum(report.origin["seconds"] for report in reports)
    report = Report(scores, reports[-1].about, origin.origin(seconds))
    write_report(out, report, runs)
    print(f"\n{report}\n")
    for path in show.draw(runs[-1], out) if show.draw else ():
        print(f"wrote {path}")
    print(f"The report: {out / 'report.html'} (numbers: {out / 'report.json'})")
    print(f"Now dial it: poise sample {out / 'ctvae-style'} {show.words} --picture dial.png")
    return report


def _train(experiment: Experiment, folder: Path) -> Run:
    task = prepare(experiment)
    try:
        return train_task(task, folder)
    except PoiseError as error:
        raise PoiseError(f"{error} (or remove {folder.parent} to start the demo afresh)") from error


def _draw_gaits(run: Run, out: Path) -> list[Path]:
    """A gait of each combination of classes from one start, the first rollout, right or wrong: as strips and moving."""
    scene, start = run.domain.scene, np.asarray(run.starts.starts)[0].tolist()
    panels, written = [], [out / "gaits.png"]
    for classes in itertools.product(*(style.classes for style in run.styles)):
        words = {style.name: name for style, name in zip(run.styles, classes, strict=True)}
        checked = run.sample_checked(GAITS, words, start=start)
        panels.append((", ".join(f"{style}={name}" for style, name in words.items()), checked))
        written.append(out / f"{'-'.join(classes)}.gif")
        plots.save_animation(plots.first_gait(checked)[0], scene, written[-1])
    plots.save(plots.draw_gaits(panels, scene), written[0])
    return written


SHOWS = {
    "basketball": Show(
        Experiment(data="basketball", styles=("speed", "destination"), classes=3, seeds=2, settings=PRESETS["small"]),
        "demo",
        "a player you can tell how fast to move and where to end up.",
        "simulated basketball",
        "--style speed=slow --style destination=near",
    ),
    "cheetah": Show(
        Experiment(data="cheetah", styles=("speed", "front_foot_height"), classes=2, settings=PRESETS["cheetah-small"]),
        "demo-cheetah",
        "a runner that you can tell how fast to run and how high to lift its front foot.",
        "demonstrations of the Cheetah, in MuJoCo",
        "--style speed=fast --style front_foot_height=high",
        _draw_gaits,
    ),
}
"""The demos by name."""
