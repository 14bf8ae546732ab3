"""Blocks with the paper's tables, for both domains."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from poise.reproduce.cells import BASELINES, CALIBRATED
from poise.reproduce.goals import check_goals
from poise.reproduce.grid import TABLES, of_domain
from poise.reproduce.markdown import markdown
from poise.reproduce.paper import CONSISTENCY
from poise.reproduce.summaries import NOT_MEASURED, summarise

from .text import markdown_table, percent, read


def paper_table(name: str) -> str:
    """A table of the paper, cell by cell, without its title."""
    table = TABLES[name]
    return markdown(name, table, read(f"{table.domain}/paper")["measured"]).split("\n", 2)[2].strip()


def main_rows(names: Sequence[str], measured: dict[str, Any], title: str) -> str:
    """One row per column of these tables: our medians, the paper's in brackets."""
    rows = []
    for name in names:
        entries = {(e["algorithm"], e["column"]): e for e in summarise(name, TABLES[name], measured)}
        prefix = {"joint": "joint ", "speed": "SPEED, classes: "}.get(name.removeprefix("cheetah-"), "")
        for column in TABLES[name].columns:
            found = [entries.get((algorithm, column)) for algorithm in CALIBRATED]
            cells = [f"{e['median']:.0f} ({e['paper']['median']:.0f})" if e else NOT_MEASURED for e in found]
            rows.append([prefix + column if prefix else _upper(column), *cells])
    return markdown_table([title, *(f"`{algorithm}`" for algorithm in CALIBRATED)], rows)


def goals(domain: str) -> str:
    """The goals that were set before the tables were measured, and whether they are reached."""
    result = read(f"{domain}/paper")
    lines = "\n".join(f"- {line}" for line in check_goals(result["measured"], of_domain(domain)))
    sizes = {(cell["train"], cell["test"]) for cell in result["measured"].values()}
    data = ", ".join(f"{train:,} training and {test:,} test trajectories" for train, test in sorted(sizes))
    took = f"{result['seconds'] / 60:.0f} minutes of {result['hardware']} for all programs together"
    return f"{lines}\n\nFrom `results/{domain}/paper.json`: {data}, {took}, commits {result['commit']}."


def behind(domain: str) -> str:
    """What lies behind each cell of ctvae-style: worst class, shuffled labels, range, NLD, the labeler's estimate."""
    measured, rows, seen = read(f"{domain}/paper")["measured"], [], set()
    for name, table in of_domain(domain).items():
        for algorithm, column, cell in table.cells() if name in CONSISTENCY else ():
            if algorithm != "ctvae-style" or cell.name in seen:
                continue
            seen.add(cell.name)
            baselines = [measured.get(replace(cell, algorithm=baseline).name) for baseline in BASELINES]
            rows.append([_title(name, column), *_behind_cells(measured[cell.name], baselines)])
    head = ["`ctvae-style`", "right, %", "worst class, %", "shuffled labels, %", "out of range, %"]
    head += ["right and in range, %", "best baseline, right and in range, %", "NLD above `ctvae`"]
    head.append("labeler's overestimate, points")
    note = (
        "Medians of 5 seeds. Worst class: the class that is right least often when it is requested. Shuffled labels: "
        "rollouts conditioned on the labels of another demonstration than the start's. Labeler's overestimate: the "
        "labeler's estimate of style-consistency minus the true one, for the style where it is largest."
    )
    return f"{markdown_table(head, rows)}\n\n{note}"


def _behind_cells(ours: dict[str, Any], baselines: list[dict[str, Any] | None]) -> list[str]:
    in_range = max(float(percent(cell, "joint_in_range")) for cell in baselines if cell)
    ctvae = baselines[0]
    assert ctvae is not None
    nld, floor = (statistics.median(seed["nld"] for seed in cell["seeds"]) for cell in (ours, ctvae))
    return [
        percent(ours, "joint"),
        _worst_class(ours),
        percent(ours, "joint_shuffled"),
        percent(ours, "out_of_range"),
        percent(ours, "joint_in_range"),
        f"{in_range:.1f}",
        f"{nld - floor:.2f}",
        _overestimate(ours),
    ]


def _title(name: str, column: str) -> str:
    name = name.removeprefix("cheetah-")
    return _upper(column) if name == "single-styles" else f"{name.upper()} {column}"


def _upper(style: str) -> str:
    return style.replace("_", " ").upper()


def _worst_class(cell: dict[str, Any]) -> str:
    """The class that is right least often when it is requested."""
    by_class = {
        (style, word): statistics.median(100 * seed["by_class"][style][word]["value"] for seed in cell["seeds"])
        for style, words in cell["seeds"][0]["by_class"].items()
        for word in words
    }
    style, word = min(by_class, key=lambda key: by_class[key])
    return f"{word} {by_class[style, word]:.1f}" + (f" ({style})" if len(cell["seeds"][0]["by_class"]) > 1 else "")


def _overestimate(cell: dict[str, Any]) -> str:
    """Points by which the labeler's estimate is above the truth, for the style where it is most."""
    points = {
        style: statistics.median(
            100 * (seed["labeler_estimate"][style] - seed["by_style"][style]) for seed in cell["seeds"]
        )
        for style in cell["seeds"][0]["labeler_estimate"]
    }
    most = max(points, key=lambda style: points[style])
    return f"{points[most]:.1f}" + (f" ({most})" if len(points) > 1 else "")


def quick(domain: str) -> str:
    """How long a quick table takes on two cores, and what it shows."""
    result = read(f"{domain}/paper_quick")
    (entries,) = (entries for name, entries in result["tables"].items() if name.endswith("single-styles"))
    ours = [e for e in entries if e["algorithm"] == "ctvae-style" and e["measure"] == "joint"]
    shown = ", ".join(f"{entry['column']} {entry['median']:.0f}" for entry in ours)
    return (
        f"`{result['command']}`: {result['seconds'] / 60:.1f} minutes on two cores, with one seed "
        f"(`ctvae-style`, %: {shown}; commit {result['commit']})."
    )
