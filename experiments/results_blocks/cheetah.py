"""Blocks about bodies, except the paper's tables."""

from __future__ import annotations

from .paper import main_rows
from .text import (
    demo_table,
    markdown_table,
    median_and_worst,
    median_of,
    page_link,
    percent_per_seed,
    provenance,
    read,
    read_if_there,
)


def demo() -> str:
    """The demo's results on two cores."""
    return demo_table("cheetah/demo", "Cheetah, four styles at once, 2 classes each")


def paper_summary() -> str:
    """The main rows of the paper's tables, all algorithms."""
    names = ("cheetah-single-styles", "cheetah-speed", "cheetah-joint")
    rows = main_rows(names, read("cheetah/paper")["measured"], "Cheetah, %: Poise (the paper)")
    fast = {run["weight"]: run["classes"]["fast"] for run in read("cheetah/falls")["runs"] if run["style"] == "speed"}
    right, fallen = (
        {weight: percent_per_seed(fast[weight], key) for weight in fast} for key in ("right", "upside down")
    )
    most, least = max(fast), min(fast)
    note = (
        "Medians of 5 seeds, 500 rollouts each in C MuJoCo. Conditioned on fast, the five seeds of SPEED are right in "
        f"{right[most]} % of rollouts and upside down {fallen[most]} % of the time; with weight {least:g} of the style "
        f"loss instead of {most:g} it is {right[least]} and {fallen[least]} "
        f"({page_link('benefit and cost of the weight', 'results/cheetah', 'weights')})."
    )
    return f"{rows}\n\n{note}"


def choices() -> str:
    """What the choices of the flow do, one at a time."""
    result = read_if_there("cheetah/choices")
    if result is None:
        return "The choices of the flow: not measured yet."
    measured, rows = result["measured"], []
    cells = [name for name in measured[0]["seeds"][0] if name != "seed"]
    for one in measured:
        title = "**default**" if one["variation"] == "default" else one["variation"]
        shares = [median_and_worst(one["seeds"], f"{cell}.joint_in_range", min, 100.0) for cell in cells]
        real = [median_of(one["seeds"], f"{cell}.c2st", digits=2) for cell in cells[-1:]]
        back = max(seed[cell]["upside_down"] for seed in one["seeds"] for cell in cells)
        rows.append([title, *shares, *real, f"{100 * back:.1f}"])
    head = ["one try, right and in range, %", *cells, f"C2ST, {cells[-1]}", "upside down, % of the time"]
    note = f"{len(measured[0]['seeds'])} seeds [worst], {result['rollouts']} rollouts each ({provenance(measured[0])})."
    return f"{markdown_table(head, rows)}\n\n{note}"


def demonstrators(body: str) -> str:
    """Target speed and mean speed of a body's demonstrators."""
    result = read(f"{body}/demonstrators")
    every = max(1, (len(result["policies"]) - 1) // 8)
    rows = [
        [f"{p['target']:.2f}", f"{p['reached']:.2f}", f"{p['reached_after_first_second']:.2f}", f"{p['deviation']:.2f}"]
        for p in result["policies"][::every]
    ]
    head = ["target, m/s", "mean speed", "after the first second", "deviation between demonstrations"]
    height = result["quantiles"]["torso height (m)"]
    whole, late = result["mean_error"], result["mean_error_after_first_second"]
    worst = max(result["policies"], key=lambda policy: policy["deviation"])
    which, state = f"Every {every}th of" if every > 1 else "All", list(result["shares"])[-1]
    note = (
        f"{which} {len(result['policies'])} policies. On average a policy's mean speed is {whole:.2f} m/s "
        f"from its target, after the first second {late:.2f}; the torso is {height['0.05']:.2f} to "
        f"{height['0.95']:.2f} m high (5 to 95 %), and {state} {result['shares'][state]:.1%} of the time. "
        f"The largest error is {result['largest_error']:.2f} m/s; the policy for {worst['target']:.2f} m/s differs "
        f"most between demonstrations, by {worst['deviation']:.2f} m/s. "
        f"{result['steps']:,} steps each, {result['seconds']:.0f} s with {result['config']['driver']} "
        f"({provenance(result)})."
    )
    return f"{markdown_table(head, rows)}\n\n{note}"


def demonstrations() -> str:
    """How long the demonstrations take to make."""
    result = read("cheetah/demos")
    return (
        f"{result['train']:,} training and {result['test']:,} test demonstrations in {result['seconds']:.0f} s "
        f"({provenance(result)})."
    )


def gradient_decay() -> str:
    """The norm of the style loss's gradient, by gradient decay."""
    result = read("cheetah/gradient_decay")
    rows = [[share, *(f"{found[key]:.2g}" for key in ("median", "max"))] for share, found in result["lengths"].items()]
    rows.append(["imitation", *(f"{result['imitation'][key]:.2g}" for key in ("median", "max"))])
    head = ["`network.gradient_decay`", "norm of the gradient, median", "largest"]
    note = (
        f"Gradient of the weighted style loss in {result['batches']} batches, at a trained policy of `ctvae-style` "
        f"(SPEED); in the last row, of the imitation loss. {provenance(result)}."
    )
    return f"{markdown_table(head, rows)}\n\n{note}"


def falls() -> str:
    """How much of the time the Cheetah is upside down or tilted."""
    result, keys = read("cheetah/falls"), ("right", "upside down", "tilted", "labeler_estimate")
    rows = [
        [run["run"], f"{run['style']}={word}", *(percent_per_seed(seeds, key) for key in keys)]
        for run in result["runs"]
        for word, seeds in run["classes"].items()
    ]
    head = ["run, five seeds", "conditioned on", "right, %", "of the time upside down, %", "tilted, %"]
    head.append("labeler's estimate, %")
    return f"{markdown_table(head, rows)}\n\n{result['rollouts']} rollouts each. {provenance(result)}."
