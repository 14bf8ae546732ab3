"""The paper's numbers agree with one another, except where INCONSISTENCIES says that they do not."""

import math

import pytest

from poise import ALGORITHMS, DOMAINS, PRESETS
from poise.reproduce.inconsistencies import INCONSISTENCIES
from poise.reproduce.paper import (
    CONSISTENCY,
    HYPERPARAMETERS,
    JOINT_STYLES,
    MAIN_TEXT,
    NUMBERS,
    PAPER,
    QUOTED,
    RNN_MAIN_TEXT,
)

LISTED = {entry.cell for entry in INCONSISTENCIES} - {""}
CELLS = {
    f"{table} {algorithm} {column}": cell
    for table, rows in CONSISTENCY.items()
    for algorithm, columns in rows.items()
    for column, cell in columns.items()
}
ROUNDING = 0.55  # of a mean with one decimal over values without decimals


def test_a_median_lies_between_minimum_and_maximum_except_where_listed():
    wrong = {name for name, cell in CELLS.items() if not cell.low <= cell.median <= cell.high}
    assert wrong == {"joint ctvae 5x3"} <= LISTED


def test_a_mean_lies_between_minimum_and_maximum():
    assert all(cell.low <= cell.mean <= cell.high for cell in CELLS.values())


def test_five_seeds_can_have_this_mean_except_where_listed():
    """The second and the fourth seed may take any value between their neighbours."""
    wrong = set()
    for name, cell in CELLS.items():
        least = (2 * cell.low + 2 * cell.median + cell.high) / 5
        most = (cell.low + 2 * cell.median + 2 * cell.high) / 5
        if not least - ROUNDING <= cell.mean <= most + ROUNDING:
            wrong.add(name)
    assert wrong == {"joint ctvae 5x3"} <= LISTED


def test_deviations_are_those_of_a_sample_of_five():
    """The mean fixes the sum of the second and the fourth seed; divided by 5, the possible deviations are too small."""

    def distance(cell, divisor):
        rest = 5 * cell.mean - cell.low - cell.median - cell.high
        pairs = [(cell.low + i / 10, rest - cell.low - i / 10) for i in range(int(10 * (cell.median - cell.low)) + 1)]
        possible = [pair for pair in pairs if cell.median - 2 <= pair[1] <= cell.high + 2]  # all five are rounded
        sums = [sum((x - cell.mean) ** 2 for x in (cell.low, *pair, cell.median, cell.high)) for pair in possible]
        return min(abs(math.sqrt(squares / divisor) - cell.deviation) for squares in sums)

    spread = [cell for cell in CELLS.values() if cell.deviation > 10]
    assert all(distance(cell, 4) < 1 for cell in spread)
    assert all(distance(cell, 5) > 1 for cell in spread if cell.deviation > 30)


@pytest.mark.parametrize("table", CONSISTENCY)
def test_every_table_of_style_consistency_has_the_four_algorithms(table):
    assert set(CONSISTENCY[table]) == {"ctvae", "ctvae-info", "ctvae-mi", "ctvae-style"}


@pytest.mark.parametrize("table", ["tradeoff", "rnn", *CONSISTENCY])
def test_every_algorithm_of_the_paper_has_its_row_in_the_table_of_algorithms(table):
    assert set(PAPER[table]) <= set(ALGORITHMS)


@pytest.mark.parametrize("table", PAPER)
def test_every_row_of_a_table_has_the_same_columns(table):
    first, *others = PAPER[table].values()
    assert all(list(row) == list(first) for row in others)


def test_tables_that_belong_together_have_the_same_rows_and_columns():
    assert list(NUMBERS["tradeoff"]) == list(NUMBERS["cheetah-tradeoff"])
    assert set(NUMBERS["tradeoff"]) == {*CONSISTENCY["joint"], "tvae"}
    assert set(NUMBERS["noise-disagreement"]) == {*NUMBERS["noise-decrease"], "sigma"}
    styles = list(CONSISTENCY["single-styles"]["ctvae"])
    for table in ("noise-disagreement", "noise-decrease", "labeler"):
        assert all(list(row) == styles for row in NUMBERS[table].values())
    for table in ("cheetah-longer", "cheetah-labeler"):
        columns = list(CONSISTENCY["cheetah-single-styles"]["ctvae"])
        assert all(list(row) == columns for row in NUMBERS[table].values())


def test_basketballs_columns_are_the_styles_of_the_domain():
    assert list(CONSISTENCY["single-styles"]["ctvae"]) == list(DOMAINS["basketball"].styles)


def test_the_main_text_prints_the_medians_of_the_appendix_except_where_listed():
    wrong = {
        f"{table} {algorithm} {column}"
        for table, rows in MAIN_TEXT.items()
        for algorithm, columns in rows.items()
        for column, (median,) in columns.items()
        if median != CONSISTENCY[table][algorithm][column].median
    }
    assert wrong == {"displacement ctvae-info 4"} <= LISTED
    assert {table: set(rows) for table, rows in MAIN_TEXT.items()} == {t: set(CONSISTENCY[t]) for t in MAIN_TEXT}


def test_the_text_quotes_medians_except_where_listed():
    cells = {f"{t} {a} {c}": (CONSISTENCY[t][a][c], quoted) for t, a, c, quoted in QUOTED.values()}
    wrong = {name for name, (cell, quoted) in cells.items() if quoted != cell.median}
    assert wrong == {"destination ctvae-style 6"} <= LISTED
    assert all(quoted == cell.high for name, (cell, quoted) in cells.items() if name in wrong)


def test_joint_styles_are_counted_right_except_where_listed():
    wrong = set()
    for table, counts in JOINT_STYLES.items():
        assert list(counts) == list(CONSISTENCY[table]["ctvae"])
        for column, count in counts.items():
            styles, classes = map(int, column.split("x"))
            if count != classes**styles:
                wrong.add(f"{table} {column}")
    assert wrong == {"joint 2x3"} <= LISTED


def test_the_same_experiment_in_two_tables_differs_only_where_listed():
    single, wrong = CONSISTENCY["single-styles"], set()
    for style in ("displacement", "destination"):
        if any(CONSISTENCY[style][name]["3"] != single[name][style] for name in single):
            wrong.add(f"{style} 3")
    assert wrong == {"displacement 3", "destination 3"} <= LISTED


def test_the_table_of_rnn_policies_agrees_with_the_others():
    for name, (low, median, high, nld) in {k: [x[0] for x in v.values()] for k, v in RNN_MAIN_TEXT.items()}.items():
        seeds = NUMBERS["rnn"][name]["consistency"]
        assert (low, median, high, nld) == (seeds[0], seeds[2], seeds[4], NUMBERS["rnn"][name]["nld"][0])
    for name in ("ctvae", "ctvae-style"):
        seeds, cell = NUMBERS["rnn"][name]["consistency"], CONSISTENCY["single-styles"][name]["destination"]
        assert (cell.low, cell.median, cell.high) == (seeds[0], seeds[2], seeds[4])
        assert list(seeds) == sorted(seeds)


def test_longer_training_of_cheetah_starts_from_the_main_table():
    for style, (_, consistency) in NUMBERS["cheetah-longer"]["ctvae-style"].items():
        assert consistency == CONSISTENCY["cheetah-single-styles"]["ctvae-style"][style].median
    best = min(nld for nld, _ in NUMBERS["cheetah-longer"]["ctvae-style"].values())
    assert NUMBERS["cheetah-tradeoff"]["ctvae-style"]["nld"] == (best,)


def test_means_fall_behind_the_best_baseline_only_where_listed():
    behind = {
        f"{table} {column}"
        for table, rows in CONSISTENCY.items()
        for column, ours in rows["ctvae-style"].items()
        if ours.mean < max(row[column].mean for name, row in rows.items() if name != "ctvae-style")
    }
    assert behind == {"single-styles speed", "displacement 3", "displacement 6", "destination 4"}


def test_noise_costs_less_than_the_labels_it_changes():
    for times, row in NUMBERS["noise-decrease"].items():
        for style, (lost,) in row.items():
            assert 0 < lost < NUMBERS["noise-disagreement"][times][style][0]


def test_every_inconsistency_is_listed_once_with_place_and_content():
    assert len({entry.where for entry in INCONSISTENCIES}) == len(INCONSISTENCIES)
    assert all(entry.where and entry.what for entry in INCONSISTENCIES)


@pytest.mark.parametrize("domain", HYPERPARAMETERS)
def test_a_pass_takes_as_many_batches_as_the_paper_says(domain):
    paper = HYPERPARAMETERS[domain]
    assert math.ceil(paper["train"] / paper["batch"]) == paper["batches"]


def test_cheetahs_demonstrations_are_those_of_its_policies():
    paper = HYPERPARAMETERS["cheetah"]
    assert paper["demonstrators"] * paper["demonstrations_each"] == paper["train"] + paper["test"]


@pytest.mark.parametrize("domain", HYPERPARAMETERS)
def test_presets_have_the_papers_sizes(domain):
    network, training, paper = PRESETS[domain].network, PRESETS[domain].training, HYPERPARAMETERS[domain]
    for name in ("latent", "hidden", "layers", "dynamics_layers", "decoder", "variance"):
        assert getattr(network, name) == paper[name]
    assert training.batch == paper["batch"]
