"""What all blocks share: reading a results file, tables, numbers and links."""

from __future__ import annotations

import json
import os
import re
import statistics
from pathlib import Path
from statistics import median
from typing import Any

from poise.reproduce.markdown import markdown_table

ROOT = Path(__file__).resolve().parents[2]

__all__ = [
    "ROOT",
    "demo_table",
    "markdown_table",
    "page_link",
    "percent",
    "percent_per_seed",
    "provenance",
    "read",
    "relative_links",
]


def read(name: str) -> dict[str, Any]:
    """A results file, for example "basketball/demo"."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def provenance(result: dict[str, Any]) -> str:
    """Command, hardware and commit of a result, on one line."""
    return f"`{result['command']}`, {result['hardware']}, commit {result['commit']}"


def percent(cell: dict[str, Any], key: str) -> str:
    """The median over seeds of a share, in percent."""
    return f"{100 * statistics.median(seed[key] for seed in cell['seeds']):.1f}"


def percent_per_seed(seeds: list[dict[str, Any]], key: str) -> str:
    """A share in percent, one number per seed."""
    return " ".join(f"{100 * seed[key]:.0f}" for seed in seeds)


def demo_table(name: str, title: str) -> str:
    """The results of a demo."""
    result = read(name)
    rows = [
        [
            f"`{c['algorithm']}`",
            f"{c['median']:.3f} [{c['min']:.3f}, {c['max']:.3f}]",
            f"{median(c['in_range']):.3f}" if "in_range" in c else "not measured",
            f"{c['nld']:.2f}",
        ]
        for c in result["cells"]
    ]
    rows.append(["a policy that ignores labels", f"{result['base_rate']['own']:.3f}", "-", "-"])
    count = len(result["cells"][0]["seeds"])
    note = (
        f"{count} seed{'s' if count > 1 else ''} each, trained and evaluated in {result['seconds'] / 60:.1f} minutes, "
        f"installation not included ({provenance(result)})."
    )
    head = [title, "both styles right: median [min, max]", "right and in range: median", "NLD per step"]
    return f"{markdown_table(head, rows)}\n\n{note}"


def page_link(words: str, page: str, section: str = "") -> str:
    """A link to docs/PAGE.md from the root of the repository; `relative_links` fits it to the page it stands in."""
    path = f"docs/{page}.md"
    if not (ROOT / path).exists():
        raise SystemExit(
            f"a block links to {path}, which does not exist; change the link in experiments/results_blocks"
        )
    return f"[{words}]({path}{f'#{section}' if section else ''})"


def relative_links(text: str, page: Path) -> str:
    """The text with its links to docs/ relative to the page that it stands in."""
    return re.sub(r"\]\((docs/[^)#]+)", lambda found: f"]({os.path.relpath(found[1], page.parent.as_posix())}", text)
