"""poise demo and poise reproduce: the demos, and the paper's tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class Demo:
    """Trains ctvae and ctvae-style and writes a report: players by speed and destination, or a runner by its gait."""

    name: tyro.conf.Positional[Literal["basketball", "cheetah"]] = "basketball"
    """Simulated basketball, or the Cheetah (extra `cheetah`)."""
    out: Path | None = None
    """Where report.html, report.json and the runs go (demo or demo-cheetah if not given); an interrupted demo is
    resumed from there."""
    seeds: int | None = None
    """Seeds of each algorithm; two of basketball and one of the Cheetah if not given."""


@dataclass(frozen=True)
class Reproduce:
    """Makes the paper's tables again, beside its numbers; resumes where it was interrupted."""

    tables: tyro.conf.Positional[tuple[str, ...]] = ()
    """Tables by name, `all` of basketball, or `cheetah` for all of the Cheetah; --list names them."""
    list: bool = False
    """Lists the tables and stops."""
    data: str | None = None
    """Demonstrations (.npz; of players, as `poise import sportvu` writes them); those of the domain if not given."""
    test: str | None = None
    """An .npz of test demonstrations; without one, a tenth of the data is set aside."""
    split_by: str | None = None
    """A column of the metadata whose groups are never divided by the split; `game` if there is one."""
    seeds: int | None = None
    """Seeds of each cell; 5, or 1 if quick."""
    quick: bool = False
    """Small networks, few demonstrations and rollouts: minutes on two cores."""
    algorithms: tuple[str, ...] = ()
    """Only these rows."""
    out: Path | None = None
    """Where cells, runs, tables and figures go; runs/paper if not given, with -cheetah, with -quick."""


def demo(arguments: Demo) -> None:
    """make demo."""
    from ..reproduce.demo import run_demo

    run_demo(arguments.out, arguments.seeds, arguments.name)


def reproduce(arguments: Reproduce) -> None:
    """poise reproduce."""
    from .. import reproduce as paper
    from ..reproduce.grid import summary

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
