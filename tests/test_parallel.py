import sys

import numpy as np
import pytest

from poise import PoiseError, parallel

FUNCTIONS = """
import numpy as np
from poise import labeling_function

@labeling_function
def total(states, actions):
    print("a style may print")
    return float(np.abs(actions).sum())

def fails_late(states, actions):
    if states[0, 0] == 150:
        raise ValueError("no good")
    return 1.0

def dies(states, actions):
    if states[0, 0] == 150:
        import os
        os._exit(3)
    return 1.0
"""


@pytest.fixture
def functions(tmp_path, monkeypatch):
    """A user's module, and a pool that always pays."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    monkeypatch.setattr(parallel, "WORTH_A_POOL", -1.0)
    yield parallel.import_file(tmp_path / "functions.py")
    sys.modules.pop("poise_file_functions", None)


@pytest.fixture
def rows():
    states = np.arange(300, dtype=np.float32)[:, None, None] + np.random.default_rng(0).random((300, 4, 2)).astype(
        np.float32
    )
    states[:, 0, 0] = np.arange(300)
    return states, np.diff(states, axis=1)


def test_processes_answer_as_one_would_in_order(functions, rows):
    states, actions = rows
    many = parallel.map_rows("total", functions.total.score, states, actions)
    one = parallel.call_rows("total", functions.total.score, states, actions)
    np.testing.assert_array_equal(many, one)


def test_an_error_in_a_process_names_the_trajectory(functions, rows):
    with pytest.raises(PoiseError, match="style 'fails_late' raised ValueError on trajectory 150: no good"):
        parallel.map_rows("fails_late", functions.fails_late, *rows)


def test_a_process_that_dies_is_told(functions, rows):
    with pytest.raises(PoiseError, match="a process that computed style 'dies' ended early"):
        parallel.map_rows("dies", functions.dies, *rows)


def test_a_function_without_a_file_is_called_in_this_process(monkeypatch, rows):
    monkeypatch.setattr(parallel, "WORTH_A_POOL", -1.0)
    seen = []
    answers = parallel.map_rows("here", lambda s, a: seen.append(1) or float(s[0, 0]), *rows)
    assert len(seen) == 300
    np.testing.assert_array_equal(answers, np.arange(300))


def test_answers_of_different_shapes_are_refused(rows):
    with pytest.raises(PoiseError, match="must return one number a trajectory"):
        parallel.map_rows("ragged", lambda s, a: np.zeros(int(s[0, 0]) % 2 + 1), *rows)
