"""Rollouts with an environment or dynamics: what they obey, which environments are refused, and what is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY
from jax.core import Tracer

from poise import Domain, Network, PoiseError, Trajectories
from poise.domains import integrator
from poise.models import RNN, TVAE, KnownDynamics, LearnedDynamics, Policy, Statistics
from poise.rollouts import simulate as module
from poise.rollouts.requests import Request
from poise.rollouts.simulate import Player, begin_of, check_environment, find_environment, imagine, simulate
from poise.styles.label_spaces import Categories, LabelSpace

SPACE = LabelSpace((Categories(3),))


MARKOV = Network(layers=(4,), decoder="markov")


@pytest.fixture(scope="module")
def policy(walks) -> TVAE:
    """A policy with an embedding and a memory."""
    return TVAE(Statistics.of(walks), SPACE, TINY.network, key=jax.random.key(0))


@pytest.fixture(scope="module")
def markov(walks) -> RNN:
    """A policy without either, which compiles in a moment."""
    return RNN(Statistics.of(walks), SPACE, MARKOV, key=jax.random.key(0))


def request_like(walks: Trajectories) -> Request:
    return Request.like(walks, np.zeros((len(walks), 1), np.int32))


imagine_compiled = eqx.filter_jit(imagine)


def roll(how: Callable[..., Trajectories], policy: Policy, environment: Any, walks: Trajectories, key: int = 0):
    return how(policy, environment, request_like(walks), key=jax.random.key(key))


def on_the_host(states, actions):
    return np.add(np.asarray(states), np.asarray(actions))


@dataclass
class World:
    """An environment on the host that cannot be hashed."""

    calls: int = 0

    def __call__(self, states, actions):
        self.calls += 1
        return on_the_host(states, actions)


def test_imagining_with_known_dynamics_is_simulating(policy, walks):
    """The count is a power of two, because the noise belongs to a program, which makes a power of two of rollouts."""
    walks, world = walks[:32], World()
    imagined = roll(imagine_compiled, policy, KnownDynamics(integrator), walks)
    for environment in (KnownDynamics(integrator), integrator, on_the_host, world):
        simulated = roll(simulate, policy, environment, walks)
        np.testing.assert_allclose(simulated.states, imagined.states, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(simulated.actions, imagined.actions, rtol=1e-4, atol=1e-4)
    assert world.calls == walks.steps


def test_a_rollout_starts_where_it_is_asked_to_and_obeys_the_environment(markov, walks):
    made = roll(simulate, markov, integrator, walks)
    np.testing.assert_array_equal(made.states[:, 0], walks.starts)
    np.testing.assert_allclose(made.states[:, 1:], made.states[:, :-1] + made.actions, atol=1e-5)


def test_the_key_decides_the_rollout(markov, walks):
    one, same, other = (roll(simulate, markov, integrator, walks, key).states for key in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(np.subtract(one, other)).max() > 0.01


def test_a_domain_without_environment_and_known_dynamics_is_rolled_out_in_learned_ones():
    learned: dict[str, Any] = {"dynamics": KnownDynamics(integrator)}
    assert find_environment(Domain("bare"), learned) is learned["dynamics"]
    assert find_environment(Domain("known", dynamics=integrator), learned) is integrator
    assert find_environment(Domain("both", dynamics=integrator, environment=on_the_host), learned) is on_the_host


def test_gradients_flow_through_the_dynamics_to_the_policy(policy, walks):
    learned = LearnedDynamics(Statistics.of(walks), TINY.network, key=jax.random.key(1))

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(policy):
        return roll(imagine, policy, learned, walks).states[:, -1].sum()

    sizes = [float(jnp.abs(g).sum()) for g in jax.tree.leaves(gradient(policy).decoder.body)]
    assert min(sizes) > 0


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        (lambda s, a: (s + a)[:, :1], "the environment must return states of shape [N, 2]; got [2, 1] for N = 2"),
        (lambda s, a: (s + a, 0.0), "the environment must return states of shape [N, 2]; got a tuple for N = 2"),
        (lambda s, a: np.asarray(s)[:, 0], "the environment must return states of shape [60, 2]; got [60]"),
        (lambda s, a: np.asarray(s)[:-1], "the environment must return states of shape [60, 2]; got [59, 2]"),
        (lambda s, a: (np.asarray(s), 0.0), "the environment must return states of shape [60, 2]; got a tuple"),
        (lambda s, a: {int(s[0, 0]): s}, "the environment must return states of shape [60, 2]; got a dict"),
    ],
    ids=["traced", "traced, a tuple", "host", "host, fewer rollouts", "host, a tuple", "host, a dictionary"],
)
def test_an_environment_that_returns_another_shape_is_one_clear_line(markov, walks, environment, line):
    with pytest.raises(PoiseError) as error:
        roll(simulate, markov, environment, walks)
    assert str(error.value) == line


def broken(value: float, rows: slice) -> tuple[Callable, Callable]:
    """Environments, traced and on the host, that return the value for these rollouts."""

    def traced(states, actions):
        return (states + actions).at[rows, 0].set(value)

    def hosted(states, actions):
        following = on_the_host(states, actions)
        following[rows, 0] = value
        return following

    return traced, hosted


ALL = slice(None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("hosted", [False, True], ids=["traced", "on the host"])
def test_an_environment_that_returns_nan_for_all_rollouts_is_one_clear_line(markov, walks, value, hosted):
    made = roll(simulate, markov, broken(value, ALL)[hosted], walks)
    with pytest.raises(PoiseError, match=r"^all 60 rollouts are NaN or infinite after their first step; [^\n]+$"):
        check_environment(made.states, made.actions)


def test_a_policy_that_diverges_is_not_blamed_on_the_environment():
    states, actions = np.zeros((3, 3, 2), np.float32), np.full((3, 2, 2), np.nan, np.float32)
    states[:, 1:] = np.nan
    with pytest.raises(
        PoiseError, match=r"^the first actions of all 3 rollouts are NaN or infinite: the policy [^\n]+$"
    ):
        check_environment(states, actions)


@pytest.mark.parametrize("environment", broken(np.nan, slice(0, None, 2)), ids=["traced", "on the host"])
def test_rollouts_that_become_nan_are_returned_beside_the_others(markov, walks, environment):
    made = roll(simulate, markov, environment, walks)
    check_environment(made.states, made.actions)
    finite = np.isfinite(np.asarray(made.states)).all(axis=(1, 2))
    assert finite.tolist() == [False, True] * 30


@pytest.mark.parametrize(
    "environment", [lambda s, a: jnp.round(s + a).astype(int), lambda s, a: np.rint(s + a).astype(int)]
)
def test_an_environment_of_whole_numbers_is_rolled_out_in_single_precision(markov, walks, environment):
    made = roll(simulate, markov, environment, walks)
    assert made.states.dtype == np.float32
    np.testing.assert_array_equal(made.states[:, 1:], np.rint(made.states[:, :-1] + made.actions))


def test_few_programs_serve_every_count(markov, walks, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 16)
    traces = []

    def counted(states, actions):
        traces.append(1)
        return states + actions

    def new_traces(count):
        traces.clear()
        assert len(roll(simulate, markov, counted, walks[:count])) == count
        return len(traces)

    assert new_traces(5) > 0
    assert [new_traces(count) for count in (6, 7, 8, 5)] == [0] * 4
    assert new_traces(9) > 0
    assert [new_traces(count) for count in (16, 17, 35)] == [0] * 3  # pieces of one program


def test_whether_an_environment_can_be_traced_is_found_out_once(markov, walks):
    asked = []

    def environment(states, actions):
        asked.append(isinstance(states, Tracer))
        return on_the_host(states, actions)

    for _ in range(3):
        roll(simulate, markov, environment, walks)
    assert asked.count(True) == 1


def test_many_rollouts_are_divided_into_pieces_that_differ(markov, walks, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 8)
    walks = walks[np.zeros(21, int)]
    made, again, fewer = (roll(simulate, markov, integrator, part) for part in (walks, walks, walks[:20]))
    np.testing.assert_array_equal(made.states, again.states)
    np.testing.assert_array_equal(made.states[:, 0], walks.starts)
    np.testing.assert_allclose(made.states[:, 1:], made.states[:, :-1] + made.actions, atol=1e-5)
    assert len({tuple(actions) for actions in np.asarray(made.actions)[:, 0]}) == 21
    np.testing.assert_array_equal(made.states[:16], fewer.states[:16])  # whole pieces


def test_a_player_follows_the_policy_and_is_compiled_once_for_all_weights(policy):
    """Labels, embedding and weights are arrays of the same program."""
    other = jax.tree.map(lambda x: x + 0.1 if eqx.is_inexact_array(x) else x, policy)
    state, noise, programs = np.ones((1, 2), np.float32), np.full((1, 2), 0.5, np.float32), set()
    propose = eqx.filter_jit(lambda policy, *given: policy.propose(*given))
    for one, label in ((policy, 0), (policy, 2), (other, 1)):
        context, memory = begin_of(one, jnp.asarray([[label]]), jnp.asarray([4]), jax.random.key(label))
        player = Player(one, context, memory)
        expected = propose(one, context, memory, state, noise)
        np.testing.assert_allclose(player.act(state, lambda: noise), expected[:, 0], atol=1e-5)
        programs.add(player._programs)
    assert len(programs) == 1


def test_actions_are_clipped_to_their_range_in_imagination_and_in_the_environment(walks):
    policy = RNN(Statistics.of(walks, limits=(-0.1, 0.1)), SPACE, MARKOV, key=jax.random.key(0))
    for how in (imagine_compiled, simulate):
        made = np.asarray(roll(how, policy, KnownDynamics(integrator), walks).actions)
        assert np.abs(made).max() == pytest.approx(0.1)
        assert (np.abs(made) < 0.099).any()


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
def test_gradients_decay_at_each_step_back_and_rollouts_stay_the_same(decay, markov, walks):
    """Where the next state is the state, the gradient of the last state with respect to the first is decay^steps."""
    request = request_like(walks)
    dynamics = KnownDynamics(lambda state, action: state, gradient_decay=decay)

    @jax.jit
    @jax.value_and_grad
    def last(starts):
        moved = Request(starts, request.labels, request.lengths, request.steps)
        return imagine(markov, dynamics, moved, key=jax.random.key(0)).states[:, -1].sum()

    value, gradient = last(request.starts)
    np.testing.assert_allclose(value, np.sum(request.starts), rtol=1e-4)
    np.testing.assert_allclose(gradient, np.full(request.starts.shape, decay**walks.steps), rtol=1e-4)


def test_learned_dynamics_have_the_gradient_decay_of_the_network(walks):
    network = replace(TINY.network, gradient_decay=0.9)
    assert LearnedDynamics(Statistics.of(walks), network, key=jax.random.key(0)).gradient_decay == 0.9
