"""poise evaluate and poise sample: what a trained run does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from ..errors import PoiseError
from .output import show

if TYPE_CHECKING:
    from ..domains import Domain, Scene
    from ..evaluation.scored import ScoredRollouts
    from ..runs.run import Run


@dataclass(frozen=True)
class RunArguments:
    """How a run folder is opened. A file is never imported because the folder names it."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    styles: tuple[str, ...] = ()
    """Styles of the run that come from files, as file.py:function."""
    domain: str | None = None
    """The domain of the run as file.py:NAME, if it is one of its user's own."""
    algorithm: str | None = None
    """The algorithm of the run as file.py:NAME, if it is one of its user's own."""
    trust: bool = False
    """Imports the files that the folder names: only for folders whose sender you trust."""

    def load(self) -> Run:
        """The run."""
        from ..runs.load import load_run

        return load_run(self.run, self.styles, self.domain, self.algorithm, self.trust)


@dataclass(frozen=True)
class Evaluate(RunArguments):
    """Scores a run with the true labeling functions in the true environment; writes report.json and report.html."""

    data: Path | None = None
    """Other demonstrations (.npz) to test on; the run's own test demonstrations if not given."""
    rollouts: int | None = None
    """Rollouts per seed; as many as the paper has for the domain (4,000, or 500 of the Cheetah) if not given."""
    draw: int = 0
    """Seed of the rollouts' randomness."""
    out: Path | None = None
    """Folder of report.json and report.html; the run folder, or a folder in it for other data, if not given."""
    json: bool = False
    """Prints the report as JSON instead of a table."""


@dataclass(frozen=True)
class Sample(RunArguments):
    """Rolls a run out in the styles you ask for, as numbers and as a picture."""

    style: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A style in words, such as speed=slow; repeat it for several. Others take the label of the start."""
    count: int = 100
    """How many rollouts."""
    start: tuple[float, ...] | None = None
    """A state to start from; where demonstrations of that style start if not given."""
    steps: int | None = None
    """Steps of a rollout; as many as the demonstrations have if not given."""
    seed: int | None = None
    """Which trained seed; the best on validation demonstrations if not given."""
    draw: int = 0
    """Seed of the rollouts' randomness."""
    out: Path | None = None
    """Where to write the rollouts (.npz)."""
    picture: Path | None = None
    """Where to draw the rollouts, or the gait of the first where there is a body (.png, .svg or .pdf)."""
    animation: Path | None = None
    """Where to draw the first rollout moving (.gif), for domains with a body, such as cheetah."""
    render: bool = False
    """Draws gaits by MuJoCo instead of stick figures; needs OpenGL, and no display."""
    json: bool = False
    """Prints the share of rollouts that show the style, and where files went, as JSON."""


def evaluate(arguments: Evaluate) -> None:
    """poise evaluate."""
    from ..data.splits import in_memory
    from ..data.trajectories import Trajectories
    from ..figures.panels import sample_panels
    from ..figures.report_page import write_report

    if arguments.rollouts is not None and arguments.rollouts < 1:
        raise PoiseError(f"--rollouts is at least 1; got {arguments.rollouts}")
    run = arguments.load()
    test = None if arguments.data is None else in_memory(Trajectories.load(arguments.data))
    report = run.evaluate(test, arguments.rollouts, arguments.draw, arguments.data and arguments.data.name)
    show(report, arguments.json)
    folder = arguments.out or (arguments.run / f"on-{arguments.data.stem}" if arguments.data else arguments.run)
    write_report(folder, report, [run], (sample_panels(one) for one in [run]))  # the numbers are written first
    if not arguments.json:
        print(f"\nreport: {folder / 'report.html'}, {folder / 'report.json'}")


def sample(arguments: Sample) -> None:
    """poise sample."""
    from ..rollouts.requests import parse_words

    run = arguments.load()
    _check_drawing(arguments, run.domain)
    words = parse_words(arguments.style, run.styles)
    scored = run.sample_scored(
        arguments.count,
        words,
        start=arguments.start,
        steps=arguments.steps,
        seed=arguments.seed,
        draw=arguments.draw,
    )
    asked = [i for i, style in enumerate(run.styles) if style.name in words or not words]
    named, title = scored.only(asked), ", ".join(arguments.style) or "the labels of the starts"
    if arguments.out:
        scored.rollouts.save(arguments.out)
    if arguments.picture or arguments.animation:
        _draw(arguments, title, named, run.domain.scene)
    right = {run.styles[i].name: float(scored.right[:, i].mean()) for i in asked}
    files = [str(path) for path in (arguments.out, arguments.picture, arguments.animation) if path]
    joint, unscored = float(named.joint.mean()), int((~named.scored).any(axis=1).sum())
    not_finite = int((~scored.finite).sum())
    if arguments.json:
        counts = {"rollouts": arguments.count, "unscored": unscored, "not_finite": not_finite}
        return show({**counts, "joint": joint, "by_style": right, "files": files}, True)
    each = f" ({', '.join(f'{name} {share:.0%}' for name, share in right.items())})" if len(right) > 1 else ""
    print(f"{arguments.count} rollouts in {run.domain.describe_simulation()}; {joint:.0%} show {title}{each}")
    if unscored:
        print(f"warning: the styles could not score {unscored} of them (raised or returned NaN): they count as wrong")
    if not_finite:
        print(f"warning: {not_finite} of them became NaN or infinite: they count as wrong")
    for path in files:
        print(f"wrote {path}")


def _check_drawing(arguments: Sample, domain: Domain) -> None:
    """Refuses what cannot be drawn before anything is rolled out."""
    if arguments.animation:
        from ..figures.bodies import check_animation

        check_animation(arguments.animation)
        if domain.scene.body is None:
            raise PoiseError(f"--animation draws a body that moves, and {domain.name} has none; try --picture")
    if arguments.render and not (arguments.picture or arguments.animation):
        raise PoiseError("--render says how to draw; say where with --picture or --animation")
    if arguments.render and domain.scene.render is None:
        raise PoiseError(f"--render draws what MuJoCo simulates, and {domain.name} is not of it; leave it out")


def _draw(arguments: Sample, title: str, scored: ScoredRollouts, scene: Scene) -> None:
    """Draws the rollouts on their scene, or the first as a gait where there is a body: in a strip, and moving."""
    from .. import figures

    if arguments.picture and scene.body is None:
        return figures.save(figures.draw_rollouts([(title, scored)], scene), arguments.picture)
    states, right = figures.first_gait(scored)
    if arguments.picture:
        this = "and by this one" if right else "not by this one"
        words = f"{title}: shown by {scored.joint.mean():.0%} of {len(scored.finite)} rollouts, {this}"
        figures.save(figures.draw_strips([(words, states)], scene, arguments.render), arguments.picture)
    if arguments.animation:
        figures.save_animation(states, scene, arguments.animation, arguments.render)
