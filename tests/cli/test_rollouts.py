"""poise sample: what is asked for is scored, and what is out of reach is refused kindly."""

import json
import re
from typing import Any

import flow_helpers
import numpy as np
from cli_helpers import refused, say
from conftest import TINY, wander

import poise
from poise import Run
from poise.data.trajectories import Trajectories
from poise.runs.asking import Nearest


def test_only_what_was_asked_for_is_scored(capsys, run):
    told = json.loads(say(capsys, "sample", run.folder, "--style", "speed=SLOW", "--count", 40, "--json")[1])
    assert set(told["by_style"]) == {"speed"}
    assert told["joint"] == told["by_style"]["speed"]


FAR = ("--style", "speed=slow", "--start", 900, 900, "--count", 4, "--seed", 0)


def test_a_start_that_reaches_nothing_is_refused_by_the_nearest_request_after_its_rollouts_are_written(
    capsys, run, tmp_path, monkeypatch
):
    def nearest(run, words, **more):
        asked.append((words, more))
        return Nearest(
            {"speed": "slow"}, {"speed": "fast"}, "speed=slow is out of reach from there; speed=fast is possible"
        )

    asked: list[Any] = []
    monkeypatch.setattr(Run, "nearest", nearest)
    line = refused(capsys, "sample", run.folder, *FAR, "--out", tmp_path / "marked.npz")
    assert "none of 4 rollouts was accepted in 2 tries: speed=slow is out of reach from there; speed=fast is" in line
    assert "--start lies outside of the range of the demonstrations: choose another" in line
    assert Trajectories.load(tmp_path / "marked.npz").metadata["accepted"].tolist() == [False] * 4
    ((words, more),) = asked
    assert words == {"speed": 0}
    assert (more["start"], more["in_range"], more["seed"]) == ([900.0, 900.0], True, 0)


def test_one_try_is_never_refused_and_a_start_out_of_range_is_warned_of(capsys, run):
    code, out, _ = say(capsys, "sample", run.folder, *FAR, "--tries", 1)
    assert code == 0
    assert out.count("--start lies outside of the range of the demonstrations") == 1
    warned = json.loads(say(capsys, "sample", run.folder, *FAR, "--tries", 1, "--json")[1])["warnings"]
    assert len(warned) == 1
    assert not json.loads(say(capsys, "sample", run.folder, "--start", 30, 25, "--tries", 1, "--json")[1])["warnings"]


def test_without_a_start_the_first_request_that_was_not_reached_gets_its_nearest(capsys, run):
    words = ("sample", run.folder, "--style", "speed=fast", "--style", "destination=near", "--count", 30)
    code, out, _ = say(capsys, *words)
    assert code == 0
    warnings = [line for line in out.splitlines() if line.startswith("warning: ")]
    assert re.match(r"warning: \d+\.\d% were not reached and are marked accepted=False", warnings[0])
    start = run.sample(30, {"speed": "fast", "destination": "near"})
    row = int(np.argmin(start.metadata["accepted"]))
    where = ", ".join(f"{number:.4g}" for number in np.asarray(start.starts)[row])
    assert warnings[1].startswith(f"warning: the first of them starts at {where}: speed=fast with destination=near is")


def test_where_what_was_asked_for_is_reached_by_other_tries_more_of_them_are_offered(capsys, run, monkeypatch):
    slow = {"speed": "slow"}
    monkeypatch.setattr(Run, "nearest", lambda *given, **more: Nearest(slow, slow, "speed=slow is possible from there"))
    line = refused(capsys, "sample", run.folder, *FAR)
    assert "in 2 tries: speed=slow is possible from there with other tries: ask for more --tries" in line


NAMED = """
import poise

@poise.labeling_function(name="custom")
def reach(states, actions):
    return states[-1, 0]

@poise.labeling_function(name="later")
def custom(states, actions):
    return states[-1, 1]
"""


def test_a_style_of_a_file_is_known_by_its_own_name(capsys, tmp_path):
    """Not by that of its function: the second one is called like the style that the run was trained in."""
    file = tmp_path / "mine.py"
    file.write_text(NAMED)
    poise.train("rnn", wander(60), [f"{file}:reach"], settings=TINY, out=tmp_path / "run", progress=False)
    words = ("sample", tmp_path / "run", "--styles", f"{file}:reach", f"{file}:custom", "--count", 4, "--json")
    code, out, _ = say(capsys, *words, "--style", "custom=high", "--style", "later=low", "--tries", 1)
    assert code == 0
    assert set(json.loads(out)["by_style"]) == {"custom", "later"}
    assert "no such run folder" in refused(capsys, "sample", tmp_path / "gone", "--styles", f"{file}:reach")


def test_from_a_start_alone_a_flow_leaves_all_styles_free_and_nothing_is_said_to_be_shown(capsys, tmp_path):
    flow_helpers.trained().save(tmp_path / "flow")
    words = ("sample", tmp_path / "flow", "--styles", f"{flow_helpers.__file__}:drift", "--count", 4)
    code, out, _ = say(capsys, *words, "--start", 0, 0)
    assert code == 0
    assert re.search(r"^4 rollouts in .*; all styles left free, \d+\.\d% in range of the demonstrations$", out, re.M)
    assert json.loads(say(capsys, *words, "--start", 0, 0, "--json")[1])["by_style"] == {}
    assert "show the labels of the starts" in say(capsys, *words)[1]
