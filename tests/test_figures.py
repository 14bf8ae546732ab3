"""Figures in the docs are those of the results files."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "results").rglob("*.json"))


def script():
    spec = importlib.util.spec_from_file_location("write_figures", ROOT / "experiments" / "write_figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_in_the_docs_comes_from_a_results_file():
    assert script().main(check=True) == 0


def test_a_changed_figure_is_noticed():
    module = script()
    text = "<!-- figures: demo -->\nat least 0.99\n<!-- end -->\n"
    assert "0.99" not in module.filled(text)
    assert "ctvae-style" in module.filled(text)


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: p.stem)
def test_every_result_says_where_it_comes_from(path):
    result = json.loads(path.read_text())
    assert {"command", "commit", "hardware", "versions", "seconds"} <= set(result)
    assert result["commit"]
    for cell in result.get("cells", []):
        assert {"algorithm", "styles", "classes", "seeds", "min", "median", "max", "nld", "paper"} <= set(cell)
        assert min(cell["seeds"]) == cell["min"]
        assert max(cell["seeds"]) == cell["max"]


@pytest.mark.parametrize("path", [path for path in RESULTS if path.parent.name == "speed"], ids=lambda p: p.stem)
def test_no_step_is_faster_than_its_floor(path):
    for row in json.loads(path.read_text())["rows"]:
        assert {"name", "algorithm", "stage", "runs", "batch", "steps", "hidden", "baseline_ms"} <= set(row)
        assert row["ms_per_step"] >= row["floor_ms"] > 0
        assert row["ms_per_step_and_run"] == pytest.approx(row["ms_per_step"] / row["runs"], rel=1e-2)


def test_what_was_not_measured_is_said(tmp_path, monkeypatch):
    module = script()
    monkeypatch.setattr(module, "SPEED", tmp_path)
    for name in ("speed", "speed-steps", "speed-other"):
        assert module.FIGURES[name]().count("not measured yet") == 2
