"""poise evaluate and poise sample: what a trained run does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from ..errors import PoiseError
from ..system.imports import is_file_spec
from .output import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import Sampling
    from ..domains import Domain, Scene
    from ..evaluation.scored import ScoredRollouts
    from ..rollouts.requests import Words
    from ..runs.run import Run
    from ..styles.labeling_functions import LabelingFunction


@dataclass(frozen=True)
class RunArguments:
    """How a run folder is opened. A file is never imported because the folder names it."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    styles: tuple[str, ...] = ()
    """Styles that come from files, as file.py:function: those of the run, and to sample also new ones."""
    domain: str | None = None
    """The domain of the run as file.py:NAME, if it is one of its user's own."""
    algorithm: str | None = None
    """The algorithm of the run as file.py:NAME, if it is one of its user's own."""
    trust: bool = False
    """Imports the files that the folder names: only for folders whose sender you trust."""

    def load(self) -> Run:
        """The run."""
        from ..runs.load import load_run

        return load_run(self.run, self.trained_styles(), self.domain, self.algorithm, self.trust)

    def trained_styles(self) -> list[str]:
        """The given styles that the run was trained in."""
        return list(self.styles)


@dataclass(frozen=True)
class Evaluate(RunArguments):
    """Scores a run with the true labeling functions in the true environment; writes report.json and report.html."""

    data: Path | None = None
    """Other demonstrations (.npz) to test on; the run's own test demonstrations if not given."""
    only: tuple[str, ...] = ()
    """For flows, the styles that are asked for; the others are left free. All if not given."""
    rollouts: int | None = None
    """Rollouts per seed; as many as the paper has for the domain (4,000, or 500 of the Cheetah) if not given."""
    draw: int = 0
    """Seed of the rollouts' randomness."""
    out: Path | None = None
    """Folder of report.json and report.html; the run folder, or a folder in it for other data or some styles only, if
    not given."""
    json: bool = False
    """Prints the report as JSON instead of a table."""


@dataclass(frozen=True)
class Sample(RunArguments):
    """Rolls a run out in the styles you ask for, as numbers and as a picture."""

    style: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A style in words, such as speed=slow; repeat it for several. A flow leaves the others free; other policies take
    the label of the start for them."""
    tries: int | None = None
    """Rollouts of one request until the labeling functions agree; 1 asks them nothing, as in the paper. By default as
    the run's settings say."""
    typical: int | None = None
    """Accepted rollouts of a request, of which the one nearest to demonstrations is kept; by default the first."""
    guidance: float | None = None
    """For flows, how much the labels count: 1 as trained, above 1 exaggerates what they change."""
    strength: float | None = None
    """For flows, how strongly the labeling functions pull while a rollout is drawn; 0 does not steer."""
    any_range: bool = False
    """Accepts rollouts that leave the range of the demonstrations."""
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

    def trained_styles(self) -> list[str]:
        """The given styles that the run was trained in; the others are new."""
        from ..runs.folder import read_config
        from ..styles.labeling_functions import load_style

        if not self.run.is_dir():
            return []
        known = {style["name"] for style in read_config(self.run)["styles"]}
        return [style for style in self.styles if not is_file_spec(style) or load_style(style, {}).name in known]

    def sampling(self, run: Run) -> Sampling:
        """How to sample: as the run's settings say, but for what is given."""
        assert run.experiment.settings is not None
        given = {name: getattr(self, name) for name in ("tries", "typical", "guidance", "strength")}
        return replace(run.experiment.settings.sampling, **{k: v for k, v in given.items() if v is not None})


def evaluate(arguments: Evaluate) -> None:
    """poise evaluate."""
    from ..data.splits import in_memory
    from ..data.trajectories import Trajectories
    from ..figures.panels import sample_panels
    from ..figures.report_page import write_report

    if arguments.rollouts is not None and arguments.rollouts < 1:
        raise PoiseError(f"--rollouts is at least 1; got {arguments.rollouts}")
    run = arguments.load()
    if arguments.only:
        run = run.only(arguments.only)
    test = None if arguments.data is None else in_memory(Trajectories.load(arguments.data))
    report = run.evaluate(test, arguments.rollouts, arguments.draw, arguments.data and arguments.data.name)
    show(report, arguments.json)
    apart = [f"on-{arguments.data.stem}"] if arguments.data else []
    apart += ["only-" + "-".join(arguments.only)] if arguments.only else []
    folder = arguments.out or arguments.run.joinpath(*apart)
    write_report(folder, report, [run], (sample_panels(one) for one in [run]))  # the numbers are written first
    if not arguments.json:
        print(f"\nreport: {folder / 'report.html'}, {folder / 'report.json'}")


def sample(arguments: Sample) -> None:
    """poise sample."""
    from ..rollouts.requests import parse_words

    run = arguments.load()
    _check_drawing(arguments, run.domain)
    trained = arguments.trained_styles()
    later = run.fit_later([style for style in arguments.styles if style not in trained])
    styles = (*run.styles, *later)
    words = parse_words(arguments.style, styles)
    scored = run.sample_scored(
        arguments.count,
        words,
        styles=later,
        start=arguments.start,
        steps=arguments.steps,
        sampling=arguments.sampling(run),
        in_range=not arguments.any_range,
        seed=arguments.seed,
        draw=arguments.draw,
    )
    labels = scored.rollouts.metadata["labels"]
    asked = [i for i, style in enumerate(styles) if style.name in words or (not words and (labels[:, i] >= 0).any())]
    named, title = scored.only(asked) if asked else scored, _title(arguments, asked)
    if arguments.out:
        scored.rollouts.save(arguments.out)
    warnings = _warn(arguments, run, later, words, named)
    if arguments.picture or arguments.animation:
        _draw(arguments, title, named, run.domain.scene)
    right = {styles[i].name: float(scored.right[:, i].mean()) for i in asked}
    files = [str(path) for path in (arguments.out, arguments.picture, arguments.animation) if path]
    found = _summarise(run, scored, named)
    if arguments.json:
        return show({**found, "by_style": right, "files": files, "warnings": warnings}, True)
    each = f" ({', '.join(f'{name} {share:.0%}' for name, share in right.items())})" if len(right) > 1 else ""
    shown = f"{found['joint']:.1%} show {title}{each}" if asked else title
    print(
        f"{arguments.count} rollouts in {run.domain.describe_simulation()}; {shown}, "
        f"{found['joint_in_range']:.1%} in range of the demonstrations"
    )
    if scored.tries is not None:
        print(f"{found['tries']:.2f} tries per rollout; the labeling functions were asked while sampling")
    for warning in warnings:
        print(f"warning: {warning}")
    for path in files:
        print(f"wrote {path}")


def _title(arguments: Sample, asked: Sequence[int]) -> str:
    """What was asked for, in words."""
    if not asked:
        return "all styles left free"
    others = "the labels of the starts" if arguments.start is None else "the labels of other starts"
    return ", ".join(arguments.style) or others


def _warn(
    arguments: Sample, run: Run, later: Sequence[LabelingFunction], words: Words, named: ScoredRollouts
) -> list[str]:
    """What a user must know of the rollouts, one line each; refuses where a start reaches none of what it is asked for.

    `named` are scored by the styles that were asked for.
    """
    from ..runs.asking import starts_outside

    found, accepted, start = [], named.accepted, arguments.start
    outside = start is not None and starts_outside(start, run.starts, run.known.range)
    if outside:
        found.append("--start lies outside of the range of the demonstrations, where nothing is known of what is right")
    if accepted is not None and not accepted.all():
        found.append(f"{1 - accepted.mean():.1%} were not reached and are marked accepted=False")
        if start is not None and words and not accepted.any():
            way_out = "; --start lies outside of the range of the demonstrations: choose another" if outside else ""
            way_out += f" (the rollouts are in {arguments.out}, marked accepted=False)" if arguments.out else ""
            tries = arguments.sampling(run).tries
            raise PoiseError(
                f"none of {len(accepted)} rollouts was accepted in {tries} tries: "
                f"{_nearest(arguments, run, later, words, named)}{way_out}"
            )
        if start is None:
            where = ", ".join(f"{number:.4g}" for number in _first_unreached(named)[0])
            found.append(f"the first of them starts at {where}: {_nearest(arguments, run, later, words, named)}")
    if unscored := int((~named.scored).any(axis=1).sum()):
        found.append(f"the styles could not score {unscored} of them (raised or NaN): they count as wrong")
    if not_finite := int((~named.finite).sum()):
        found.append(f"{not_finite} of them became NaN or infinite: they count as wrong")
    return found


def _nearest(
    arguments: Sample, run: Run, later: Sequence[LabelingFunction], words: Words, named: ScoredRollouts
) -> str:
    """What is possible instead of the first request that was not reached, by the styles that the user named."""
    start, labels, steps = _first_unreached(named)
    styles = (*run.styles, *later)
    asked = {style.name: int(k) for style, k in zip(styles, labels, strict=True) if k >= 0}
    found = run.nearest(
        words or asked,
        start=start,
        styles=later,
        steps=steps,
        sampling=arguments.sampling(run),
        in_range=not arguments.any_range,
        seed=arguments.seed,
        draw=arguments.draw,
    )
    again = found.possible is not None and found.possible == found.asked
    return f"{found} with other tries: ask for more --tries" if again else str(found)


def _first_unreached(scored: ScoredRollouts) -> tuple[list[float], list[int], int]:
    """The start, labels and steps of the first request that was not reached."""
    assert scored.accepted is not None
    row, made = int(scored.accepted.argmin()), scored.rollouts
    return made.starts[row].tolist(), made.metadata["labels"][row].tolist(), int(made.lengths[row])


def _summarise(run: Run, scored: ScoredRollouts, named: ScoredRollouts) -> dict[str, Any]:
    """What is printed of the rollouts; `named` are scored by the styles that were asked for."""
    found = {
        "rollouts": len(scored.finite),
        "unscored": int((~named.scored).any(axis=1).sum()),
        "not_finite": int((~scored.finite).sum()),
        "joint": float(named.joint.mean()),
        "joint_in_range": float((named.joint & ~run.known.out_of_range(scored.rollouts)).mean()),
    }
    if scored.tries is None or scored.accepted is None:
        return found
    return {**found, "tries": float(scored.tries.mean()), "never": float(1 - scored.accepted.mean())}


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
