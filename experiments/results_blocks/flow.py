"""Blocks about the flow: beside the paper's algorithms, verified, and in styles that were written after training."""

from __future__ import annotations

import statistics
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

ALGORITHMS = ("ctvae", "ctvae-style", "flow", "flow-style")
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
        for key in WAYS:
            seeds = way_of(cell["seeds"], key)
            if seeds:
                digits = 2 if key == "verified" else 1  # so that nearly all is not shown as all
                rows.append([f"`{algorithm}`", name_of(algorithm, key), *_numbers(seeds, digits)])
            if algorithm == "flow" and key == "unsteered":
                rows += _unsteered_verified()
    if not rows:
        return _missing("the joint styles")
    head = ["1,024 joint styles", "sampled", *SHARES, "C2ST", "tries", "never reached, %"]
    found = {name: measured.get(replace(JOINT, algorithm=name).name) for name in ALGORITHMS}
    lacks = [f"`{name}`" for name, cell in found.items() if cell is None]
    lacks += [] if unsteered_verified()[0] else ["`flow` unsteered and verified"]
    notes = [_floor_note([cell for cell in found.values() if cell])]
    notes += [f"{', '.join(lacks)}: {NOT_MEASURED}."] if lacks else []
    return f"{markdown_table(head, rows)}\n\n{' '.join(notes)}"


def name_of(algorithm: str, key: str) -> str:
    """What a way of sampling is called for an algorithm; only flows are steered."""
    return "one try, steered" if algorithm.startswith("flow") and not key else WAYS[key]


def unsteered_verified() -> tuple[list[dict[str, Any]], int]:
    """The seeds of the flow that is neither steered nor guided but verified, and how many tries they had."""
    result = read_if_there("basketball/verified") or {}
    return result.get("unsteered", []), result.get("tries", 0) if "unsteered" in result else 0


def _unsteered_verified() -> list[list[str]]:
    seeds, tries = unsteered_verified()
    return [["`flow`", f"unsteered, verified (up to {tries} tries)", *_numbers(seeds, 2)]] if seeds else []


def floor_of(cell: dict[str, Any]) -> float | None:
    """The C2ST of test demonstrations against other test demonstrations, if it was measured with a cell."""
    return (cell.get("realism") or {}).get("c2st_floor")


def _floor_note(cells: list[dict[str, Any]]) -> str:
    """One sentence on the C2ST that nothing can be expected to be below."""
    floors = sorted({round(floor, 2) for cell in cells if (floor := floor_of(cell)) is not None})
    if not floors:
        return f"The floor of C2ST, demonstrations against demonstrations: {NOT_MEASURED}."
    shown = f"{floors[0]:.2f}" if len(floors) == 1 else f"{floors[0]:.2f} to {floors[-1]:.2f}"
    return f"The floor of C2ST, demonstrations against demonstrations: {shown}."


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
        f"{result['seeds']} seeds are trained in {result['train_seconds']:.1f} s. {result['rollouts']:,} verified "
        f"rollouts of one of them take {first:.1f} s with compilation and {again:.1f} s again; "
        f"{100 * result['accepted'][0]:.2f} % are accepted ({provenance(result)})."
    )


def time_on_cores() -> str:
    """How long the demo's flow takes on two cores."""
    result = read_if_there("basketball/flow_times")
    if result is None:
        return _missing("the times of the demo's flow")
    made, actor, evaluated = result["rollouts"], result["actor"], result["evaluate"]
    return (
        f"On two cores, the demo's flow makes {made['rollouts']:,} verified rollouts in {made['first']:.1f} s at first "
        f"and in {made['again']:.2f} s again. A step of its actor takes {actor['median_us']:.0f} µs, a step at "
        f"which it plans {actor['plan_us'] / 1000:.1f} ms. Evaluating its {evaluated['seeds']} seeds, "
        f"{evaluated['rollouts']:,} rollouts each, takes {evaluated['seconds']:.0f} s ({provenance(result)})."
    )


def grid() -> dict[str, Cell]:
    """The distinct cells of the tables that the algorithms are compared in, by title."""
    found = dict[Cell, str]()
    for name in CELLS:
        for column, cell in TABLES[name].columns.items():  # tables share cells
            found.setdefault(cell, column.upper() if name == "single-styles" else f"{name.upper()} {column}")
    return {title: cell for cell, title in found.items()}


def measured_cells() -> dict[str, dict[str, dict[str, Any]]]:
    """Algorithm -> title -> cell, of the cells whose realism was measured too."""
    measured = find_cells("basketball/paper")
    return {
        algorithm: {
            title: found
            for title, cell in grid().items()
            if (found := measured.get(replace(cell, algorithm=algorithm).name))
            and field(found["seeds"][0], "yield") is not None
        }
        for algorithm in ALGORITHMS
    }


def cells() -> str:
    """Every cell in one try: yield and C2ST of all algorithms."""
    measured, rows = measured_cells(), []
    for title in grid():
        seeds = [found[title]["seeds"] if title in found else [] for found in measured.values()]
        if any(seeds):
            shares = [median_and_worst(one, "yield", min, 100.0) for one in seeds]
            rows.append([title, *shares, *(median_of(one, "c2st", digits=2) for one in seeds)])
    lacks = {name: len(grid()) - len(found) for name, found in measured.items() if len(found) < len(grid())}
    notes = [f"`{name}`: {count} of {len(grid())} cells {NOT_MEASURED}." for name, count in lacks.items()]
    if not rows:
        return " ".join(notes)
    head = ["one try", *(f"{what} `{name}`" for what in ("yield, %:", "C2ST:") for name in ALGORITHMS)]
    floor = _floor_note([cell for found in measured.values() for cell in found.values()])
    notes = [floor, *_answers_for(measured["flow"]), *notes]
    return f"{markdown_table(head, rows)}\n\n{' '.join(notes)}"


def _answers_for(flows: dict[str, dict[str, Any]]) -> list[str]:
    """One sentence if one flow answers for several cells."""
    sizes = [len(cell["trained_in"]) for cell in flows.values() if cell.get("trained_in")]
    if not sizes:
        return []
    return [
        f"One `flow` per seed, trained in {sizes[0]} styles at once, answers for {len(sizes)} of these cells and "
        "leaves the other styles free. `flow-style` is trained in the same way, the other algorithms for each cell."
    ]


def cells_verified() -> str:
    """Every cell of the flow when its rollouts are verified."""
    found = measured_cells()["flow"]
    seeds = {title: way_of(cell["seeds"], "verified") for title, cell in found.items()}
    rows = [[title, *_numbers(seeds[title], 2)] for title in grid() if seeds.get(title)]
    if not rows:
        return _missing("verified rollouts of all cells")
    lacks = len(grid()) - len(rows)
    head = ["`flow`, verified", *SHARES, "C2ST", "tries", "never reached, %"]
    return markdown_table(head, rows) + (f"\n\n{lacks} of {len(grid())} cells {NOT_MEASURED}." if lacks else "")


def short() -> str:
    """The page in a few sentences, all of them computed."""
    measured = measured_cells()
    at = {name: cells["JOINT 5x4"]["seeds"] for name, cells in measured.items() if "JOINT 5x4" in cells}
    if not at:
        return _missing("the joint styles")
    tries = [
        f"`{name}` {median_of(seeds, 'yield', 100.0)} % ({median_of(seeds, 'c2st', digits=2)})"
        for name, seeds in at.items()
    ]
    lines = [f"- Five styles of four classes at once, in one try. Yield, and C2ST in brackets: {', '.join(tries)}."]
    flows = at.get("flow", [])
    for words, key in (("Unsteered, `flow` has", "unsteered"), ("Verified, it has", "verified")):
        if seeds := way_of(flows, key):
            real = median_of(seeds, "c2st", digits=2)
            lines.append(f"- {words} a yield of {median_of(seeds, 'yield', 100.0)} % at a C2ST of {real}.")
    for name in ("flow", "ctvae-style"):
        if len(measured[name]) > 1:
            lines.append(f"- {_range_over(name, measured[name])}")
    if flows and (own := median_of(flows, "novelty", digits=2)) != MISSING:
        known = median_of(flows, "novelty_of_demonstrations", digits=2)
        lines.append(
            f"- From the nearest training demonstration its rollouts are {own} away, test demonstrations {known}."
        )
    return "\n".join(lines)


def _range_over(name: str, found: dict[str, dict[str, Any]]) -> str:
    """The lowest yield and the highest C2ST of an algorithm over cells."""
    share, real = (
        {title: statistics.median(seed[key] for seed in cell["seeds"]) for title, cell in found.items()}
        for key in ("yield", "c2st")
    )
    low, high = min(share, key=lambda title: share[title]), max(real, key=lambda title: real[title])
    count = f"all {len(found)}" if len(found) == len(grid()) else f"{len(found)} of {len(grid())}"
    return (
        f"Over {count} cells, in one try, `{name}` has a yield of at least {100 * share[low]:.1f} % ({low}) and a C2ST "
        f"of at most {real[high]:.2f} ({high})."
    )


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
