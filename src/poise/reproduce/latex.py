"""The tables as LaTeX (booktabs)."""

from __future__ import annotations

from typing import Any

from .cells import STYLES
from .grid import Table
from .summaries import MEASURES, NOISE, NoiseTable, Results, noise_tables, paper_value, summarise


def latex(name: str, table: Table, results: Results) -> str:
    """A table as LaTeX: medians over seeds, the paper's in brackets in small print."""
    if name == "noise":
        return "\n".join(_noise(kind, rows) for kind, rows in noise_tables(results).items() if rows)
    entries = summarise(name, table, results)
    parts = []
    for measure in table.measures:
        shown = [entry for entry in entries if entry["measure"] == measure]
        if shown:
            title = f"{table.title}: {MEASURES[measure].words}; median over seeds (the paper's)."
            parts.append(_medians(shown, title, MEASURES[measure].form))
    return "\n".join(parts)


def _medians(entries: list[dict[str, Any]], title: str, form: str) -> str:
    columns = list(dict.fromkeys(entry["column"] for entry in entries))
    at = {(entry["algorithm"], entry["column"]): entry for entry in entries}
    rows = []
    for algorithm in dict.fromkeys(entry["algorithm"] for entry in entries):
        row = [_cell(at.get((algorithm, column)), form) for column in columns]
        rows.append(" & ".join([algorithm, *row]) + r" \\")
    return _tabular(title, columns, rows)


def _cell(entry: dict[str, Any] | None, form: str) -> str:
    if entry is None or entry["median"] is None:
        return "--"
    paper = paper_value(entry)
    return format(entry["median"], form) + (rf" {{\small ({paper:g})}}" if paper is not None else "")


def _noise(kind: str, rows: NoiseTable) -> str:
    def cell(found: dict[str, float] | None) -> str:
        return rf"{found['ours']:.1f} {{\small ({found['paper']:.1f})}}" if found else "-"

    body = [
        " & ".join([rf"{noise}$\sigma$", *(cell(rows[noise].get(style)) for style in STYLES)]) + r" \\"
        for noise in rows
    ]
    return _tabular(f"{NOISE[kind]} (the paper's).", list(STYLES), body)


def _tabular(title: str, columns: list[str], rows: list[str]) -> str:
    head = " & ".join(["", *map(_escape, columns)]) + r" \\"
    begin = rf"\begin{{tabular}}{{l{'c' * len(columns)}}}"
    lines = [begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    caption = rf"\caption{{{_escape(title)}}}"
    return "\n".join([r"\begin{table}", r"\centering", *lines, caption, r"\end{table}", ""])


def _escape(words: str) -> str:
    return words.replace("%", r"\%").replace("_", r"\_").replace("σ", r"$\sigma$")
