"""The paper's tables on basketball, made again: `poise reproduce`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import tables
from .grid import TABLES, find_tables
from .study import Study

__all__ = ["TABLES", "Study", "find_tables", "reproduce"]


def reproduce(
    names: Sequence[str] = ("all",),
    *,
    data: str | None = None,
    test: str | None = None,
    seeds: int | None = None,
    quick: bool = False,
    out: str | Path = "runs/paper",
    algorithms: Sequence[str] = (),
    progress: bool = True,
) -> list[Path]:
    """Trains what some tables need and is not there yet, and writes them with figures; the files that were written.

    Without data, on simulated basketball. `quick`: small networks, few demonstrations, one seed. `algorithms`: only
    these rows. The same call goes on where an earlier one was interrupted.
    """
    chosen = find_tables(names)
    study = Study.open(out, data, test, seeds or (1 if quick else 5), quick)
    study.fill(chosen.values(), tuple(algorithms), progress)
    files = tables.write(study.folder, chosen, study.results(), study.about())
    from .figures import draw

    return files + draw(study, chosen, study.folder / "figures")
