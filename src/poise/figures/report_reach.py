"""What is within reach, as a section of the report: which requests verified sampling reached, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ..evaluation.consistency import SeedScore
from ..evaluation.report import Report
from ..runs.run import Run
from .feasibility import draw_reach
from .html_blocks import note, picture, table, tenths
from .panels import RolloutPanels

ABOUT = (
    "Not every style is possible from every start: a slow rollout does not end far away. Here, test starts are asked "
    "for labels that are independent of them, and each request is rolled out until the labeling functions agree and "
    "the rollout stays in range. A request is called feasible if that was reached in {allowed} tries. The table gives "
    "the share of requests that were reached, in percent, with 95 % intervals and the mean number of tries."
)
CONFIRMED = (
    "The last two rows are a second, independent pass: it should reach nearly all requests that were called feasible, "
    "and nearly none of the others."
)
MAPS = (
    "{algorithm}, seed {seed}: where each class of {style} is within reach, from {count} starts of demonstrations that "
    "were not trained on. {others}"
)
Reached = dict[str, Any]
"""The field `shuffled_verified` of a seed, as report.json has it."""


def reach_section(report: Report, runs: Sequence[Run], panels: Sequence[RolloutPanels]) -> str:
    """The table of what is within reach of each algorithm's best seed, and maps; empty if it was not asked."""
    best = {run.experiment.algorithm_name: run.seeds[run.best] for run in runs}
    found = {}
    for algorithm, scores in report.algorithms.items():
        score = _of_best(scores, best.get(algorithm))
        if score is not None and score.shuffled_verified is not None:
            found[algorithm] = (score.seed, score.shuffled_verified)
    maps = [_draw_maps(one) for one in panels if one.reach]
    if not found and not maps:
        return ""
    return "\n".join(["<h2>What is within reach?</h2>", *([_table(found)] if found else []), *maps])


def _of_best(scores: Sequence[SeedScore], best: int | None) -> SeedScore | None:
    """The score of the seed that is best on validation demonstrations; of the first where no run says which that is."""
    if best is None:
        return scores[0]
    return next((score for score in scores if score.seed == best), None)


def _table(found: dict[str, tuple[int, Reached]]) -> str:
    """One column per algorithm; rows for all requests, each class of each style, and the second pass."""
    feasibility = [reached["feasibility"] for _, reached in found.values()]
    confirmed = [reached["confirmed"] for _, reached in found.values()]
    rows = [["<strong>all requests</strong>", "", *(_reach_cell(one) for one in feasibility)]]
    for style, classes in feasibility[0]["by_style"].items():
        for k, name in enumerate(classes):
            cells = [_reach_cell(one["by_style"][style][name]) for one in feasibility]
            rows.append([f"<strong>{escape(style)}</strong>" if k == 0 else "", escape(name), *cells])
    rows.append(["called feasible", "reached again", *(_share_cell(one["feasible"]) for one in confirmed)])
    rows.append(["called infeasible", "reached after all", *(_share_cell(one["infeasible"]) for one in confirmed)])
    head = ["requests for", "", *(f"{algorithm}, seed {seed}" for algorithm, (seed, _) in found.items())]
    about = ABOUT.format(allowed=max(one["allowed"] for one in feasibility))
    return "\n".join([note(about), table(head, rows, numbers=range(2, len(head))), note(CONFIRMED)])


def _reach_cell(reach: dict[str, Any]) -> str:
    """The share that was reached, its interval, and the tries."""
    if not reach["count"]:
        return "<small>not asked for</small>"
    low, high = reach["reached_interval"]
    return f"{tenths(reach['reached'])} <small>{tenths(low)}–{tenths(high)}; {reach['tries']:.1f} tries</small>"


def _share_cell(share: dict[str, Any]) -> str:
    if not share["count"]:
        return "<small>no such request</small>"
    low, high = share["interval"]
    return f"{tenths(share['value'])} <small>{tenths(low)}–{tenths(high)}</small>"


def _draw_maps(panels: RolloutPanels) -> str:
    """The maps of one seed, one figure per style."""
    parts = []
    for style, feasibility in panels.reach:
        free = (feasibility.labels >= 0).sum(axis=1).max() == 1
        others = "Other styles are left free." if free else "Other styles keep the label of the start's demonstration."
        caption = MAPS.format(
            algorithm=panels.algorithm,
            seed=panels.seed,
            style=style,
            count=max(reach.share.count for reach in feasibility.by_class()[style].values()),
            others=others if feasibility.labels.shape[1] > 1 else "",
        )
        alt = f"Where {style} is within reach of {panels.algorithm}"
        parts.append(picture(draw_reach(feasibility, style, panels.scene), alt, caption.strip()))
    return "\n".join(parts)
