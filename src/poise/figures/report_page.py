"""The report of an evaluation: report.json for programs, and report.html, one file that opens anywhere, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from ..evaluation.report import Report
from ..runs.run import Run
from ..styles.inspection import Inspection
from ..system import storage
from ..system.storage import make_folder
from ..training.checkpoints import METRICS, read_lines
from .bodies import draw_strips
from .chosen_gaits import RULE
from .consistency import draw_classes
from .curves import draw_curves
from .html_blocks import counted, listed, note, picture, table, warning
from .panels import RolloutPanels, draw_panels
from .report_about import data_name, how_to_read, provenance
from .report_reach import reach_section
from .report_realism import realism_section
from .report_scores import answer, scores_section, style_names
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
    styles = " × ".join(style_names(report))
    seeds = sum(len(scores) for scores in report.algorithms.values())
    panels = list(panels)
    sections = [
        *(warning(f"Warning: {words}.") for words in report.warnings()),
        scores_section(report),
        _styles(report, runs),
        *(_rollouts(one) for one in panels),
        realism_section(report),
        reach_section(report, runs, panels),
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
        answer=answer(report),
        sections="\n".join(section for section in sections if section),
        version=escape(str(report.provenance.get("versions", {}).get("poise", ""))),
    )


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
    if panels.tries > 1:
        words += f" Each rollout was made again until the labeling functions agreed, in {panels.tries} tries at most."
    if len(panels.groups) > 1:
        words += " A flow leaves the other styles free; other policies take the label of the start's demonstration."
    parts = [f"<h2>Rollouts of {escape(panels.algorithm)}</h2>", note(words)]
    for group in panels.groups:
        alt = f"Rollouts of {panels.algorithm} by {listed(group.styles)}"
        parts.append(picture(draw_panels(group, panels.scene), alt))
    if panels.chosen:
        gaits = draw_strips(panels.chosen, panels.scene)
        parts.append(picture(gaits, f"Median and worst gaits of {panels.algorithm} and of demonstrations", RULE))
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
