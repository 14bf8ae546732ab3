"""The block about a flow on the walker."""

from __future__ import annotations

from .text import demo_table, markdown_table, read


def flow() -> str:
    """How a flow on the walker does, and how much of the time its rollouts have fallen."""
    result = read("walker/flow")
    seed = result["cells"][0]["by_seed"][0]
    verified = seed["verified"]
    rows = [
        [name.replace("_", " "), *(f"{found:.3f}" for found in (real, seed["measures"][name], verified["measures"][name]))]
        for name, real in seed["measures_of_demonstrations"].items()
    ]
    head = ["mean over all steps", "demonstrations", "one try", "verified"]
    scores = demo_table("walker/flow", "Walker, speed x torso height, 2 classes each", "evaluated")
    return f"{scores}\n\n{markdown_table(head, rows)}"
