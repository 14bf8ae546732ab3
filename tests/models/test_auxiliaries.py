import jax
import jax.numpy as jnp
import numpy as np
from conftest import TINY, wander

from poise.config import Network
from poise.domains import integrator
from poise.labeling import Categories, LabelSpace
from poise.models import Dynamics, KnownDynamics, Labeler, LearnedDynamics, Statistics


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
    standard = learned.statistics.change
    centred = np.asarray(standard(draws)) - np.asarray(standard(draws)).mean(axis=0)
    entropy = float(np.log(centred.std(axis=0)).sum(axis=-1).mean()) + 1 + np.log(2 * np.pi)
    told = learned.loss(walks.arrays)[:, 0]
    assert np.isfinite(told).all()
    assert float(told.mean()) > entropy - 1.0  # no density is better on average than its own entropy, give or take


def test_a_labeler_sees_the_last_state(walks):
    labeler = Labeler(Statistics.of(walks), LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))
    moved = np.array(walks.states)
    moved[:, -1] += 5
    from poise import Trajectories

    other = Trajectories(moved, np.asarray(walks.actions))
    assert labeler(walks.arrays).shape == (60, 3)
    assert np.abs(labeler(walks.arrays) - labeler(other.arrays)).max() > 1e-4


def test_a_labeler_never_sees_padding(ragged):
    from poise import Trajectories

    labeler = Labeler(Statistics.of(wander(30)), LabelSpace((Categories(3),)), TINY.network, key=jax.random.key(0))
    outputs = labeler(ragged.arrays)
    for row in range(5):
        length = int(ragged.lengths[row])
        short = Trajectories(ragged.states[[row], : length + 1], ragged.actions[[row], :length])
        np.testing.assert_allclose(outputs[row], labeler(short.arrays)[0], atol=1e-5)
