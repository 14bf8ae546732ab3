"""Figures in the docs are those of the results files."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = sorted((ROOT / "results").rglob("*.json"))


def script():
    spec = importlib.util.spec_from_file_location("write_figures", ROOT / "experiments" / "write_figures.py")
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
