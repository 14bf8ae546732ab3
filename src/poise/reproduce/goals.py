"""The goals that were set before the tables were measured, and whether they are reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cells import BASELINES
from .grid import Table
from .paper import CONSISTENCY
from .summaries import NOT_MEASURED, Results, summarise

Summaries = Mapping[str, list[dict[str, Any]]]

POINTS = 3.0
"""Points by which a median of ctvae-style may lie below the paper's."""

RNN_POINTS = 8.0
"""Points by which rnn-style must lie above rnn."""

NLD_MARGIN = 0.15
"""By how much the NLD of ctvae-style may lie above that of ctvae."""


def check_goals(results: Results, tables: Mapping[str, Table]) -> list[str]:
    """One line per goal: what was measured, what was wanted, and whether it is reached."""
    summaries = {name: summarise(name, table, results) for name, table in tables.items()}
    lines = []
    for name in CONSISTENCY:
        joint = [entry for entry in summaries.get(name, []) if entry["measure"] == "joint"]
        for column in tables[name].columns if name in tables else ():
            entries = {entry["algorithm"]: entry for entry in joint if entry["column"] == column}
            lines.append(f"{name}, {column}: {_consistency(entries)}")
    if "rnn" in tables:
        lines.append(_rnn(_medians(summaries, "rnn", "joint")))
    if "tradeoff" in tables:
        lines.append(_tradeoff(_medians(summaries, "tradeoff", "nld")))
    return lines + _largest_weight(summaries)


def _consistency(entries: Mapping[str, dict[str, Any]]) -> str:
    """The goals of ctvae-style in one column: near the paper's median, and above every baseline."""
    ours = entries.get("ctvae-style")
    if ours is None:
        return NOT_MEASURED
    wanted = ours["paper"]["median"] - POINTS
    line = f"{ours['median']:.1f}, at least {wanted:g} wanted: {_yes(ours['median'] >= wanted)}"
    measured = [entries[name] for name in BASELINES if name in entries]
    missing = [name for name in BASELINES if name not in entries]
    if measured:
        best = max(measured, key=lambda entry: entry["median"])
        line += f"; above {best['algorithm']}, {best['median']:.1f}: {_yes(ours['median'] > best['median'])}"
    return line + (f"; {', '.join(missing)} {NOT_MEASURED}" if missing else "")


def _rnn(medians: Mapping[str, float]) -> str:
    goal = f"at least {RNN_POINTS:g} points above"
    if not {"rnn", "rnn-style"} <= medians.keys():
        return f"rnn-style {goal} rnn: {NOT_MEASURED}"
    ours, baseline = medians["rnn-style"], medians["rnn"]
    reached = _yes(ours - baseline >= RNN_POINTS)
    return f"rnn-style {ours:.2f}, {goal} rnn {baseline:.2f}: {reached} ({ours - baseline:.2f})"


def _tradeoff(medians: Mapping[str, float]) -> str:
    goal = f"within {NLD_MARGIN} of"
    if not {"ctvae", "ctvae-style"} <= medians.keys():
        return f"ctvae-style {goal} ctvae: {NOT_MEASURED}"
    ours, baseline = medians["ctvae-style"], medians["ctvae"]
    reached = _yes(ours - baseline <= NLD_MARGIN)
    return f"NLD of ctvae-style {ours:.2f}, {goal} ctvae {baseline:.2f}: {reached} ({ours - baseline:.2f})"


def _largest_weight(summaries: Summaries) -> list[str]:
    """The largest weight of the style loss whose NLD stays within the margin, and its style-consistency."""
    baseline = _medians(summaries, "tradeoff", "nld").get("ctvae")
    entries = summaries.get("weight", [])
    nld = {entry["column"]: entry["median"] for entry in entries if entry["measure"] == "nld"}
    joint = {entry["column"]: entry["median"] for entry in entries if entry["measure"] == "joint"}
    near = [weight for weight in nld if baseline is not None and nld[weight] - baseline <= NLD_MARGIN]
    if baseline is None or not near:
        return []
    weight = max(near, key=float)
    return [
        f"the largest weight in the table `weight` within {NLD_MARGIN}: {weight}, NLD {nld[weight]:.2f}, "
        f"{nld[weight] - baseline:.2f} above ctvae, {joint[weight]:.1f} % right"
    ]


def _medians(summaries: Summaries, table: str, measure: str) -> dict[str, float]:
    """The medians of a table with one column, by algorithm."""
    return {entry["algorithm"]: entry["median"] for entry in summaries.get(table, []) if entry["measure"] == measure}


def _yes(reached: bool) -> str:
    return "yes" if reached else "**no**"
