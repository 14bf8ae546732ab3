"""Blocks about the flow: beside the paper's algorithms, verified, and in styles that were written after training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from poise.reproduce.cells import STYLES, Cell
from poise.reproduce.grid import TABLES
from poise.reproduce.summaries import NOT_MEASURED

from .text import (
    MISSING,
    field,
    find_cells,
    markdown_table,
    median_and_worst,
    median_of,
    page_link,
    provenance,
    read_if_there,
    way_of,
)

JOINT = Cell("flow", STYLES, 4)
"""Five styles of four classes each at once: 1,024 joint styles."""

ALGORITHMS = ("ctvae", "ctvae-style", "flow")
WAYS = {"unsteered": "unsteered", "": "one try", "verified": "verified"}
"""The ways of sampling: the field of a seed that holds its numbers, and its name in a table."""

CELLS = ("single-styles", "displacement", "destination", "joint")
"""The tables whose cells the flow is measured in."""

SHARES = {"right, %": "joint", "right and in range, %": "joint_in_range", "yield, %": "yield"}


def joint() -> str:
    """The paper's largest cell: every algorithm in every way of sampling."""
    measured, rows = find_cells("basketball/paper"), []
    for algorithm in ALGORITHMS:
        cell = measured.get(replace(JOINT, algorithm=algorithm).name)
        if cell is None:
            continue
        for key, title in WAYS.items():
            seeds = way_of(cell["seeds"], key)
            if seeds:
                digits = 2 if key == "verified" else 1  # so that nearly all is not shown as all
                rows.append([f"`{algorithm}`", _name_of(algorithm, key, title), *_numbers(seeds, digits)])
    if not rows:
        return _missing("the joint styles")
    head = ["1,024 joint styles", "sampled", *SHARES, "C2ST", "tries", "never reached, %"]
    lacks = [name for name in ALGORITHMS if replace(JOINT, algorithm=name).name not in measured]
    note = f"\n\n`{'`, `'.join(lacks)}`: {NOT_MEASURED}." if lacks else ""
    return f"{markdown_table(head, rows)}{note}"


def _name_of(algorithm: str, key: str, title: str) -> str:
    return "one try, steered" if algorithm == "flow" and not key else title


def _numbers(seeds: list[dict[str, Any]], digits: int) -> list[str]:
    shares = [median_and_worst(seeds, key, min, 100.0, digits) for key in SHARES.values()]
    return [*shares, median_and_worst(seeds, "c2st", max, digits=2), *_tries(seeds)]


def _tries(seeds: list[dict[str, Any]]) -> list[str]:
    return [median_of(seeds, "tries", digits=2), median_of(seeds, "never", 100.0, 2)]


def realism() -> str:
    """How real one try of each algorithm looks, by the other measures."""
    measured, rows, known = find_cells("basketball/paper"), [], MISSING
    for algorithm in ALGORITHMS:
        cell = measured.get(replace(JOINT, algorithm=algorithm).name)
        if cell is None or field(cell["seeds"][0], "off_support") is None:
            continue
        seeds = cell["seeds"]
        shares = [median_of(seeds, key, 100.0) for key in ("out_of_range", "off_support")]
        more = [median_of(seeds, key, digits=2) for key in ("diversity", "novelty", "nld")]
        rows.append([f"`{algorithm}`", *shares, *more])
        known = median_of(seeds, "novelty_of_demonstrations", digits=2)
    if not rows:
        return _missing("realism")
    head = ["1,024 joint styles, one try", "out of range, %", "off support, %", "diversity", "novelty", "NLD per step"]
    note = f"\n\nThe novelty of test demonstrations is {known}." if known != MISSING else ""
    return f"{markdown_table(head, rows)}{note}"


def shuffled() -> str:
    """Requests with shuffled labels, split by what is feasible."""
    measured, rows = find_cells("basketball/paper"), []
    keys = ("joint_shuffled", "shuffled_verified.joint", "shuffled_verified.joint_in_range")
    keys += ("shuffled_verified.feasibility.reached", "shuffled_verified.confirmed.feasible.value")
    for algorithm in ALGORITHMS:
        cell = measured.get(replace(JOINT, algorithm=algorithm).name)
        if cell is not None and field(cell["seeds"][0], "shuffled_verified") is not None:
            rows.append([f"`{algorithm}`", *(median_and_worst(cell["seeds"], key, min, 100.0) for key in keys)])
    if not rows:
        return _missing("shuffled labels, verified")
    head = ["shuffled labels, 1,024 joint styles, %", "right, one try", "right, verified"]
    head += ["right and in range, verified", "called feasible", "of those, right and in range again"]
    return markdown_table(head, rows)


def later() -> str:
    """Styles that a flow was never trained in."""
    result = read_if_there("basketball/later_styles")
    if result is None:
        return _missing("styles written after training")
    rows = []
    for name, one in result["measured"].items():
        verified = way_of(one["seeds"], "verified")
        title = f"all five, {one['classes']} classes each" if len(one["styles"]) > 1 else name.upper()
        cells = [median_and_worst(one["seeds"], key, min, 100.0) for key in ("joint", "joint_in_range")]
        cells += [median_and_worst(one["seeds"], "c2st", max, digits=2)]
        cells += [median_and_worst(verified, "joint_in_range", min, 100.0, 2), *_tries(verified)]
        rows.append([title, *cells])
    head = ["written after training", "right, one try, %", "right and in range, one try, %", "C2ST"]
    head += ["right and in range, verified, %", "tries", "never reached, %"]
    count = len(next(iter(result["measured"].values()))["seeds"])
    return f"{markdown_table(head, rows)}\n\n{count} seeds ({provenance(result)})."


def time_of_sampling() -> str:
    """How long a flow takes to train, and verified rollouts to make."""
    result = read_if_there("basketball/verified")
    if result is None:
        return _missing("the time that verified rollouts take")
    first, again = result["seconds"]
    return (
        f"{result['seeds']} seeds are trained in {result['train_seconds']:.0f} s. {result['rollouts']:,} verified "
        f"rollouts of one of them take {first:.1f} s with compilation and {again:.1f} s again; "
        f"{100 * result['accepted'][0]:.2f} % are accepted ({provenance(result)})."
    )


def guidance() -> str:
    """How often a flow is right, and how real it looks, by guidance."""
    result = read_if_there("basketball/guidance")
    if result is None:
        return _missing("guidance")
    names, rows = [name for name, key in SHARES.items() if key in result["measured"][0]], []
    for one in result["measured"]:
        shares = [median_of([one], SHARES[name], 100.0) for name in names]
        real = [median_of([one], key, digits=2) for key in ("c2st", "diversity")]
        rows.append([one["way"], f"{one['guidance']:g}", *shares, *real])
    head = ["1,024 joint styles, one try", "guidance", *names, "C2ST", "diversity"]
    return f"{markdown_table(head, rows)}\n\nOne seed, validation demonstrations ({provenance(result)})."


def cells() -> str:
    """The flow in every cell of the paper that is measured."""
    measured, rows, lacks, seen = find_cells("basketball/paper"), [], [], set()
    for name in CELLS:
        for column, cell in TABLES[name].columns.items():
            title = column.upper() if name == "single-styles" else f"{name.upper()} {column}"
            wanted = replace(cell, algorithm="flow").name
            if wanted in seen:  # tables share cells
                continue
            seen.add(wanted)
            found = measured.get(wanted)
            if found is None:
                lacks.append(title)
                continue
            seeds, verified = found["seeds"], way_of(found["seeds"], "verified")
            tried = [median_and_worst(seeds, key, min, 100.0) for key in ("joint", "joint_in_range")]
            rows.append(
                [
                    title,
                    *tried,
                    median_and_worst(seeds, "c2st", max, digits=2),
                    *(median_and_worst(verified, key, min, 100.0, 2) for key in ("joint", "joint_in_range")),
                    median_of(verified, "tries", digits=2),
                ]
            )
    head = ["`flow`", "right, one try, %", "right and in range, one try, %", "C2ST, one try"]
    head += ["right, verified, %", "right and in range, verified, %", "tries"]
    note = f"{len(lacks)} of {len(seen)} cells: {NOT_MEASURED} ({', '.join(lacks)})." if lacks else "All are measured."
    return f"{markdown_table(head, rows)}\n\n{note}" if rows else note


def _missing(what: str) -> str:
    return f"{what[0].upper()}{what[1:]}: {NOT_MEASURED}."


def headline() -> str:
    """One sentence for the README on how real the rollouts look."""
    measured = find_cells("basketball/paper")
    shares = {
        algorithm: median_of(found["seeds"], "c2st", 100.0, digits=0)
        for algorithm in ("ctvae-style", "flow")
        if (found := measured.get(replace(JOINT, algorithm=algorithm).name))
    }
    shares = {algorithm: share for algorithm, share in shares.items() if share != MISSING}
    link = page_link("the flow beside the paper's algorithms", "results/flow")
    if len(shares) < 2:
        return f"More: {link}."
    return (
        "A classifier tells rollouts from real players: it is right in "
        f"{shares['ctvae-style']} % for `ctvae-style` and {shares['flow']} % for `flow`; 50 % is chance ({link})."
    )
