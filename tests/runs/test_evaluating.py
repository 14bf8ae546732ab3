"""Evaluating a run: the groups that two-sample tests do not divide, and demonstrations that are read once."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import TINY, wander

import poise
from poise import Run, Trajectories, labeling_function, load_run
from poise.evaluation import realism
from poise.evaluation.two_sample import c2st
from poise.runs import run as run_module
from poise.runs.evaluating import find_splits


@labeling_function(classes=("short", "long"))
def path(states, actions):
    return abs(actions).sum()


@pytest.fixture(scope="module")
def walks_run() -> Run:
    return poise.train("rnn", wander(120), [path], settings=TINY, progress=False)


def with_game(column) -> Trajectories:
    walks = wander(60, seed=1)
    return Trajectories(walks.states, metadata={"game": column})


GAMES = np.arange(60) // 10


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        (GAMES, GAMES),
        (np.asarray([f"g{game}" for game in GAMES]), GAMES),
        (np.stack([GAMES // 3, GAMES % 3], axis=1), GAMES),
        (np.asarray(7), None),
        (np.arange(3), None),
    ],
    ids=["numbers", "words", "two columns", "one for all", "of something else"],
)
def test_the_games_of_test_demonstrations_are_not_divided_by_two_sample_tests(walks_run, monkeypatch, column, groups):
    seen = []

    def spy(demonstrations, several, groups, size, seed):
        seen.append((np.asarray(demonstrations.starts), groups))
        return c2st(demonstrations, several, groups=groups, size=size, seed=seed)

    monkeypatch.setattr(realism, "c2st", spy)
    test = with_game(column)
    assert walks_run.evaluate(test, rollouts=60).about["test"] == 60
    ((starts, found),) = seen
    np.testing.assert_array_equal(starts, test.starts)
    if groups is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, groups)


def test_an_evaluation_reads_the_demonstrations_once(run, monkeypatch):
    reads = []
    monkeypatch.setattr(run_module, "find_splits", lambda *given: reads.append(given) or find_splits(*given))
    back = load_run(run.folder)
    back.evaluate(rollouts=8)
    assert back.splits() is back.splits()
    assert len(reads) == 1
