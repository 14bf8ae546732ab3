"""Every goal is reported as reached or not, and a missing cell as not measured yet."""

from poise.reproduce.cells import Cell
from poise.reproduce.goals import check_goals
from poise.reproduce.grid import TABLES, of_domain


def measured(joint: float = 0.97, nld: float = -8.0):
    return {"seeds": [{"seed": 0, "stopped": None, "joint": joint, "nld": nld, "kl": 0.1}], "steps": 24}


def test_a_goal_is_reported_with_what_was_measured_and_what_is_missing():
    results = {Cell("ctvae-style", ("speed",)).name: measured(0.93), Cell("ctvae", ("speed",)).name: measured(0.95)}
    lines = check_goals(results, TABLES)
    assert lines[0] == (
        "single-styles, speed: 93.0, at least 92 wanted: yes; above ctvae, 95.0: **no**; "
        "ctvae-info, ctvae-mi not measured yet"
    )
    assert lines[1] == "single-styles, destination: not measured yet"


def test_rnn_style_must_be_eight_points_above_rnn():
    def line(joint: float) -> str:
        results = {
            Cell("rnn", ("destination",)).name: measured(0.8),
            Cell("rnn-style", ("destination",)).name: measured(joint),
        }
        return check_goals(results, {"rnn": TABLES["rnn"]})[0]

    assert line(0.89) == "rnn-style 89.00, at least 8 points above rnn 80.00: yes (9.00)"
    assert "**no**" in line(0.87)


def test_the_largest_weight_within_the_margin_of_the_baselines_nld_is_named():
    weights = {column: cell for _, column, cell in TABLES["weight"].cells()}
    nld = {"1": -8.9, "2": -8.86, "3": -8.83, "5": -8.8}
    results = {cell.name: measured(nld=nld[column]) for column, cell in weights.items()}
    baseline = Cell("ctvae", ("destination",)).name
    assert check_goals({**results, baseline: measured(0.7, -9.0)}, TABLES)[-1] == (
        "the largest weight in the table `weight` within 0.15: 2, NLD -8.86, 0.14 above ctvae, 97.0 % right"
    )
    last = check_goals({**results, baseline: measured(0.7, -9.1)}, TABLES)[-1]
    assert last.startswith("NLD of ctvae-style -8.80, within 0.15 of ctvae -9.10: **no**")


def test_the_cheetah_has_one_goal_per_column_of_style_consistency():
    cells = {cell.name for table in of_domain("cheetah").values() for _, _, cell in table.cells()}
    seed = {"seed": 0, "stopped": None, "joint": 0.8, "nld": -0.3, "kl": 0.1, "joint_in_range": 0.5}
    lines = check_goals({cell: {"seeds": [seed], "steps": 200} for cell in cells}, of_domain("cheetah"))
    assert lines[0] == "cheetah-single-styles, speed: 80.0, at least 76 wanted: yes; above ctvae, 80.0: **no**"
    assert len(lines) == 8
