"""What is asked of a run: which styles must be shown, what is left free, and what is refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from flow_helpers import climb, trained

import poise
from poise import PoiseError
from poise.evaluation.scored import TrainedSeed
from poise.runs.asking import check_start


def test_a_rollout_need_not_show_a_style_that_nobody_named(run):
    """This policy cannot leave styles free: it reads the start's label of the other one."""
    found = run.sample_scored(200, {"speed": "slow"}, in_range=False)
    assert (found.rollouts.metadata["labels"] >= 0).all()
    np.testing.assert_array_equal(found.accepted, found.right[:, 0])
    assert (found.accepted & ~found.right[:, 1]).any()
    some = run.sample(200, {"speed": "slow"}, in_range=False).metadata["accepted"]
    np.testing.assert_array_equal(some, found.accepted)


def test_of_several_accepted_rollouts_none_need_show_what_nobody_named_either(run):
    sampling = poise.Sampling(tries=2, typical=2)
    found = run.sample_scored(50, {"speed": "slow"}, in_range=False, sampling=sampling)
    assert (found.accepted & ~found.right[:, 1]).any()


def test_without_words_a_rollout_must_show_all_labels_of_its_start(run):
    found = run.sample_scored(200, in_range=False)
    np.testing.assert_array_equal(found.accepted, found.joint)
    assert not found.right.all()


def test_the_nearest_request_need_not_show_what_nobody_named(run, monkeypatch):
    named, score_verified = [], TrainedSeed.score_verified

    def spy(seed, *given, **more):
        named.append(more["named"])
        return score_verified(seed, *given, **more)

    monkeypatch.setattr(TrainedSeed, "score_verified", spy)
    run.nearest({"destination": "far"}, start=[30.0, 25.0])
    run.nearest({"destination": "far", "speed": "slow"}, start=[30.0, 25.0], change=["speed"])
    assert [sorted(each) for each in named] == [[1], [0, 1]]


def test_a_request_that_is_possible_is_its_own_nearest():
    found = trained().nearest({"drift": "high"}, start=[0.0, 0.0], tries=8)
    assert found.possible == found.asked == {"drift": "high"}
    assert str(found) == "drift=high is possible from there"


def test_what_is_nearest_is_asked_from_a_start(run):
    with pytest.raises(
        PoiseError, match=r"^the nearest request is that of one start; got None: give a state, as start="
    ):
        check_start(None)
    assert check_start([1.0, 2.0]) == [1.0, 2.0]


def test_a_start_alone_leaves_a_flow_all_styles_free():
    """The labels of other starts say nothing of it."""
    alone = trained().sample(8, start=[0.0, 0.0], styles=[climb], tries=4, in_range=False).metadata
    assert alone["labels"].tolist() == [[-1, -1]] * 8
    assert (alone["tries"] == 1).all()
    without = trained().sample(8, styles=[climb]).metadata["labels"]
    assert (without[:, 0] >= 0).all()  # from starts of demonstrations, their labels are asked for


def test_a_start_alone_gives_other_policies_the_labels_of_demonstrations(run):
    assert (run.sample(8, start=[30.0, 25.0], tries=1).metadata["labels"] >= 0).all()


REFUSED = {
    "run.sample(styles=depth)": "styles is a list, as in styles=[depth]; got a function",
    "run.sample(styles='mine.py:f')": "styles is a list, as in styles=[depth]; got 'mine.py:f'",
    "run.sample(styles=[3])": "styles is a list, as in styles=[depth]; got [3]",
    "run.sample(steps=2.5)": "steps is a whole number, at least 1; got 2.5",
    "run.sample(steps='3')": "steps is a whole number, at least 1; got '3'",
    "run.sample(1.5)": "count is a whole number, at least 1; got 1.5",
    "run.sample(1, ['speed=slow'])": "words are classes by style, as in {'speed': 'slow'}; got ['speed=slow']",
    "run.sample(1, 'speed=slow')": "words are classes by style, as in {'speed': 'slow'}; got 'speed=slow'",
    "run.sample(1, {3: 'slow'})": "unknown style 3; known: speed, destination",
    "run.sample(tries='2')": "sampling.tries must be a finite number, not negative; got '2'",
    "run.sample(sampling={'tries': 2})": "sampling is a poise.Sampling(...); got a dict",
    "run.sample(sampling={}, tries=2)": "sampling is a poise.Sampling(...); got a dict",
    "run.sample(sampling=poise.Sampling(strength='1'))": (
        "sampling.strength must be a finite number, not negative; got '1'"
    ),
    "run.sample(sampling=poise.Sampling(strength=None))": (
        "sampling.strength must be a finite number, not negative; got None"
    ),
    "run.sample(sampling=poise.Sampling(strength=1e300))": "sampling.strength must be at most 1e+30; got 1e+300",
    "run.nearest({'speed': 'slow'}, start=None)": (
        "the nearest request is that of one start; got None: give a state, as start=[30.0, 25.0]"
    ),
    "run.nearest({'speed': 'slow'}, start=[1, 2], change='speed')": (
        "change is a list, as in change=['speed']; got 'speed'"
    ),
    "find_styles(run.styles, 'speed')": "only is a list, as in only=['speed']; got 'speed'",
    "run.evaluate(rollouts=2.5)": "rollouts is a whole number, at least 1; got 2.5",
    "run.evaluate(rollouts=0)": "rollouts is a whole number, at least 1; got 0",
    "run.actor(steps=2.5)": "steps is a whole number, at least 1; got 2.5",
    "run.actor(steps=0)": "steps is a whole number, at least 1; got 0",
    "run.actor(count=1.5)": "count is a whole number, at least 1; got 1.5",
    "run.actor(lookahead='2')": "lookahead is a whole number, at least 1; got '2'",
    "run.actor(lookahead=1.5)": "lookahead is a whole number, at least 1; got 1.5",
    "run.actor(styles='mine.py:f')": "styles is a list, as in styles=[depth]; got 'mine.py:f'",
    "run.actor(['slow'])": "words are classes by style, as in {'speed': 'slow'}; got ['slow']",
    "run.actor().dial('speed')": "words are classes by style, as in {'speed': 'slow'}; got 'speed'",
    "poise.load_run(folder, 'mine.py:f')": "styles is a list, as in styles=[depth]; got 'mine.py:f'",
}
"""What a user may write by mistake, and the line that they read. Types are checked in tests, not where users are."""

PROGRAM = """
import json, sys
import poise
from poise.runs.asking import find_styles

folder = sys.argv[1]
run, found = poise.load_run(folder), {}
def depth(states, actions): return states[0, 0]
for line in json.loads(sys.argv[2]):
    try:
        found[line] = repr(eval(line))
    except poise.PoiseError as error:
        found[line] = str(error)
    except Exception as error:
        found[line] = f"a traceback: {error!r}"
print(json.dumps(found))
"""


def test_what_nobody_can_ask_for_is_refused_in_one_line_where_users_are(run):
    words = [sys.executable, "-c", PROGRAM, str(run.folder), json.dumps(list(REFUSED))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == REFUSED
