"""The demos: a few algorithms, trained and compared on two cores in minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..config import PRESETS
from ..domains.cheetah import CHEETAH
from ..errors import PoiseError, unknown
from ..evaluation.report import Report
from ..figures.bodies import draw_gaits, first_gait, save_animation
from ..figures.canvas import save
from ..figures.html_blocks import listed
from ..figures.panels import RolloutPanels, sample_panels
from ..figures.report_page import write_report
from ..runs.experiment import Experiment
from ..runs.prepare import prepare_all
from ..runs.run import Run
from ..runs.train import train_prepared
from ..system import provenance

COMPARED = ("ctvae", "ctvae-style", "flow")
"""The algorithms that are compared; the last one is sampled."""
IN_WORDS = {
    "ctvae": "conditioned on labels",
    "ctvae-style": "with the style loss",
    "flow": "which the labeling functions steer where they can, and verify",
}
ROLLOUTS = 2_000  # per seed
GAITS = 50  # rollouts counted for each gait that is drawn


@dataclass(frozen=True)
class Demo:
    """One demo: what is trained, and what is printed about it."""

    experiment: Experiment
    folder: str
    """Where the runs and the report are written by default."""
    title: str
    """What the trained policy can do, in a sentence."""
    data: str
    """The demonstrations, in words."""
    sample_options: str
    """Options of `poise sample` that request a style."""
    algorithms: tuple[str, ...] = COMPARED
    """The algorithms that are compared; the last one is sampled."""
    draw: Callable[[Run, Path], list[Path]] | None = None
    """Draws figures in addition to the report and returns their paths."""


def run_demo(out: Path | None = None, seeds: int | None = None, name: str = "basketball") -> Report:
    """Trains the algorithms, evaluates them on test demonstrations and writes the report.

    Args:
        out: The folder to write to; the demo's own by default.
        seeds: How many seeds to train; the demo's own number by default.
        name: One of `DEMOS`.

    Raises:
        PoiseError: If there is no such demo, or `out` holds other runs.
    """
    if name not in DEMOS:
        raise unknown("demo", name, DEMOS)
    demo = DEMOS[name]
    out = out or Path(demo.folder)
    print(f"Poise demo: {demo.title}")
    print(f"Training {listed([f'{name} ({IN_WORDS[name]})' for name in demo.algorithms])} on {demo.data}.\n")
    runs = _train(demo, seeds, out)
    report = _evaluate(runs)
    write_report(out, report, runs, _sample(runs))
    print(f"\n{report}\n")
    for path in demo.draw(runs[-1], out) if demo.draw else ():
        print(f"wrote {path}")
    print(f"The report: {out / 'report.html'} (numbers: {out / 'report.json'})")
    print(f"Request a style: poise sample {out / demo.algorithms[-1]} {demo.sample_options} --picture dial.png")
    return report


def _train(demo: Demo, seeds: int | None, out: Path) -> list[Run]:
    """Trains the algorithms that are compared, each in a folder of its own."""
    experiment = demo.experiment if seeds is None else replace(demo.experiment, seeds=seeds)
    ready = prepare_all([replace(experiment, algorithm=algorithm) for algorithm in demo.algorithms])
    try:  # one call per algorithm, so that each run has its own seconds
        return [train_prepared([one], [out / one.experiment.algorithm])[0] for one in ready]
    except PoiseError as error:
        raise PoiseError(f"{error} (or remove {out} to start the demo afresh)") from error


def _evaluate(runs: list[Run]) -> Report:
    """One report on all runs."""
    reports = [run.evaluate(rollouts=min(ROLLOUTS, run.domain.rollouts)) for run in runs]
    scores = {name: seeds for report in reports for name, seeds in report.algorithms.items()}
    seconds = sum(report.provenance["seconds"] for report in reports)
    return Report(scores, reports[-1].about, provenance.provenance(seconds))


def _sample(runs: list[Run]) -> list[RolloutPanels]:
    """Rollouts of every algorithm, and maps of what is within reach of the last one."""
    return [*(sample_panels(run, starts=0) for run in runs[:-1]), sample_panels(runs[-1])]


def _draw_gaits(run: Run, out: Path) -> list[Path]:
    """One gait per extreme class of each style, the first rollout from one start, as strips and as animations."""
    scene, start = run.domain.scene, np.asarray(run.starts.starts)[0].tolist()
    panels, written = [], [out / "gaits.png"]
    extremes = [(style.name, style.classes[end]) for style in run.styles for end in (0, -1)]
    for style, extreme in extremes:
        scored = run.sample_scored(GAITS, {style: extreme}, start=start)
        panels.append((f"{style}={extreme}", scored))
        written.append(out / f"{style}-{extreme}.gif")
        save_animation(first_gait(scored)[0], scene, written[-1])
    save(draw_gaits(panels, scene), written[0])
    return written


DEMOS = {
    "basketball": Demo(
        experiment=Experiment(
            data="basketball", styles=("speed", "destination"), classes=3, seeds=2, settings=PRESETS["small"]
        ),
        folder="demo",
        title="a player whose speed and destination you choose.",
        data="simulated basketball",
        sample_options="--style speed=slow --style destination=near",
    ),
    "cheetah": Demo(
        experiment=Experiment(
            data="cheetah", styles=tuple(CHEETAH.styles), classes=2, settings=PRESETS["cheetah-small"]
        ),
        folder="demo-cheetah",
        title="a runner whose speed, torso height and foot heights you choose.",
        data="demonstrations of the Cheetah, in MuJoCo",
        sample_options="--style speed=fast --style front_foot_height=high",
        algorithms=("ctvae", "flow"),
        draw=_draw_gaits,
    ),
}
"""The demos by name."""
