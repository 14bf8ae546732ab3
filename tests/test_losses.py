"""The paper's equations: sums over time, means over the batch, and which way gradients point."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, wander
from flow_helpers import rough_flow

from poise import losses
from poise.data.batches import Batch
from poise.domains import integrator
from poise.models import RNN, TVAE, Adversary, KnownDynamics, Labeler, LearnedDynamics, Statistics
from poise.styles.label_spaces import Categories, LabelSpace

SPACE = LabelSpace((Categories(3), Categories(2)))
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def parts(walks):
    statistics = Statistics.of(walks)
    return {
        "policy": TVAE(statistics, SPACE, TINY.network, key=KEY),
        "dynamics": LearnedDynamics(statistics, TINY.network, key=KEY),
        "labeler": Labeler(statistics, SPACE, TINY.network, key=KEY),
        "adversary": Adversary(SPACE, TINY.network, key=KEY),
    }


@pytest.fixture(scope="module")
def batch(walks):
    return Batch(walks.arrays, jnp.zeros((60, 2), jnp.int32))


@eqx.filter_jit
def compute(term, parts, batch):
    """The named losses of a term."""
    return term(parts, batch, KEY)


@pytest.fixture(scope="module")
def imitation(parts, batch):
    """The losses of each demonstration, and their combination."""
    imitated = eqx.filter_jit(parts["policy"].imitate)(batch.demonstrations, batch.labels, KEY)
    return imitated, compute(losses.imitation, parts, batch)


def test_imitation_is_the_sum_over_time_and_the_mean_over_the_batch(imitation):
    each, combined = imitation
    np.testing.assert_allclose(combined["nld"], each.nld.mean(), rtol=1e-5)


def test_the_first_bits_of_the_embedding_are_free(imitation):
    each, combined = imitation
    free = TINY.network.free_bits / TINY.network.latent
    expected = np.maximum(np.asarray(each.kl).mean(axis=0), free).sum()
    np.testing.assert_allclose(combined["kl"], expected, rtol=1e-5)
    assert float(combined["kl"]) >= TINY.network.free_bits - 1e-6


def test_an_rnn_has_no_kl(walks, batch):
    rnn = RNN(Statistics.of(walks), SPACE, TINY.network, key=KEY)
    assert set(eqx.filter_eval_shape(losses.imitation, {"policy": rnn}, batch, KEY)) == {"nld"}


@pytest.mark.parametrize("term", [losses.label, losses.style, losses.mutual_information])
def test_an_undecided_labeler_costs_the_logarithm_of_the_classes(term, parts, batch):
    labeler = parts["labeler"]
    undecided = eqx.tree_at(lambda x: x.head, labeler, jax.tree.map(jnp.zeros_like, labeler.head))
    (value,) = compute(term, {**parts, "labeler": undecided}, batch).values()
    np.testing.assert_allclose(value, np.log(3) + np.log(2), rtol=1e-5)


def test_the_style_loss_depends_on_rollouts_and_not_on_demonstrated_actions(parts, batch):
    others = wander(60, seed=9).arrays
    same_starts = jnp.asarray(others.states).at[:, 0].set(batch.demonstrations.states[:, 0])
    other = Batch(eqx.tree_at(lambda d: d.states, others, same_starts), batch.labels)
    first, second = (compute(losses.style, parts, b)["style"] for b in (batch, other))
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.parametrize("drop", [0.0, 1.0])
def test_the_style_loss_of_a_flow_leaves_styles_free_as_its_imitation_does(drop, walks, parts):
    """The labeler is undecided, so that every style that is asked for costs the logarithm of its classes."""
    labeler = eqx.tree_at(lambda x: x.head, parts["labeler"], jax.tree.map(jnp.zeros_like, parts["labeler"].head))
    asked = {"policy": rough_flow(walks, (3, 2), drop=drop), "dynamics": KnownDynamics(integrator), "labeler": labeler}
    many = Batch(wander(2_000, seed=1).arrays, jnp.zeros((2_000, 2), jnp.int32))
    (value,) = compute(losses.flow_style, asked, many).values()
    np.testing.assert_allclose(value, (1 - drop / 2) * (np.log(3) + np.log(2)), rtol=1e-5 if not drop else 0.05)


def test_the_mutual_information_is_the_style_loss_by_another_name(parts, batch):
    mutual = compute(losses.mutual_information, parts, batch)["mutual"]
    np.testing.assert_allclose(mutual, compute(losses.style, parts, batch)["style"], rtol=1e-6)


def test_the_adversary_descends_and_the_encoder_ascends_the_same_loss(parts, batch):
    labels = jnp.asarray(np.random.default_rng(0).integers(0, 2, (60, 2)), jnp.int32)
    batch = Batch(batch.demonstrations, labels)

    @eqx.filter_jit
    def information(both):
        return compute(losses.information, {"policy": both[0], "adversary": both[1]}, batch)["information"]

    both = parts["policy"], parts["adversary"]
    steps = jax.tree.map(lambda gradient: -0.1 * gradient, eqx.filter_grad(information)(both))
    policy, adversary = eqx.apply_updates(both, steps)
    assert information((policy, both[1])) > information(both) > information((both[0], adversary))


def test_dynamics_loss_ignores_padding(ragged):
    known = {"dynamics": LearnedDynamics(Statistics.of(ragged), TINY.network, key=KEY)}
    labels = jnp.zeros((len(ragged), 2), jnp.int32)
    value = compute(losses.dynamics, known, Batch(ragged.arrays, labels))["dynamics"]
    error = np.asarray(eqx.filter_jit(known["dynamics"].loss)(ragged.arrays))
    expected = np.mean([error[i, : ragged.lengths[i]].sum() for i in range(len(ragged))])
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_known_dynamics_make_no_error(batch):
    assert float(losses.dynamics({"dynamics": KnownDynamics(integrator)}, batch, KEY)["dynamics"]) < 1e-8
