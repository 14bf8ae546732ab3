"""The content of results/speed/*.json, line by line: what was measured, its limit, and a comparison.

The page (`page.py`) and the docs (`experiments/write_results.py`) both read results through this module. What was not
measured has no line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Result = dict[str, Any]
Row = dict[str, Any]

SHAPE = ("algorithm", "stage", "preset", "batch", "steps", "hidden", "styles")
MAIN: dict[str, Any] = dict(zip(SHAPE, ("ctvae-style", "policy", "basketball", 128, 24, 128, 1), strict=True))
CHEETAH = {**MAIN, "preset": "cheetah", "batch": 16, "steps": 200, "hidden": 200}
SECTIONS = {
    "step": "one style step",
    "labeling": "labeling",
    "sampling": "sampling",
    "start": "a second start",
    "streaming": "trajectories on disk",
    "style": "time to style",
}
EXPECTED = ("NVIDIA H200", "2 CPU cores")
PUBLISHED = {"NVIDIA H200": 161.0, "2 CPU cores": 151.0}
"""Milliseconds of one step of the published code: timed once, before Poise was begun, not by these benchmarks."""


@dataclass(frozen=True)
class Line:
    """One thing that was measured."""

    section: str
    what: str
    measured: str
    limit: str = ""
    met: bool | None = None
    comparison: str = ""
    minor: bool = False
    """Whether the overview leaves it out."""

    @property
    def verdict(self) -> str:
        """The limit, and whether it is met."""
        return self.limit if self.met is None else f"{self.limit}: {'met' if self.met else 'missed'}"


def read_results(folder: Path) -> list[Result]:
    """All results files of a folder, accelerators first."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda result: (on_cpu(result), result["hardware"]))


def on_cpu(result: Result) -> bool:
    """Whether the hardware is a CPU."""
    return "CPU" in result["hardware"]


def hardware_of(result: Result) -> str:
    """The hardware: one of `EXPECTED`, which have limits, or as recorded."""
    return next((name for name in EXPECTED if re.search(rf"\b{name}\b", result["hardware"])), result["hardware"])


def lines_of(result: Result) -> list[Line]:
    """All lines of a results file, the most important first."""
    sections = (step_lines, labeling_lines, sampling_lines, start_lines, streaming_lines, style_lines)
    return [line for section in sections for line in section(result)]


def rows_of(result: Result) -> list[Row]:
    """All rows, those of the paper's sizes first, in ascending number of runs."""
    return sorted(result.get("rows", []), key=lambda row: row["runs"] if MAIN.items() <= row.items() else float("inf"))


def find_row(result: Result, shape: dict[str, Any], runs: int) -> Row | None:
    """The row of a shape with this number of runs."""
    wanted = {**shape, "runs": runs}
    return next((row for row in result.get("rows", []) if wanted.items() <= row.items()), None)


def baseline_of(result: Result, row: Row, name: str = "baseline_ms") -> float | None:
    """Milliseconds of eager PyTorch for one run of a row's shape, from any row of that shape."""
    alike = [row, *(r for r in result["rows"] if all(r[key] == row[key] for key in SHAPE))]
    return next((r[name] for r in alike if r.get(name)), None)


def floor_of(row: Row) -> float:
    """Milliseconds of the floor, per run."""
    return row["floor_ms"] / row["runs"]


def words_of(row: Row) -> str:
    """A row's algorithm and sizes in words, without its number of runs."""
    special = {} if row["preset"] == "basketball" else {"": row["preset"]}
    if (row["algorithm"], row["stage"]) != (MAIN["algorithm"], MAIN["stage"]):
        special = {"": f"{row['algorithm']}, {row['stage']}"}
    sizes = f"batch {row['batch']}, T {row['steps']}, hidden {row['hidden']}, {count(row['styles'], 'style')}"
    return ", ".join([*special.values(), sizes])


def step_lines(result: Result) -> Iterator[Line]:
    """The style step at the paper's sizes, for one run and for many; the Cheetah's sizes; compilation."""
    hardware = hardware_of(result)
    alone, many = find_row(result, MAIN, 1), find_row(result, MAIN, 64)
    measured = sorted({row["runs"] for row in result.get("rows", []) if MAIN.items() <= row.items()})
    most = max(measured, default=0)
    for runs in measured:
        row = find_row(result, MAIN, runs)
        if row is None or (hardware == "NVIDIA H200" and runs not in (1, 64, 256)):
            continue
        taken, limit, met = row["ms_per_step_and_run"], "", None
        if hardware == "NVIDIA H200" and runs == 1:
            limit, met = "at most 2.5 ms", taken <= 2.5
        elif hardware == "NVIDIA H200" and runs == 64:
            limit, met = "at most 0.20 ms", taken <= 0.20
        elif hardware == "NVIDIA H200" and many:
            limit, met = "no slower per run than 64", taken <= many["ms_per_step_and_run"]
        what = "one style step, 1 run" if runs == 1 else f"{runs} runs at once, per step and run"
        minor = runs not in (1, 64, 256) and runs != most
        yield Line("step", what, milliseconds(taken), limit, met, _step_comparison(result, row), minor)
    if ratios := result.get("pairs", {}).get("ratios"):
        bound = ("at least 2", median(ratios) >= 2) if hardware == "2 CPU cores" else ("", None)
        comparison = f"median of {len(ratios)} pairs measured in turn, {ratios[0]:.3f} to {ratios[-1]:.3f}"
        yield Line("step", "eager PyTorch over Poise, 1 run", f"{median(ratios):.2f} x", *bound, comparison=comparison)
    for runs in (1, 64):
        if row := find_row(result, CHEETAH, runs):
            what = f"the Cheetah's sizes, {'1 run' if runs == 1 else f'{runs} runs at once, per step and run'}"
            yield Line("step", what, milliseconds(row["ms_per_step_and_run"]), comparison=_step_comparison(result, row))
    if alone:
        bound = ("at most 20 s", alone["compile_s"] <= 20) if hardware == "2 CPU cores" else ("", None)
        yield Line("step", "compilation of the style stage", seconds(alone["compile_s"]), *bound)


def _step_comparison(result: Result, row: Row) -> str:
    taken, words = row["ms_per_step_and_run"], []
    if eager := baseline_of(result, row):
        words.append(f"eager PyTorch {milliseconds(eager)} ({times(eager / taken)})")
    if MAIN.items() <= row.items() and row["runs"] == 1 and hardware_of(result) in PUBLISHED:
        words.append(f"published code {milliseconds(PUBLISHED[hardware_of(result)])}")
    words.append(f"floor {digits(floor_of(row), 2)} ms")
    return "; ".join(words)


def labeling_lines(result: Result) -> Iterator[Line]:
    """Traced styles and NumPy styles."""
    found = result.get("labeling")
    if not found:
        return
    traced = found["traced"]
    bound = ("at most 2 s", traced["warm_seconds"] <= 2) if hardware_of(result) == "2 CPU cores" else ("", None)
    words = [f"{traced['gigabytes_per_second']:.2g} GB/s", f"{seconds(traced['cold_seconds'])} with compilation"]
    if single := found.get("one_by_one"):
        words.append(f"one by one in NumPy: {times(single['traced_is_faster'])} as long")
    what = f"{traced['styles']} traced styles, {traced['trajectories']:,} trajectories"
    yield Line("labeling", what, seconds(traced["warm_seconds"]), *bound, comparison="; ".join(words))
    if host := found.get("host"):
        what = f"a NumPy style, {host['trajectories']:,} trajectories"
        comparison = f"one process {seconds(host['one_process_seconds'])}"
        measured = f"{seconds(host['all_cores_seconds'])} on {found['cores']} cores"
        yield Line("labeling", what, measured, comparison=comparison, minor=True)


def sampling_lines(result: Result) -> Iterator[Line]:
    """Latencies and rollouts per second."""
    found = result.get("sampling")
    if not found:
        return
    one, step = found["sample_one"], found["actor_step"]
    bound = ("single milliseconds", one["ms"] < 10) if on_cpu(result) else ("", None)
    what = f"`run.sample(1)`, {found['steps']} steps, hidden {found['hidden']}"
    yield Line(
        "sampling", what, milliseconds(one["ms"]), *bound, comparison=f"99th percentile {milliseconds(one['ms_99'])}"
    )
    comparison = f"99th percentile {microseconds(step['us_99'])}"
    yield Line("sampling", "one `actor.step`", microseconds(step["us"]), comparison=comparison)
    if ten := found.get("actor_step_of_ten"):
        comparison = f"99th percentile {microseconds(ten['us_99'])}"
        yield Line(
            "sampling", "one `actor.step` of ten at once", microseconds(ten["us"]), comparison=comparison, minor=True
        )
    most, rate = max(found["rollouts_per_second"].items(), key=lambda item: item[1])
    yield Line("sampling", f"rollouts per second, {int(most):,} at a time", f"{rounded(rate):,}")


def start_lines(result: Result) -> Iterator[Line]:
    """Seconds from the start of Python to the first trained step."""
    if found := result.get("start"):
        bound = "at most 5 s", found["second_s"] <= 5
        comparison = f"first start {seconds(found['first_s'])}"
        yield Line(
            "start",
            "second start, Python to the first trained step",
            seconds(found["second_s"]),
            *bound,
            comparison=comparison,
        )


def streaming_lines(result: Result) -> Iterator[Line]:
    """Memory and time of data on disk."""
    found = result.get("streaming")
    if not found:
        return
    steps = streaming_steps(found)
    peak = max(step["peak_megabytes"] for step in steps.values())
    what = f"{found['trajectories']:,} trajectories on disk ({found['gigabytes']:.1f} GB): peak memory"
    words = []
    if label := steps.get("open_split_and_label"):
        words.append(f"opened, split and labelled in {seconds(label['seconds'])}")
    if train := steps.get("train"):
        words.append(f"{found['steps_trained']:,} steps trained in {seconds(train['seconds'])}")
    yield Line("streaming", what, f"{peak / 1e3:.2g} GB", "bounded", comparison="; ".join(words))
    for stream in found.get("streams", {}).get("stream", []):
        if stream["work_milliseconds"]:
            what = f"waiting for windows of {found['window']:,} that are used for {stream['work_milliseconds']:.0f} ms"
            comparison = f"{rounded(stream['rows_per_second']):,} rows per second"
            yield Line(
                "streaming",
                what,
                f"{100 * stream['waiting_share']:.1f} % of the time",
                comparison=comparison,
                minor=True,
            )


def streaming_steps(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The steps of the job on disk, in order."""
    return {name: step for name, step in found.items() if isinstance(step, dict) and "peak_megabytes" in step}


def style_lines(result: Result) -> Iterator[Line]:
    """Seconds until a style is reached."""
    found = result.get("style")
    if not found or not found["seen"]:
        return
    step, taken, right = found["seen"][-1]
    measured = seconds(found["seconds"]) if found["seconds"] else f"not in {seconds(taken)} ({right:.3f})"
    what = f"DESTINATION right in {100 * found['goal']:.0f} % of rollouts, hidden {found['hidden']}"
    yield Line("style", what, measured, comparison=f"{step:,} steps, labeler and compilation included")


def milliseconds(value: float) -> str:
    """Milliseconds with three digits and the unit."""
    return f"{digits(value)} ms"


def microseconds(value: float) -> str:
    """Microseconds, or milliseconds from 1,000 on."""
    return milliseconds(value / 1e3) if value >= 1e3 else f"{value:.0f} µs"


def seconds(value: float) -> str:
    """Seconds, or minutes from 300 seconds on."""
    return f"{digits(value)} s" if value < 300 else f"{value / 60:.1f} min"


def times(ratio: float) -> str:
    """A ratio with two digits."""
    return f"{digits(ratio, 2)} x"


def digits(value: float, kept: int = 3) -> str:
    """A number with this many digits, without an exponent."""
    if value >= 10**kept:
        return f"{rounded(value, kept):,}"
    words = f"{value:#.{kept}g}"
    return f"{value:.{kept + 2}f}" if "e" in words else words.rstrip(".")


def rounded(value: float, kept: int = 3) -> int:
    """A large number rounded to this many digits."""
    return int(float(f"{value:.{kept}g}"))


def count(number: int, thing: str) -> str:
    """1 thing, 2 things."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
