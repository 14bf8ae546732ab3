"""Host styles: called on one trajectory at a time, in this process or in several."""

import sys

import numpy as np
import pytest

from poise import PoiseError, Trajectories, labeling_function
from poise.styles import host
from poise.system.imports import import_file

FUNCTIONS = """
import numpy as np
from poise import labeling_function

@labeling_function
def total(states, actions):
    print("a style may print")
    if states[0, 0] == 151:
        raise ValueError("no good")
    return float(np.abs(actions).sum())

def leaves(states, actions):
    import sys
    if float(states[0, 0]) == 150:
        sys.exit(0)
    return 1.0

def presses(states, actions):
    if float(states[0, 0]) == 150:
        raise KeyboardInterrupt
    return 1.0

def hangs(states, actions):
    while float(states[0, 0]) == 150:
        pass
    return 1.0

def says_much(states, actions):
    raise ValueError("no\\ngood\\n")

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
    """A user's module; processes are always started for it."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    monkeypatch.setattr(host, "WORTH_A_POOL", -1.0)
    yield import_file(tmp_path / "functions.py")
    sys.modules.pop("poise_file_functions", None)


@pytest.fixture
def moves() -> Trajectories:
    """Trajectories of different lengths, with their own numbers in their first states."""
    random = np.random.default_rng(0)
    states = random.random((300, 4, 2)).astype(np.float32)
    states[:, 0, 0] = np.arange(300)
    return Trajectories(states, lengths=random.integers(1, 4, 300))


def test_processes_answer_in_order_and_see_each_trajectory_in_its_length(functions, moves):
    rows, pieces = np.flatnonzero(np.arange(300) % 7), []
    answers = host.map_rows("total", functions.total.score, moves, rows, strict=False, advance=pieces.append)
    expected = [np.abs(moves.actions[row, : moves.lengths[row]]).sum() if row != 151 else np.nan for row in rows]
    np.testing.assert_allclose(answers, expected, rtol=1e-6)
    assert len(pieces) > 3
    assert sum(pieces) == len(rows)


def test_an_error_in_a_process_names_the_trajectory(functions, moves):
    with pytest.raises(PoiseError, match="style 'fails_late' raised ValueError on trajectory 150: no good"):
        host.map_rows("fails_late", functions.fails_late, moves)


HELD = {
    "leaves": "style 'leaves' on trajectory 150 called sys.exit; a function returns, or raises an error",
    "presses": "style 'presses' on trajectory 150 raised KeyboardInterrupt; a function returns, or raises an error",
    "hangs": "style 'hangs' on trajectory 150 did not return within 0.5 s; if it only is slow, set POISE_STYLE_SECONDS "
    "to more",
    "says_much": "style 'says_much' raised ValueError on trajectory 0: no good",
}


@pytest.mark.parametrize(("name", "pool"), [("hangs", True), *((name, False) for name in HELD)])
def test_a_function_is_held_here_and_in_processes(functions, moves, monkeypatch, name, pool):
    monkeypatch.setenv("POISE_STYLE_SECONDS", "0.5")
    if not pool:
        monkeypatch.setattr(host, "WORTH_A_POOL", np.inf)
    with pytest.raises(PoiseError) as error:
        host.map_rows(name, getattr(functions, name), moves, strict=True)
    assert str(error.value) == HELD[name]
    if name != "says_much" and not pool:  # an error of one trajectory, where rollouts are scored that need no score
        with pytest.raises(PoiseError, match=name):
            host.map_rows(name, getattr(functions, name), moves, strict=False)


def test_a_function_that_never_returns_to_jax_either_is_stopped(monkeypatch, moves):
    monkeypatch.setenv("POISE_STYLE_SECONDS", "0.2")

    def endless(states, actions):
        while True:
            states = states + 1

    def leaves(states, actions):
        sys.exit("while it is traced")

    with pytest.raises(PoiseError, match=r"^style 'endless', traced by JAX, did not return within 0.2 s"):
        labeling_function(endless).scores(moves)
    with pytest.raises(PoiseError, match=r"^style 'leaves' on trajectory 0 called sys.exit"):
        labeling_function(leaves).scores(moves)


def test_a_process_that_ends_early_is_reported(functions, moves):
    with pytest.raises(PoiseError, match="a process that computed style 'dies' ended early"):
        host.map_rows("dies", functions.dies, moves)


def test_a_function_without_a_file_is_called_in_this_process(monkeypatch, moves):
    monkeypatch.setattr(host, "WORTH_A_POOL", -1.0)
    seen = []
    answers = host.map_rows("here", lambda s, a: seen.append(1) or float(s[0, 0]), moves)
    assert len(seen) == 300
    np.testing.assert_array_equal(answers, np.arange(300))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: np.zeros(2), r"an array of shape \[2\]"),
        (lambda s: np.zeros(2) if s[0, 0] % 2 else 1.0, r"float64 values of shapes \[\(\), \(2,\)\]"),
        (lambda s: 1.0 if s[0, 0] < 200 else "fast", "<U4 values"),
        (lambda s: 1.0 if s[0, 0] < 200 else None, "None: is a return missing"),
    ],
)
def test_what_is_not_a_number_is_refused_in_every_trajectory(answer, message, moves):
    with pytest.raises(PoiseError, match=f"style 'odd' must return one number per trajectory; got {message}"):
        host.map_rows("odd", lambda s, a: answer(s), moves)
