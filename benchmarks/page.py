"""Writes results/speed/speed.html from results/speed/*.json: one file with tables and plots that opens anywhere.

    python benchmarks/page.py            (--folder: where the results are)

Only what was measured is shown. Plots take the page's colours, light or dark; no information is in colour alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from matplotlib.figure import Figure
from page_figures import WHOLE, figures, svg
from speed_summary import (
    MAIN,
    PUBLISHED,
    Line,
    Result,
    baseline_of,
    digits,
    find_row,
    floor_of,
    hardware_of,
    lines_of,
    milliseconds,
    read_results,
    rows_of,
    seconds,
    words_of,
)


def page(results: Sequence[Result]) -> str:
    """The page as HTML."""
    return Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8")).substitute(
        answer="".join(f"<p>{escape(words)}</p>" for words in map(answer, results) if words),
        sections="\n".join(section(result) for result in results),
    )


def answer(result: Result) -> str:
    """The time of the style step in a sentence; empty if it was not measured."""
    alone = find_row(result, MAIN, 1)
    if alone is None:
        return ""
    eager, machine = baseline_of(result, alone), hardware_of(result)
    words = [f"{milliseconds(alone['ms_per_step'])} for one run"]
    most = max((row for row in result["rows"] if MAIN.items() <= row.items()), key=lambda row: row["runs"])
    if most["runs"] > 1:
        words.append(f"{milliseconds(most['ms_per_step_and_run'])} per run for {most['runs']} at once")
    baselines = [f"{milliseconds(eager)} in eager PyTorch"] if eager else []
    if machine in PUBLISHED:
        baselines.append(f"{milliseconds(PUBLISHED[machine])} in the published code")
    against = f", against {' and '.join(baselines)}" if baselines else ""
    return f"{result['hardware']}: a style step at the paper's sizes takes {' and '.join(words)}{against}."


def section(result: Result) -> str:
    """Everything about one machine."""
    drawn = [picture(figure, alt, caption) for figure, alt, caption in figures(result)]
    parts = [
        f"<h2>{escape(result['hardware'])}</h2>",
        summary(lines_of(result)),
        f'<div class="figures">{"".join(drawn)}</div>' if drawn else "",
        all_rows(result),
        provenance(result),
    ]
    return "<section>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def summary(lines: Sequence[Line]) -> str:
    """What was measured, its limit, and a comparison."""
    rows = [
        [code(line.what), f"<strong>{escape(line.measured)}</strong>", mark(line), code(line.comparison)]
        for line in lines
    ]
    return table(["what", "measured", "limit", "in comparison"], rows, numbers={1}) if rows else ""


def mark(line: Line) -> str:
    """The limit, and whether it is met."""
    if line.met is None:
        return escape(line.limit)
    word = "met" if line.met else "missed"
    return f'{escape(line.limit)} <span class="{word}">{word}</span>'


def all_rows(result: Result) -> str:
    """Every shape that was measured."""
    if not result.get("rows"):
        return ""
    head = [
        "step",
        "runs",
        "ms per step",
        "ms per run",
        "floor per run",
        "x floor",
        "eager",
        "eager, whole",
        "chain",
        "compile",
    ]
    rows = []
    for row in rows_of(result):
        taken, eager, whole = (
            row["ms_per_step_and_run"],
            baseline_of(result, row),
            baseline_of(result, row, "baseline_whole_ms"),
        )
        rows.append(
            [
                escape(words_of(row)),
                str(row["runs"]),
                digits(row["ms_per_step"]),
                digits(taken),
                digits(floor_of(row)),
                digits(taken / floor_of(row), 2),
                digits(eager) if eager else "–",
                digits(whole) if whole else "–",
                str(row["dependent_products"]),
                seconds(row["compile_s"]),
            ]
        )
    note = (
        "ms: milliseconds. Floor: the larger of arithmetic at the rate of a large product and unavoidable memory "
        "traffic at the rate of a large copy. Chain: matrix products of a step of which each needs the one before. "
        "Eager: one step of one run in PyTorch, with the published loop and with whole sequences."
    )
    shown = table(head, rows, numbers=set(range(1, len(head))))
    return f'<details><summary>Every step that was measured</summary>{shown}<p class="note">{note}</p></details>'


def provenance(result: Result) -> str:
    """The provenance of the results."""
    rates, load = result.get("machine"), result.get("load")
    words = {
        "Command": f"{result['command']}, {seconds(result['seconds'])}",
        "Commit": result["commit"],
        "Rates": rates
        and f"large product {digits(rates['gflops'])} GFLOP/s, large copy {digits(rates['gbytes_per_s'])} GB/s",
        "Load": None if load is None else f"{load:.1f} processes on average at the end",
        "Versions": ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
    }
    pairs = "".join(f"<dt>{name}</dt><dd>{escape(str(value))}</dd>" for name, value in words.items() if value)
    return f"<dl>{pairs}</dl>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> str:
    """A table; its cells are HTML."""

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=number' if i in numbers else ''}>{cell}</{tag}>" for i, cell in enumerate(cells)
        )

    body = "\n".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="table"><table><thead><tr>{line(head, "th")}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
    )


def code(words: str) -> str:
    """Escapes words; `code` becomes code, and no line breaks between a number and its unit."""
    kept = re.sub(r"(\d) (ms|s|min|x|GB|GB/s|µs|%)(?=\W|$)", "\\1\N{NO-BREAK SPACE}\\2", escape(words))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", kept)


def picture(figure: Figure, alt: str, caption: str) -> str:
    """A figure with its caption as HTML."""
    kind = "wide" if figure.get_figwidth() == WHOLE else "half"
    return f'<figure class="{kind}">{svg(figure, alt)}<figcaption>{escape(caption)}</figcaption></figure>'


def main() -> None:
    """Reads the results and writes the page into their folder."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(__file__).resolve().parents[1] / "results" / "speed")
    folder = parser.parse_args().folder
    results = read_results(folder)
    if not results:
        raise SystemExit(f"{folder} holds no results yet; `make bench` measures them")
    (folder / "speed.html").write_text(page(results), encoding="utf-8")
    print(f"written: {folder / 'speed.html'} ({', '.join(result['hardware'] for result in results)})")


if __name__ == "__main__":
    main()
