"""The demos: ctvae and ctvae-style, told a style and held to it, on two cores in minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import origin, plots
from .config import PRESETS, Experiment
from .errors import PoiseError, unknown
from .evaluation import ROLLOUTS, Report
from .jobs import train_task
from .report import write_report
from .runs import Run
from .tasks import prepare

COMPARED = ("ctvae", "ctvae-style")


class Show(NamedTuple):
    """One demo: what is trained, and what is said of it."""

    experiment: Experiment
    promise: str
    on: str
    words: str
    """What to ask the policy for."""
    rollouts: int = ROLLOUTS
    """Of a seed, to score it."""
    draw: Callable[[Run, Path], list[Path]] | None = None
    """Draws more than a report does."""


def run_demo(out: Path, seeds: int, name: str = "basketball") -> Report:
    """Trains both algorithms, scores them on held-out demonstrations and writes the report."""
    if name not in SHOWS:
        raise unknown("demo", name, SHOWS)
    show = SHOWS[name]
    print(f"Poise demo: {show.promise}")
    print(f"Training ctvae (told the labels) and ctvae-style (held to them) on {show.on}.\n")
    runs = [_train(replace(show.experiment, algorithm=one, seeds=seeds), out / one) for one in COMPARED]
    reports = [run.evaluate(rollouts=show.rollouts) for run in runs]
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
    try:
        return train_task(prepare(experiment), folder)
    except PoiseError as error:
        raise PoiseError(f"{error} (or remove {folder.parent} to start the demo afresh)") from error


def _draw_gaits(run: Run, out: Path) -> list[Path]:
    """One gait of each class of the first style, from the same start: side by side, and moving."""
    style, scene = run.styles[0], run.domain.scene
    start = np.asarray(run.starts.starts)[0].tolist()
    gaits = {
        name: np.asarray(run.sample(words={style.name: k}, start=start).states)[0]
        for k, name in enumerate(style.classes)
    }
    figure = plots.draw_strips([(f"{style.name}={name}", states) for name, states in gaits.items()], scene)
    written = [out / "gaits.png"]
    plots.save(figure, written[0])
    for name, states in gaits.items():
        written.append(out / f"{style.name}-{name}.gif")
        plots.save_animation(states, scene, written[-1])
    return written


SHOWS = {
    "basketball": Show(
        Experiment(data="basketball", styles=("speed", "destination"), classes=3, settings=PRESETS["small"]),
        "a player you can tell how fast to move and where to end up.",
        "simulated basketball",
        "--style speed=slow --style destination=near",
    ),
    "cheetah": Show(
        Experiment(data="cheetah", styles=("speed",), classes=2, settings=PRESETS["cheetah-small"]),
        "a runner that you can tell how fast to run.",
        "demonstrations of the Cheetah, in MuJoCo",
        "--style speed=fast",
        500,
        _draw_gaits,
    ),
}
"""The demos by name."""
