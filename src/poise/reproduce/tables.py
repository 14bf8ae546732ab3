"""The files that a study writes: its tables and all that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..system import storage
from .cells import PROGRAM
from .grid import Table
from .latex import latex
from .markdown import markdown
from .summaries import Results, noise_tables, summarise


def write_tables(folder: Path, tables: Mapping[str, Table], results: Results, about: dict[str, Any]) -> list[Path]:
    """Writes tables.md, tables.tex and results.json into a folder and returns their paths."""
    summaries = {name: summarise(name, table, results) for name, table in tables.items()}
    noise = {"noise": noise_tables(results)} if "noise" in tables else {}
    wanted = {cell.name for table in tables.values() for _, _, cell in table.cells()}
    measured = {name: result for name, result in sorted(results.items()) if name in wanted}
    pages = ["# The paper's tables, reproduced\n", *(markdown(name, t, results) for name, t in tables.items())]
    floats = [latex(name, table, results) for name, table in tables.items()]
    files = [folder / name for name in ("tables.md", "tables.tex", "results.json")]
    storage.write_bytes(files[0], "\n".join(pages).encode())
    storage.write_bytes(files[1], "\n".join(floats).encode())
    storage.write_json(
        files[2], {**about, **provenance_of(measured), "tables": summaries, **noise, "measured": measured}
    )
    return files


def provenance_of(results: Results) -> dict[str, Any]:
    """The provenance of all cells together; the seconds are those of the programs that trained them."""
    found = {key: _joined(cell[key] for cell in results.values()) for key in ("command", "commit", "hardware")}
    programs: dict[Any, float] = {}
    for cell in results.values():
        program = *(cell["cell"].get(key) for key in PROGRAM), cell["command"]
        programs[program] = max(programs.get(program, 0.0), cell["seconds"])
    recorded = [cell["versions"] for cell in results.values()]
    packages = dict.fromkeys(package for versions in recorded for package in versions)
    versions = {package: _joined(each.get(package) for each in recorded) for package in packages}
    return {**found, "versions": versions, "seconds": round(sum(programs.values()), 1)}


def _joined(values: Iterable[str | None]) -> str:
    """The distinct values in order, separated by semicolons; an installed package, for example, has no commit."""
    return "; ".join(sorted({value or "not recorded" for value in values}))
