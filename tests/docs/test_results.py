"""Numbers in the docs are those of the results files."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "results").rglob("*.json"))


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module("write_results")


def test_every_number_in_the_docs_comes_from_a_results_file(script):
    assert script.main(check=True) == 0


def test_a_changed_number_is_noticed(script):
    text = "<!-- results: demo -->\nat least 0.99\n<!-- end -->\n"
    written = script.filled(text, Path("README.md"))
    assert "0.99" not in written
    assert "ctvae-style" in written
    assert script.filled(written, Path("README.md")) == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- results: dmo -->\n<!-- end -->", "README.md names the block 'dmo', which does not exist"),
        ("<!-- results: demo -->\n", "README.md has a block without a name or an end"),
        ("<!-- results: -->\n<!-- end -->", "README.md has a block without a name or an end"),
    ],
)
def test_a_block_that_cannot_be_filled_is_an_error(script, text, message):
    with pytest.raises(SystemExit, match=message):
        script.filled(text, Path("README.md"))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/results/basketball.md"])
def test_links_in_a_block_lead_to_pages_from_wherever_the_block_stands(script, page):
    names = ("summary", "paper-summary", "cheetah-summary")
    text = "".join(f"<!-- results: {name} -->\n<!-- end -->\n" for name in names)
    links = re.findall(r"\]\(([^)#]+)", script.filled(text, Path(page)))
    assert len(links) == 3
    assert all((ROOT / page).parent.joinpath(link).is_file() for link in links)


def test_every_block_can_be_written(script):
    for name, write in script.BLOCKS.items():
        assert write().strip(), name


def test_the_summary_shows_what_is_right_and_in_range_and_how_much_is_not(script):
    seeds = json.loads((ROOT / "results" / "basketball" / "paper.json").read_text())["measured"]
    curvature = sorted(seed["out_of_range"] for seed in seeds["ctvae-style-curvature-3"]["seeds"])
    text = script.BLOCKS["summary"]()
    assert f"{100 * curvature[2]:.1f} % for CURVATURE" in text
    row = next(line for line in text.splitlines() if line.startswith("| CURVATURE"))
    in_range = sorted(seed["joint_in_range"] for seed in seeds["ctvae-style-curvature-3"]["seeds"])
    assert row.endswith(f"| {100 * in_range[2]:.1f} |")
    assert "(81)" in row  # the paper's


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
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


def test_a_machine_that_was_not_measured_is_named_as_such(script, tmp_path, monkeypatch):
    monkeypatch.setattr("results_blocks.speed.FOLDER", tmp_path)
    for name in ("speed", "speed-steps", "speed-other"):
        assert script.BLOCKS[name]().count("not measured yet") == 2
