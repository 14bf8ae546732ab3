import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander

from poise import DOMAINS, Domain, PoiseError, Trajectories
from poise.domains import Simulation, find_domain, integrator, plain, recognise_integrator
from poise.domains.base import is_traced


def test_the_integrator_is_recognised_in_data():
    domain = plain(wander(20))
    assert domain.dynamics is integrator
    assert domain.simulation is Simulation.KNOWN_DYNAMICS
    assert domain.describe_simulation() == "next state = state + action"


@pytest.mark.parametrize(
    ("dynamics", "recognised"),
    [
        (lambda s, a: a + s, True),
        (lambda s, a: jnp.stack([s[:, i] + a[:, i] for i in range(2)], axis=1), True),
        (lambda s, a: s + 0.999 * a, False),
        (lambda s, a: jnp.clip(s + a, -94, 94), False),
        (lambda s, a: s + a[:, ::-1], False),
    ],
)
def test_dynamics_of_ones_own_that_add_up_are_recognised(dynamics, recognised):
    own = Domain("own", dynamics=dynamics, actions=(-1.0, 1.0))
    found = recognise_integrator(own, wander(20))
    assert (found.dynamics is integrator) == recognised
    assert found == (Domain("own", dynamics=integrator, actions=(-1.0, 1.0)) if recognised else own)


def test_other_data_need_learned_dynamics():
    walks = wander(20)
    for actions in (2 * walks.actions, walks.actions[..., :1]):
        domain = plain(Trajectories(walks.states, actions))
        assert domain.dynamics is None
        assert domain.simulation is Simulation.LEARNED_DYNAMICS
        assert domain.describe_simulation() == "learned dynamics (no environment was given)"


def test_one_column_with_other_dynamics_is_enough_to_need_learned_dynamics():
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


def test_a_constant_column_does_not_hide_the_integrator():
    states = np.asarray(wander(20).states) * [1, 0] + [0, 5]
    assert plain(Trajectories(states)).dynamics is integrator


def test_rounding_does_not_hide_the_integrator():
    walks = wander(20)
    states = np.float32(1000) + walks.states
    assert plain(Trajectories(states, walks.actions)).dynamics is integrator


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_the_default_styles_are_styles_of_the_domain(domain):
    assert domain.default_styles
    assert set(domain.default_styles) <= set(domain.styles)


def test_a_transition_in_plain_numpy_is_stepped_on_the_host():
    assert is_traced(integrator, 2, 2)
    assert not is_traced(lambda s, a: np.clip(np.asarray(s) + np.asarray(a), -1, 1), 2, 2)


@pytest.mark.parametrize(
    ("transition", "got"),
    [(lambda states, actions: states[:, :1], r"\[2, 1\]"), (lambda states, actions: (states, actions), "a tuple")],
)
def test_a_traced_transition_must_return_next_states(transition, got):
    line = rf"^the environment must return states of shape \[N, 2\]; got {got} for N = 2$"
    with pytest.raises(PoiseError, match=line):
        is_traced(transition, 2, 2)


def test_a_domain_is_found_by_its_name_or_in_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("import poise\n\nTANK = poise.Domain('tank')\nSIZE = 3\n")
    assert find_domain("cheetah") is DOMAINS["cheetah"]
    assert find_domain(f"{file}:TANK").name == "tank"
    with pytest.raises(PoiseError, match=r"unknown domain 'chetah'; did you mean 'cheetah'\?"):
        find_domain("chetah")
    with pytest.raises(PoiseError, match=r"mine\.py:SIZE is not a poise\.Domain but int$"):
        find_domain(f"{file}:SIZE")


def test_demonstrations_of_another_size_are_refused():
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
def test_the_first_action_out_of_range_is_reported(tmp_path, monkeypatch, on_disk):
    actions = np.zeros((5, 3, 2))
    actions[3, 1, 1], actions[4, 2, 0] = 1.5, -7
    made, narrow = Trajectories(np.zeros((5, 4, 2)), actions), Domain("narrow", actions=(-1.0, 1.0))
    if on_disk:
        monkeypatch.setattr("poise.data.trajectories.PIECE", made.nbytes // 5 * 2)  # two at a time
        made.save(tmp_path / "folder")
        made = Trajectories.load(tmp_path / "folder")
    narrow.check(made[:3])
    line = "^number 1 of an action of narrow lies between -1 and 1; got 1.5 in row 3, step 1$"
    with pytest.raises(PoiseError, match=line):
        narrow.check(made)


def test_padding_is_not_checked_against_the_range_of_actions():
    made = Trajectories(np.zeros((1, 4, 2)), np.full((1, 3, 2), 5.0), lengths=[2])
    Domain("high", actions=(4.0, 6.0)).check(made)  # padding is 0
