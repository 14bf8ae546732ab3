"""Measured cells as numbers, next to what the paper prints for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .cells import SIGMA, STYLES, Cell
from .grid import Table
from .paper import CONSISTENCY, NUMBERS, Printed

Results = Mapping[str, dict[str, Any]]
"""What was measured, by the name of a cell."""

NoiseTable = dict[str, dict[str, dict[str, float]]]
"""Multiple of σ -> style -> {"ours": ..., "paper": ...}."""


NOT_MEASURED = "not measured yet"


class Measure(NamedTuple):
    """How a field of a seed's score is shown."""

    words: str
    factor: float
    """What the recorded value is multiplied by."""
    form: str
    """Format of a number."""


MEASURES: dict[str, Measure] = {
    "joint": Measure("style-consistency, %", 100.0, ".1f"),
    "joint_in_range": Measure("right and in range, %", 100.0, ".1f"),
    "nld": Measure("NLD per step", 1.0, ".2f"),
    "kl": Measure("KL per trajectory, nats", 1.0, ".2f"),
    "label_loss": Measure("cross-entropy, hundredths", 100.0, ".2f"),
    "dynamics_error": Measure("squared error", 1.0, ".2e"),
}
"""The measures by the name of the field."""


def summarise(name: str, table: Table, results: Results) -> list[dict[str, Any]]:
    """One entry per measure and measured cell of a table: all seeds, their spread, and what the paper prints."""
    found = []
    for measure in table.measures:
        for algorithm, column, cell in table.cells():
            result = results.get(cell.name)
            if result is None:
                continue
            factor = MEASURES[measure].factor
            if measure == "kl":  # recorded per step, printed per trajectory
                factor *= result["steps"]
            values = [factor * seed[measure] for seed in result["seeds"] if seed.get(measure) is not None]
            entry = {"algorithm": algorithm, "column": column, "measure": measure, **spread(values)}
            entry["stopped"] = [seed["seed"] for seed in result["seeds"] if seed["stopped"]]
            found.append({**entry, "paper": printed(name, algorithm, column, measure)})
    return found


def spread(values: list[float]) -> dict[str, Any]:
    """The values in ascending order, their minimum, median, maximum, mean and standard deviation (n - 1)."""
    ordered = [float(f"{value:.5g}") for value in sorted(values)]
    if not ordered:
        return {"values": [], "min": None, "median": None, "max": None, "mean": None, "deviation": None}
    deviation = float(np.std(ordered, ddof=1)) if len(ordered) > 1 else 0.0
    found = {"min": ordered[0], "median": np.median(ordered), "max": ordered[-1], "mean": np.mean(ordered)}
    return {"values": ordered, **{k: float(f"{v:.5g}") for k, v in {**found, "deviation": deviation}.items()}}


DYNAMICS = {("dynamics", "deterministic"): "dynamics", ("cheetah-refined", "demonstrations alone"): "cheetah-dynamics"}
"""The cells (table, column) for which the paper prints an error of the dynamics, and its table."""

PLAIN = {"plain": "single-styles", "cheetah-plain": "cheetah-single-styles"}
"""Tables with the paper's weight, and the table in which the paper prints the same experiments."""


def printed(name: str, algorithm: str, column: str, measure: str) -> dict[str, float | None] | None:
    """What the paper prints for a cell: minimum, median, maximum, mean and deviation, None where it prints nothing."""
    table = PLAIN.get(name, name)
    if measure == "joint" and table in CONSISTENCY:
        cell = CONSISTENCY[table].get(algorithm, {}).get(column)
        return cell and _entry_of(cell)
    if name == "rnn":
        values = NUMBERS["rnn"][algorithm]["consistency" if measure == "joint" else "nld"]
        return _entry(median=values[0]) if measure == "nld" else _entry(values[0], values[2], values[4])
    if name in ("tradeoff", "cheetah-tradeoff"):
        return _entry(median=NUMBERS[name][algorithm][measure][0])
    if name == "cheetah-longer":
        return _entry(median=NUMBERS[name]["ctvae-style+"][column][("nld", "joint").index(measure)])
    if name in ("labeler", "cheetah-labeler"):
        mean, deviation = NUMBERS[name]["labeler"][column]
        return _entry(mean=mean, deviation=deviation)
    if (name, column) in DYNAMICS and measure == "dynamics_error":
        mean, deviation = NUMBERS[DYNAMICS[name, column]]["dynamics"]["error"]
        return _entry(mean=mean, deviation=deviation)
    return None


def _entry_of(cell: Printed) -> dict[str, float | None]:
    return _entry(cell.low, cell.median, cell.high, cell.mean, cell.deviation)


def _entry(
    low: float | None = None,
    median: float | None = None,
    high: float | None = None,
    mean: float | None = None,
    deviation: float | None = None,
) -> dict[str, float | None]:
    return {"min": low, "median": median, "max": high, "mean": mean, "deviation": deviation}


def paper_value(entry: dict[str, Any]) -> float | None:
    """The paper's median for an entry of `summarise`, else its mean, else None."""
    paper = entry["paper"] or {}
    return paper.get("median") if paper.get("median") is not None else paper.get("mean")


NOISE = {
    "disagreement": f"labels of training demonstrations that noise changes, % (σ: {SIGMA:g} of the score's deviation)",
    "decrease": "relative loss of style-consistency, %, from the medians",
}
"""Titles of the tables about noise."""


def noise_tables(results: Results) -> dict[str, NoiseTable]:
    """The share of labels that noise changes ("disagreement") and the relative loss of style-consistency ("decrease").

    Both are in percent, for every noise that is measured.
    """
    found: dict[str, NoiseTable] = {"disagreement": {}, "decrease": {}}
    for style in STYLES:
        base = results.get(Cell("ctvae-style", (style,)).name)
        for noise in range(1, 5):
            noisy = results.get(Cell("ctvae-style", (style,), noise=noise).name)
            if base is None or noisy is None:
                continue
            before, after = (float(np.median([seed["joint"] for seed in each["seeds"]])) for each in (base, noisy))
            measured = {"disagreement": noisy["disagreement"], "decrease": 1 - after / max(before, 1e-9)}
            for kind, ours in measured.items():
                paper = NUMBERS[f"noise-{kind}"][str(noise)][style][0]
                found[kind].setdefault(str(noise), {})[style] = {"ours": round(100 * ours, 2), "paper": paper}
    return found
