"""The commands. Each is a dataclass of arguments and one short function."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .config import PRESETS, Experiment
from .cores import use_cores
from .errors import PoiseError, unknown
from .origin import versions
from .program_cache import use_program_cache


@dataclass(frozen=True)
class Demo:
    """Trains ctvae and ctvae-style and writes a report: players by speed and destination, or a runner by its gait."""

    name: tyro.conf.Positional[Literal["basketball", "cheetah"]] = "basketball"
    """Simulated basketball, or the Cheetah (extra `cheetah`)."""
    out: Path | None = None
    """Where report.html, report.json and the runs go (demo or demo-cheetah if not given); a demo that was interrupted
    goes on from there."""
    seeds: int | None = None
    """Seeds of each algorithm; two of basketball and one of the Cheetah if not given."""


@dataclass(frozen=True)
class Import:
    """Makes demonstrations of raw tracking logs: live half-court offense, every attack on one rim (docs/sportvu.md)."""

    format: tyro.conf.Positional[Literal["sportvu"]]
    """The logs' format: sportvu, the public one of the NBA."""
    folder: tyro.conf.Positional[Path]
    """Where the logs are, in it or below it: .json or .7z, a game or an event each."""
    out: Path
    """Where to write the demonstrations (.npz)."""
    what: Literal["players", "scenes"] = "players"
    """What a row is: one offensive player, or ball, offense and defense (22 columns)."""
    steps: int = 24
    """Steps of a window; it has one frame more."""
    hz: float = 3.0
    """Frames a second."""
    stride: int | None = None
    """Frames from one window to the next; as many as a window has, so that none overlap, if not given."""
    jobs: int | None = None
    """Processes that read files; one a core if not given."""
    json: bool = False
    """Prints what was found as JSON."""


@dataclass(frozen=True)
class Label:
    """Shows what styles make of demonstrations: balance, coverage, correlation and support, with warnings."""

    data: str = "basketball"
    """Demonstrations: the name of a domain that makes its own, or the path of an .npz."""
    domain: str | None = None
    """Where styles come from when `data` is a path (for example: basketball)."""
    styles: tuple[str, ...] = ()
    """Styles by name, or as file.py:function; all of the domain's if none is given."""
    classes: int | None = None
    """Classes of every style that sets no thresholds of its own."""
    count: int | None = None
    """How many demonstrations a domain makes."""
    picture: Path | None = None
    """Where to draw histograms of the scores with their thresholds (.png, .svg or .pdf)."""
    json: bool = False
    """Prints JSON instead of a page."""


@dataclass(frozen=True)
class Train:
    """Trains a policy that can be dialled; the same command resumes a run that was interrupted."""

    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)
    preset: str | None = None
    """Settings to start from. Basketball: basketball (the paper's sizes) or small (for two cores). The Cheetah: cheetah
    or cheetah-small."""
    out: Path | None = None
    """The run folder; runs/DATA-ALGORITHM if not given."""
    json: bool = False
    """Prints the run's summary as JSON."""


@dataclass(frozen=True)
class Evaluate:
    """Scores a run with the true labeling functions in the true environment; writes report.json and report.html."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    data: Path | None = None
    """Other demonstrations (.npz) to test on; the run's own test demonstrations if not given."""
    rollouts: int | None = None
    """Rollouts a seed; as many as the paper has for the domain (4,000, or 500 of the Cheetah) if not given."""
    draw: int = 0
    """Seed of the rollouts' randomness."""
    styles: tuple[str, ...] = ()
    """Where to find styles whose file has moved, as file.py:function."""
    out: Path | None = None
    """Folder of report.json and report.html; the run folder, or a folder in it for other data, if not given."""
    json: bool = False
    """Prints the report as JSON instead of a table."""


@dataclass(frozen=True)
class Sample:
    """Rolls a run out in the styles you ask for, as numbers and as a picture."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    style: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A style in words, such as speed=slow; repeat it for several. Others take what the start's demonstration had."""
    count: int = 100
    """How many rollouts."""
    start: tuple[float, ...] | None = None
    """A state to start from; where demonstrations of that style start if not given."""
    steps: int | None = None
    """Steps of a rollout; as many as the demonstrations have if not given."""
    styles: tuple[str, ...] = ()
    """Where to find styles whose file has moved, as file.py:function."""
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
    """Prints the share of rollouts that obey, and where files went, as JSON."""


@dataclass(frozen=True)
class Reproduce:
    """Makes the paper's tables again, beside its numbers; goes on where it was interrupted."""

    tables: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tables by name, `all` of basketball, or `cheetah` for all of the Cheetah; --list names them."""
    list: bool = False
    """Names the tables and stops."""
    data: str | None = None
    """Demonstrations (.npz; of players, as `poise import sportvu` writes them); those of the domain if not given."""
    test: str | None = None
    """An .npz of test demonstrations; without one, a tenth of the data is set aside."""
    split_by: str | None = None
    """A column of the .npz whose groups are never torn apart by the split; `game` if there is one."""
    seeds: int | None = None
    """Seeds of each cell; 5, or 1 if quick."""
    quick: bool = False
    """Small networks, few demonstrations and rollouts: minutes on two cores."""
    algorithms: tuple[str, ...] = ()
    """Only these rows."""
    out: Path | None = None
    """Where cells, runs, tables and figures go; runs/paper if not given, with -cheetah, with -quick."""


@dataclass(frozen=True)
class Demonstrators:
    """Trains the policies that make a domain's demonstrations; the same command goes on where it was interrupted."""

    domain: tyro.conf.Positional[str]
    """Whose: cheetah."""
    policies: int | None = None
    """How many, with targets spread evenly; 125 on an accelerator and 5 on a CPU if not given."""
    steps: int = 1_000_000
    """Control steps of each policy."""
    environments: int = 64
    """Environments of each policy."""
    seed: int = 0
    """Seed of everything."""
    seconds: float | None = None
    """Stops after about so long, and measures what there is; the same command goes on from there."""
    driver: Literal["auto", "threads", "mjx"] = "auto"
    """Physics: MuJoCo in threads, or MJX in the compiled program; what suits the machine if not given."""
    solver: Literal["newton", "cg"] = "newton"
    """MJX's contact solver."""
    iterations: int = 6
    """Iterations of that solver."""
    line_search_iterations: int = 8
    """Iterations of its line search."""
    out: Path = Path("runs/demonstrators")
    """Where checkpoint.safetensors, policies.safetensors and demonstrators.json go."""
    json: bool = False
    """Prints demonstrators.json."""


@dataclass(frozen=True)
class Demos:
    """Makes a domain's demonstrations, and those to test with, by the policies that come with Poise."""

    domain: tyro.conf.Positional[str]
    """Whose: cheetah."""
    count: int | None = None
    """How many to train with; as many as the domain makes if not given."""
    seed: int = 0
    """Seed of starts and actions."""
    out: Path | None = None
    """A folder for train.npz and test.npz; they are kept in the user's cache only if not given."""
    json: bool = False
    """Prints what was made as JSON."""


def demo(arguments: Demo) -> None:
    """make demo."""
    from .demo import run_demo

    run_demo(arguments.out, arguments.seeds, arguments.name)


def import_logs(arguments: Import) -> None:
    """poise import."""
    from .play import Cut
    from .sportvu import import_sportvu

    cut = Cut(arguments.steps, arguments.hz, arguments.stride)
    shown = not arguments.json
    found = import_sportvu(arguments.folder, arguments.out, arguments.what, cut, arguments.jobs, progress=shown)
    counts = {game: len(scenes.states) for game, scenes in found.games.items()}
    games, windows = len(counts), sum(counts.values())
    rows = windows * 5 if arguments.what == "players" else windows
    if arguments.json:
        return _say({"file": str(arguments.out), "rows": rows, "windows": counts, "skipped": found.skipped}, True)
    print(f"wrote {arguments.out}: {rows:,} {arguments.what} in {windows:,} windows of {cut.seconds:.1f} s")
    print(f"{games} game{'s' if games > 1 else ''}; skipped: {len(found.skipped)}")
    domain = " --domain basketball" if arguments.what == "players" else ""
    by = " --split-by game" if games > 2 else ""  # a split needs three groups
    print(f"next: poise train --data {arguments.out}{domain}{by} --styles ...")


def label(arguments: Label) -> None:
    """poise label."""
    from .domains import plain
    from .inspection import Inspection
    from .tasks import load_data, load_styles, named_domain

    domain = named_domain(arguments.domain, arguments.data)
    demonstrations = load_data(arguments.data, arguments.count)
    domain = domain or plain(demonstrations)
    domain.check(demonstrations)
    styles = load_styles(arguments.styles or tuple(domain.styles), domain, arguments.classes)
    seen = Inspection.of(styles, demonstrations, progress=not arguments.json)
    if arguments.picture:
        from .plots import draw_scores, save

        save(draw_scores(seen), arguments.picture)
    _say(seen, arguments.json)
    if not arguments.json:
        print(f"dynamics: {domain.environment_text}")
        if arguments.picture:
            print(f"wrote {arguments.picture}")


def train(arguments: Train) -> None:
    """poise train."""
    from .jobs import train_task
    from .tasks import prepare

    experiment = arguments.experiment
    out = arguments.out or Path("runs") / f"{Path(experiment.data).stem}-{experiment.algorithm}"
    done = (out / "weights.safetensors").exists()
    task = prepare(experiment, progress=not arguments.json)
    run = train_task(task, out, progress=not arguments.json)
    stopped = {str(seed): where for seed, where in zip(run.seeds, run.stopped, strict=True) if where}
    if arguments.json:
        summary = {"run": str(out), "seeds": run.seeds, "stopped": stopped, "best_seed": run.seeds[run.best]}
        return _say({**summary, "seconds": round(run.seconds, 1)}, True)
    seeds = f"{len(run.seeds)} seed{'s' if len(run.seeds) > 1 else ''}"
    state = "was trained already" if done else f"is trained, in {run.seconds:.0f} s"
    print(f"{out} {state}: {experiment.algorithm}, {seeds}")
    for seed, where in stopped.items():
        print(f"seed {seed} was stopped at {where}: its loss was not finite")
    example = " ".join(f"--style {style.name}={style.classes[0]}" for style in run.styles)
    print(f"next: poise evaluate {out}   or   poise sample {out} {example} --picture rollouts.png")


def evaluate(arguments: Evaluate) -> None:
    """poise evaluate."""
    from .report import write_report
    from .runs import load_run
    from .trajectories import Trajectories, in_memory

    if arguments.rollouts is not None and arguments.rollouts < 1:
        raise PoiseError(f"--rollouts is at least 1; got {arguments.rollouts}")
    run = load_run(arguments.run, arguments.styles)
    if arguments.data and arguments.data.resolve() == Path(run.experiment.data).resolve():
        print(f"warning: this run was trained on {arguments.data}: not data it has never seen", file=sys.stderr)
    test = None if arguments.data is None else in_memory(Trajectories.load(arguments.data))
    report = run.evaluate(test, arguments.rollouts, arguments.draw, arguments.data and arguments.data.name)
    _say(report, arguments.json)
    folder = arguments.out or (arguments.run / f"on-{arguments.data.stem}" if arguments.data else arguments.run)
    write_report(folder, report, [run])
    if not arguments.json:
        print(f"\nreport: {folder / 'report.html'}, {folder / 'report.json'}")


def sample(arguments: Sample) -> None:
    """poise sample."""
    from .labeling import parse_words
    from .runs import load_run

    run = load_run(arguments.run, arguments.styles)
    _check_drawing(arguments, run.domain)
    words = parse_words(arguments.style, run.styles)
    more = {"start": arguments.start, "steps": arguments.steps, "seed": arguments.seed, "draw": arguments.draw}
    checked = run.sample_checked(arguments.count, words, **more)
    asked = [i for i, style in enumerate(run.styles) if style.name in words or not words]
    judged, title = checked.only(asked), ", ".join(arguments.style) or "labels of the starts"
    if arguments.out:
        checked.rollouts.save(arguments.out)
    if arguments.picture or arguments.animation:
        _draw(arguments, title, judged, run.domain.scene)
    right = {run.styles[i].name: float(checked.right[:, i].mean()) for i in asked}
    files = [str(path) for path in (arguments.out, arguments.picture, arguments.animation) if path]
    joint, unscored = float(judged.right.all(axis=1).mean()), int((~judged.scored).any(axis=1).sum())
    if arguments.json:
        told = {"rollouts": arguments.count, "joint": joint, "by_style": right, "unscored": unscored, "files": files}
        return _say(told, True)
    each = f" ({', '.join(f'{name} {share:.0%}' for name, share in right.items())})" if len(right) > 1 else ""
    print(f"{arguments.count} rollouts in {run.domain.environment_text}; {joint:.0%} show {title}{each}")
    if unscored:
        print(f"warning: the styles could not score {unscored} of them (raised or returned NaN): they count as wrong")
    for path in files:
        print(f"wrote {path}")


def _check_drawing(arguments: Sample, domain: Any) -> None:
    """Refuses what cannot be drawn before anything is rolled out."""
    if arguments.animation:
        from .plots import check_animation

        check_animation(arguments.animation)
        if domain.scene.body is None:
            raise PoiseError(f"--animation draws a body that moves, and {domain.name} has none; try --picture")
    if arguments.render and not (arguments.picture or arguments.animation):
        raise PoiseError("--render says how to draw; say where with --picture or --animation")
    if arguments.render and domain.scene.render is None:
        raise PoiseError(f"--render draws what MuJoCo simulates, and {domain.name} is not of it; leave it out")


def _draw(arguments: Sample, title: str, judged: Any, scene: Any) -> None:
    """Draws the rollouts on their scene, or the first as a gait where there is a body: in a strip, and moving."""
    from . import plots

    if arguments.picture and scene.body is None:
        return plots.save(plots.draw_rollouts([(title, judged)], scene), arguments.picture)
    states, obeys = plots.first_gait(judged)
    if arguments.picture:
        share, this = judged.right.all(axis=1).mean(), "and by this one" if obeys else "not by this one"
        words = f"{title}: shown by {share:.0%} of {len(judged.finite)} rollouts, {this}"
        plots.save(plots.draw_strips([(words, states)], scene, arguments.render), arguments.picture)
    if arguments.animation:
        plots.save_animation(states, scene, arguments.animation, arguments.render)


def reproduce(arguments: Reproduce) -> None:
    """poise reproduce."""
    from . import reproduce as paper
    from .reproduce.grid import summary

    if arguments.list:
        return print(summary())
    files = paper.reproduce(
        arguments.tables,
        data=arguments.data,
        test=arguments.test,
        split_by=arguments.split_by,
        seeds=arguments.seeds,
        quick=arguments.quick,
        out=arguments.out,
        algorithms=arguments.algorithms,
    )
    print(files[0].read_text())
    for path in files:
        print(f"wrote {path}")


def demonstrators(arguments: Demonstrators) -> None:
    """poise demonstrators."""
    import jax

    from .demonstrators import Plan, train
    from .domains import find_domain

    skill = find_domain(arguments.domain).skill
    if skill is None:
        raise PoiseError(
            f"no policies make the demonstrations of {arguments.domain!r}; try: poise demonstrators cheetah"
        )
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise PoiseError(f"--seconds is above 0; got {arguments.seconds:g}")
    on_cpu = jax.default_backend() == "cpu"
    driver = ("threads" if on_cpu else "mjx") if arguments.driver == "auto" else arguments.driver
    policies = (5 if on_cpu else 125) if arguments.policies is None else arguments.policies
    plan = Plan(
        policies,
        arguments.steps,
        arguments.environments,
        arguments.seed,
        driver,
        arguments.solver,
        arguments.iterations,
        arguments.line_search_iterations,
    )
    found = train(skill, plan, arguments.out, arguments.seconds, progress=not arguments.json)
    if arguments.json:
        return _say(found, True)
    trained = f"{found['steps']:,} steps each in {found['seconds']:.0f} s"
    print(f"{policies} policies, {trained}: {found['mean_error']:.2f} {found['unit']} from their targets on average")
    print(f"wrote {arguments.out / 'policies.safetensors'}, {arguments.out / 'demonstrators.json'}")


def demos(arguments: Demos) -> None:
    """poise demos."""
    from .domains import find_domain
    from .files import make_folder

    domain = find_domain(arguments.domain)
    if domain.demonstrations is None or domain.test is None:
        raise PoiseError(f"no policies make the demonstrations of {domain.name!r}; try: poise demos cheetah")
    count = domain.count if arguments.count is None else arguments.count
    if count < 1:
        raise PoiseError(f"--count is at least 1; got {count}")
    if arguments.out:
        make_folder(arguments.out)
    made = {"train": domain.demonstrations(count, arguments.seed), "test": domain.test(count, arguments.seed)}
    sizes = {name: len(part) for name, part in made.items()}
    files = {name: str(arguments.out / f"{name}.npz") for name in made if arguments.out}
    for name, path in files.items():
        made[name].save(path)
    if arguments.json:
        return _say({**sizes, "steps": made["train"].steps, "files": files}, True)
    both = f"{sizes['train']:,} demonstrations to train with and {sizes['test']:,} to test with"
    print(f"{both}, {made['train'].steps} steps each")
    for path in files.values():
        print(f"wrote {path}")
    data = f"{files['train']} --test {files['test']} --domain {domain.name}" if files else domain.name
    small = f" --preset {domain.presets[-1]}" if domain.presets else ""
    print(f"next: poise train --data {data} --styles {next(iter(domain.styles))}{small}")


ABOUT = "Policies you can dial: learn from demonstrations, ask for a style, get rollouts that show it."
COMMANDS = {
    Demo: demo,
    Import: import_logs,
    Label: label,
    Train: train,
    Evaluate: evaluate,
    Sample: sample,
    Reproduce: reproduce,
    Demonstrators: demonstrators,
    Demos: demos,
}


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command; bad input is one line on standard error and exit code 2."""
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:
        print(f"poise {versions()['poise']}")
        return 0
    try:
        arguments = parse(words)
        use_program_cache()
        if isinstance(arguments, Demo | Train | Reproduce):  # what loads a run is faster on one device
            use_cores()
        COMMANDS[type(arguments)](arguments)
    except PoiseError as error:
        print(f"poise: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("poise: not enough memory for that many numbers; ask for fewer at a time", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("poise: interrupted; start the same command again to go on", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def parse(words: Sequence[str]) -> Any:
    """The arguments of the command that the words name; train starts from the presets of the data's domain."""
    names = [kind.__name__.lower() for kind in COMMANDS]
    if words and not words[0].startswith("-") and words[0] not in names:
        raise unknown("command", words[0], names)
    defaults: dict[type, Any] = {Train: _preset(words)} if words and words[0] == "train" else {}
    commands = tuple(
        Annotated[
            kind,
            tyro.conf.subcommand(name=kind.__name__.lower(), default=defaults.get(kind, tyro.MISSING_NONPROP)),
        ]
        for kind in COMMANDS
    )
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(
                _union(commands),  # pyright: ignore[reportArgumentType]
                args=list(words),
                prog="poise",
                description=ABOUT,
                config=(tyro.conf.OmitArgPrefixes,) if words and words[0] != "train" else (),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise PoiseError(_one_line(said.getvalue(), " ".join(["poise", *words[:1]]))) from None


def _one_line(box: str, command: str) -> str:
    """What tyro says in a box of several lines, on one: the error, the nearest option, where help is."""
    lines = [line.strip(" │╭╮╰╯|+") for line in box.splitlines()]
    parts = [[]]
    for line in lines[1:]:
        if line.strip("─-") == "":
            parts.append([])
        else:
            parts[-1].append(line)
    parts = [part for part in parts if part] or [["the command could not be read"]]
    meant = [part[1].split()[0] for part in parts if len(part) > 1 and part[0].startswith("Perhaps you meant")]
    hint = f"; did you mean {meant[0]}?" if meant else ""
    return f"{' '.join(parts[0]).rstrip('.')}{hint} (see {command} --help)"


def _preset(words: Sequence[str]) -> Train:
    from .domains import DOMAINS

    flat = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    named = {word: value for word, value in itertools.pairwise(flat) if word in ("--data", "--domain", "--preset")}
    domain = DOMAINS.get(named.get("--domain") or named.get("--data") or Experiment.data)
    preset = named.get("--preset")
    if preset is not None and preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if preset and domain and domain.presets and preset not in domain.presets:
        own = " or ".join(domain.presets)
        raise PoiseError(f"preset {preset!r} was not made for {domain.name} and does badly there; take {own}")
    settings = PRESETS[preset] if preset else domain.settings if domain else Experiment().settings
    styles = tuple(name for name in Experiment.styles if domain is not None and name in domain.styles)
    return Train(Experiment(settings=settings, styles=styles))


def _union(kinds: tuple[Any, ...]) -> Any:
    from typing import Union

    return Union[kinds]  # noqa: UP007  (a union of a table)


def _say(value: Any, as_json: bool) -> None:
    plain = value.to_json() if as_json and hasattr(value, "to_json") else value
    print(json.dumps(plain, indent=1) if as_json else plain)


if __name__ == "__main__":
    sys.exit(main())
