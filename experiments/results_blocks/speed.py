"""Blocks about speed."""

from __future__ import annotations

import sys
from typing import Any

from .text import ROOT, markdown_table, provenance, read

sys.path.append(str(ROOT / "benchmarks"))  # a folder of scripts, not a package

from speed_summary import (
    EXPECTED,
    SECTIONS,
    Line,
    baseline_of,
    digits,
    floor_of,
    hardware_of,
    lines_of,
    on_cpu,
    read_results,
    rows_of,
    words_of,
)

FOLDER = ROOT / "results" / "speed"
MISSING = "not measured yet"


def overview() -> str:
    """The most important measurements of all machines in one table."""
    rows, notes = [], []
    for machine, result in _results().items():
        rows.append([f"**{result['hardware'] if result else machine}**", "" if result else MISSING, "", ""])
        if result:
            wanted = list(SECTIONS) if on_cpu(result) else ["step"]
            rows += [_cells(line) for line in _lines(result, wanted) if not line.minor]
            parts = [*result["rows"], *(part for part in result.values() if isinstance(part, dict))]
            commits = sorted({part["commit"] for part in parts if "commit" in part} | {result["commit"]})
            notes.append(f"{provenance(result)}; parts of it measured at {', '.join(commits)}.")
    notes.append(
        "Limits were set beforehand. The published code was timed once, beforehand. Eager PyTorch is one run with the "
        "published loop, timed in this command; the table of all steps also has it with whole sequences."
    )
    return f"{markdown_table(['', 'measured', 'limit', 'in comparison'], rows)}\n\n{' '.join(notes)}"


def steps() -> str:
    """Every step that was measured, one table per machine."""
    head = ["step", "runs", "ms per step", "ms per run", "floor per run", "eager PyTorch", "whole", "chain", "compile"]
    parts = []
    for machine, result in _results().items():
        if not result or not result.get("rows"):
            parts.append(f"**{machine}**: {MISSING}.")
            continue
        rates = result["machine"]
        rows = [_step_cells(result, row) for row in rows_of(result)]
        note = (
            f"A large product runs at {rates['gflops']:,.0f} GFLOP/s, a large copy at {rates['gbytes_per_s']:,.0f} GB/s"
        )
        parts += [f"**{result['hardware']}**", markdown_table(head, rows), f"{note} ({provenance(result)})."]
    return "\n\n".join(parts)


def other() -> str:
    """Labeling, sampling, starting, streaming and time to style, one table per machine."""
    parts = []
    for machine, result in _results().items():
        if not result:
            parts.append(f"**{machine}**: {MISSING}.")
            continue
        rows = [_cells(line) for line in _lines(result, [name for name in SECTIONS if name != "step"])]
        parts += [f"**{result['hardware']}**", markdown_table(["", "measured", "limit", "in comparison"], rows)]
    return "\n\n".join(parts)


def unchanged() -> str:
    """Style-consistency with XLA's loops and with kernels."""
    rows, seeds = [], []
    for title, name in (("XLA's loops", "destination"), ("kernels", "destination_kernels")):
        result = read(f"basketball/{name}")
        cell = next(cell for cell in result["cells"] if cell["algorithm"] == "ctvae-style")
        spread = f"{cell['median']:.3f} [{cell['min']:.3f}, {cell['max']:.3f}]"
        rows.append([title, spread, f"{cell['nld']:.2f}", f"{cell['seconds']:.0f}", provenance(result)])
        seeds.append(cell["seeds"])
    below = sum(seed < min(seeds[0]) for seed in seeds[1])
    head = ["`ctvae-style`, DESTINATION, 3 classes, real data", "right", "NLD", "seconds for 5 seeds", "provenance"]
    note = f"{below} of {len(seeds[1])} seeds with kernels are below the lowest seed with XLA's loops."
    return f"{markdown_table(head, rows)}\n\n{note}"


def _results() -> dict[str, dict[str, Any] | None]:
    """Results by machine: first those that have limits, measured or not, then any others."""
    found = {hardware_of(result): result for result in read_results(FOLDER)}
    return {**dict.fromkeys(EXPECTED), **found}


def _lines(result: dict[str, Any], sections: list[str]) -> list[Line]:
    """The lines of these sections; one that says so for a section that was not measured."""
    lines = lines_of(result)
    return [
        line
        for name in sections
        for line in [line for line in lines if line.section == name] or [Line(name, SECTIONS[name], MISSING)]
    ]


def _cells(line: Line) -> list[str]:
    return [line.what, line.measured, line.verdict, line.comparison]


def _step_cells(result: dict[str, Any], row: dict[str, Any]) -> list[str]:
    taken, floor = row["ms_per_step_and_run"], floor_of(row)
    eager, whole = (baseline_of(result, row, name) for name in ("baseline_ms", "baseline_whole_ms"))
    return [
        words_of(row),
        str(row["runs"]),
        digits(row["ms_per_step"]),
        digits(taken),
        f"{digits(floor, 2)} ({digits(taken / floor, 2)} x)",
        f"{digits(eager)} ({digits(eager / taken, 2)} x)" if eager else "-",
        digits(whole) if whole else "-",
        str(row["dependent_products"]),
        f"{row['compile_s']:.1f} s",
    ]
