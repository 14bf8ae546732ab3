"""The page about speed shows what was measured, and nothing else."""

import importlib
import json
import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PROVENANCE = {"command": "speed.py", "commit": "1234567", "versions": {"jax": "0"}, "seconds": 9.0}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("page")


@pytest.fixture
def summary(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("speed_summary")


def row(runs=1, ms=2.0, batch=128, baseline: float | None = 40.0):
    return {
        "name": f"r{runs} b{batch}",
        "algorithm": "ctvae-style",
        "stage": "policy",
        "preset": "basketball",
        "runs": runs,
        "batch": batch,
        "steps": 24,
        "hidden": 128,
        "styles": 1,
        "ms_per_step": ms,
        "ms_per_step_and_run": ms / runs,
        "floor_ms": 0.05 * runs,
        "dependent_products": 240,
        "baseline_ms": baseline,
        "compile_s": 9.0,
    }


def result(hardware="1 x NVIDIA H200", **sections):
    return {"rows": [], "machine": {"gflops": 4e5, "gbytes_per_s": 4e3}, "hardware": hardware, **PROVENANCE, **sections}


def test_a_limit_is_met_or_missed(summary):
    lines = summary.lines_of(result(rows=[row(1, 2.4), row(64, 13.0), row(256, 51.0)]))
    assert [line.met for line in lines[:3]] == [True, False, True]
    assert "published code 161 ms" in lines[0].comparison
    assert lines[1].verdict == "at most 0.20 ms: missed"


def test_two_cores_are_compared_with_eager_pytorch(summary):
    def line(*ratios, hardware="2 CPU cores (x86_64)"):
        lines = summary.lines_of(result(hardware, rows=[row(1)], pairs={"ratios": sorted(ratios)}))
        return next(line for line in lines if line.what.startswith("eager PyTorch over Poise"))

    assert line(1.9, 2.0, 2.9).met is True
    assert line(1.9, 1.99, 2.9).met is False
    assert line(1.9, hardware="12 CPU cores (x86_64)").met is None
    assert line(1.9, 2.0, 2.9).comparison == "median of 3 pairs measured in turn, 1.900 to 2.900"


def test_the_baseline_of_one_run_is_compared_with_many(summary):
    many = row(64, 10.0, baseline=None)
    assert summary.baseline_of(result(rows=[row(1, 2.0, baseline=40.0), many]), many) == 40.0
    assert summary.baseline_of(result(rows=[row(1, 2.0, batch=32), many]), many) is None


def test_sections_that_are_missing_are_left_out(page):
    text = page.page([result(rows=[row(1)])])
    assert "one style step, 1 run" in text
    assert "<svg" not in text  # one row is no curve
    for word in (
        "rollouts per second",
        "trajectories",
        "second start",
        "DESTINATION",
        "eager PyTorch, whole sequences",
    ):
        assert word not in text


def test_the_page_is_one_file_in_the_colours_of_the_reader(page, tmp_path, monkeypatch):
    found = result(
        rows=[row(1), row(64, 11.0), row(256, 40.0), row(64, 5.0, batch=32)],
        style={"goal": 0.95, "seconds": None, "hidden": 48, "seen": [[250, 9.0, 0.7], [500, 12.0, 0.9]]},
    )
    (tmp_path / "gpu.json").write_text(json.dumps(found))
    monkeypatch.setattr("sys.argv", ["page.py", "--folder", str(tmp_path)])
    page.main()
    text = (tmp_path / "speed.html").read_text()
    assert text.count("<svg") == 3  # runs, batch, style
    assert "not in 12.0 s (0.900)" in text
    assert "var(--poise)" in text
    assert not re.search(r'(src|href)="(?!#)', text)
    assert page.page([found]) == text  # the same results are the same page


@pytest.mark.parametrize(
    ("value", "words"), [(0.04567, "0.0457"), (1.9, "1.90"), (36.12, "36.1"), (161, "161"), (402_123, "402,000")]
)
def test_numbers_have_three_digits(summary, value, words):
    assert summary.digits(value) == words


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["published", "whole"])
def test_the_baseline_has_poises_losses_and_gradients(monkeypatch, structure):
    pytest.importorskip("torch", reason="the baseline needs PyTorch: make bench installs it")
    monkeypatch.syspath_prepend(BENCHMARKS)
    eager = importlib.import_module("eager")
    work = eager.shake(eager.build(eager.Arguments(batch=4, steps=6, hidden=8)))
    for name, difference in eager.parity(work, structure, "cpu").items():
        assert difference <= eager.TOLERANCE[name.split()[0]], name
