import numpy as np
import pytest
from conftest import wander

from poise import Domain, PoiseError, Trajectories
from poise.domains import integrator, plain
from poise.domains.base import is_traced


def test_data_that_add_up_have_the_integrator_for_environment():
    domain = plain(wander(20))
    assert domain.dynamics is integrator
    assert domain.environment_text == "next state = state + action"


def test_other_data_need_learned_dynamics_and_say_so():
    walks = wander(20)
    for actions in (2 * walks.actions, walks.actions[..., :1]):
        domain = plain(Trajectories(walks.states, actions))
        assert domain.dynamics is None
        assert domain.environment_text == "learned dynamics (no environment was given)"


def test_one_column_that_does_not_add_up_is_enough():
    walks = wander(50)
    states = np.asarray(walks.states) * [100, 0.005]
    actions = np.diff(states, axis=1)
    assert plain(Trajectories(states, actions)).dynamics is integrator
    actions[..., 1] = np.random.default_rng(0).normal(size=actions.shape[:2]) * 0.005
    assert plain(Trajectories(states, actions)).dynamics is None


def test_large_states_do_not_hide_other_dynamics():
    walks = wander(50)
    unrelated = np.random.default_rng(0).normal(size=walks.actions.shape)
    assert plain(Trajectories(1e6 + np.asarray(walks.states), unrelated)).dynamics is None


def test_a_column_that_never_changes_adds_up():
    states = np.asarray(wander(20).states) * [1, 0] + [0, 5]
    assert plain(Trajectories(states)).dynamics is integrator


def test_rounding_does_not_hide_the_integrator():
    walks = wander(20)
    states = np.float32(1000) + walks.states
    assert plain(Trajectories(states, walks.actions)).dynamics is integrator


def test_a_transition_in_plain_numpy_is_stepped_on_the_host():
    assert is_traced(integrator, 2, 2)
    assert not is_traced(lambda s, a: np.clip(np.asarray(s) + np.asarray(a), -1, 1), 2, 2)


def test_demonstrations_of_another_size_are_not_of_the_domain():
    walks = wander(4)
    Domain("flat", sizes=(2, 2)).check(walks)
    with pytest.raises(PoiseError, match=r"^a state of deep is 3 numbers; got 2$"):
        Domain("deep", sizes=(3, 2)).check(walks)
    with pytest.raises(PoiseError, match=r"^an action of deep is 1 numbers; got 2 \(a file without 'actions' has"):
        Domain("deep", sizes=(2, 1)).check(walks)
    wide = Trajectories(np.zeros((4, 3, 2)), np.zeros((4, 2, 5)))
    with pytest.raises(PoiseError, match=r"^an action of deep is 1 numbers; got 5$"):
        Domain("deep", sizes=(2, 1)).check(wide)


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_first_action_out_of_range_is_named(tmp_path, monkeypatch, on_disk):
    actions = np.zeros((5, 3, 2))
    actions[3, 1, 1], actions[4, 2, 0] = 1.5, -7
    made, narrow = Trajectories(np.zeros((5, 4, 2)), actions), Domain("narrow", actions=(-1.0, 1.0))
    if on_disk:
        monkeypatch.setattr("poise.trajectories.PIECE", made.nbytes // 5 * 2)  # two at a time
        made.save(tmp_path / "folder")
        made = Trajectories.load(tmp_path / "folder")
    narrow.check(made[:3])
    line = "^number 1 of an action of narrow lies between -1 and 1; got 1.5 in row 3, step 1$"
    with pytest.raises(PoiseError, match=line):
        narrow.check(made)


def test_what_lies_beyond_a_length_is_no_action():
    made = Trajectories(np.zeros((1, 4, 2)), np.full((1, 3, 2), 5.0), lengths=[2])
    Domain("high", actions=(4.0, 6.0)).check(made)  # padding is 0
