"""Writes every figure in README.md and docs/ from the results files that the repository keeps.

    python experiments/write_figures.py            (--check: only says whether something would change)

A page names a block, and this script fills it:  <!-- figures: demo -->  ...  <!-- end -->
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from poise.reproduce import tables
from poise.reproduce.grid import BASELINES, SETUPS, TABLES, of_domain
from poise.reproduce.paper import CONSISTENCY

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from speed_summary import (  # noqa: E402  (benchmarks and experiments are scripts, not a package)  # pyright: ignore
    EXPECTED,
    SECTIONS,
    Line,
    baseline_of,
    digits,
    floor_of,
    hardware_of,
    lines_of,
    on_cpu,
    read_results,
    rows_of,
    words_of,
)

SPEED = ROOT / "results" / "speed"
MISSING = "not measured yet"
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def read(name: str) -> dict:
    """A results file."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def origin(result: dict) -> str:
    """Where a result comes from, as one line."""
    return f"`{result['command']}`, {result['hardware']}, commit {result['commit']}"


def spread(cell: dict) -> str:
    """Median [min, max]."""
    return f"{cell['median']:.3f} [{cell['min']:.3f}, {cell['max']:.3f}]"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def demo(domain: str, on: str) -> str:
    """A demo's figures on two cores."""
    result = read(f"{domain}/demo")
    rows = [[f"`{c['algorithm']}`", spread(c), f"{c['nld']:.2f}"] for c in result["cells"]]
    rows.append(["ignores labels", f"{result['base_rate']['own']:.3f}", "-"])
    head = [on, "both styles right: median [min, max]", "NLD per step"]
    count, minutes = len(result["cells"][0]["seeds"]), result["seconds"] / 60
    seeds = f"{count} seed{'s' * (count > 1)} each"
    note = f"{seeds}, trained and scored in {minutes:.1f} minutes without installation ({origin(result)})."
    return f"{table(head, rows)}\n\n{note}"


def simulated() -> str:
    """How close simulated players come to real ones."""
    result = read("basketball/simulated")
    rows = [
        [name.replace("_", " "), f"{row['simulated']['50']:.2f}", f"{row['real']['50']:.2f}", f"{row['ks']:.3f}"]
        for name, row in result["scores"].items()
    ]
    head = ["score", "simulated median", "real median", "Kolmogorov-Smirnov distance"]
    note = f"{result['count']:,} players in {result['seconds']:.1f} s ({origin(result)})."
    return f"{table(head, rows)}\n\n{note}"


def widening() -> str:
    """The labeler with and without perturbed demonstrations."""
    result = read("basketball/widening")
    rows = [
        [
            "as the paper: demonstrations alone" if not c["widen"] else "and perturbed copies",
            ", ".join(f"{value:.3f}" for value in c["seeds"]),
            *(f"{c['believed'][style]:.3f} / {c['true'][style]:.3f}" for style in c["styles"]),
            f"{c['nld']:.2f}",
        ]
        for c in result["cells"]
    ]
    styles = [f"{style}: believed / true" for style in result["cells"][0]["styles"]]
    head = ["what the labeler learns from", "joint, by seed", *styles, "NLD"]
    return f"{table(head, rows)}\n\nThe demo's `ctvae-style` ({origin(result)})."


def speed() -> str:
    """What matters most about speed, all machines in one table."""
    rows, notes = [], []
    for machine, result in speed_results().items():
        rows.append([f"**{result['hardware'] if result else machine}**", "" if result else MISSING, "", ""])
        if result:
            wanted = list(SECTIONS) if on_cpu(result) else ["step"]
            rows += [cells(line) for line in lines_with_gaps(result, wanted) if not line.minor]
            parts = [*result["rows"], *(part for part in result.values() if isinstance(part, dict))]
            commits = sorted({part["commit"] for part in parts if "commit" in part} | {result["commit"]})
            notes.append(f"{origin(result)}; parts of it measured at {', '.join(commits)}.")
    notes.append(
        "Limits were set beforehand. The published code was timed once, beforehand; eager PyTorch, one run as the "
        "published loop goes, in this command (docs/speed.md also has it at its best)."
    )
    return f"{table(['', 'measured', 'limit', 'beside it'], rows)}\n\n{' '.join(notes)}"


def speed_steps() -> str:
    """Every step that was measured, a table each machine."""
    head = ["step", "runs", "ms a step", "ms per run", "floor per run", "eager PyTorch", "whole", "chain", "compile"]
    parts = []
    for machine, result in speed_results().items():
        if not result or not result.get("rows"):
            parts.append(f"**{machine}**: {MISSING}.")
            continue
        rates = result["machine"]
        rows = [step_cells(result, row) for row in rows_of(result)]
        said = (
            f"A large product runs at {rates['gflops']:,.0f} GFLOP/s, a large copy at {rates['gbytes_per_s']:,.0f} GB/s"
        )
        parts += [f"**{result['hardware']}**", table(head, rows), f"{said} ({origin(result)})."]
    return "\n\n".join(parts)


def step_cells(result: dict, row: dict) -> list[str]:
    """A step as a line of the table."""
    taken, floor = row["ms_per_step_and_run"], floor_of(row)
    eager, whole = (baseline_of(result, row, name) for name in ("baseline_ms", "baseline_whole_ms"))
    return [
        words_of(row),
        str(row["runs"]),
        digits(row["ms_per_step"]),
        digits(taken),
        f"{digits(floor, 2)} ({digits(taken / floor, 2)} x)",
        f"{digits(eager)} ({digits(eager / taken, 2)} x)" if eager else "-",
        digits(whole) if whole else "-",
        str(row["dependent_products"]),
        f"{row['compile_s']:.1f} s",
    ]


def speed_other() -> str:
    """Labeling, sampling, starting, streaming and time to style, a table each machine."""
    parts = []
    for machine, result in speed_results().items():
        if not result:
            parts.append(f"**{machine}**: {MISSING}.")
            continue
        rows = [cells(line) for line in lines_with_gaps(result, [name for name in SECTIONS if name != "step"])]
        parts += [f"**{result['hardware']}**", table(["", "measured", "limit", "beside it"], rows)]
    return "\n\n".join(parts)


def speed_unchanged() -> str:
    """The foundation's figure before and after the kernels."""
    rows, seeds = [], []
    for what, name in (("loops of XLA (the foundation)", "destination"), ("kernels", "destination_kernels")):
        result = read(f"basketball/{name}")
        cell = next(cell for cell in result["cells"] if cell["algorithm"] == "ctvae-style")
        rows.append([what, spread(cell), f"{cell['nld']:.2f}", f"{cell['seconds']:.0f}", origin(result)])
        seeds.append(cell["seeds"])
    below = sum(seed < min(seeds[0]) for seed in seeds[1])
    said = f"{below} of {len(seeds[1])} seeds with kernels lie below the lowest of the foundation's."
    made = table(
        ["`ctvae-style`, DESTINATION, 3 classes, real data", "right", "NLD", "seconds for 5 seeds", "from"], rows
    )
    return f"{made}\n\n{said}"


def speed_results() -> dict[str, dict | None]:
    """Results by machine: those that limits are set for, measured or not, then any others."""
    found = {hardware_of(result): result for result in read_results(SPEED)}
    return {**dict.fromkeys(EXPECTED), **found}


def lines_with_gaps(result: dict, sections: list[str]) -> list[Line]:
    """The lines of these sections; a section that was not measured says so."""
    lines = lines_of(result)
    return [
        line
        for name in sections
        for line in [line for line in lines if line.section == name] or [Line(name, SECTIONS[name], MISSING)]
    ]


def cells(line: Line) -> list[str]:
    """A line of a table."""
    return [line.what, line.measured, line.verdict, line.beside]


def paper_table(name: str) -> str:
    """A table of the paper, cell by cell."""
    table = TABLES[name]
    return tables.markdown(name, table, read(f"{table.domain}/paper")["measured"]).split("\n", 2)[2].strip()


def paper_verdict(domain: str) -> str:
    """What the tables were to show, and whether they do."""
    result = read(f"{domain}/paper")
    said = "\n".join(f"- {line}" for line in tables.verdict(result["measured"], of_domain(domain)))
    sizes = {(cell["train"], cell["test"]) for cell in result["measured"].values()}
    data = ", ".join(f"{train:,} training and {test:,} test trajectories" for train, test in sorted(sizes))
    took = f"{result['seconds'] / 60:.0f} minutes of {result['hardware']}, all programs added up"
    return f"{said}\n\nFrom `results/{domain}/paper.json`: {data}, {took}, commits {result['commit']}."


STYLES = ("speed", "destination", "displacement", "direction", "curvature")
PERCENT = ("joint", "astray", "joint_inside")


def percent(cell: dict, key: str) -> str:
    """The median of a share over seeds, in percent."""
    return f"{100 * statistics.median(seed[key] for seed in cell['seeds']):.1f}"


def astray() -> str:
    """Rollouts that go where no demonstration goes."""
    measured, rows = read("basketball/paper")["measured"], []
    compared = (("ctvae", ""), ("ctvae-mi", ""), ("ctvae-style", "-plain"), ("ctvae-style", ""))
    for style, (algorithm, suffix) in itertools.product(STYLES, compared):
        cell = measured[f"{algorithm}-{style}-3{suffix}"]
        name = f"`{algorithm}`" + (" (`plain`)" if suffix else "")
        rows.append([style.upper(), name, *(percent(cell, key) for key in PERCENT)])
    head = ["3 classes", "", "right, %", "astray, %", "right and not astray, %"]
    return f"{table(head, rows)}\n\nMedians of 5 seeds, shares of all rollouts."


def behind(domain: str) -> str:
    """What stands behind each cell of ctvae-style: other labels, the price in NLD, what the labeler believes."""
    measured, rows, seen = read(f"{domain}/paper")["measured"], [], set()
    for name, table_ in of_domain(domain).items():
        for algorithm, column, cell in table_.cells() if name in CONSISTENCY else ():
            if algorithm != "ctvae-style" or cell.name in seen:
                continue
            seen.add(cell.name)
            ours = measured[cell.name]
            others = [measured.get(replace(cell, algorithm=other).name) for other in BASELINES]
            inside = max(float(percent(other, "joint_inside")) for other in others if other)
            nld, floor = (statistics.median(seed["nld"] for seed in one["seeds"]) for one in (ours, others[0]))
            shares = [percent(ours, key) for key in ("joint", "joint_independent", "astray", "joint_inside")]
            rows.append([_where(name, column), shares[0], _worst(ours), *shares[1:]])
            rows[-1] += [f"{inside:.1f}", f"{nld - floor:.2f}", _fooled(ours)]
    head = ["`ctvae-style`", "right, %", "worst class, %", "labels of others, %", "astray, %"]
    head += ["right and not astray, %", "the best baseline's", "NLD above `ctvae`", "labeler too sure"]
    note = (
        "Medians of 5 seeds. Worst class: that which is right least often when asked for. Labels of others: asked for "
        "the labels of another demonstration than the start's. Labeler too sure: points by which the labeler's belief "
        "is above the truth, for the style where it is most."
    )
    return f"{table(head, rows)}\n\n{note}"


def _where(name: str, column: str) -> str:
    """A cell in words."""
    name, words = name.removeprefix("cheetah-"), column.replace("_", " ").upper()
    return words if name == "single-styles" else f"{name.upper()} {column}"


def _worst(cell: dict) -> str:
    """The class that is right least often when it is asked for."""
    by_class = {
        (style, word): statistics.median(100 * seed["by_class"][style][word]["value"] for seed in cell["seeds"])
        for style, words in cell["seeds"][0]["by_class"].items()
        for word in words
    }
    style, word = min(by_class, key=lambda key: by_class[key])
    return f"{word} {by_class[style, word]:.1f}" + (f" ({style})" if len(cell["seeds"][0]["by_class"]) > 1 else "")


def _fooled(cell: dict) -> str:
    """How many points more the labeler takes for right than are, in the style where it is most."""
    over = {
        style: statistics.median(100 * (seed["believed"][style] - seed["by_style"][style]) for seed in cell["seeds"])
        for style in cell["seeds"][0]["believed"]
    }
    most = max(over, key=lambda style: over[style])
    return f"{over[most]:.1f}" + (f" ({most})" if len(over) > 1 else "")


def quick(domain: str) -> str:
    """How long a small table takes on two cores, and what it shows."""
    result = read(f"{domain}/paper_quick")
    (cells,) = (cells for name, cells in result["tables"].items() if name.endswith("single-styles"))
    found = [c for c in cells if c["algorithm"] == "ctvae-style"]
    shown = ", ".join(f"{c['column']} {c['median']:.0f}" for c in found if c["measure"] == "joint")
    return (
        f"`{result['command']}`: {result['seconds'] / 60:.1f} minutes on two cores, with one seed "
        f"(`ctvae-style`, %: {shown}; commit {result['commit']})."
    )


ALGORITHMS = ("ctvae", "ctvae-info", "ctvae-mi", "ctvae-style")


def main_rows(names: Sequence[str], measured: dict, unit: str) -> str:
    """The paper's main rows, ours beside it."""
    rows = []
    for name in names:
        cells = {(c["algorithm"], c["column"]): c for c in tables.summarise(name, TABLES[name], measured)}
        before = {"joint": "joint ", "speed": "SPEED, classes: "}.get(name.removeprefix("cheetah-"), "")
        for column in TABLES[name].columns:
            shown = [cells.get((algorithm, column)) for algorithm in ALGORITHMS]
            words = [f"{c['median']:.0f} ({c['paper']['median']:.0f})" if c else MISSING for c in shown]
            rows.append([before + column if before else column.replace("_", " ").upper(), *words])
    return table([unit, *(f"`{algorithm}`" for algorithm in ALGORITHMS)], rows)


def cheetah_summary() -> str:
    """The main rows of the Cheetah."""
    names = ("cheetah-single-styles", "cheetah-speed", "cheetah-joint")
    rows = main_rows(names, read("cheetah/paper")["measured"], "Cheetah, %: Poise (the paper)")
    over = {
        run["weight"]: {key: _percents(run["classes"]["fast"], key) for key in ("right", "upside down")}
        for run in read("cheetah/falls")["runs"]
        if run["style"] == "speed"
    }
    most, least = max(over), min(over)
    note = (
        "Medians of 5 seeds, 500 rollouts each in C MuJoCo. Asked to be fast, the five policies of SPEED are right "
        f"in {over[most]['right']} % of rollouts and upside down {over[most]['upside down']} % of the time; with "
        f"weight {least:g} of the style loss instead of {most:g} it is {over[least]['right']} and "
        f"{over[least]['upside down']} ([what the weight buys and costs](docs/cheetah.md#weights))."
    )
    return f"{rows}\n\n{note}"


def paper_summary() -> str:
    """The main rows of basketball."""
    measured = read("basketball/paper")["measured"]
    rows = main_rows(("single-styles", "joint"), measured, "Basketball, %: Poise (the paper)")
    lost = {style: percent(measured[f"ctvae-style-{style}-3"], "astray") for style in ("curvature", "displacement")}
    note = (
        "Medians of 5 seeds on real NBA tracking; all cells: [docs/basketball.md](docs/basketball.md). Some rollouts "
        f"of `ctvae-style` obey by leaving the range of all demonstrations: {lost['curvature']} % for CURVATURE, "
        f"{lost['displacement']} % for DISPLACEMENT ([more](docs/basketball.md#what-style-consistency-does-not-say))."
    )
    return f"{rows}\n\n{note}"


def demonstrators() -> str:
    """Target and reached speed of the Cheetah's demonstrators."""
    result = read("cheetah/demonstrators")
    every = max(1, (len(result["policies"]) - 1) // 8)
    rows = [
        [f"{p['target']:.2f}", f"{p['reached']:.2f}", f"{p['reached_after_first_second']:.2f}", f"{p['deviation']:.2f}"]
        for p in result["policies"][::every]
    ]
    head = ["target, m/s", "mean speed", "after the first second", "deviation between demonstrations"]
    height = result["quantiles"]["torso height (m)"]
    whole, late = result["mean_error"], result["mean_error_after_first_second"]
    worst = max(result["policies"], key=lambda policy: policy["deviation"])
    note = (
        f"Some of {len(result['policies'])} policies. On average a policy's mean speed is {whole:.2f} m/s from its "
        f"target, after the first second {late:.2f}; the torso is {height['0.05']:.2f} to {height['0.95']:.2f} m high "
        f"(5 to 95 %), and upside down {result['shares']['upside down']:.1%} of the time. "
        f"The largest error is {result['largest_error']:.2f} m/s; the policy for {worst['target']:.2f} m/s differs "
        f"most between demonstrations, by {worst['deviation']:.2f} m/s. "
        f"{result['steps']:,} steps each, {result['seconds']:.0f} s with {result['plan']['driver']} ({origin(result)})."
    )
    return f"{table(head, rows)}\n\n{note}"


def demos() -> str:
    """How long demonstrations take to be made."""
    result = read("cheetah/demos")
    return f"{result['train']:,} and {result['test']:,} in {result['seconds']:.0f} s ({origin(result)})."


def fading() -> str:
    """How long gradients of the style loss are, by how much of them fades at every step."""
    result = read("cheetah/fading")
    rows = [[share, *(f"{found[key]:.2g}" for key in ("median", "max"))] for share, found in result["lengths"].items()]
    rows.append(["imitation", *(f"{result['imitation'][key]:.2g}" for key in ("median", "max"))])
    head = ["`network.fading`", "length of the gradient, median", "largest"]
    about = f"{result['batches']} batches, at a trained policy of `ctvae-style` (SPEED), with the style loss's weight"
    return f"{table(head, rows)}\n\n{about}. {origin(result)}."


def _percents(seeds: list[dict], key: str) -> str:
    """One number a seed."""
    return " ".join(f"{100 * seed[key]:.0f}" for seed in seeds)


def falls() -> str:
    """How much of the time a Cheetah lies on its back."""
    result, keys = read("cheetah/falls"), ("right", "upside down", "tilted", "believed")
    rows = [
        [run["run"], f"{run['style']}={word}", *(_percents(seeds, key) for key in keys)]
        for run in result["runs"]
        for word, seeds in run["classes"].items()
    ]
    head = ["run, five seeds", "asked for", "right, %", "of the time upside down, %", "tilted, %"]
    head.append("the labeler believes, %")
    return f"{table(head, rows)}\n\n{result['rollouts']} rollouts each. {origin(result)}."


FIGURES: dict[str, Callable[[], str]] = {
    "falls": falls,
    "fading": fading,
    "demo": partial(demo, "basketball", "simulated basketball, speed x destination, 3 classes each"),
    "cheetah-demo": partial(demo, "cheetah", "Cheetah, speed x front foot height, 2 classes each"),
    "demos": demos,
    "simulated": simulated,
    "widening": widening,
    "demonstrators": demonstrators,
    "speed": speed,
    "speed-steps": speed_steps,
    "speed-other": speed_other,
    "speed-unchanged": speed_unchanged,
    **{f"{domain}-verdict": partial(paper_verdict, domain) for domain in SETUPS},
    "astray": astray,
    **{f"{domain}-behind": partial(behind, domain) for domain in SETUPS},
    **{f"{domain}-quick": partial(quick, domain) for domain in SETUPS},
    "paper-summary": paper_summary,
    "cheetah-summary": cheetah_summary,
    **{f"paper-{name}": partial(paper_table, name) for name in TABLES},
}


def filled(text: str) -> str:
    """A page with all of its blocks written anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def main(check: bool) -> int:
    """Writes the pages that changed; with `check`, only names them and fails."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    stale = [page for page in pages if filled(page.read_text()) != page.read_text()]
    for page in stale:
        print(f"{'stale' if check else 'written'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(filled(page.read_text()))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
