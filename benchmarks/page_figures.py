"""The figures of the page about speed, as SVG in the page's colours."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from speed_summary import (
    MAIN,
    PUBLISHED,
    Result,
    Row,
    baseline_of,
    count,
    floor_of,
    hardware_of,
    rounded,
    seconds,
    streaming_steps,
)

INK, MUTED, FAINT, POISE, EAGER, FLOOR = "#1f2933", "#5b6675", "#e1e5ea", "#0072b2", "#d55e00", "#00795a"
VARIABLES = {INK: "ink", MUTED: "muted", FAINT: "line", POISE: "poise", EAGER: "eager", FLOOR: "floor"}
"""The colours of a figure, and the names of the page's variables for them."""
HALF, WHOLE = 4.7, 9.6  # inches: half and full width of the page
AXES = {"batch": "batch", "steps": "T, steps of a trajectory", "hidden": "hidden units", "styles": "styles"}
STREAMED = {"open_and_check": "open, check", "open_split_and_label": "open, split, label"}
LINES = {
    "poise": {"color": POISE, "marker": "o", "markersize": 5, "linewidth": 1.8, "label": "Poise"},
    "published": {
        "color": EAGER,
        "linestyle": "--",
        "marker": ".",
        "linewidth": 1.4,
        "label": "eager PyTorch, published loop",
    },
    "whole": {
        "color": EAGER,
        "linestyle": ":",
        "marker": ".",
        "linewidth": 1.6,
        "label": "eager PyTorch, whole sequences",
    },
    "floor": {"color": FLOOR, "linestyle": "-.", "linewidth": 1.4, "label": "floor"},
    "authors": {"color": MUTED, "linestyle": (0, (1, 3)), "linewidth": 1.6, "label": "published code"},
}


def figures(result: Result) -> Iterator[tuple[Figure, str, str]]:
    """Yields each figure that a result has data for, with its alternative text and caption."""
    rows = [
        row for row in result.get("rows", []) if row["preset"] == "basketball" and MAIN["algorithm"] == row["algorithm"]
    ]
    by_runs = sorted((row for row in rows if MAIN.items() <= row.items()), key=lambda row: row["runs"])
    if len(by_runs) > 1:
        caption = "Time of a style step per run, by the number of runs that are trained at once; lower is better."
        yield draw_runs(result, by_runs), "Milliseconds per step and run against the number of runs", caption
    fixed, panels = shapes(rows)
    if panels:
        caption = f"Time of a style step per run with {count(fixed, 'run')} at once, one size changed at a time."
        yield draw_shapes(result, panels), "Milliseconds per step and run against the sizes", caption
    if result.get("labeling"):
        caption = "Trajectories labelled per second. Traced and one by one: five styles. Host: one function of NumPy."
        yield draw_labeling(result["labeling"]), "Trajectories labelled per second", caption
    if result.get("sampling"):
        caption = "Rollouts per second, by the number that is requested at a time."
        yield draw_sampling(result["sampling"]), "Rollouts per second against their number", caption
    if (streaming := result.get("streaming")) and streaming_steps(streaming):
        caption = (
            f"Peak memory of the process, and seconds, while {streaming['trajectories']:,} trajectories on disk "
            f"({streaming['gigabytes']:.1f} GB) are written, labelled and trained on."
        )
        yield draw_memory(streaming), "Memory per step of the job", caption
    if (style := result.get("style")) and style["seen"]:
        caption = (
            f"Share of rollouts that end where requested, against seconds of training (hidden {style['hidden']}; "
            "labeler and compilation included, evaluation excluded)."
        )
        yield draw_style(style), "Style-consistency against seconds of training", caption


def draw_runs(result: Result, rows: Sequence[Row]) -> Figure:
    """Milliseconds per step and run against runs."""
    figure, (ax,) = axes(WHOLE)
    runs = [row["runs"] for row in rows]
    plot_rows(ax, result, rows, runs)
    if hardware_of(result) in PUBLISHED:
        ax.plot(runs, [PUBLISHED[hardware_of(result)]] * len(runs), **LINES["authors"])
    if hardware_of(result) == "NVIDIA H200":
        limits = {1: 2.5, 64: 0.20}
        ax.plot(*zip(*limits.items(), strict=True), "v", color=INK, markersize=6, label="limit", zorder=1)
    logarithmic(ax, runs)
    ax.set_xlabel("runs at once")
    ax.set_ylabel("ms per step and run")
    legend(figure, [ax])
    return figure


def shapes(rows: Sequence[Row]) -> tuple[int, dict[str, list[Row]]]:
    """The number of runs with the most shapes, and for each size that varies the rows in which it alone does."""
    found = {}
    fixed = Counter(row["runs"] for row in rows).most_common(1)[0][0] if rows else 1
    for name in AXES:
        others = {**{key: value for key, value in MAIN.items() if key != name}, "runs": fixed}
        alike = [row for row in rows if others.items() <= row.items()]
        if len(alike) > 1:
            found[name] = sorted(alike, key=lambda row: row[name])
    return fixed, found


def draw_shapes(result: Result, panels: dict[str, list[Row]]) -> Figure:
    """Milliseconds per step and run against each size that varies."""
    figure, drawn = axes(WHOLE, len(panels), share=True)
    for ax, (name, rows) in zip(drawn, panels.items(), strict=True):
        sizes = [row[name] for row in rows]
        plot_rows(ax, result, rows, sizes)
        logarithmic(ax, sizes)
        ax.set_xlabel(AXES[name])
    drawn[0].set_ylabel("ms per step and run")
    legend(figure, drawn)
    return figure


def plot_rows(ax: Axes, result: Result, rows: Sequence[Row], xs: Sequence[float]) -> None:
    """Poise, its floor, and the two baselines where they were measured."""
    for name, key in (("published", "baseline_ms"), ("whole", "baseline_whole_ms")):
        known = [(x, value) for x, row in zip(xs, rows, strict=True) if (value := baseline_of(result, row, key))]
        if known:
            ax.plot(*zip(*known, strict=True), **LINES[name])
    ax.plot(xs, [row["ms_per_step_and_run"] for row in rows], **LINES["poise"], zorder=3)
    ax.plot(xs, [floor_of(row) for row in rows], **LINES["floor"])


def draw_sampling(found: dict[str, Any]) -> Figure:
    """Rollouts per second."""
    figure, (ax,) = axes(HALF)
    for name, line in (("rollouts_per_second", "poise"), ("eager_rollouts_per_second", "published")):
        if rates := found.get(name):
            label = "Poise" if line == "poise" else "eager PyTorch"
            ax.plot([int(n) for n in rates], list(rates.values()), **{**LINES[line], "label": label})
    for number, rate in found["rollouts_per_second"].items():
        ax.annotate(f"{rounded(rate, 2):,}", (int(number), rate), (6, -12), textcoords="offset points", color=INK)
    logarithmic(ax, [int(n) for n in found["rollouts_per_second"]])
    ax.margins(x=0.16, y=0.14)
    ax.set_xlabel("rollouts requested at a time")
    ax.set_ylabel("rollouts per second")
    if "eager_rollouts_per_second" in found:
        legend(figure, [ax])
    return figure


def draw_labeling(found: dict[str, Any]) -> Figure:
    """Trajectories per second, one bar per way of labelling."""
    traced, host, single = found["traced"], found.get("host"), found.get("one_by_one")
    bars = [("read only", traced["trajectories"] / traced["read_only_seconds"], FLOOR)]
    bars.append((f"{traced['styles']} styles, traced", traced["trajectories_per_second"], POISE))
    if single:
        bars.append((f"{traced['styles']} styles, NumPy,\none by one", 1 / single["seconds_per_trajectory"], EAGER))
    if host:
        cores = count(found["cores"], "core")
        bars.append((f"1 host style, {cores}", host["trajectories"] / host["all_cores_seconds"], POISE))
        bars.append(("1 host style,\none process", host["trajectories"] / host["one_process_seconds"], EAGER))
    figure, (ax,) = axes(HALF)
    horizontal(ax, bars, [f"{rounded(value, 2):,}" for _, value, _ in bars])
    ax.set_xscale("log")
    ax.set_xlim(min(value for _, value, _ in bars) / 4, max(value for _, value, _ in bars) * 30)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    ax.set_xlabel("trajectories per second")
    return figure


def draw_memory(found: dict[str, Any]) -> Figure:
    """Peak memory of each step of the job on disk."""
    steps = streaming_steps(found)
    figure, (ax,) = axes(HALF)
    bars = [
        (STREAMED.get(name, name.replace("_", " ")), step["peak_megabytes"] / 1e3, POISE)
        for name, step in steps.items()
    ]
    words = [f"{step['peak_megabytes'] / 1e3:.2f} GB, {seconds(step['seconds'])}" for step in steps.values()]
    horizontal(ax, bars, words)
    most = max(value for _, value, _ in bars)
    ax.set_xlim(0, 1.7 * most)
    if found["gigabytes"] < 1.6 * most:
        ax.axvline(found["gigabytes"], color=MUTED, linestyle="--", linewidth=1.2, zorder=0)
        ax.annotate("the data", (found["gigabytes"], 1), (-4, 3), xycoords=("data", "axes fraction"),
                    textcoords="offset points", ha="center", color=MUTED)  # fmt: skip
    ax.set_xlabel("GB of memory")
    return figure


def draw_style(found: dict[str, Any]) -> Figure:
    """Style-consistency against training time."""
    figure, (ax,) = axes(HALF)
    _, taken, right = zip(*found["seen"], strict=True)
    ax.axhline(found["goal"], color=MUTED, linestyle="--", linewidth=1.2)
    ax.annotate(f"goal {found['goal']}", (0, found["goal"]), (4, 4), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=MUTED)  # fmt: skip
    ax.plot(taken, right, **LINES["poise"])
    if found["seconds"]:
        ax.annotate(
            seconds(found["seconds"]),
            (taken[-1], right[-1]),
            (0, -15),
            textcoords="offset points",
            ha="center",
            color=INK,
        )
    ax.set_xlim(0, 1.08 * max(taken))
    ax.set_ylim(min(0.9 * min(right), 0.5), 1.0)
    ax.set_xlabel("seconds of training")
    ax.set_ylabel("style-consistency")
    return figure


def axes(width: float, panels: int = 1, share: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    figure = Figure((width, 3.3), layout="constrained", facecolor="none")
    drawn = figure.subplots(1, panels, sharey=share, squeeze=False)[0]
    for ax in drawn:
        ax.set_facecolor("none")
        ax.grid(color=FAINT, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.tick_params(which="both", colors=MUTED, labelsize=9, length=0)
        ax.spines[:].set_visible(False)
        ax.xaxis.label.set_color(INK)
        ax.yaxis.label.set_color(INK)
    return figure, list(drawn)


def logarithmic(ax: Axes, xs: Sequence[float]) -> None:
    """Makes both axes logarithmic, with the measured sizes and plain numbers as ticks."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(sorted(set(xs)), [f"{x:,}" for x in sorted(set(xs))])
    ax.margins(x=0.1)
    low, high = ax.get_ylim()
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=steps, numticks=20))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())


def horizontal(ax: Axes, bars: Sequence[tuple[str, float, str]], words: Sequence[str]) -> None:
    """Draws bars from top to bottom, each with words at its end."""
    names, values, colours = zip(*bars, strict=True)
    ax.barh(range(len(bars)), values, 0.62, color=colours)
    ax.set_yticks(range(len(bars)), names)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", labelcolor=INK)
    for place, (value, text) in enumerate(zip(values, words, strict=True)):
        ax.annotate(text, (value, place), (5, 0), textcoords="offset points", va="center", color=INK)


def legend(figure: Figure, drawn: Sequence[Axes]) -> None:
    """Adds a legend below the panels, with every line once."""
    found = {label: handle for ax in drawn for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    columns = 2 if figure.get_figwidth() < WHOLE else 3 if len(found) > 4 else len(found)
    figure.legend(found.values(), found, loc="outside lower center", ncols=columns, frameon=False, labelcolor=INK)


def svg(figure: Figure, alt: str) -> str:
    """The figure as an SVG element in the page's colours; the same figure always gives the same text."""
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "poise", "font.size": 9}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    found = buffer.getvalue()
    found = found[found.index("<svg") :]
    for colour, name in VARIABLES.items():
        found = found.replace(colour, f"var(--{name})")
    found = re.sub(r"<metadata>.*?</metadata>", "", found, flags=re.DOTALL)
    found = re.sub(
        r'(<svg [^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", found, count=1), count=1
    )
    return found.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
