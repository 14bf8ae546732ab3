"""poise import, label, demos and demonstrators: demonstrations before training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from ..errors import PoiseError
from ..runs.experiment import Experiment
from .output import plural, show


@dataclass(frozen=True)
class Import:
    """Makes demonstrations of raw tracking logs: live half-court offense, every attack on one rim."""

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
    """Frames per second."""
    stride: int | None = None
    """Frames from one window to the next; as many as a window has, so that none overlap, if not given."""
    jobs: int | None = None
    """Processes that read files; one per core if not given."""
    json: bool = False
    """Prints what was found as JSON."""


@dataclass(frozen=True)
class Label:
    """Shows how styles label demonstrations: balance, coverage, correlation and support, with warnings."""

    data: str | None = None
    """Demonstrations: the name of a domain that makes its own, or the path of an .npz or of a folder. Those of the
    domain if not given, and simulated basketball without a domain."""
    domain: str | None = None
    """Where styles come from when `data` is a path: basketball, cheetah, walker, or file.py:NAME."""
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
class Demonstrators:
    """Trains the policies that make a domain's demonstrations; the same command resumes where it was interrupted."""

    domain: tyro.conf.Positional[str]
    """Whose: cheetah, walker, or file.py:NAME."""
    policies: int | None = None
    """How many, with targets spread evenly; 125 on an accelerator and 5 on a CPU if not given."""
    steps: int = 1_000_000
    """Control steps of each policy."""
    environments: int = 64
    """Environments of each policy."""
    seed: int = 0
    """Seed of everything."""
    seconds: float | None = None
    """Stops after about so long, and measures what there is; the same command continues from there."""
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
    """Whose: cheetah, walker, or file.py:NAME."""
    count: int | None = None
    """How many to train with; as many as the domain makes if not given."""
    seed: int = 0
    """Seed of starts and actions."""
    out: Path | None = None
    """A folder for train.npz and test.npz; they are kept in the user's cache only if not given."""
    json: bool = False
    """Prints what was made as JSON."""


def import_logs(arguments: Import) -> None:
    """poise import."""
    from ..data.importers.half_court import Cut
    from ..data.importers.sportvu import import_sportvu

    cut = Cut(arguments.steps, arguments.hz, arguments.stride)
    shown = not arguments.json
    found = import_sportvu(arguments.folder, arguments.out, arguments.what, cut, arguments.jobs, progress=shown)
    counts = {game: len(scenes.states) for game, scenes in found.games.items()}
    windows = sum(counts.values())
    rows = windows * 5 if arguments.what == "players" else windows
    if arguments.json:
        return show({"file": str(arguments.out), "rows": rows, "windows": counts, "skipped": found.skipped}, True)
    print(f"wrote {arguments.out}: {rows:,} {arguments.what} in {windows:,} windows of {cut.seconds:.1f} s")
    print(f"{plural(len(counts), 'game')}; skipped: {len(found.skipped)}")
    domain = " --domain basketball" if arguments.what == "players" else ""
    by = " --split-by game" if len(counts) > 2 else ""  # a split needs three groups
    print(f"next: poise train --data {arguments.out}{domain}{by} --styles ...")


def label(arguments: Label) -> None:
    """poise label."""
    from ..domains import plain
    from ..runs.prepare import load_data, load_styles
    from ..runs.sizes import check_classes
    from ..styles.inspection import Inspection

    asked = Experiment(data=arguments.data, domain=arguments.domain, count=arguments.count)
    domain = asked.find_domain()
    demonstrations = load_data(asked.resolve(domain).data, arguments.count, domain)
    domain = domain or plain(demonstrations)
    domain.check(demonstrations)
    check_classes(arguments.classes, len(demonstrations))
    styles = load_styles(arguments.styles or tuple(domain.styles), domain, arguments.classes)
    seen = Inspection.of(styles, demonstrations, progress=not arguments.json)
    if arguments.picture:
        from .. import figures

        figures.save(figures.draw_scores(seen), arguments.picture)
    show(seen, arguments.json)
    if not arguments.json:
        print(f"rollouts would be simulated in: {domain.describe_simulation()}")
        if arguments.picture:
            print(f"wrote {arguments.picture}")


def demonstrators(arguments: Demonstrators) -> None:
    """poise demonstrators."""
    import jax

    from ..domains import find_domain
    from ..domains.demonstrators.training import TrainConfig, train

    task = find_domain(arguments.domain).task
    if task is None:
        raise PoiseError(
            f"no policies make the demonstrations of {arguments.domain!r}; try: poise demonstrators cheetah"
        )
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise PoiseError(f"--seconds is above 0; got {arguments.seconds:g}")
    on_cpu = jax.default_backend() == "cpu"
    driver = ("threads" if on_cpu else "mjx") if arguments.driver == "auto" else arguments.driver
    policies = (5 if on_cpu else 125) if arguments.policies is None else arguments.policies
    config = TrainConfig(
        policies,
        arguments.steps,
        arguments.environments,
        arguments.seed,
        driver,
        arguments.solver,
        arguments.iterations,
        arguments.line_search_iterations,
    )
    found = train(task, config, arguments.out, arguments.seconds, progress=not arguments.json)
    if arguments.json:
        return show(found, True)
    trained = f"{found['steps']:,} steps each in {found['seconds']:.0f} s"
    print(f"{policies} policies, {trained}: {found['mean_error']:.2f} {found['unit']} from their targets on average")
    print(f"wrote {arguments.out / 'policies.safetensors'}, {arguments.out / 'demonstrators.json'}")


def demos(arguments: Demos) -> None:
    """poise demos."""
    from ..domains import find_domain
    from ..runs.sizes import check_count
    from ..system.storage import make_folder

    domain = find_domain(arguments.domain)
    if domain.demonstrations is None or domain.test is None:
        raise PoiseError(f"no policies make the demonstrations of {domain.name!r}; try: poise demos cheetah")
    count = domain.count if arguments.count is None else arguments.count
    if count < 1:
        raise PoiseError(f"--count is at least 1; got {count}")
    check_count(domain, count)
    if arguments.out:
        make_folder(arguments.out)
    made = {"train": domain.demonstrations(count, arguments.seed), "test": domain.test(count, arguments.seed)}
    sizes = {name: len(part) for name, part in made.items()}
    files = {name: str(arguments.out / f"{name}.npz") for name in made if arguments.out}
    for name, path in files.items():
        made[name].save(path)
    if arguments.json:
        return show({**sizes, "steps": made["train"].steps, "files": files}, True)
    both = f"{sizes['train']:,} demonstrations to train with and {sizes['test']:,} to test with"
    print(f"{both}, {made['train'].steps} steps each")
    for path in files.values():
        print(f"wrote {path}")
    data = f"{files['train']} --test {files['test']} --domain {domain.name}" if files else domain.name
    small = f" --preset {domain.presets[-1]}" if domain.presets else ""
    print(f"next: poise train --data {data} --styles {next(iter(domain.styles))}{small}")
