"""The paper's tables and figures, reproduced: `poise reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..algorithms import ALGORITHMS
from ..errors import PoiseError, unknown
from ..system.compile_cache import use_compile_cache
from ..system.devices import use_cpu_devices
from .figures import draw_figures
from .grid import TABLES, Table, find_tables, of_domain
from .study import Study
from .tables import write_tables

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
    """Trains every cell of some tables that is not measured yet, and writes all tables and figures.

    The same call continues an interrupted one.

    Args:
        names: Tables by name, or `all` (basketball) or `cheetah` for all of a domain.
        data: The path of demonstrations; by default those that the domain makes.
        test: The path of test demonstrations; only with `data`.
        split_by: A column of the data (game, player) whose groups are never divided by the split.
        seeds: Seeds per cell; 5 by default, 1 if `quick`.
        quick: Small networks, few demonstrations, few rollouts.
        out: The folder of the study; under runs/ by default.
        algorithms: Only these rows.
        progress: Whether to show progress.

    Returns:
        The paths of the files that were written: tables.md first, then tables.tex, results.json and figures.

    Raises:
        PoiseError: If a name is unknown, the data cannot be read, or `out` holds another study.
    """
    use_compile_cache()
    use_cpu_devices()
    chosen = find_tables(names)
    _check(chosen, algorithms, seeds, data, test)
    domain = next(iter(chosen.values())).domain
    count = (1 if quick else 5) if seeds is None else seeds
    study = Study.open(out or _default_folder(domain, quick), data, test, count, quick, split_by, domain)
    study.fill(chosen.values(), tuple(algorithms), progress)
    results = study.results()
    shown = {
        name: table
        for name, table in of_domain(domain).items()
        if name in chosen or any(cell.name in results for *_, cell in table.cells())
    }
    files = write_tables(study.folder, shown, results, study.about())
    return files + draw_figures(study, chosen, study.folder / "figures")


def _default_folder(domain: str, quick: bool) -> Path:
    words = ["paper", *([domain] if domain != "basketball" else []), *(["quick"] if quick else [])]
    return Path("runs") / "-".join(words)


def _check(
    chosen: dict[str, Table], algorithms: Sequence[str], seeds: int | None, data: str | None, test: str | None
) -> None:
    """Raises an error about arguments that do not fit, before anything is read or trained."""
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
        raise PoiseError("--test goes with --data; give both, or neither")
