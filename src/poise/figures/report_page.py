"""The report of an evaluation: report.json for programs, and report.html, one file that opens anywhere, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from statistics import median
from string import Template

from ..evaluation.consistency import SeedScore
from ..evaluation.report import Report
from ..runs.run import Run
from ..styles.inspection import Inspection
from ..system import storage
from ..system.storage import make_folder
from ..training.checkpoints import METRICS, read_lines
from .consistency import draw_classes, draw_consistency
from .curves import draw_curves
from .html_blocks import (
    counted,
    listed,
    note,
    percent,
    percent_range,
    picture,
    share_cell,
    table,
    tenths,
    warning,
)
from .panels import RolloutPanels, draw_panels
from .report_about import data_name, how_to_read, provenance
from .rollouts import DRAWN
from .scores import draw_scores


def write_report(
    folder: str | Path, report: Report, runs: Sequence[Run] = (), panels: Iterable[RolloutPanels] = ()
) -> None:
    """Writes report.json and report.html into a folder.

    Nothing is rolled out here: `sample_panels` samples the rollouts that the page shows. report.json is written before
    `panels` is read, so a generator that fails while it samples does not lose the numbers.

    Args:
        folder: Where to write; missing folders are made.
        report: What `Run.evaluate` returned.
        runs: The runs that the report scores. They add the scores of held-out demonstrations, the consistency by
            class and the learning curves.
        panels: Sampled rollouts to show, for example `[sample_panels(run)]`.
    """
    folder = make_folder(Path(folder))
    storage.write_json(folder / "report.json", report.to_json())
    storage.write_bytes(folder / "report.html", page(report, runs, panels).encode())


def page(report: Report, runs: Sequence[Run] = (), panels: Iterable[RolloutPanels] = ()) -> str:
    """The report as one page of HTML that needs no other file; the arguments are those of `write_report`."""
    template = Template((resources.files("poise.figures") / "report_page.html").read_text(encoding="utf-8"))
    styles = " × ".join(_style_names(report))
    seeds = sum(len(scores) for scores in report.algorithms.values())
    sections = [
        *(warning(f"Warning: {words}.") for words in report.warnings()),
        _consistency(report),
        _styles(report, runs),
        *(_rollouts(one) for one in panels),
        _classes(report, runs),
        _curves(runs),
        how_to_read(report),
        provenance(report),
    ]
    return template.substitute(
        title=escape(f"{styles} on {data_name(report)}"),
        subtitle=escape(
            f"{', '.join(report.algorithms)}; {counted(seeds, 'trained seed')}; {report.about['rollouts']} rollouts "
            f"per seed from {counted(report.about['test'], 'test demonstration')}"
        ),
        answer=_answer(report),
        sections="\n".join(section for section in sections if section),
        version=escape(str(report.provenance.get("versions", {}).get("poise", ""))),
    )


def _style_names(report: Report) -> list[str]:
    return [style["name"] for style in report.about["styles"]]


def _answer(report: Report) -> str:
    """The result in plain words: the best algorithm, then what to compare it with."""
    names = _style_names(report)
    middle = {name: median(score.joint.value for score in scores) for name, scores in report.algorithms.items()}
    ordered = sorted(middle, key=lambda name: -middle[name])
    best, base = ordered[0], report.about["base_rate"]
    others = [f"{percent(middle[name])} for {name}" for name in ordered[1:]]
    others.append(f"{percent(base['own'])} for a policy that ignores labels")
    shown = {1: "it", 2: "both"}.get(len(names), f"all {len(names)}")
    first = (
        f"Asked for {listed(names)}, {best} rollouts show {shown} in {percent(middle[best])} of cases "
        f"({_spread(report.algorithms[best])}), against {listed(others)}."
    )
    shuffled = median(score.joint_shuffled.value for score in report.algorithms[best])
    second = (
        f"Asked for shuffled labels, which are independent of where a rollout starts, {best} rollouts show {shown} in "
        f"{percent(shuffled)} of cases, against {percent(base['shuffled'])} for a policy that ignores labels."
    )
    if middle[best] <= base["own"]:
        second = f"That is no better than ignoring the labels. {second}"
    return f"<p>{escape(first)}</p><p>{escape(second)}</p>"


def _spread(scores: Sequence[SeedScore]) -> str:
    """The range over seeds, or the interval of a single one."""
    values = [score.joint.value for score in scores]
    if len(values) == 1:
        return f"95 % interval {percent_range(scores[0].joint.low, scores[0].joint.high)}"
    if percent(min(values)) == percent(max(values)):
        return f"the same in {len(values)} seeds"
    return f"seeds {percent_range(min(values), max(values))}"


def _consistency(report: Report) -> str:
    """The main figure and the table of seeds."""
    caption = (
        "Style-consistency: the share of rollouts that show the label they were asked for, according to the labeling "
        "functions themselves. At the right, the median over seeds."
    )
    alt = "Style-consistency of " + ", ".join(report.algorithms)
    return "\n".join(
        [
            "<h2>Do rollouts show the style that was asked for?</h2>",
            picture(draw_consistency(report), alt, caption),
            _seed_table(report),
            note(
                "Shares are in percent, with 95 % intervals. Joint: all styles are right at once. Shuffled: joint, "
                "with labels that are independent of the start. Out of range: rollouts that leave the range of the "
                "test demonstrations. Joint in range: all styles are right and the rollout stays in range. A lower "
                "NLD is better."
            ),
            _labeler_table(report),
        ]
    )


def _seed_table(report: Report) -> str:
    names, rows = _style_names(report), []
    for algorithm, scores in report.algorithms.items():
        for score in scores:
            rows.append(
                [
                    escape(algorithm),
                    f"{score.seed}{' (stopped)' if score.stopped else ''}",
                    share_cell(score.joint),
                    "–" if score.joint_in_range is None else tenths(score.joint_in_range),
                    *(share_cell(score.by_style[name]) for name in names),
                    share_cell(score.joint_shuffled),
                    tenths(score.out_of_range),
                    f"{score.nld:.2f}",
                    "–" if score.kl is None else f"{score.kl:.3f}",
                ]
            )
    ends = ["shuffled", "out of range", "NLD per step", "KL per step"]
    head = ["algorithm", "seed", "joint", "joint in range", *names, *ends]
    return table(head, rows, numbers=range(2, len(head)), stacked=len(names) > 1)


def _labeler_table(report: Report) -> str:
    """The labeler's estimate of style-consistency beside that of λ; empty if no algorithm has a labeler."""
    names, rows = _style_names(report), []
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


def _styles(report: Report, runs: Sequence[Run]) -> str:
    """What each style measures, its classes with their ranges, and how many demonstrations show each."""
    words = {style.name: (style.score.__doc__ or "").strip().split("\n")[0] for run in runs for style in run.styles}
    rows = []
    for style in report.about["styles"]:
        cuts = [None, *style["thresholds"], None]
        classes = "<br>".join(
            f"<strong>{escape(name)}</strong>:&nbsp;{escape(_class_range(cuts[k], cuts[k + 1], style['unit']))}"
            for k, name in enumerate(style["classes"])
        )
        rows.append([f"<strong>{escape(style['name'])}</strong>", escape(words.get(style["name"], "")), classes])
    parts = ["<h2>What the styles are</h2>", table(["style", "what it measures", "classes"], rows)]
    if runs:
        seen = Inspection.of(runs[-1].styles, runs[-1].starts)
        caption = f"Scores of {len(seen.labels)} demonstrations that were not trained on. Dashed: the thresholds."
        parts.append(picture(draw_scores(seen), "Histograms of the scores with their thresholds", caption))
    return "\n".join(parts)


def _class_range(low: float | None, high: float | None, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    if low is None:
        return f"below {high:.4g}{unit}"
    return f"{low:.4g}{unit} and up" if high is None else f"{low:.4g} to {high:.4g}{unit}"


def _rollouts(panels: RolloutPanels) -> str:
    """The sampled rollouts of one seed."""
    drawn = 1 if panels.scene.body is not None else min(DRAWN, panels.count)
    words = (
        f"Seed {panels.seed}, the best on validation demonstrations. Each title gives the share of {panels.count} "
        f"rollouts that show the classes it names; {drawn} of them {'is' if drawn == 1 else 'are'} drawn."
    )
    if len(panels.groups) > 1:
        words += " The other styles take the label of the demonstration that the rollout starts from."
    parts = [f"<h2>Rollouts of {escape(panels.algorithm)}</h2>", note(words)]
    for group in panels.groups:
        alt = f"Rollouts of {panels.algorithm} by {listed(group.styles)}"
        parts.append(picture(draw_panels(group, panels.scene), alt))
    return "\n".join(parts)


def _classes(report: Report, runs: Sequence[Run]) -> str:
    """The consistency by class of each run's best seed."""
    parts = []
    for run in runs:
        algorithm, seed = run.experiment.algorithm_name, run.seeds[run.best]
        for score in report.algorithms.get(algorithm, []):
            if score.seed == seed:
                caption = f"{algorithm}, seed {seed}: rollouts asked for each class, with 95 % intervals."
                figure = draw_classes(score, run.styles)
                parts.append(picture(figure, f"Style-consistency of {algorithm} by class", caption))
    return "\n".join(["<h2>Style-consistency by class</h2>", *parts]) if parts else ""


def _curves(runs: Sequence[Run]) -> str:
    """Learning curves of the runs whose folders keep them."""
    parts = []
    for run in runs:
        if metrics := read_lines(run.folder / METRICS) if run.folder else []:
            algorithm = run.experiment.algorithm_name
            caption = (
                f"{algorithm}: losses by stage, one line per seed. The first steps may lie above the axes. Losses are "
                "per trajectory, summed over its steps; the table above gives NLD and KL per step."
            )
            parts.append(picture(draw_curves(metrics), f"Learning curves of {algorithm}", caption))
    return "\n".join(["<h2>Learning curves</h2>", *parts]) if parts else ""
