"""The last two sections of the report: how to read it, and where its numbers come from."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from ..domains.base import Simulation
from ..evaluation.report import Report
from .html_blocks import counted, definitions, duration, percent

STYLE_CONSISTENCY = (
    "Every rollout is labelled by the labeling functions themselves, never by a network. The score is the share of "
    "rollouts whose labels are the ones they were asked for. Joint means that all styles are right at once."
)
OWN_LABELS = (
    "For the joint score and the scores by style, a rollout starts where a test demonstration starts and is asked for "
    "the labels of that demonstration. What is asked for is therefore possible from that start."
)
SHUFFLED_LABELS = (
    "The labels are those of a test demonstration drawn at random, independently of the start. This is harder, because "
    "some styles cannot be reached from some starts."
)
OUT_OF_RANGE = (
    "The share of rollouts with their own labels that leave the range of the test demonstrations: at some step, some "
    "number of the state is below or above everything that the test demonstrations contain. It does not matter whether "
    "the rollout shows the styles."
)
REALISM = (
    "A rollout is off support if some stretch of it is farther from all training demonstrations than 99 % of held-out "
    "demonstrations ever are. Yield is the share of rollouts that show all styles and stay on the support. C2ST is the "
    "accuracy of a classifier that tells rollouts from the test demonstrations they start like: 50 % if it cannot."
)
FEASIBLE = (
    "A request is called feasible if verified sampling reached it. A second pass, with other randomness, says what "
    "that is worth."
)
INTERVALS = "95 % intervals by Wilson's formula, for the number of distinct starts. Each seed has its own dot."
LEARNED_DYNAMICS = (
    " No environment was given, so rollouts follow a network that was trained on the demonstrations. The score is that "
    "of imagined rollouts, and can be higher or lower than in the real environment."
)
STOPPED = "A seed is stopped when its loss becomes NaN or infinite. It is scored with its last finite weights."


def how_to_read(report: Report) -> str:
    """What the numbers of the report mean."""
    about = report.about
    base, scores = about["base_rate"], [score for found in report.algorithms.values() for score in found]
    learned = about["simulation"] == Simulation.LEARNED_DYNAMICS.value
    lines = {
        "Style-consistency": STYLE_CONSISTENCY,
        "Own labels": OWN_LABELS,
        "Shuffled labels": SHUFFLED_LABELS,
        "Ignoring labels": "A policy that ignores labels, and replays the validation demonstration that starts "
        f"nearest, shows the own labels in {percent(base['own'])} of cases. A demonstration drawn at random shows "
        f"shuffled labels in {percent(base['shuffled'])} of cases.",
        "Out of range": OUT_OF_RANGE,
        **({"Realism": REALISM} if about.get("realism") else {}),
        **({"Feasible": FEASIBLE} if any(score.shuffled_verified for score in scores) else {}),
        "Intervals": INTERVALS,
        "NLD per step": "Negative log-density of the actions of test demonstrations, divided by the number of steps, "
        f"in these units: {about['units']}. For a policy with an embedding it is the reconstruction term alone, and "
        "must be read together with KL.",
        "Simulation": f"Rollouts are simulated in: {about['environment']}.{LEARNED_DYNAMICS if learned else ''}",
    }
    if words := report.dynamics():
        lines["Learned dynamics"] = words
    if any(score.stopped for score in scores):
        lines["Stopped seeds"] = STOPPED
    return f"<h2>How to read this</h2>\n{definitions(lines)}"


def provenance(report: Report) -> str:
    """Where the numbers come from, so that they can be made again."""
    made, about, experiment = report.provenance, report.about, report.about["experiment"]
    versions = ", ".join(f"{name} {version}" for name, version in made.get("versions", {}).items())
    count = f", {experiment['count']} demonstrations" if experiment["count"] else ""
    lines = {
        "Command": made.get("command"),
        "Commit": made.get("commit"),
        "Hardware": made.get("hardware"),
        "Time": duration(made["seconds"]) if "seconds" in made else None,
        "Trained on": (experiment["data"] or "demonstrations in memory") + count,
        "Tested on": f"{counted(about['test'], 'demonstration')} of {data_name(report)}",
        "Rollouts": f"{about['rollouts']} per seed",
        "Versions": versions,
    }
    known = definitions({name: str(words) for name, words in lines.items() if words})
    settings = escape(json.dumps(experiment, indent=1, ensure_ascii=False))
    details = f"<details><summary>All settings</summary><pre>{settings}</pre></details>"
    return f"<h2>Where this comes from</h2>\n{known}\n{details}"


def data_name(report: Report) -> str:
    """A short name of the test demonstrations."""
    if report.about["data"] is None:  # demonstrations that were given as values have no name
        return report.about["experiment"]["domain"] or "own data"
    return Path(report.about["data"]).stem
