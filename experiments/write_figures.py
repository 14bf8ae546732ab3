"""Writes every figure in README.md and docs/ from the results files that the repository keeps.

    python experiments/write_figures.py            (--check: only says whether something would change)

A page names a block, and this script fills it:  <!-- figures: demo -->  ...  <!-- end -->
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(name: str) -> dict:
    """A results file."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def origin(result: dict) -> str:
    """Where a result comes from, as one line."""
    return f"`{result['command']}`, {result['hardware']}, commit {result['commit']}"


def spread(cell: dict) -> str:
    """Median [min, max]."""
    return f"{cell['median']:.3f} [{cell['min']:.3f}, {cell['max']:.3f}]"


def paper(cell: dict) -> str:
    """The paper's median [min, max], or a dash."""
    found = cell["paper"]
    return f"{found['median']:.2f} [{found['min']:.2f}, {found['max']:.2f}]" if found else "-"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def demo() -> str:
    """The demo's figures on two cores."""
    result = read("basketball/demo")
    rows = [[f"`{c['algorithm']}`", spread(c), f"{c['nld']:.2f}"] for c in result["cells"]]
    rows.append(["ignores labels", f"{result['base_rate']['own']:.3f}", "-"])
    head = [
        "simulated basketball, speed x destination, 3 classes each",
        "both styles right: median [min, max]",
        "NLD per step",
    ]
    count, minutes = len(result["cells"][0]["seeds"]), result["seconds"] / 60
    note = f"{count} seeds each, trained and scored in {minutes:.1f} minutes without installation ({origin(result)})."
    return f"{table(head, rows)}\n\n{note}"


def destination() -> str:
    """Real tracking data beside the paper."""
    result = read("basketball/destination")
    rows = [
        [f"`{c['algorithm']}`", spread(c), paper(c), f"{c['nld']:.2f}", f"{c['seconds']:.0f} s"]
        for c in result["cells"]
    ]
    head = ["real NBA tracking, DESTINATION, 3 classes", "Poise, 5 seeds", "paper", "NLD per step", "training, 5 seeds"]
    return f"{table(head, rows)}\n\nMedian [min, max] of style-consistency. {origin(result)}."


def simulated() -> str:
    """How close simulated players come to real ones."""
    result = read("basketball/simulated")
    rows = [
        [name.replace("_", " "), f"{row['simulated']['50']:.2f}", f"{row['real']['50']:.2f}", f"{row['ks']:.3f}"]
        for name, row in result["scores"].items()
    ]
    head = ["score", "simulated median", "real median", "Kolmogorov-Smirnov distance"]
    note = f"{result['count']:,} players in {result['seconds']:.1f} s ({origin(result)})."
    return f"{table(head, rows)}\n\n{note}"


def widening() -> str:
    """The labeler with and without perturbed demonstrations."""
    result = read("basketball/widening")
    rows = [
        [
            "as the paper: demonstrations alone" if not c["widen"] else "and perturbed copies",
            ", ".join(f"{value:.3f}" for value in c["seeds"]),
            *(f"{c['believed'][style]:.3f} / {c['true'][style]:.3f}" for style in c["styles"]),
            f"{c['nld']:.2f}",
        ]
        for c in result["cells"]
    ]
    styles = [f"{style}: believed / true" for style in result["cells"][0]["styles"]]
    head = ["what the labeler learns from", "joint, by seed", *styles, "NLD"]
    return f"{table(head, rows)}\n\nThe demo's `ctvae-style` ({origin(result)})."


FIGURES: dict[str, Callable[[], str]] = {
    "demo": demo,
    "destination": destination,
    "simulated": simulated,
    "widening": widening,
}


def filled(text: str) -> str:
    """A page with all of its blocks written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def main(check: bool) -> int:
    """Writes the pages that changed; with `check`, only names them and fails."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    stale = [page for page in pages if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{'stale' if check else 'written'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(filled(page.read_text()))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
