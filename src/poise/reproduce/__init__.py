"""The paper's tables, made again: `poise reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..algorithms import ALGORITHMS
from ..cores import use_cores
from ..errors import PoiseError, unknown
from ..program_cache import use_program_cache
from . import tables
from .figures import draw
from .grid import TABLES, Table, find_tables, of_domain
from .study import Study

__all__ = ["TABLES", "Study", "find_tables", "reproduce"]


def reproduce(
    names: Sequence[str] = ("all",),
    *,
    data: str | None = None,
    test: str | None = None,
    split_by: str | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    algorithms: Sequence[str] = (),
    progress: bool = True,
) -> list[Path]:
    """Trains what some tables need and is not there yet, and writes all that is measured; the files that were written.

    Without data, on those that the domain makes. `quick`: small networks, few demonstrations, one seed. `algorithms`:
    only these rows. The same call goes on where an earlier one was interrupted.
    """
    use_program_cache()
    use_cores()
    chosen = find_tables(names)
    _check(chosen, algorithms, seeds, data, test)
    domain = next(iter(chosen.values())).domain
    name = ["paper", *([domain] if domain != "basketball" else []), *(["quick"] if quick else [])]
    count = (1 if quick else 5) if seeds is None else seeds
    study = Study.open(out or Path("runs") / "-".join(name), data, test, count, quick, split_by, domain)
    study.fill(chosen.values(), tuple(algorithms), progress)
    results = study.results()
    known = of_domain(domain)
    measured = {name for name, table in known.items() if any(cell.name in results for *_, cell in table.cells())}
    shown = {name: table for name, table in known.items() if name in measured | chosen.keys()}
    files = tables.write(study.folder, shown, results, study.about())
    return files + draw(study, chosen, study.folder / "figures")


def _check(
    chosen: dict[str, Table], algorithms: Sequence[str], seeds: int | None, data: str | None, test: str | None
) -> None:
    """Refuses what cannot be reproduced, before any of it costs time."""
    if not chosen:
        raise PoiseError("which table? name one, or `all`; `poise reproduce --list` names them")
    rows = {row: None for table in chosen.values() for row in table.algorithms}
    for name in algorithms:
        if name not in ALGORITHMS:
            raise unknown("algorithm", name, ALGORITHMS)
        if name not in rows:
            raise PoiseError(f"{', '.join(chosen)} has no row {name!r}; its rows are {', '.join(rows)}")
    if seeds is not None and seeds < 1:
        raise PoiseError(f"train at least one seed; got {seeds}")
    if test is not None and data is None:
        raise PoiseError("--test goes with --data: what a domain makes is split by itself")
