"""Blocks about basketball, except the paper's tables."""

from __future__ import annotations

import itertools

from poise.reproduce.cells import STYLES, Cell
from poise.reproduce.grid import TABLES
from poise.reproduce.paper import CONSISTENCY

from .flow import headline
from .paper import main_rows
from .text import (
    MISSING,
    demo_table,
    markdown_table,
    median_and_worst,
    page_link,
    percent,
    provenance,
    read,
    way_of,
)

SUMMARISED = {
    "SPEED": ("single-styles", "speed"),
    "CURVATURE": ("single-styles", "curvature"),
    "joint 5x4": ("joint", "5x4"),
}
"""The rows of the summary: table and column."""


def demo() -> str:
    """The demo's results on two cores."""
    return demo_table("basketball/demo", "simulated basketball, speed x destination, 3 classes each")


def summary() -> str:
    """ctvae, ctvae-style and the flow in a few cells, with the share that is right and in range."""
    measured, rows = read("basketball/paper")["measured"], []
    for title, (table, column) in SUMMARISED.items():
        cells = {algorithm: measured[_name(table, column, algorithm)] for algorithm in ("ctvae", "ctvae-style")}
        paper = {algorithm: CONSISTENCY[table][algorithm][column].median for algorithm in cells}
        consistency = [f"{percent(cell, 'joint')} ({paper[algorithm]:g})" for algorithm, cell in cells.items()]
        flow = measured.get(_name(table, column, "flow"), {"seeds": []})["seeds"]
        tried = [median_and_worst(flow, "joint_in_range", min, 100.0)]
        tried.append(median_and_worst(way_of(flow, "verified"), "joint_in_range", min, 100.0, 2))
        rows.append([title, *consistency, percent(cells["ctvae-style"], "joint_in_range"), *tried])
    head = ["% of rollouts", "right: `ctvae`", "`ctvae-style`", "right and in range: `ctvae-style`", "`flow`"]
    head += ["`flow`, verified"]
    lost = {
        title: percent(measured[_name(*SUMMARISED[title], "ctvae-style")], "out_of_range")
        for title in ("joint 5x4", "CURVATURE")
    }
    note = (
        "Medians of 5 seeds [worst seed] on real NBA tracking data; in round brackets the paper's, on other data; "
        f"{MISSING}: not measured yet. 5x4: five styles of four classes at once. `ctvae-style` obeys partly by "
        f"leaving the range of the demonstrations: {lost['joint 5x4']} % of rollouts for 5x4, {lost['CURVATURE']} % "
        f"for CURVATURE. {headline()}"
    )
    return f"{markdown_table(head, rows)}\n\n{note}"


def _name(table: str, column: str, algorithm: str) -> str:
    """The name of a cell."""
    cell = TABLES[table].columns[column]
    return Cell(algorithm, cell.styles, cell.classes).name


def paper_summary() -> str:
    """The main rows of the paper's tables, all algorithms."""
    measured = read("basketball/paper")["measured"]
    rows = main_rows(("single-styles", "joint"), measured, "Basketball, %: Poise (the paper)")
    lost = {
        style: percent(measured[f"ctvae-style-{style}-3"], "out_of_range") for style in ("curvature", "displacement")
    }
    note = (
        f"Medians of 5 seeds on real NBA tracking data; {page_link('all cells', 'results/basketball')}. Some rollouts "
        f"of `ctvae-style` obey by leaving the range of the test demonstrations: {lost['curvature']} % for CURVATURE, "
        f"{lost['displacement']} % for DISPLACEMENT."
    )
    return f"{rows}\n\n{note}"


def simulated() -> str:
    """How close simulated players come to real ones."""
    result = read("basketball/simulated")
    rows = [
        [name.replace("_", " "), f"{row['simulated']['50']:.2f}", f"{row['real']['50']:.2f}", f"{row['ks']:.3f}"]
        for name, row in result["scores"].items()
    ]
    head = ["score", "simulated median", "real median", "Kolmogorov-Smirnov distance"]
    note = f"{result['count']:,} players in {result['seconds']:.1f} s ({provenance(result)})."
    return f"{markdown_table(head, rows)}\n\n{note}"


def augmentation() -> str:
    """The labeler with and without augmentation."""
    result = read("basketball/augmentation")
    rows = [
        [
            "demonstrations and perturbed copies" if cell["augment"] else "demonstrations alone, as in the paper",
            ", ".join(f"{value:.3f}" for value in cell["seeds"]),
            *(f"{cell['labeler_estimate'][style]:.3f} / {cell['true'][style]:.3f}" for style in cell["styles"]),
            f"{cell['nld']:.2f}",
        ]
        for cell in result["cells"]
    ]
    styles = [f"{style}: labeler's estimate / true" for style in result["cells"][0]["styles"]]
    head = ["the labeler is trained on", "joint, per seed", *styles, "NLD per step"]
    return f"{markdown_table(head, rows)}\n\n`ctvae-style` as in the demo ({provenance(result)})."


def out_of_range() -> str:
    """Rollouts that leave the range of the demonstrations, by style and algorithm."""
    measured, rows = read("basketball/paper")["measured"], []
    compared = (("ctvae", ""), ("ctvae-mi", ""), ("ctvae-style", "-plain"), ("ctvae-style", ""))
    for style, (algorithm, suffix) in itertools.product(STYLES, compared):
        cell = measured[f"{algorithm}-{style}-3{suffix}"]
        name = f"`{algorithm}`" + (" (`plain`)" if suffix else "")
        shares = [percent(cell, key) for key in ("joint", "out_of_range", "joint_in_range")]
        rows.append([style.upper(), name, *shares])
    head = ["3 classes", "", "right, %", "out of range, %", "right and in range, %"]
    return f"{markdown_table(head, rows)}\n\nMedians of 5 seeds, as shares of all rollouts."
