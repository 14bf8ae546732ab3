"""poise train."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..config import Settings
from ..runs.experiment import DEFAULT_ALGORITHM, DEFAULT_DATA, Experiment
from .output import plural, show


@dataclass(frozen=True)
class Train:
    """Trains a policy that can be dialled; the same command resumes a run that was interrupted."""

    algorithm: str = DEFAULT_ALGORITHM
    """A row of the table of algorithms (flow, flow-style, tvae, ctvae, ctvae-info, ctvae-mi, ctvae-style, rnn,
    rnn-style), or file.py:NAME for one of your own."""
    data: str | None = None
    """Demonstrations: the name of a domain that makes its own, or the path of an .npz or of a folder of .npy. Those of
    the domain if not given, and simulated basketball without a domain."""
    styles: tuple[str, ...] = ()
    """Styles by name, or as file.py:function; the domain's default styles if none is given."""
    domain: str | None = None
    """Where styles, units, presets and the environment come from when `data` is a path: basketball, cheetah,
    walker, or file.py:NAME for one of your own."""
    preset: str | None = None
    """Settings to start from. Basketball: basketball (the paper's sizes) or small (for two cores). Cheetah and walker:
    cheetah or cheetah-small."""
    test: str | None = None
    """An .npz (or a folder) of test demonstrations; without one, a tenth of the data is set aside."""
    split_by: str | None = None
    """A column of the metadata (game, player) whose groups are never divided by the split."""
    count: int | None = None
    """How many demonstrations a domain makes (its own default if not given)."""
    classes: int | None = None
    """Classes of every style that sets no thresholds of its own; without it, as many as the style names."""
    noise: float = 0.0
    """Gaussian noise on the scores that training labels come from, in units of each score's deviation."""
    seeds: int = 1
    """How many seeds to train, as one compiled program."""
    first_seed: int = 0
    """The first seed; the others follow it."""
    settings: Settings = field(default_factory=Settings)
    out: Path | None = None
    """The run folder; runs/DATA-ALGORITHM if not given."""
    json: bool = False
    """Prints the run's summary as JSON."""

    def experiment(self) -> Experiment:
        """What is asked for. The preset is already in the settings."""
        given = {one.name: getattr(self, one.name) for one in fields(Experiment) if one.name != "preset"}
        return Experiment(**{**given, "styles": self.styles or None})


def train_defaults(words: Sequence[str]) -> Train:
    """The defaults of `poise train`: the settings of the preset or domain that its words name."""
    flat = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    options = {"--data": "data", "--domain": "domain", "--preset": "preset"}
    named: dict[str, Any] = {options[word]: value for word, value in itertools.pairwise(flat) if word in options}
    asked = Experiment(**named)
    settings = asked.resolve(asked.find_domain()).settings
    assert settings is not None
    return Train(settings=settings)


def train(arguments: Train) -> None:
    """poise train."""
    from ..runs.folder import WEIGHTS
    from ..runs.train import train_experiments

    experiment = arguments.experiment()
    stem = Path(arguments.data or arguments.domain or DEFAULT_DATA).stem
    out = arguments.out or Path("runs") / f"{stem}-{experiment.algorithm_name}"
    done = (out / WEIGHTS).exists()
    run = train_experiments([experiment], [out], progress=not arguments.json)[0]
    stopped = {str(seed): where for seed, where in zip(run.seeds, run.stopped, strict=True) if where}
    if arguments.json:
        summary = {"run": str(out), "seeds": run.seeds, "stopped": stopped, "best_seed": run.seeds[run.best]}
        return show({**summary, "seconds": round(run.seconds, 1)}, True)
    state = "was trained already" if done else f"is trained, in {run.seconds:.0f} s"
    print(f"{out} {state}: {experiment.algorithm_name}, {plural(len(run.seeds), 'seed')}")
    for seed, where in stopped.items():
        print(f"seed {seed} was stopped at {where}: its loss was not finite")
    example = " ".join(f"--style {style.name}={style.classes[0]}" for style in run.styles)
    print(f"next: poise evaluate {out}   or   poise sample {out} {example} --picture rollouts.png")
