"""Blocks about the parts of the flow: each choice varied alone; and why `ctvae` is low for DISPLACEMENT."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from poise import PRESETS, Settings
from poise.reproduce.paper import CONSISTENCY
from poise.reproduce.summaries import NOT_MEASURED

from .text import MISSING, markdown_table, median_and_worst, median_of, read_if_there

DEFAULTS: dict[str, Callable[[Settings], str]] = {
    "steps": lambda s: f"{s.training.flow_steps:,}",
    "batch": lambda s: f"{s.training.flow_batch:,}, {s.training.flow_steps:,} steps",
    "width": lambda s: f"{s.network.flow.width:,}",
    "blocks": lambda s: f"{s.network.flow.blocks}",
    "labels dropped": lambda s: f"{s.network.flow.drop:g}",
    "demonstrations": lambda _: "all",
    "sampler steps": lambda s: f"{s.sampling.steps}",
    "guidance": lambda s: f"{s.sampling.guidance:g}",
    "strength": lambda s: f"{s.sampling.strength:g}",
    "limit": lambda s: f"{s.sampling.limit:g}",
    "planned anew every": lambda _: "never",
}
"""What the settings have for each group of variations of the flow."""

WORDS = {
    "steps": "training steps",
    "batch": "trajectories per batch",
    "labels dropped": "share of rows with styles left free",
    "ctvae-style": "`ctvae-style`: weight",
    "flow-style": "`flow-style`: weight",
}
"""What a group is called, if not by its own name."""

TRAINING = ("steps", "batch", "width", "blocks", "labels dropped")
SAMPLING = ("sampler steps", "guidance", "strength", "limit", "planned anew every")
WEIGHTS = ("ctvae-style", "flow-style")
POINTS, REAL = 1.0, 0.02
"""From where on a difference from the default is named: in points of yield, and in C2ST."""


class Column(NamedTuple):
    """A number of the seeds, and how it is shown."""

    title: str
    key: str
    worst: Callable[[Sequence[float]], float] | None = None
    """Which seed is the worst, if it is shown too."""
    factor: float = 1.0
    digits: int = 2

    def show(self, seeds: list[dict[str, Any]]) -> str:
        """The median, and the worst seed in brackets."""
        if self.worst is None:
            return median_of(seeds, self.key, self.factor, self.digits)
        return median_and_worst(seeds, self.key, self.worst, self.factor, self.digits)


ONE_TRY = (
    Column("right, %", "joint", min, 100.0, 1),
    Column("yield, %", "yield", min, 100.0, 1),
    Column("C2ST", "c2st", max),
)
UNSTEERED = (
    Column("unsteered: yield, %", "unsteered.yield", min, 100.0, 1),
    Column("unsteered: C2ST", "unsteered.c2st", max),
)
NEW = (
    Column("yield, %", "yield", min, 100.0, 1),
    Column("C2ST", "c2st", max),
    Column("novelty", "novelty"),
    Column("novelty, unsteered", "unsteered.novelty"),
    Column("novelty of validation demonstrations", "novelty_of_demonstrations"),
    Column("velocity error, training", "velocity_train", digits=3),
    Column("velocity error, validation", "velocity_validation", digits=3),
)
PROBED = (
    Column("right, %", "right", min, 100.0, 1),
    Column("right with mean actions, %", "right_mean_actions", min, 100.0, 1),
    Column("right with the demonstration's embedding, %", "right_embedding_of_the_demonstration", min, 100.0, 1),
    Column("displacement, relative", "displacement"),
    Column("NLD per step", "nld"),
    Column("KL", "kl"),
)


class Variation(NamedTuple):
    """One choice and what it gave."""

    group: str
    value: str
    seeds: list[dict[str, Any]]
    is_default: bool = False


def about() -> str:
    """Seeds, rollouts, settings and origin of the ablations."""
    result = _ablations()
    if not result["measured"]:
        return f"Ablations: {NOT_MEASURED}."
    return (
        f"{_seeds(result['measured'])}, {result['rollouts']:,} rollouts each, settings of the preset "
        f"`{_preset(result)}` ({_origin(result['measured'], 'experiments/ablations.py')})."
    )


def training() -> str:
    """How a flow is trained and how large it is, one choice varied at a time."""
    return _block("Sizes, steps and dropped labels", TRAINING, (*ONE_TRY, *UNSTEERED))


def guidance() -> str:
    """How a flow is sampled, one choice varied at a time."""
    columns = (*ONE_TRY, Column("off support, %", "off_support", None, 100.0, 1))
    return _block("Guidance, steering and sampler steps", SAMPLING, columns)


def weights() -> str:
    """What the weight of the style loss buys and costs."""
    shown = _block("The weights of the style loss", WEIGHTS, (*ONE_TRY, *UNSTEERED))
    own = settings(_ablations()).weights
    return f"{shown} The default weights are {own.style:g} (`ctvae-style`) and {own.flow_style:g} (`flow-style`)."


def memorisation() -> str:
    """The number of demonstrations against what says that a flow repeats them."""
    return _block("Memorisation", ("demonstrations",), NEW)


def _block(title: str, groups: Sequence[str], columns: Sequence[Column]) -> str:
    """A table of these groups of variations, with what differs from the default below it."""
    result = _ablations()
    by_group = {group: variations(result, group) for group in groups}
    by_group = {group: found for group, found in by_group.items() if not all(one.is_default for one in found)}
    lacks = [WORDS.get(group, group) for group in groups if group not in by_group]
    if not by_group:
        return f"{title}: {NOT_MEASURED}."
    rows = []
    for group, found in by_group.items():
        for first, one in zip([WORDS.get(group, group), *[""] * len(found)], found, strict=False):
            value = f"**{one.value}** (default)" if one.is_default else one.value
            rows.append([first, value, *(column.show(one.seeds) for column in columns)])
    notes = [_differences([one for found in by_group.values() for one in found])]
    notes += [f"{', '.join(lacks)}: {NOT_MEASURED}."] if lacks else []
    return f"{markdown_table(['varied', 'value', *(x.title for x in columns)], rows)}\n\n{' '.join(notes)}".strip()


def _ablations() -> dict[str, Any]:
    return read_if_there("basketball/ablations") or {"measured": []}


def _preset(result: dict[str, Any]) -> str:
    return result.get("preset", "basketball")


def settings(result: dict[str, Any]) -> Settings:
    """The settings that everything but the varied choice has."""
    return PRESETS[_preset(result)]


def variations(result: dict[str, Any], group: str) -> list[Variation]:
    """The variations of a group from the smallest to the largest, with the default in its place."""
    default = DEFAULTS[group](settings(result)) if group in DEFAULTS else None
    found = [
        Variation(group, one["value"], one["seeds"], one["value"] == default)
        for one in result["measured"]
        if one["group"] == group
    ]
    if default is not None and not any(one.is_default for one in found):
        found += [Variation(group, default, x["seeds"], True) for x in result["measured"] if x["group"] == "default"]
    return sorted(found, key=lambda one: _size(one.value))


def _size(value: str) -> float:
    """The first number of a value; words come last."""
    found = re.match(r"[\d,.]*\d", value)
    return float(found[0].replace(",", "")) if found else math.inf


def _differences(found: list[Variation]) -> str:
    """One sentence that names what differs clearly from the default; empty where there is no default."""
    default = next((one for one in found if one.is_default), None)
    if default is None:
        return ""
    named = []
    for one in found:
        share, real = (_median(one.seeds, key) - _median(default.seeds, key) for key in ("yield", "c2st"))
        words = [f"{100 * share:+.1f} points"] if abs(100 * share) >= POINTS else []
        words += [f"C2ST {real:+.2f}"] if abs(real) >= REAL else []
        if words:
            named.append(f"{WORDS.get(one.group, one.group)} {one.value} ({', '.join(words)})")
    limits = f"{POINTS:g} point of yield or {REAL:g} of C2ST"
    return (
        f"At least {limits} from the default: {'; '.join(named)}." if named else f"None is {limits} from the default."
    )


def _median(seeds: list[dict[str, Any]], key: str) -> float:
    return statistics.median(seed[key] for seed in seeds)


def _seeds(measured: list[dict[str, Any]]) -> str:
    counts = sorted({len(one["seeds"]) for one in measured})
    return f"{' or '.join(map(str, counts))} seed{'' if counts == [1] else 's'}"


def _origin(measured: list[dict[str, Any]], script: str) -> str:
    """Script, hardware and commits; the file has the command of every measurement."""
    hardware, commits = (", ".join(sorted({one[key] for one in measured})) for key in ("hardware", "commit"))
    return f"`{script}`, {hardware}, commit {commits}"


def displacement() -> str:
    """Why `ctvae` is right less often for DISPLACEMENT than in the paper: one setting changed at a time."""
    result = read_if_there("basketball/displacement")
    if result is None or not result["measured"]:
        return f"DISPLACEMENT, one setting changed at a time: {NOT_MEASURED}."
    measured = result["measured"]
    rows = [[one["variation"], *(column.show(one["seeds"]) for column in PROBED)] for one in measured]
    head = ["`ctvae`, DISPLACEMENT, 3 classes", *(column.title for column in PROBED)]
    printed = CONSISTENCY["displacement"]["ctvae"]["3"].median
    best = max(measured, key=lambda one: _median(one["seeds"], "right"))
    right, given = PROBED[0], PROBED[2]
    notes = [f"The paper has {printed:g} %. Best here: {best['variation']}, {right.show(best['seeds'])} %."]
    own = next((one["seeds"] for one in measured if one["variation"] == "as it is"), [])
    if own and given.show(own) != MISSING:
        notes.append(
            f"As it is, `ctvae` is right in {median_of(own, right.key, 100.0)} % with an embedding drawn from its "
            f"prior, and in {median_of(own, given.key, 100.0)} % with that of the demonstration."
        )
    about = f"{_seeds(measured)}, {result['rollouts']:,} rollouts from validation games"
    notes.append(f"{about} ({_origin(measured, 'experiments/displacement.py')}).")
    return f"{markdown_table(head, rows)}\n\n{' '.join(notes)}"
