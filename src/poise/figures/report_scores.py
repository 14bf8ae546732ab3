"""The first part of the report: the answer in plain words, the main figure, and the tables of seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from statistics import median

from ..evaluation.consistency import SeedScore, WayOfSampling
from ..evaluation.report import Report
from ..evaluation.shares import Share
from .consistency import draw_consistency
from .html_blocks import listed, note, percent, percent_range, picture, share_cell, table, tenths

VERIFIED = (
    "Verified: the same requests, each rolled out again until the labeling functions agree. It asks the labeling "
    "functions while sampling, and so is another question than the paper's, which gives every request one try."
)
UNSTEERED = (
    "Unsteered: a flow as it was trained, without guidance, without the pull of the labeling functions, and without a "
    "margin to thresholds."
)
NOT_MEASURED = "–"


def style_names(report: Report) -> list[str]:
    """The names of the styles."""
    return [style["name"] for style in report.about["styles"]]


def answer(report: Report) -> str:
    """The result in plain words: the best algorithm, how real its rollouts look, and what verifying makes of them."""
    best = _find_best(report)
    scores = report.algorithms[best]
    lines = [
        _obeys(report, best),
        _passes(report, scores),
        _verified(scores),
        _shuffled(report, best),
    ]
    return "".join(f"<p>{escape(line)}</p>" for line in lines if line)


def _find_best(report: Report) -> str:
    """The algorithm of the highest yield, and of the highest style-consistency where yields are equal or unknown."""

    def rank(name: str) -> tuple[float, float]:
        scores = report.algorithms[name]
        return _middle(s.realism.yield_ for s in scores) or 0.0, median(s.joint.value for s in scores)

    return max(report.algorithms, key=rank)


def _middle(values: Iterable[float | None]) -> float | None:
    """The median of what was measured; None if nothing was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _obeys(report: Report, best: str) -> str:
    """Style-consistency in one try, and what to compare it with."""
    names, base = style_names(report), report.about["base_rate"]["own"]
    middle = {name: median(score.joint.value for score in scores) for name, scores in report.algorithms.items()}
    ordered = sorted(middle, key=lambda name: -middle[name])
    others = [f"{percent(middle[name])} for {name}" for name in ordered if name != best]
    others.append(f"{percent(base)} for a policy that ignores labels")
    words = (
        f"Asked for {listed(names)}, {best} rollouts show {_all(names)} in {percent(middle[best])} of cases "
        f"({_spread(report.algorithms[best])}), against {listed(others)}."
    )
    return f"{words} That is no better than ignoring the labels." if middle[best] <= base else words


def _passes(report: Report, scores: Sequence[SeedScore]) -> str:
    """Whether the rollouts of one try also look real; empty if that was not measured."""
    in_range = _middle(score.joint_in_range for score in scores)
    yields, c2st = _middle(s.realism.yield_ for s in scores), _middle(s.realism.c2st for s in scores)
    shares = [f"{percent(in_range)} are right and in range"] if in_range is not None else []
    shares += [f"{percent(yields)} are right and on the support of the demonstrations"] if yields is not None else []
    words = f"{', '.join(shares)}." if shares else ""
    if c2st is not None:
        floor = _floor(report)
        against = "" if floor is None else f", and demonstrations from each other in {percent(floor)}"
        words += f" A classifier tells the rollouts from demonstrations in {percent(c2st)} of cases{against}."
    return words.strip()


def _verified(scores: Sequence[SeedScore]) -> str:
    """What verifying makes of the same requests; empty if they were not verified."""
    ways = [score.verified for score in scores if score.verified is not None]
    tries, never = _middle(way.tries for way in ways), _middle(way.never for way in ways)
    if tries is None or never is None:
        return ""
    right = median(way.joint_in_range for way in ways)
    unreached = (
        f"{tenths(never)}\N{NO-BREAK SPACE}% of requests were never reached" if never else "every request was reached"
    )
    return (
        f"Verified by the labeling functions while sampling, {tenths(right)}\N{NO-BREAK SPACE}% are right and in "
        f"range, with {tries:.2f} tries per request; {unreached}."
    )


def _shuffled(report: Report, best: str) -> str:
    base, names = report.about["base_rate"]["shuffled"], style_names(report)
    shuffled = median(score.joint_shuffled.value for score in report.algorithms[best])
    return (
        f"Asked for shuffled labels, which are independent of where a rollout starts, {best} rollouts show "
        f"{_all(names)} in {percent(shuffled)} of cases, against {percent(base)} for a policy that ignores labels."
    )


def _all(names: Sequence[str]) -> str:
    return {1: "it", 2: "both"}.get(len(names), f"all {len(names)}")


def _spread(scores: Sequence[SeedScore]) -> str:
    """The range over seeds, or the interval of a single one."""
    values = [score.joint.value for score in scores]
    if len(values) == 1:
        return f"95 % interval {percent_range(scores[0].joint.low, scores[0].joint.high)}"
    if percent(min(values)) == percent(max(values)):
        return f"the same in {len(values)} seeds"
    return f"seeds {percent_range(min(values), max(values))}"


def _floor(report: Report) -> float | None:
    """The C2ST of demonstrations against demonstrations."""
    return (report.about.get("realism") or {}).get("c2st_floor")


def scores_section(report: Report) -> str:
    """The main figure and the tables of seeds."""
    caption = (
        "Style-consistency in one try: the share of rollouts that show the label they were asked for, according to the "
        "labeling functions themselves. At the right, the median over seeds."
    )
    alt = "Style-consistency of " + ", ".join(report.algorithms)
    return "\n".join(
        [
            "<h2>Do rollouts show the style that was asked for, and do they look real?</h2>",
            picture(draw_consistency(report), alt, caption),
            _ways_table(report),
            note(
                "Shares are in percent, with 95 % intervals. Joint: all styles are right at once. Joint in range: they "
                "are, and the rollout stays in the range of the test demonstrations. Yield: they are, and the rollout "
                "stays on the support of the demonstrations. C2ST: how often a classifier tells rollouts from "
                "demonstrations, and demonstrations from each other; 50\N{NO-BREAK SPACE}% is guessing. Tries: "
                "rollouts per request. Never: requests that no try reached."
            ),
            *([note(VERIFIED)] if _any(report, lambda score: score.verified) else []),
            *([note(UNSTEERED)] if _any(report, lambda score: score.unsteered) else []),
            "<h3>In one try, by style</h3>",
            _seed_table(report),
            note(
                "Shuffled: joint, with labels that are independent of the start. Out of range: rollouts that leave the "
                "range of the test demonstrations. A lower NLD is better."
            ),
            _labeler_table(report),
        ]
    )


def _any(report: Report, way: Callable[[SeedScore], WayOfSampling | None]) -> bool:
    return any(way(score) is not None for scores in report.algorithms.values() for score in scores)


def _ways_table(report: Report) -> str:
    """One row per seed and way of sampling, and one for demonstrations."""
    rows = []
    for algorithm, scores in report.algorithms.items():
        for score in scores:
            seed = f"{score.seed}{' (stopped)' if score.stopped else ''}"
            rows.append([escape(algorithm), seed, "one try", *_cells(score), "1", NOT_MEASURED])
            for name, way in (("unsteered", score.unsteered), ("verified", score.verified)):
                if way is not None:
                    tries = "1" if way.tries is None else f"{way.tries:.2f}"
                    never = NOT_MEASURED if way.never is None else tenths(way.never)
                    rows.append(["", "", name, *_cells(way), tries, never])
    if (floor := _floor(report)) is not None:
        cell = _c2st_cell(floor, report.about["realism"].get("c2st_floor_interval"))
        rows.append(["demonstrations", "", "", "", "", "", cell, "", ""])
    head = ["algorithm", "seed", "sampled", "joint", "joint in range", "yield", "C2ST", "tries", "never"]
    return table(head, rows, numbers=range(3, len(head)))


def _cells(way: SeedScore | WayOfSampling) -> list[str]:
    """What every way of sampling is scored by: joint, joint in range, yield, C2ST."""
    realism = way.realism
    shares = [NOT_MEASURED if share is None else tenths(share) for share in (way.joint_in_range, realism.yield_)]
    return [share_cell(way.joint), *shares, _c2st_cell(realism.c2st, realism.c2st_interval)]


def _c2st_cell(accuracy: float | None, interval: Sequence[float] | None) -> str:
    if accuracy is None or interval is None:
        return NOT_MEASURED if accuracy is None else tenths(accuracy)
    low, high = interval
    return share_cell(Share(accuracy, low, high, 0))


def _seed_table(report: Report) -> str:
    """One row per seed: each style, shuffled labels, and what the networks do on demonstrations."""
    names, rows = style_names(report), []
    for algorithm, scores in report.algorithms.items():
        for score in scores:
            rows.append(
                [
                    escape(algorithm),
                    str(score.seed),
                    *(share_cell(score.by_style[name]) for name in names),
                    share_cell(score.joint_shuffled),
                    tenths(score.out_of_range),
                    f"{score.nld:.2f}",
                    NOT_MEASURED if score.kl is None else f"{score.kl:.3f}",
                ]
            )
    head = ["algorithm", "seed", *names, "shuffled", "out of range", "NLD per step", "KL per step"]
    return table(head, rows, numbers=range(2, len(head)), stacked=len(names) > 2)


def _labeler_table(report: Report) -> str:
    """The labeler's estimate of style-consistency beside that of λ; empty if no algorithm has a labeler."""
    names, rows = style_names(report), []
    for algorithm, scores in report.algorithms.items():
        for score in scores:
            if score.labeler_estimate:
                cells = [_estimate_cell(score.labeler_estimate[name], score.by_style[name].value) for name in names]
                rows.append([escape(algorithm), str(score.seed), *cells])
    if not rows:
        return ""
    words = (
        "The labeler is the network that the policy was trained against. Its estimate is the share of the same "
        "rollouts that it takes for right, in percent, with the share by the labeling function λ. A large overestimate "
        "means that the policy has learned to convince the labeler instead of showing the style."
    )
    head = ["algorithm", "seed", *names]
    content = table(head, rows, numbers=range(2, len(head)), stacked=len(names) > 1)
    return f"<h3>The labeler's estimate</h3>\n{content}\n{note(words)}"


def _estimate_cell(estimate: float, truth: float) -> str:
    over = (
        f", overestimate {tenths(estimate - truth)}" if tenths(estimate) != tenths(truth) and estimate > truth else ""
    )
    return f"{tenths(estimate)} <small>λ {tenths(truth)}{over}</small>"
