from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

from poise import PoiseError, rollout
from poise.domains import integrator
from poise.labeling import Categories, LabelSpace
from poise.models import TVAE, KnownDynamics, LearnedDynamics, Statistics
from poise.rollout import compile_step, context_of, imagine, simulate


@pytest.fixture(scope="module")
def policy(walks):
    return TVAE(Statistics.of(walks), LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))


def roll(how, policy, environment, walks, key=0):
    labels = jnp.zeros((len(walks), 1), jnp.int32)
    lengths = jnp.asarray(walks.lengths)
    return how(policy, environment, jnp.asarray(walks.starts), labels, lengths, walks.steps, key=jax.random.key(key))


def on_the_host(states, actions):
    return np.add(np.asarray(states), np.asarray(actions))


@dataclass
class World:
    """An environment that cannot be hashed, on the host."""

    calls: int = 0

    def __call__(self, states, actions):
        self.calls += 1
        return on_the_host(states, actions)


def test_imagining_with_known_dynamics_is_simulating(policy, walks):
    """As many as a program makes: it makes a power of two, and the noise belongs to the program."""
    walks, world = walks[:32], World()
    imagined = roll(imagine, policy, KnownDynamics(integrator), walks)
    for environment in (KnownDynamics(integrator), integrator, on_the_host, world):
        simulated = roll(simulate, policy, environment, walks)
        np.testing.assert_allclose(simulated.states, imagined.states, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(simulated.actions, imagined.actions, rtol=1e-4, atol=1e-4)
    assert world.calls == walks.steps


def test_a_rollout_starts_where_it_was_told_and_obeys_the_environment(policy, walks):
    made = roll(simulate, policy, integrator, walks)
    np.testing.assert_array_equal(made.states[:, 0], walks.starts)
    np.testing.assert_allclose(made.states[:, 1:], made.states[:, :-1] + made.actions, atol=1e-5)


def test_the_key_decides_the_rollout(policy, walks):
    one, same, other = (roll(simulate, policy, integrator, walks, key).states for key in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01


def test_gradients_flow_through_the_dynamics_to_the_policy(policy, walks):
    learned = LearnedDynamics(Statistics.of(walks), TINY.network, key=jax.random.key(1))

    @eqx.filter_grad
    def gradient(policy):
        return roll(imagine, policy, learned, walks).states[:, -1].sum()

    sizes = [float(jnp.abs(g).sum()) for g in jax.tree.leaves(gradient(policy).decoder.body)]
    assert min(sizes) > 0


def test_an_environment_of_the_wrong_shape_is_named(policy, walks):
    with pytest.raises(PoiseError, match=r"must return states of shape \[60, 2\]; got \[60\]"):
        roll(simulate, policy, lambda s, a: np.asarray(s)[:, 0], walks)


def test_few_programs_serve_every_count(policy, walks):
    traces = []

    def counted(states, actions):
        traces.append(1)
        return states + actions

    def new_traces(count):
        traces.clear()
        assert len(roll(simulate, policy, counted, walks[:count])) == count
        return len(traces)

    assert new_traces(5) > 0
    assert [new_traces(count) for count in (6, 7, 8, 5)] == [0] * 4
    assert new_traces(9) > 0


def test_whether_an_environment_can_be_traced_is_found_out_once(policy, walks):
    asked = []

    def environment(states, actions):
        asked.append(isinstance(states, jax.core.Tracer))
        return on_the_host(states, actions)

    for _ in range(3):
        roll(simulate, policy, environment, walks)
    assert asked.count(True) == 1


def test_many_rollouts_are_cut_into_pieces_that_differ(policy, walks, monkeypatch):
    monkeypatch.setattr(rollout, "PIECE", 8)
    walks = walks[np.zeros(21, int)]
    made, again, fewer = (roll(simulate, policy, integrator, part) for part in (walks, walks, walks[:20]))
    np.testing.assert_array_equal(made.states, again.states)
    np.testing.assert_array_equal(made.states[:, 0], walks.starts)
    np.testing.assert_allclose(made.states[:, 1:], made.states[:, :-1] + made.actions, atol=1e-5)
    assert len({tuple(actions) for actions in made.actions[:, 0]}) == 21
    np.testing.assert_array_equal(made.states[:16], fewer.states[:16])  # whole pieces


def test_a_compiled_step_is_the_step_and_is_compiled_once_for_all_weights(policy):
    """Labels, embedding and weights are arrays of the same program."""
    other = jax.tree.map(lambda x: x + 0.1 if eqx.is_inexact_array(x) else x, policy)
    state, noise, programs = np.ones((1, 2), np.float32), np.full((1, 2), 0.5, np.float32), set()
    for one, label in ((policy, 0), (policy, 2), (other, 1)):
        context = context_of(one, jnp.asarray([[label]]), jax.random.key(label))
        act = compile_step(one, context)
        for made, right in zip(
            act(one.memory(1), state, noise), one.step(context, one.memory(1), state, noise), strict=True
        ):
            np.testing.assert_allclose(made, right, atol=1e-5)
        programs.add(act.func)
    assert len(programs) == 1


def test_actions_are_cut_to_their_range_in_imagination_and_in_the_environment(walks):
    statistics = Statistics.of(walks, limits=(-0.1, 0.1))
    policy = TVAE(statistics, LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))
    for how in (imagine, simulate):
        made = np.asarray(roll(how, policy, KnownDynamics(integrator), walks).actions)
        assert np.abs(made).max() == pytest.approx(0.1)
        assert (np.abs(made) < 0.099).any()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_gradients_fade_on_their_way_back_and_rollouts_stay_the_same(share, walks):
    """Of a body that repeats its state, however often, so much of a gradient is left a step later."""

    statistics, steps = Statistics.of(walks), walks.steps
    policy = TVAE(statistics, LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))

    def stay(state, action):
        return state

    def last(starts, fading):
        given = jnp.zeros((len(walks), 1), jnp.int32), jnp.asarray(walks.lengths), steps
        return imagine(policy, KnownDynamics(stay, fading=fading), starts, *given, key=jax.random.key(0)).states[:, -1]

    starts = jnp.asarray(walks.starts)
    np.testing.assert_allclose(last(starts, share), starts, rtol=1e-6)
    gradient = jax.grad(lambda at: last(at, share).sum())(starts)
    np.testing.assert_allclose(gradient, np.full(starts.shape, share**steps), rtol=1e-4)


def test_learned_dynamics_fade_as_the_network_says(walks):
    network = replace(TINY.network, fading=0.9)
    assert LearnedDynamics(Statistics.of(walks), network, key=jax.random.key(0)).fading == 0.9
