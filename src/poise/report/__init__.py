"""The report: report.json for machines, and report.html, one file that opens anywhere, for people."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from importlib import resources
from itertools import product
from pathlib import Path
from statistics import median
from string import Template
from typing import Any

from .. import plots, storage
from ..evaluation import Checked, Report, SeedScore, Share
from ..files import make_folder
from ..inspection import Inspection
from ..runs import Run
from ..tasks import IN_MEMORY

ROLLOUTS = 200  # for each panel of a picture
PIXELS = 104  # on the page, for an inch of a picture: its small print is then as large as a caption
HEAVY = 1_500_000  # bytes; lines are sharp on every screen and on paper, but very many are lighter as pixels
PANELS = 9  # classes of two styles are drawn as one grid up to this many


def write_report(folder: Path, report: Report, runs: Sequence[Run]) -> None:
    """Writes report.json and report.html into the folder; the runs are those that the report scores."""
    folder = make_folder(Path(folder))
    storage.write_json(folder / "report.json", report.to_json())
    storage.write_bytes(folder / "report.html", page(report, runs).encode())


def page(report: Report, runs: Sequence[Run]) -> str:
    """The report as one page of HTML that needs nothing beside it."""
    template = Template((resources.files(__name__) / "page.html").read_text(encoding="utf-8"))
    styles = " × ".join(style["name"] for style in report.about["styles"])
    seeds = sum(len(scores) for scores in report.algorithms.values())
    sections = [
        _stopped(report),
        _consistency(report),
        _styles(report, runs),
        *(_rollouts(run) for run in runs),
        _classes(report, runs),
        _curves(runs),
        _reading(report),
        _origin(report),
    ]
    return template.substitute(
        title=escape(f"{styles} on {_source(report)}"),
        subtitle=escape(
            f"{', '.join(report.algorithms)}; {_count(seeds, 'trained seed')}; {report.about['rollouts']} rollouts a "
            f"seed from {_count(report.about['test'], 'test demonstration')}"
        ),
        answer=_answer(report),
        sections="\n".join(section for section in sections if section),
        version=escape(str(report.origin.get("versions", {}).get("poise", ""))),
    )


def _source(report: Report) -> str:
    """The demonstrations in a word or two."""
    tested = report.about["data"]
    return report.about["experiment"]["domain"] or "own data" if tested == IN_MEMORY else Path(tested).stem


# The answer on top


def _answer(report: Report) -> str:
    """What came out, in plain words: the best algorithm first, then what to hold it against."""
    names = [style["name"] for style in report.about["styles"]]
    middle = {name: median(score.joint.value for score in scores) for name, scores in report.algorithms.items()}
    ordered = sorted(middle, key=lambda name: -middle[name])
    best, base = ordered[0], report.about["base_rate"]
    others = [f"{_percent(middle[name])} for {name}" for name in ordered[1:]]
    others.append(f"{_percent(base['own'])} for a policy that ignores labels")
    shown = {1: "it", 2: "both"}.get(len(names), f"all {len(names)}")
    first = (
        f"Asked for {_join(names)}, {best} rollouts show {shown} in {_percent(middle[best])} of cases "
        f"({_range(report.algorithms[best])}), against {_join(others)}."
    )
    independent = median(score.joint_independent.value for score in report.algorithms[best])
    second = (
        f"Asked for labels that have nothing to do with where a rollout starts, {best} shows {shown} in "
        f"{_percent(independent)} of cases; ignoring labels would give {_percent(base['independent'])}."
    )
    if middle[best] <= base["own"]:
        second = f"That is no better than ignoring the labels. {second}"
    warnings = [f"Warning: {warning}." for warning in report.warnings()]
    return "".join(f"<p>{escape(words)}</p>" for words in (first, second, *warnings))


def _range(scores: Sequence[SeedScore]) -> str:
    """The spread over seeds, or the interval of a lone one."""
    if len(scores) == 1:
        return f"95 % interval {_interval(scores[0].joint)}"
    low, *_, high = sorted(f"{100 * score.joint.value:3.0f}" for score in scores)
    return (
        f"the same in {len(scores)} seeds" if low == high else f"seeds {low.strip()}–{high.strip()}\N{NO-BREAK SPACE}%"
    )


def _interval(share: Share) -> str:
    return f"{100 * share.low:.0f}–{_percent(share.high)}"


# Sections, each a piece of HTML, empty where there is nothing to say


def _stopped(report: Report) -> str:
    lines = [
        f"{algorithm}, seed {score.seed}, was stopped at {score.stopped}: its loss was not finite. "
        "Its scores are those of the last good weights."
        for algorithm, scores in report.algorithms.items()
        for score in scores
        if score.stopped
    ]
    return "\n".join(f'<p class="warning">{escape(line)}</p>' for line in lines)


def _consistency(report: Report) -> str:
    """The headline picture and the table of seeds."""
    caption = (
        "Style-consistency: the share of rollouts that show the label asked for, judged by the labeling functions "
        "themselves. At the right, the median over seeds."
    )
    alt = "Style-consistency of " + ", ".join(report.algorithms)
    return "\n".join(
        [
            "<h2>Do rollouts show the style that was asked for?</h2>",
            _picture(plots.draw_consistency(report), alt, caption),
            _seed_table(report),
            _note(
                "In percent, with 95 % intervals. Joint: all styles right at once. Independent: joint, with labels "
                "drawn independently of the start. Astray: beyond the range of all test demonstrations. NLD and KL are "
                "per step; a lower NLD is better."
            ),
            _belief_table(report),
        ]
    )


def _seed_table(report: Report) -> str:
    names = [style["name"] for style in report.about["styles"]]
    rows = []
    for algorithm, scores in report.algorithms.items():
        for score in scores:
            rows.append(
                [
                    escape(algorithm),
                    f"{score.seed}{' (stopped)' if score.stopped else ''}",
                    _share(score.joint),
                    *(_share(score.by_style[name]) for name in names),
                    _share(score.joint_independent),
                    f"{100 * score.astray:.1f}",
                    f"{score.nld:.2f}",
                    "–" if score.kl is None else f"{score.kl:.3f}",
                ]
            )
    head = ["algorithm", "seed", "joint", *names, "independent", "astray", "NLD", "KL"]
    return _table([escape(word) for word in head], rows, numbers=range(2, len(head)), many=len(names) > 2)


def _belief_table(report: Report) -> str:
    """What labelers believe of the same rollouts, beside what λ says."""
    names = [style["name"] for style in report.about["styles"]]
    rows = [
        [
            escape(algorithm),
            str(score.seed),
            *(f"{100 * score.believed[name]:.1f} <small>λ {_tenths(score.by_style[name])}</small>" for name in names),
        ]
        for algorithm, scores in report.algorithms.items()
        for score in scores
        if score.believed
    ]
    if not rows:
        return ""
    table = _table([escape(word) for word in ("algorithm", "seed", *names)], rows, numbers=range(2, 2 + len(names)))
    note = (
        "What the labeler, which the policy was trained to please, takes for right in the same rollouts, beside what "
        "the labeling function λ says. A labeler far above λ is being fooled."
    )
    return f"<h3>The labeler's belief beside the truth</h3>\n{table}\n{_note(note)}"


def _styles(report: Report, runs: Sequence[Run]) -> str:
    """What each style measures, its classes with their ranges, and how demonstrations spread over them."""
    words = {style.name: (style.score.__doc__ or "").strip().split("\n")[0] for run in runs for style in run.styles}
    rows = []
    for style in report.about["styles"]:
        cuts = [None, *style["thresholds"], None]
        spans = [_span(cuts[k], cuts[k + 1], style["unit"]) for k in range(len(style["classes"]))]
        named = [
            f"<strong>{escape(n)}</strong>:&nbsp;{escape(s)}" for n, s in zip(style["classes"], spans, strict=True)
        ]
        measured = escape(words.get(style["name"], ""))
        rows.append([f"<strong>{escape(style['name'])}</strong>", measured, "<br>".join(named)])
    parts = ["<h2>What the styles are</h2>", _table(["style", "what it measures", "classes"], rows)]
    if runs:
        seen = Inspection.of(runs[-1].styles, runs[-1].starts)
        caption = f"Scores of {len(seen.labels)} demonstrations that were not trained on; dashed: the thresholds."
        parts.append(_picture(plots.draw_scores(seen), "Histograms of the scores with their thresholds", caption))
    return "\n".join(parts)


def _span(low: float | None, high: float | None, unit: str) -> str:
    unit = f" {unit}" if unit else ""
    if low is None:
        return f"below {high:.4g}{unit}"
    return f"{low:.4g}{unit} and up" if high is None else f"{low:.4g} to {high:.4g}{unit}"


def _rollouts(run: Run) -> str:
    """Rollouts of a run's best seed: a grid of the classes of two styles, or one row of classes a style."""
    algorithm, together, scene = run.experiment.algorithm, _fit_one_grid(run), run.domain.scene
    drawn = 1 if scene.body else plots.DRAWN
    groups = [run.styles] if together else [(style,) for style in run.styles]
    note = (
        f"Seed {run.seeds[run.best]}, the best on validation demonstrations. In each title, the share of {ROLLOUTS} "
        f"rollouts that show what it names; {drawn} of them {'is' if drawn == 1 else 'are'} drawn."
    )
    if not together and len(run.styles) > 1:
        note += " Styles that a title does not name take the label of the demonstration that the rollout starts from."
    parts = [f"<h2>Rollouts of {escape(algorithm)}</h2>", _note(note)]
    for styles in groups:
        asked = product(*(style.classes for style in styles))
        panels = [_panel(run, dict(zip((style.name for style in styles), words, strict=True))) for words in asked]
        columns = len(styles[-1].classes) if together else 3
        draw = plots.draw_gaits if scene.body else partial(plots.draw_rollouts, columns=columns)
        figure = draw(panels, scene)
        parts.append(_picture(figure, f"Rollouts of {algorithm} by {_join([style.name for style in styles])}"))
    return "\n".join(parts)


def _fit_one_grid(run: Run) -> bool:
    return len(run.styles) == 2 and len(run.styles[0].classes) * len(run.styles[1].classes) <= PANELS


def _panel(run: Run, words: dict[str, Any]) -> tuple[str, Checked]:
    """Rollouts asked for these classes, with what λ says of the styles that are named."""
    checked = run.sample_checked(ROLLOUTS, words)
    named = [i for i, style in enumerate(run.styles) if style.name in words]
    title = ", ".join(f"{name}={word}" for name, word in words.items())
    return title, checked.only(named)


def _classes(report: Report, runs: Sequence[Run]) -> str:
    parts = ["<h2>Consistency by class</h2>"]
    for run in runs:
        algorithm, seed = run.experiment.algorithm, run.seeds[run.best]
        scores = [score for score in report.algorithms.get(algorithm, []) if score.seed == seed]
        if scores:
            caption = f"{algorithm}, seed {seed}: rollouts asked for each class, with 95 % intervals."
            figure = plots.draw_classes(scores[0], run.styles)
            parts.append(_picture(figure, f"Style-consistency of {algorithm} by class", caption))
    return "\n".join(parts) if len(parts) > 1 else ""


def _curves(runs: Sequence[Run]) -> str:
    """Learning curves of the runs whose folders keep them."""
    parts = ["<h2>Learning curves</h2>"]
    for run in runs:
        metrics = _metrics(run)
        if metrics:
            caption = (
                f"{run.experiment.algorithm}: losses by stage, one line a seed; the very first steps may lie above."
            )
            figure = plots.draw_curves(metrics)
            parts.append(_picture(figure, f"Learning curves of {run.experiment.algorithm}", caption))
    return "\n".join(parts) if len(parts) > 1 else ""


def _metrics(run: Run) -> list[dict[str, Any]]:
    path = run.folder / "metrics.jsonl" if run.folder else None
    if path is None or not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last line of a run that was cut off
            found.append(json.loads(line))
    return found


def _reading(report: Report) -> str:
    about = report.about
    base = about["base_rate"]
    learned = about["environment"].startswith("learned")
    lines = {
        "Style-consistency": "Every rollout is labelled by the true labeling functions, never by a network; the share "
        "whose labels are the ones asked for is the score. Joint means that all styles are right at once.",
        "Own labels": "Joint and by style: a rollout starts where a test demonstration starts, and is asked for that "
        "demonstration's own labels, so that what is asked for is feasible.",
        "Independent labels": "The labels come from another test demonstration than the start. This is harder: some "
        "styles cannot be reached from some starts.",
        "Ignoring labels": f"A policy that replays the demonstration with the nearest start shows the own labels in "
        f"{_percent(base['own'])} of cases; for independent labels, chance is {_percent(base['independent'])}.",
        "Astray": "The share of rollouts (own labels) in which some number of the state leaves the range of all test "
        "demonstrations at some time, whether or not it shows the styles.",
        "Intervals": "95 %, by Wilson's formula, for the number of distinct starts; each seed has its own dot.",
        "NLD": f"Negative log-density of the test demonstrations' actions, per step, in these units: {about['units']}. "
        "For a policy with an embedding it is the reconstruction term, to be read with KL.",
        "Environment": f"Rollouts are simulated in: {about['environment']}."
        + (
            " No environment was given, so rollouts follow a network that was trained on the demonstrations: "
            "consistency is that of imagined rollouts, and can be better or worse than in the real world."
            if learned
            else ""
        ),
    }
    if told := report.dynamics():
        lines["Learned dynamics"] = told
    return "<h2>How to read this</h2>\n" + _list(lines)


def _origin(report: Report) -> str:
    """Where the figures come from, so that they can be made again."""
    origin, about, experiment = report.origin, report.about, report.about["experiment"]
    versions = ", ".join(f"{name} {version}" for name, version in origin.get("versions", {}).items())
    data = experiment["data"] + (f", {experiment['count']} demonstrations" if experiment.get("count") else "")
    lines = {
        "Command": origin.get("command"),
        "Commit": origin.get("commit"),
        "Hardware": origin.get("hardware"),
        "Time": _time(origin["seconds"]) if "seconds" in origin else None,
        "Trained on": data,
        "Tested on": f"{_count(about['test'], 'demonstration')} of {_source(report)}",
        "Rollouts": f"{about['rollouts']} a seed",
        "Versions": versions,
    }
    settings = escape(json.dumps(experiment, indent=1, ensure_ascii=False))
    return (
        "<h2>Where this comes from</h2>\n"
        + _list({name: str(words) for name, words in lines.items() if words})
        + f"\n<details><summary>All settings</summary><pre>{settings}</pre></details>"
    )


# Pieces of HTML


def _picture(figure: Any, alt: str, caption: str = "") -> str:
    """A figure inside the page, on a white card whatever the page's colours."""
    kind, width = "wide" if figure.get_figwidth() > 5 else "narrow", round(figure.get_figwidth() * PIXELS)
    form, content = "svg+xml", plots.encode(figure, "svg")
    if len(content) > HEAVY:
        form, content = "png", plots.encode(figure, "png")
    source = f"data:image/{form};base64,{base64.b64encode(content).decode()}"
    image = f'<img class="{kind}" width="{width}" alt="{escape(alt)}" src="{source}">'
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="picture">{image}</div>{below}</figure>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = (), many: bool = False) -> str:
    """A table of cells that are HTML already; with many columns, small print goes below instead of beside."""
    numbers = set(numbers)
    kind = lambda i: ' class="number"' if i in numbers else ""  # noqa: E731
    line = lambda cells, tag: "".join(f"<{tag}{kind(i)}>{cell}</{tag}>" for i, cell in enumerate(cells))  # noqa: E731
    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    table = f"<table><thead><tr>{line(head, 'th')}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return f'<div class="table{" many" if many else ""}">{table}</div>'


def _list(lines: dict[str, str]) -> str:
    return "<dl>\n" + "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in lines.items()) + "\n</dl>"


def _note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>'


def _share(share: Share) -> str:
    return f"{_tenths(share)} <small>{100 * share.low:.1f}–{100 * share.high:.1f}</small>"


def _tenths(share: Share) -> str:
    return f"{100 * share.value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
