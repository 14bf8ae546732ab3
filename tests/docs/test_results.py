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
    assert "at least" not in written
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
    assert len(links) >= 3
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
    assert row.split(" | ")[3] == f"{100 * in_range[2]:.1f}"
    assert "(81)" in row  # the paper's


@pytest.fixture
def made_up(script, tmp_path, monkeypatch):
    """Results files that stand for what is measured later: three seeds of the flow."""
    way = {"joint": 0.97, "joint_in_range": 0.96, "yield": 0.95, "c2st": 0.58}
    verified = {**way, "joint_in_range": 0.998, "tries": 1.1, "never": 0.001}
    shuffled = {"joint": 0.7, "joint_in_range": 0.65, "confirmed": {"feasible": {"value": 0.99}}}
    seed = {**way, "off_support": 0.02, "nld": -9.0, "joint_shuffled": 0.6, "shuffled_verified": shuffled}
    seeds = [{**seed, "joint": joint, "unsteered": way, "verified": verified} for joint in (0.98, 0.97, 0.91)]
    name = "flow-speed+destination+displacement+direction+curvature-4"
    provenance = {"command": "c", "hardware": "h", "commit": "1"}
    files = {
        "paper": {"measured": {name: {"seeds": seeds}}},
        "later_styles": {"measured": {"speed": {"styles": ["speed"], "classes": 3, "seeds": seeds}}, **provenance},
        "demo": {
            "cells": [{"algorithm": "flow", "seeds": [0.98, 0.97, 0.91], "by_seed": seeds}],
            "base_rate": {"own": 0.1},
            "seconds": 60,
            **provenance,
        },
    }
    (tmp_path / "results" / "basketball").mkdir(parents=True)
    for file, content in files.items():
        (tmp_path / "results" / "basketball" / f"{file}.json").write_text(json.dumps(content))
    monkeypatch.setattr("results_blocks.text.ROOT", tmp_path)
    return script


def test_what_is_not_measured_yet_is_named_as_such(script, tmp_path, monkeypatch):
    monkeypatch.setattr("results_blocks.text.ROOT", tmp_path)
    for name in [name for name in script.BLOCKS if name.startswith("flow-")]:
        assert "not measured yet" in script.BLOCKS[name]()


def test_blocks_of_the_flow_fill_when_it_is_measured(made_up):
    joint = made_up.BLOCKS["flow-joint"]()
    assert [line.split(" | ")[1] for line in joint.splitlines()[2:5]] == ["unsteered", "one try, steered", "verified"]
    assert "97.0 [91.0] | 96.0 [96.0] | 95.0 [95.0] | 0.58 [0.58]" in joint
    assert "| 99.80 [99.80] | 95.00 [95.00] | 0.58 [0.58] | 1.10 | 0.10 |" in joint
    assert "99.0 [99.0]" in made_up.BLOCKS["flow-shuffled"]()
    assert "| SPEED | 97.0 [91.0]" in made_up.BLOCKS["flow-later"]()
    assert "| JOINT 5x4 | - | - | 95.0 [95.0] | - | - | - | 0.58 | - |" in made_up.BLOCKS["flow-cells"]()
    assert "| 2.0 | - | - | -9.00 |" in made_up.BLOCKS["flow-realism"]()


def test_the_demo_shows_one_try_and_verified(made_up):
    rows = made_up.BLOCKS["demo"]().splitlines()
    assert rows[2] == "| `flow` | one try | 0.970 [0.910] | 0.960 | 0.950 | 0.580 | 1 |"
    assert rows[3] == "| `flow` | verified | 0.970 [0.970] | 0.998 | 0.950 | 0.580 | 1.10 |"


@pytest.mark.parametrize("path", RESULTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_result_says_where_it_comes_from(path):
    result = json.loads(path.read_text())
    measurements = [result] if "command" in result else result["measured"]
    assert measurements
    for one in measurements:
        assert {"command", "commit", "hardware", "versions", "seconds"} <= set(one)
        assert one["commit"]
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
