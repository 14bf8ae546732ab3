import jax
import jax.numpy as jnp
import numpy as np
from conftest import TINY

from poise.config import Network
from poise.domains import integrator
from poise.models import Dynamics, KnownDynamics, LearnedDynamics, Statistics


def test_known_dynamics_have_no_error_on_their_own_data(walks):
    known = KnownDynamics(integrator)
    assert isinstance(known, Dynamics)
    np.testing.assert_allclose(known.loss(walks.arrays), 0, atol=1e-10)
    assert not jax.tree.leaves(known)


def test_learned_dynamics_predict_a_change_of_state(walks):
    learned = LearnedDynamics(Statistics.of(walks), TINY.network, key=jax.random.key(0))
    state, action = jnp.asarray(walks.states[:, 0]), jnp.asarray(walks.actions[:, 0])
    assert learned.noise == 0
    assert learned.step(state, action, jnp.zeros((len(walks), 0))).shape == state.shape


def test_gaussian_dynamics_draw_and_their_loss_is_a_density(walks):
    network = Network(hidden=8, dynamics_layers=(8,), dynamics="gaussian")
    learned = LearnedDynamics(Statistics.of(walks), network, key=jax.random.key(0))
    state, action = jnp.asarray(walks.states[:, 0]), jnp.asarray(walks.actions[:, 0])
    assert learned.noise == 2
    noise = jax.random.normal(jax.random.key(0), (400, len(walks), 2))
    draws = jax.vmap(lambda one: learned.step(state, action, one) - state)(noise)
    assert np.abs(draws[0] - draws[1]).max() > 1e-3
    standardised = np.asarray(learned.statistics.change(draws))
    centred = standardised - standardised.mean(axis=0)
    entropy = float(np.log(centred.std(axis=0)).sum(axis=-1).mean()) + 1 + np.log(2 * np.pi)
    loss = learned.loss(walks.arrays)[:, 0]
    assert np.isfinite(loss).all()
    assert float(loss.mean()) > entropy - 1.0  # up to noise, the mean loss of a density is at least its entropy
