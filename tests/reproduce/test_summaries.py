"""Measured cells as numbers, next to what the paper prints for them."""

from dataclasses import replace

import pytest

from poise.reproduce.cells import Cell
from poise.reproduce.grid import of_domain
from poise.reproduce.latex import latex
from poise.reproduce.markdown import markdown
from poise.reproduce.summaries import noise_tables, spread, summarise


def test_the_spread_is_that_of_the_seeds():
    assert spread([3.0, 1.0, 2.0]) == {
        "values": [1, 2, 3], "min": 1, "median": 2, "max": 3, "mean": 2, "deviation": 1,
    }  # fmt: skip
    assert spread([])["median"] is None


def test_the_loss_by_noise_is_relative_to_no_noise():
    def measured(*joints, disagreement=0.0):
        return {"seeds": [{"joint": joint} for joint in joints], "disagreement": disagreement}

    clean = Cell("ctvae-style", ("speed",))
    results = {clean.name: measured(0.8, 0.9, 1.0), replace(clean, noise=2).name: measured(0.45, disagreement=0.25)}
    found = noise_tables(results)
    assert found["decrease"] == {"2": {"speed": {"ours": 50.0, "paper": 5.59}}}
    assert found["disagreement"]["2"]["speed"] == {"ours": 25.0, "paper": 10.33}


@pytest.fixture
def cheetah():
    """Every cell of the Cheetah with the same scores."""
    seed = {"seed": 0, "stopped": None, "joint": 0.8, "nld": -0.3, "kl": 0.1, "label_loss": 0.1, "dynamics_error": 0.02}
    seed["joint_in_range"] = 0.5
    cells = {cell.name for table in of_domain("cheetah").values() for _, _, cell in table.cells()}
    return {cell: {"seeds": [seed], "steps": 200} for cell in cells}


def test_the_papers_numbers_of_the_cheetah_stand_next_to_ours(cheetah):
    found = {
        (name, entry["algorithm"], entry["column"], entry["measure"]): entry
        for name, table in of_domain("cheetah").items()
        for entry in summarise(name, table, cheetah)
    }
    assert found["cheetah-single-styles", "ctvae-style", "torso_height", "joint"]["paper"]["median"] == 80
    assert found["cheetah-plain", "ctvae-style", "torso_height", "joint"]["paper"]["median"] == 80
    assert found["cheetah-weight", "ctvae-style", "10", "joint_in_range"]["median"] == 50
    assert found["cheetah-longer", "ctvae-style", "speed", "nld"]["paper"]["median"] == -0.49
    assert found["cheetah-tradeoff", "tvae", "speed", "kl"]["median"] == 20
    assert found["cheetah-tradeoff", "tvae", "speed", "kl"]["paper"]["median"] == 29.4
    assert found["cheetah-labeler", "ctvae-style", "speed", "label_loss"]["paper"]["mean"] == 3.24
    assert found["cheetah-refined", "ctvae-style", "demonstrations alone", "dynamics_error"]["paper"]["mean"] == 1.93e-2
    assert found["cheetah-refined", "ctvae-style", "refined in the environment", "dynamics_error"]["paper"] is None


def test_markdown_and_latex_show_the_median_with_the_papers_in_brackets(cheetah):
    table = of_domain("cheetah")["cheetah-single-styles"]
    page = markdown("cheetah-single-styles", table, cheetah)
    assert "style-consistency, %; median of 1 seed (in brackets: the paper's)" in page
    assert "| ctvae-style | 80.0 (79) | 80.0 (80) | 80.0 (80) | 80.0 (77) |" in page
    source = latex("cheetah-single-styles", table, cheetah)
    assert r"ctvae-style & 80.0 {\small (79)} & 80.0 {\small (80)}" in source
    assert r" & speed & torso\_height & back\_foot\_height" in source
    assert r"style-consistency, \%; median over seeds" in source


def test_a_table_without_measured_cells_says_so():
    table = of_domain("cheetah")["cheetah-single-styles"]
    assert "not measured yet" in markdown("cheetah-single-styles", table, {})
    assert latex("cheetah-single-styles", table, {}) == ""
