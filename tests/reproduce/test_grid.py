"""The grid has the paper's tables, and every cell is one experiment."""

from dataclasses import replace

import pytest

from poise import ALGORITHMS, DOMAINS, Experiment, PoiseError
from poise.reproduce.cells import SETUPS, Cell, experiment_of_all, program_of
from poise.reproduce.grid import TABLES, find_tables, of_domain
from poise.reproduce.paper import CONSISTENCY
from poise.runs.prepare import load_styles


@pytest.mark.parametrize("name", CONSISTENCY)
def test_a_table_has_the_papers_rows_and_columns(name):
    ours = {(algorithm, column) for algorithm, column, _ in TABLES[name].cells() if not ALGORITHMS[algorithm].steered}
    assert ours == {(algorithm, column) for algorithm, row in CONSISTENCY[name].items() for column in row}


@pytest.mark.parametrize(("domain", "count", "programs"), [("basketball", 135, 12), ("cheetah", 54, 9)])
def test_cells_have_names_of_their_own_and_few_programs_train_them(domain, count, programs):
    cells = {cell for table in of_domain(domain).values() for _, _, cell in table.cells()}
    assert len({cell.name for cell in cells}) == len(cells) == count
    assert len({program_of(cell) for cell in cells}) == programs


def test_cells_that_tables_share_are_trained_once():
    assert TABLES["single-styles"].columns["destination"] == TABLES["destination"].columns["3"]
    assert TABLES["noise"].columns["speed 0"] == TABLES["single-styles"].columns["speed"]


def test_one_experiment_holds_the_styles_of_all_cells_under_names_of_their_own():
    known = DOMAINS["basketball"].styles
    cells = [Cell("flow", ("speed", "curvature")), Cell("flow", ("speed",), classes=8), Cell("flow", ("speed",))]
    found = experiment_of_all(cells, Experiment(settings=SETUPS["basketball"].settings), known)
    assert [
        (style.name, style.kind.size) for style in load_styles(found.styles or (), DOMAINS["basketball"], None)
    ] == [
        ("curvature-3", 3),
        ("speed-3", 3),
        ("speed-8", 8),
    ]


def test_a_cell_changes_what_its_name_says():
    shared, cell = Experiment(settings=SETUPS["cheetah"].settings), Cell("ctvae-style", ("speed",), 2)

    def settings(**changes):
        found = replace(cell, **changes).experiment(shared).settings
        assert found is not None
        return found

    usual = settings().training
    assert usual.refine_steps > 0
    assert settings(longer=True).training == replace(
        usual, policy_steps=usual.policy_steps * 3 // 2, refine_steps=usual.refine_steps * 3 // 2, rounds=30
    )
    assert settings(refined=False).training == replace(usual, refine_steps=0)
    assert settings(plain=True).training == replace(usual, augment=0.0)
    assert settings(plain=True).weights.style == 1.0
    assert settings(weight=7.0).weights.style == 7.0
    assert settings(dynamics="gaussian").network.dynamics == "gaussian"
    assert settings(dynamics="gaussian").training.policy_steps == 0


def test_tables_of_two_domains_are_two_studies():
    with pytest.raises(PoiseError, match="tables of one domain; got tables of basketball and cheetah"):
        find_tables(["rnn", "cheetah-speed"])
    assert set(find_tables(["cheetah"])) == {name for name in TABLES if name.startswith("cheetah")}
