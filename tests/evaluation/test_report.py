"""Reports: what they hold, what they warn of, and that an evaluation is repeatable."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import pytest
from conftest import count_compilations
from evaluation_helpers import ORACLE, score

from poise.evaluation.report import FEW, WIDEST, Report, spread


@pytest.fixture(scope="module")
def report(run) -> Report:
    return run.evaluate(rollouts=64)


def test_a_report_has_the_fields_that_others_read(report):
    written = report.to_json()
    seeds = written["algorithms"]["ctvae-style"]["seeds"]
    assert [seed["seed"] for seed in seeds] == [0, 1]
    for seed in seeds:
        assert {"seed", "joint", "joint_shuffled", "by_style", "nld", "kl", "not_finite"} <= set(seed)
        assert set(seed["by_style"]) == set(seed["labeler_estimate"]) == {"speed", "destination"}
        assert seed["joint_interval"][0] <= seed["joint"] <= seed["joint_interval"][1]
    joint = written["algorithms"]["ctvae-style"]["joint"]
    assert joint["min"] <= joint["median"] <= joint["max"]
    assert {"versions", "hardware", "command", "commit", "seconds", "environment", "base_rate"} <= set(written)
    assert "ctvae-style" in str(report)


def test_an_evaluation_is_the_same_twice(run, report):
    assert run.evaluate(rollouts=64).to_json()["algorithms"] == report.to_json()["algorithms"]


def test_seeds_share_their_programs(run, report):
    """Another draw compiles nothing, and nor do other weights, but for small programs that move arrays."""
    with count_compilations() as compiled:
        assert run.evaluate(rollouts=64, draw=1).about == report.about
    assert compiled == []
    reversed_seeds = replace(run, parts=jax.tree.map(lambda x: x[::-1] if eqx.is_array(x) else x, run.parts))
    with count_compilations() as compiled:
        other = reversed_seeds.evaluate(rollouts=64)
    assert not [name for name in compiled if "imagine" in name or "_imitate" in name or "_label" in name]
    assert other.to_json()["algorithms"] != report.to_json()["algorithms"]


def test_a_report_warns_of_everything_that_counts_as_wrong_or_makes_numbers_noisy():
    found = replace(score(ORACLE), not_finite=3, unscored={"side": 2, "rise": 0}, stopped="policy step 7")
    report = Report({"oracle": [found]}, {"rollouts": 1000, "test": FEW - 1}, {}, notes=("a note",))
    assert report.warnings() == [
        "a note",
        "side could not score 2 of 1000 rollouts of oracle, seed 0 (it raised or returned NaN): they count as wrong",
        "3 of 1000 rollouts of oracle, seed 0 became NaN or infinite: they count as wrong",
        "oracle, seed 0, was stopped at policy step 7: its loss was not finite",
        "only 29 test demonstrations: metrics are noisy",
    ]
    assert Report({"oracle": [score(ORACLE)]}, {"rollouts": 1000, "test": FEW}, {}).warnings() == []


def test_spread_is_minimum_median_and_maximum():
    assert spread([0.3, 0.9, 0.5]) == {"min": 0.3, "median": 0.5, "max": 0.9}


def report_of(names: list[str]) -> Report:
    """A report of one seed in these styles."""
    found = score(ORACLE)
    found = replace(found, by_style=dict.fromkeys(names, found.joint))
    about = {"styles": [{"name": name} for name in names], "base_rate": {"own": 0.2, "shuffled": 0.1}, "units": "m"}
    return Report({"oracle": [found]}, {**about, "rollouts": 9, "test": FEW, "environment": "here"}, {})


def test_styles_have_a_table_of_their_own_only_where_one_table_would_be_too_wide():
    few, many = (str(report_of([f"a_style_of_number_{k}" for k in range(count)])) for count in (2, 8))
    head = " ".join(few.splitlines()[0].split())
    assert head.endswith("never a_style_of_number_0 a_style_of_number_1 shuffled out of range NLD KL")
    ways, styles = many.split("\n\n")[:2]
    assert ways.splitlines()[0].endswith("tries  never")
    assert styles.splitlines()[0].startswith("algorithm  seed  a_style_of_number_0")
    assert styles.splitlines()[1].startswith("oracle     0     1.000")
    assert max(map(len, ways.splitlines() + few.split("\n\n")[0].splitlines())) <= WIDEST
