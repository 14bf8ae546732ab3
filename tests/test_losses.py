import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, wander

from poise import losses
from poise.domains import integrator
from poise.labeling import Categories, LabelSpace
from poise.losses import Batch
from poise.models import RNN, TVAE, KnownDynamics, Labeler, LearnedDynamics, Statistics

SPACE = LabelSpace((Categories(3), Categories(2)))
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def parts(walks):
    statistics = Statistics.of(walks)
    return {
        "policy": TVAE(statistics, SPACE, TINY.network, key=KEY),
        "dynamics": LearnedDynamics(statistics, TINY.network, key=KEY),
        "labeler": Labeler(statistics, SPACE, TINY.network, key=KEY),
    }


@pytest.fixture(scope="module")
def batch(walks):
    return Batch(walks.arrays, jnp.zeros((60, 2), jnp.int32))


def test_imitation_is_the_sum_over_time_and_the_mean_over_the_batch(parts, batch):
    seen = parts["policy"].imitate(batch.demonstrations, batch.labels, KEY)
    np.testing.assert_allclose(losses.imitation(parts, batch, KEY)["nld"], seen.nld.mean(), rtol=1e-6)


def test_the_first_bits_of_the_embedding_are_free(parts, batch):
    seen = parts["policy"].imitate(batch.demonstrations, batch.labels, KEY)
    free = TINY.network.free_bits / TINY.network.latent
    expected = np.maximum(np.asarray(seen.kl).mean(axis=0), free).sum()
    np.testing.assert_allclose(losses.imitation(parts, batch, KEY)["kl"], expected, rtol=1e-6)
    assert float(losses.imitation(parts, batch, KEY)["kl"]) >= TINY.network.free_bits - 1e-6


def test_an_rnn_has_no_kl(walks, batch):
    rnn = RNN(Statistics.of(walks), SPACE, TINY.network, key=KEY)
    assert set(losses.imitation({"policy": rnn}, batch, KEY)) == {"nld"}


def test_an_undecided_labeler_costs_the_logarithm_of_the_classes(parts, batch):
    labeler = parts["labeler"]
    import equinox as eqx

    silent = eqx.tree_at(lambda x: x.head, labeler, jax.tree.map(jnp.zeros_like, labeler.head))
    for term in (losses.label, losses.style):
        (value,) = term({**parts, "labeler": silent}, batch, KEY).values()
        np.testing.assert_allclose(value, np.log(3) + np.log(2), rtol=1e-5)


def test_the_style_term_moves_only_through_rollouts(parts, batch):
    """It depends on the policy, the dynamics and the labeler, and never on the demonstrated actions."""
    spoiled = Batch(wander(60, seed=9).arrays, batch.labels)
    same_starts = spoiled.demonstrations.states.at[:, 0].set(batch.demonstrations.states[:, 0])
    import equinox as eqx

    spoiled = Batch(eqx.tree_at(lambda d: d.states, spoiled.demonstrations, same_starts), batch.labels)
    one, other = (losses.style(parts, b, KEY)["style"] for b in (batch, spoiled))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_dynamics_loss_ignores_padding(ragged):
    known = {"dynamics": LearnedDynamics(Statistics.of(ragged), TINY.network, key=KEY)}
    labels = jnp.zeros((len(ragged), 2), jnp.int32)
    value = losses.dynamics(known, Batch(ragged.arrays, labels), KEY)["dynamics"]
    error = np.asarray(known["dynamics"].loss(ragged.arrays))
    expected = np.mean([error[i, : ragged.lengths[i]].sum() for i in range(len(ragged))])
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_known_dynamics_make_no_error(batch):
    assert float(losses.dynamics({"dynamics": KnownDynamics(integrator)}, batch, KEY)["dynamics"]) < 1e-8
