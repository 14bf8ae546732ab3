"""Blocks about the walker; that of its demonstrators is shared with the Cheetah."""

from __future__ import annotations

from .text import markdown_table, provenance, read


def flow() -> str:
    """How often the rollouts of a small flow are right, and how much of the time they have fallen."""
    result = read("walker/flow")
    (seed,) = result["cells"][0]["by_seed"]
    keys = ("joint", "joint_in_range", "yield", "c2st")
    rows = [
        [name, *(f"{found[key]:.3f}" for key in keys), f"{tries:.2f}", f"{found['measures']['fallen']:.1%}"]
        for name, found, tries in (("one try", seed, 1), ("verified", seed["verified"], seed["verified"]["tries"]))
    ]
    head = ["walker, speed x lean, 2 classes each", "right", "right and in range", "yield", "C2ST", "tries", "fallen"]
    note = (
        f"One seed, {result['rollouts']} rollouts ({provenance(result)}). Fallen is the share of the time; "
        f"demonstrations have fallen {seed['measures_of_demonstrations']['fallen']:.1%} of it. A policy that ignores "
        f"labels is right in {result['base_rate']['own']:.3f}."
    )
    return f"{markdown_table(head, rows)}\n\n{note}"
