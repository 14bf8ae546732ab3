"""The tables as Markdown."""

from __future__ import annotations

from typing import Any

from .cells import STYLES
from .grid import Table
from .summaries import (
    MEASURES,
    NOISE,
    NOT_MEASURED,
    Measure,
    NoiseTable,
    Results,
    noise_tables,
    paper_value,
    summarise,
)


def markdown(name: str, table: Table, results: Results) -> str:
    """A table as Markdown: medians with the paper's in brackets, and below them every seed."""
    entries = summarise(name, table, results)
    parts = [f"### {table.title}\n"]
    if name == "noise":
        parts += [_noise(kind, rows) for kind, rows in noise_tables(results).items()]
    for measure in table.measures:
        shown = [entry for entry in entries if entry["measure"] == measure]
        if not shown:
            parts.append(f"{NOT_MEASURED}\n")
            continue
        if name != "noise":
            parts.append(_medians(shown, MEASURES[measure]))
        parts.append(_every_seed(shown, MEASURES[measure]))
    return "\n".join(parts)


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table without a trailing newline."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _medians(entries: list[dict[str, Any]], measure: Measure) -> str:
    """A row per algorithm, with the paper's value in brackets."""
    seeds = len(entries[0]["values"])
    papers = [entry["paper"] for entry in entries if entry["paper"]]
    only_means = all(paper["median"] is None for paper in papers)
    brackets = f" (in brackets: the paper's{' mean' if only_means else ''})" if papers else ""
    columns = list(dict.fromkeys(entry["column"] for entry in entries))
    algorithms = dict.fromkeys(entry["algorithm"] for entry in entries)
    at = {(entry["algorithm"], entry["column"]): _median(entry, measure.form) for entry in entries}
    rows = [[algorithm, *(at.get((algorithm, column), "-") for column in columns)] for algorithm in algorithms]
    title = f"{measure.words}; median of {seeds} seed{'s' if seeds > 1 else ''}{brackets}"
    return f"{title}\n\n{markdown_table(['', *columns], rows)}\n"


def _every_seed(entries: list[dict[str, Any]], measure: Measure) -> str:
    """A row per cell with all of its seeds, folded away."""
    head = ["algorithm", "", "seeds", "min, median, max", "mean ± deviation", "paper: min, median, max", "mean"]
    rows = [
        [
            entry["algorithm"],
            entry["column"],
            " ".join(format(value, measure.form) for value in entry["values"]),
            _min_median_max(entry, measure.form),
            _mean(entry, measure.form),
            _min_median_max(entry["paper"], "g"),
            _mean(entry["paper"], "g"),
        ]
        for entry in entries
    ]
    summary = f'<details markdown="1"><summary>every seed: {measure.words}</summary>'  # "1": a page may be a site's
    return f"{summary}\n\n{markdown_table(head, rows)}\n</details>\n"


def _noise(kind: str, rows: NoiseTable) -> str:
    def cell(found: dict[str, float] | None) -> str:
        return f"{found['ours']:.1f} ({found['paper']:.1f})" if found else "-"

    body = [[f"{noise} σ", *(cell(rows[noise].get(style)) for style in STYLES)] for noise in rows]
    return f"{NOISE[kind]} (in brackets: the paper's)\n\n{markdown_table(['noise', *STYLES], body)}\n"


def _median(entry: dict[str, Any], form: str) -> str:
    paper = paper_value(entry)
    ours = "-" if entry["median"] is None else format(entry["median"], form)
    return ours + (f" ({paper:g})" if paper is not None else "")


def _min_median_max(entry: dict[str, Any] | None, form: str) -> str:
    if not entry or entry["median"] is None:
        return "-"
    if entry["min"] is None:
        return format(entry["median"], form)
    return f"{entry['min']:{form}}, {entry['median']:{form}}, {entry['max']:{form}}"


def _mean(entry: dict[str, Any] | None, form: str) -> str:
    return "-" if not entry or entry["mean"] is None else f"{entry['mean']:{form}} ± {entry['deviation']:{form}}"
