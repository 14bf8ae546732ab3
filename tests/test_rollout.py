import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

from poise import PoiseError
from poise.domains import integrator
from poise.labeling import Categories, LabelSpace
from poise.models import TVAE, KnownDynamics, LearnedDynamics, Statistics
from poise.rollout import imagine, simulate


@pytest.fixture(scope="module")
def policy(walks):
    return TVAE(Statistics.of(walks), LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))


def roll(how, policy, environment, walks, key=0):
    labels = jnp.zeros((len(walks), 1), jnp.int32)
    lengths = jnp.asarray(walks.lengths)
    return how(policy, environment, jnp.asarray(walks.starts), labels, lengths, walks.steps, key=jax.random.key(key))


def on_the_host(states, actions):
    return np.add(np.asarray(states), np.asarray(actions))


def test_imagining_with_known_dynamics_is_simulating(policy, walks):
    imagined = roll(imagine, policy, KnownDynamics(integrator), walks)
    for environment in (KnownDynamics(integrator), integrator, on_the_host):
        simulated = roll(simulate, policy, environment, walks)
        np.testing.assert_allclose(simulated.states, imagined.states, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(simulated.actions, imagined.actions, rtol=1e-4, atol=1e-4)


def test_a_rollout_starts_where_it_was_told_and_obeys_the_environment(policy, walks):
    made = roll(simulate, policy, integrator, walks)
    np.testing.assert_array_equal(made.states[:, 0], walks.starts)
    np.testing.assert_allclose(made.states[:, 1:], made.states[:, :-1] + made.actions, atol=1e-5)


def test_the_key_decides_the_rollout(policy, walks):
    one, same, other = (roll(simulate, policy, integrator, walks, key).states for key in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.01


def test_gradients_flow_through_the_dynamics_to_the_policy(policy, walks):
    import equinox as eqx

    learned = LearnedDynamics(Statistics.of(walks), TINY.network, key=jax.random.key(1))

    @eqx.filter_grad
    def gradient(policy):
        return roll(imagine, policy, learned, walks).states[:, -1].sum()

    sizes = [float(jnp.abs(g).sum()) for g in jax.tree.leaves(gradient(policy).decoder.body)]
    assert min(sizes) > 0


def test_an_environment_of_the_wrong_shape_is_named(policy, walks):
    with pytest.raises(PoiseError, match=r"must return states of shape \[60, 2\]; got \[60\]"):
        roll(simulate, policy, lambda s, a: np.asarray(s)[:, 0], walks)
