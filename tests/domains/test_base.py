import numpy as np
from conftest import wander

from poise import Trajectories
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
