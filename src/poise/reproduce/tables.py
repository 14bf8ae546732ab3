"""The tables of a study beside the paper's: as numbers, as Markdown and as LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .. import storage
from .grid import BASELINES, PROGRAM, SIGMA, STYLES, Cell, Table
from .paper import CONSISTENCY, NUMBERS, Printed

Results = Mapping[str, dict[str, Any]]
"""What was measured, by the name of a cell."""

SHOWN: dict[str, tuple[str, float, str]] = {
    "joint": ("style-consistency, %", 100.0, ".1f"),
    "joint_inside": ("right and not astray, %", 100.0, ".1f"),
    "nld": ("NLD a step", 1.0, ".2f"),
    "kl": ("KL a trajectory, nats", 1.0, ".2f"),
    "label_loss": ("cross-entropy, hundredths", 100.0, ".2f"),
    "dynamics_error": ("squared error", 1.0, ".2e"),
}
"""For each measure: its words, what it is multiplied by, and its format."""


def summarise(name: str, table: Table, results: Results) -> list[dict[str, Any]]:
    """Every cell of a table that is measured, with all seeds, their spread and what the paper prints."""
    found = []
    for measure in table.measures:
        for algorithm, column, cell in table.cells():
            result = results.get(cell.name)
            if result is None:
                continue
            times = SHOWN[measure][1] * (result["steps"] if measure == "kl" else 1)  # the paper's: of a trajectory
            values = [times * seed[measure] for seed in result["seeds"] if seed.get(measure) is not None]
            entry = {"algorithm": algorithm, "column": column, "measure": measure, **spread(values)}
            entry["stopped"] = [seed["seed"] for seed in result["seeds"] if seed["stopped"]]
            found.append({**entry, "paper": printed(name, algorithm, column, measure)})
    return found


def spread(values: list[float]) -> dict[str, Any]:
    """All values in rising order, their least, median and largest, mean and deviation (n - 1)."""
    ordered = [float(f"{value:.5g}") for value in sorted(values)]
    if not ordered:
        return {"values": [], "min": None, "median": None, "max": None, "mean": None, "deviation": None}
    deviation = float(np.std(ordered, ddof=1)) if len(ordered) > 1 else 0.0
    found = {"min": ordered[0], "median": np.median(ordered), "max": ordered[-1], "mean": np.mean(ordered)}
    return {"values": ordered, **{k: float(f"{v:.5g}") for k, v in {**found, "deviation": deviation}.items()}}


DYNAMICS = {("dynamics", "deterministic"): "dynamics", ("cheetah-refined", "demonstrations alone"): "cheetah-dynamics"}
"""Cells beside which the paper prints the error of dynamics that were trained on demonstrations, and where it does."""

PLAIN = {"plain": "single-styles", "cheetah-plain": "cheetah-single-styles"}
"""Tables with the paper's weight, and where the paper prints what they measure."""


def printed(name: str, algorithm: str, column: str, measure: str) -> dict[str, float | None] | None:
    """What the paper prints there: least, median, largest, mean and deviation, as far as it does."""
    like = PLAIN.get(name, name)
    if measure == "joint" and like in CONSISTENCY:
        cell = CONSISTENCY[like].get(algorithm, {}).get(column)
    elif name == "rnn":
        values = NUMBERS["rnn"][algorithm]["consistency" if measure == "joint" else "nld"]
        return _numbers(median=values[0]) if measure == "nld" else _numbers(values[0], values[2], values[4])
    elif name in ("tradeoff", "cheetah-tradeoff"):
        return _numbers(median=NUMBERS[name][algorithm][measure][0])
    elif name == "cheetah-longer":
        return _numbers(median=NUMBERS[name]["ctvae-style+"][column][("nld", "joint").index(measure)])
    elif name in ("labeler", "cheetah-labeler"):
        mean, deviation = NUMBERS[name]["labeler"][column]
        return _numbers(mean=mean, deviation=deviation)
    elif (name, column) in DYNAMICS and measure == "dynamics_error":
        mean, deviation = NUMBERS[DYNAMICS[name, column]]["dynamics"]["error"]
        return _numbers(mean=mean, deviation=deviation)
    else:
        return None
    return cell and _of(cell)


def _of(cell: Printed) -> dict[str, float | None]:
    found = asdict(cell)
    return {"min": found["low"], "median": found["median"], "max": found["high"], **_means(found)}


def _means(found: dict[str, Any]) -> dict[str, Any]:
    return {"mean": found["mean"], "deviation": found["deviation"]}


def _numbers(
    low: float | None = None, median: float | None = None, high: float | None = None, **means: float
) -> dict[str, float | None]:
    return {"min": low, "median": median, "max": high, "mean": means.get("mean"), "deviation": means.get("deviation")}


def noise_tables(results: Results) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Disagreement of noisy labels, and the relative loss of style-consistency: table -> σ -> style -> ours, paper."""
    found: dict[str, Any] = {"disagreement": {}, "decrease": {}}
    for style in STYLES:
        base = results.get(Cell("ctvae-style", (style,)).name)
        for c in range(1, 5):
            noisy = results.get(Cell("ctvae-style", (style,), noise=c).name)
            if base is None or noisy is None:
                continue
            clean, lost = (float(np.median([seed["joint"] for seed in each["seeds"]])) for each in (base, noisy))
            for kind, ours in (("disagreement", noisy["disagreement"]), ("decrease", 1 - lost / max(clean, 1e-9))):
                paper = NUMBERS[f"noise-{kind}"][str(c)][style][0]
                found[kind].setdefault(str(c), {})[style] = {"ours": round(100 * ours, 2), "paper": paper}
    return found


def markdown(name: str, table: Table, results: Results) -> str:
    """A table as Markdown: medians with the paper's in brackets, and below every seed."""
    cells = summarise(name, table, results)
    parts = [f"### {table.title}\n"]
    if name == "noise":
        parts += [_noise_markdown(kind, rows) for kind, rows in noise_tables(results).items()]
    for measure in table.measures:
        mine = [cell for cell in cells if cell["measure"] == measure]
        if not mine:
            parts.append("not measured yet\n")
            continue
        words, _, form = SHOWN[measure]
        if name != "noise":
            seeds = len(mine[0]["values"])
            told = {"mean" if (c["paper"] or {}).get("median") is None else "median" for c in mine if c["paper"]}
            beside = f" (in brackets: the paper's{' mean' * (told == {'mean'})})" if told else ""
            parts.append(f"{words}; median of {seeds} seed{'s' * (seeds > 1)}{beside}\n")
            parts.append(_grid(mine, lambda cell, form=form: _beside(cell, form)))
        head = ["algorithm", "", "seeds", "min, median, max", "mean ± deviation", "paper: min, median, max", "mean"]
        rows = [
            [
                cell["algorithm"],
                cell["column"],
                " ".join(format(value, form) for value in cell["values"]),
                _three(cell, form),
                _mean(cell, form),
                _three(cell["paper"], "g"),
                _mean(cell["paper"], "g"),
            ]
            for cell in mine
        ]
        body = _lines(head, rows)
        parts.append(f"<details><summary>every seed: {words}</summary>\n\n{body}\n</details>\n")
    return "\n".join(parts)


NOISE = {
    "disagreement": f"labels of training demonstrations that noise changes, % (σ: {SIGMA:g} of the score's spread)",
    "decrease": "relative loss of style-consistency, %, from the medians",
}


def _noise_markdown(kind: str, rows: dict[str, dict[str, dict[str, float]]]) -> str:
    body = [[f"{c} σ", *(_noise_cell(rows[c].get(style), "{:.1f} ({:.1f})") for style in STYLES)] for c in rows]
    return f"{NOISE[kind]} (in brackets: the paper's)\n\n{_lines(['noise', *STYLES], body)}\n"


def _noise_cell(cell: dict[str, float] | None, form: str) -> str:
    return form.format(cell["ours"], cell["paper"]) if cell else "-"


def latex(name: str, table: Table, results: Results) -> str:
    """A table as LaTeX (booktabs): medians over seeds, the paper's below in small print."""
    cells = summarise(name, table, results)
    parts = [_noise_latex(kind, rows) for kind, rows in noise_tables(results).items() if rows and name == "noise"]
    for measure in table.measures if name != "noise" else ():
        mine = [cell for cell in cells if cell["measure"] == measure]
        if not mine:
            continue
        words, _, form = SHOWN[measure]
        columns = list(dict.fromkeys(cell["column"] for cell in mine))
        at = {(cell["algorithm"], cell["column"]): cell for cell in mine}
        rows = []
        for algorithm in dict.fromkeys(cell["algorithm"] for cell in mine):
            row = [_latex_cell(at.get((algorithm, column)), form) for column in columns]
            rows.append(" & ".join([algorithm, *row]) + r" \\")
        parts.append(_tabular(f"{table.title}: {words}; median over seeds (the paper's).", columns, rows))
    return "\n".join(parts)


def _noise_latex(kind: str, rows: dict[str, dict[str, dict[str, float]]]) -> str:
    form = r"{:.1f} {{\small ({:.1f})}}"
    cells = {c: [_noise_cell(rows[c].get(style), form) for style in STYLES] for c in rows}
    body = [" & ".join([rf"{c}$\sigma$", *cells[c]]) + r" \\" for c in rows]
    return _tabular(f"{NOISE[kind]} (the paper's).", list(STYLES), body)


def _tabular(title: str, columns: list[str], rows: list[str]) -> str:
    head = " & ".join(["", *columns]) + r" \\"
    begin = rf"\begin{{tabular}}{{l{'c' * len(columns)}}}"
    lines = [begin, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    caption = rf"\caption{{{title}}}".replace("%", r"\%").replace("σ", r"$\sigma$")
    return "\n".join([r"\begin{table}", r"\centering", *lines, caption, r"\end{table}", ""])


def _latex_cell(cell: dict[str, Any] | None, form: str) -> str:
    if cell is None or cell["median"] is None:
        return "--"
    told = _paper_value(cell)
    return format(cell["median"], form) + (rf" {{\small ({told:g})}}" if told is not None else "")


def write(folder: Path, tables: Mapping[str, Table], results: Results, about: dict[str, Any]) -> list[Path]:
    """tables.md, tables.tex and results.json in a folder."""
    every = {name: summarise(name, table, results) for name, table in tables.items()}
    noise = {"noise": noise_tables(results)} if "noise" in tables else {}
    wanted = {cell.name for table in tables.values() for _, _, cell in table.cells()}
    cells = {name: result for name, result in sorted(results.items()) if name in wanted}
    files = [folder / name for name in ("tables.md", "tables.tex", "results.json")]
    pages = [markdown(name, table, results) for name, table in tables.items()]
    storage.write_bytes(files[0], "\n".join(["# The paper's tables, made again\n", *pages]).encode())
    storage.write_bytes(files[1], "\n".join(latex(name, t, results) for name, t in tables.items()).encode())
    storage.write_json(files[2], {**about, **origin_of(cells), "tables": every, **noise, "measured": cells})
    return files


def origin_of(results: Results) -> dict[str, Any]:
    """Where measured cells come from, all together; the seconds are those of the programs that trained them."""
    said = {key: _joined(cell[key] for cell in results.values()) for key in ("command", "commit", "hardware")}
    programs: dict[Any, float] = {}
    for cell in results.values():
        program = *(cell["cell"].get(key) for key in PROGRAM), cell["command"]
        programs[program] = max(programs.get(program, 0.0), cell["seconds"])
    named = [cell["versions"] for cell in results.values()]
    packages = dict.fromkeys(package for versions in named for package in versions)
    versions = {package: _joined(each.get(package, "not recorded") for each in named) for package in packages}
    return {**said, "versions": versions, "seconds": round(sum(programs.values()), 1)}


def _joined(values: Iterable[str]) -> str:
    """Each of them once, in order."""
    return "; ".join(sorted(set(values)))


POINTS = 3.0  # that a median may lie below the paper's
NEAR = 0.15  # that the NLD of ctvae-style may lie above that of ctvae


def verdict(results: Results, tables: Mapping[str, Table]) -> list[str]:
    """What the tables were to show, by goals that were set before they were made, each with whether they do."""
    cells = {name: summarise(name, table, results) for name, table in tables.items()}
    said = []
    for name in CONSISTENCY:
        at = {(c["algorithm"], c["column"]): c for c in cells.get(name, []) if c["measure"] == "joint"}
        for column in tables[name].columns if name in tables else ():
            ours, others = at.get(("ctvae-style", column)), [at.get((a, column)) for a in BASELINES]
            where = f"{name}, {column}"
            if ours is None:
                said.append(f"{where}: not measured yet")
                continue
            aim = ours["paper"]["median"] - POINTS
            there = [c for c in others if c is not None]
            best = max(there, key=lambda c: c["median"], default=None)
            missing = [a for a, c in zip(BASELINES, others, strict=True) if c is None]
            line = f"{where}: {ours['median']:.1f}, at least {aim:g} wanted: {_yes(ours['median'] >= aim)}"
            if best:
                above = _yes(ours["median"] > best["median"])
                line += f"; above {best['algorithm']}, {best['median']:.1f}: {above}"
            said.append(line + (f"; {', '.join(missing)} not measured yet" if missing else ""))
    for name, one, other, measure, rule in (
        ("rnn", "rnn-style", "rnn", "joint", "at least 8 points above"),
        ("tradeoff", "ctvae-style", "ctvae", "nld", f"within {NEAR} of"),
    ):
        if name not in tables:
            continue
        found = {c["algorithm"]: c["median"] for c in cells.get(name, []) if c["measure"] == measure}
        if one in found and other in found:
            apart = found[one] - found[other]
            holds = apart >= 8 if measure == "joint" else apart <= NEAR
            said.append(f"{one} {found[one]:.2f}, {rule} {other} {found[other]:.2f}: {_yes(holds)} ({apart:.2f})")
        else:
            said.append(f"{one} {rule} {other}: not measured yet")
    return said + _lightest(cells)


def _lightest(cells: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """With which weight of the style loss the NLD stays within its goal, and what that leaves of consistency."""
    base = [c["median"] for c in cells.get("tradeoff", []) if c["measure"] == "nld" and c["algorithm"] == "ctvae"]
    at = {(c["measure"], c["column"]): c["median"] for c in cells.get("weight", [])}
    near = [column for measure, column in at if measure == "nld" and base and at[measure, column] - base[0] <= NEAR]
    if not near:
        return []
    weight = max(near, key=float)
    nld, joint = at["nld", weight], at["joint", weight]
    gap = f"{nld:.2f}, {nld - base[0]:.2f} from ctvae"
    return [f"the largest weight in the table `weight` that stays within {NEAR}: {weight}, {gap}, {joint:.1f} % right"]


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _grid(cells: list[dict[str, Any]], show: Callable[[dict[str, Any]], str]) -> str:
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    at = {(cell["algorithm"], cell["column"]): cell for cell in cells}
    algorithms = dict.fromkeys(cell["algorithm"] for cell in cells)
    rows = [[a, *(show(at[a, c]) if (a, c) in at else "-" for c in columns)] for a in algorithms]
    return _lines(["", *columns], rows) + "\n"


def _beside(cell: dict[str, Any], form: str) -> str:
    told = _paper_value(cell)
    ours = "-" if cell["median"] is None else format(cell["median"], form)
    return ours + (f" ({told:g})" if told is not None else "")


def _paper_value(cell: dict[str, Any]) -> float | None:
    told = cell["paper"] or {}
    return told.get("median") if told.get("median") is not None else told.get("mean")


def _three(cell: dict[str, Any] | None, form: str) -> str:
    if not cell or cell["median"] is None:
        return "-"
    if cell["min"] is None:
        return format(cell["median"], form)
    return f"{cell['min']:{form}}, {cell['median']:{form}}, {cell['max']:{form}}"


def _mean(cell: dict[str, Any] | None, form: str) -> str:
    return "-" if not cell or cell["mean"] is None else f"{cell['mean']:{form}} ± {cell['deviation']:{form}}"


def _lines(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
