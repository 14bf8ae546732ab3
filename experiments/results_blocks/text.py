"""What all blocks share: reading a results file, tables, numbers and links."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from poise.reproduce.markdown import markdown_table

ROOT = Path(__file__).resolve().parents[2]

MISSING = "-"
"""What stands for a number that was not measured."""

__all__ = [
    "MISSING",
    "ROOT",
    "demo_table",
    "field",
    "find_cells",
    "markdown_table",
    "median_and_worst",
    "median_of",
    "page_link",
    "percent",
    "percent_per_seed",
    "provenance",
    "read",
    "read_if_there",
    "relative_links",
    "way_of",
]


def read(name: str) -> dict[str, Any]:
    """A results file, for example "basketball/demo"."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def read_if_there(name: str) -> dict[str, Any] | None:
    """A results file, or None if nothing was measured yet."""
    return read(name) if (ROOT / "results" / f"{name}.json").exists() else None


def find_cells(name: str) -> dict[str, Any]:
    """The measured cells of a results file by name; none if there is no such file yet."""
    return (read_if_there(name) or {}).get("measured", {})


def field(seed: dict[str, Any], key: str) -> Any:
    """A field of a seed, for example "verified.joint"; None if it was not measured."""
    found: Any = seed
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def way_of(seeds: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """What seeds do in one way of sampling: the fields themselves, or those under a key; none if not measured."""
    return seeds if not key else [seed[key] for seed in seeds if seed.get(key)]


def _values(seeds: list[dict[str, Any]], key: str, factor: float) -> list[float]:
    return [factor * value for seed in seeds if (value := field(seed, key)) is not None]


def median_of(seeds: list[dict[str, Any]], key: str, factor: float = 1.0, digits: int = 1) -> str:
    """The median over seeds of a number."""
    values = _values(seeds, key, factor)
    return f"{statistics.median(values):.{digits}f}" if values else MISSING


def median_and_worst(
    seeds: list[dict[str, Any]],
    key: str,
    worst: Callable[[Sequence[float]], float],
    factor: float = 1.0,
    digits: int = 1,
) -> str:
    """The median over seeds of a number, and in brackets that of the worst seed."""
    values = _values(seeds, key, factor)
    return f"{statistics.median(values):.{digits}f} [{worst(values):.{digits}f}]" if values else MISSING


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
    """The results of a demo: one row per algorithm and way of sampling."""
    result, rows = read(name), []
    for cell in result["cells"]:
        seeds = cell.get("by_seed") or _old_seeds(cell)
        for key, way in (("", "one try"), ("verified", "verified")):
            found = way_of(seeds, key)
            if found:
                rows.append([f"`{cell['algorithm']}`", way, *_demo_numbers(found), "1" if not key else _tries(found)])
    count = len(result["cells"][0]["seeds"])
    note = (
        f"{count} seed{'s' if count > 1 else ''} each, trained and evaluated in {result['seconds'] / 60:.1f} minutes, "
        f"installation not included ({provenance(result)}). A policy that ignores labels is right in "
        f"{result['base_rate']['own']:.3f}."
    )
    head = [title, "sampled", "right [worst seed]", "right and in range", "yield", "C2ST", "tries"]
    return f"{markdown_table(head, rows)}\n\n{note}"


def _old_seeds(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The seeds of a demo that was kept before rollouts were verified."""
    in_range = cell.get("in_range", [None] * len(cell["seeds"]))
    return [{"joint": right, "joint_in_range": both} for right, both in zip(cell["seeds"], in_range, strict=True)]


def _demo_numbers(seeds: list[dict[str, Any]]) -> list[str]:
    right = median_and_worst(seeds, "joint", min, digits=3)
    return [right, *(median_of(seeds, key, digits=3) for key in ("joint_in_range", "yield", "c2st"))]


def _tries(seeds: list[dict[str, Any]]) -> str:
    return median_of(seeds, "tries", digits=2)


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
