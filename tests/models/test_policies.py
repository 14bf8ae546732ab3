import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, wander

from poise import Trajectories
from poise.config import Network
from poise.models import RNN, TVAE, Policy, Statistics
from poise.styles.label_spaces import Categories, LabelSpace

SPACE = LabelSpace((Categories(3),))
NETWORKS = {
    "recurrent": TINY.network,
    "markov, one variance": Network(hidden=8, layers=(8,), decoder="markov", variance="global"),
}


@pytest.fixture(
    params=[(kind, name) for kind in (TVAE, RNN) for name in NETWORKS], ids=lambda p: f"{p[0].__name__} {p[1]}"
)
def policy(request):
    kind, name = request.param
    return kind(Statistics.of(wander(50)), SPACE, NETWORKS[name], key=jax.random.key(0))


def test_every_policy_has_the_interface_of_a_policy(policy, walks):
    assert isinstance(policy, Policy)
    labels = jnp.zeros((len(walks), 1), jnp.int32)
    losses = policy.imitate(walks.arrays, labels, jax.random.key(0))
    assert losses.nld.shape == (60,)
    context, memory = policy.begin(labels, jnp.asarray(walks.lengths), jax.random.key(1))
    actions = policy.propose(context, memory, jnp.asarray(walks.starts), jnp.ones((60, policy.noise)))
    assert actions.shape == (60, 1, 2)
    after = policy.remember(context, memory, jnp.asarray(walks.starts), actions[:, 0])
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, memory)


@eqx.filter_jit
def imitate(policy, demonstrations, labels, key):
    return policy.imitate(demonstrations, labels, key)


def test_a_policy_ignores_padding(policy, ragged):
    labels, key = jnp.zeros((1, 1), jnp.int32), jax.random.key(0)
    for row in range(6):
        length = int(ragged.lengths[row])
        padded = ragged[[row]].arrays
        short = Trajectories(ragged.states[[row], : length + 1], ragged.actions[[row], :length]).arrays
        for one, other in zip(imitate(policy, padded, labels, key), imitate(policy, short, labels, key), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_nld_is_in_the_units_of_the_action(walks):
    """Scaling the units by ten adds log 10 per action and step, although the networks read standardised values."""
    scaled = Trajectories(np.asarray(walks.states) * 10, np.asarray(walks.actions) * 10)
    labels, key = jnp.zeros((60, 1), jnp.int32), jax.random.key(3)
    nld = [
        RNN(Statistics.of(data), SPACE, TINY.network, key=jax.random.key(0)).imitate(data.arrays, labels, key).nld
        for data in (walks, scaled)
    ]
    np.testing.assert_allclose(nld[1] - nld[0], 6 * 2 * np.log(10), rtol=1e-3)


def test_imitate_returns_the_density_that_proposals_are_drawn_from(policy, walks):
    labels, key = jnp.ones((60, 1), jnp.int32), jax.random.key(0)
    if isinstance(policy, TVAE):  # an encoder that always returns the prior, so that both have the same embedding
        policy = eqx.tree_at(lambda p: p.posterior.weight, policy, jnp.zeros_like(policy.posterior.weight))
    (context, memory), total = policy.begin(labels, jnp.asarray(walks.lengths), key), 0.0
    for t in range(walks.steps):
        state, action = jnp.asarray(walks.states[:, t]), jnp.asarray(walks.actions[:, t])
        mean, above = (policy.propose(context, memory, state, jnp.full((60, 2), n))[:, 0] for n in (0.0, 1.0))
        deviation = above - mean
        total += jnp.sum(
            0.5 * ((action - mean) / deviation) ** 2 + jnp.log(deviation) + 0.5 * np.log(2 * np.pi), axis=-1
        )
        memory = policy.remember(context, memory, state, action)
    np.testing.assert_allclose(policy.imitate(walks.arrays, labels, key).nld, total, rtol=1e-4)


@pytest.mark.parametrize("reads", [True, False])
def test_the_encoder_reads_labels_only_if_it_is_asked_to(walks, reads):
    policy = TVAE(Statistics.of(walks), SPACE, TINY.network, key=jax.random.key(0), encode_labels=reads)
    one, other = (policy.encode(walks.arrays, jnp.full((60, 1), k)).mean for k in (0, 2))
    assert np.allclose(one, other) == (not reads)


def test_actions_depend_on_the_labels(policy, walks):
    starts, key, noise = jnp.asarray(walks.starts), jax.random.key(0), jnp.zeros((60, 2))
    lengths = jnp.asarray(walks.lengths)
    actions = [policy.propose(*policy.begin(jnp.full((60, 1), k), lengths, key), starts, noise) for k in (0, 2)]
    assert np.abs(actions[0] - actions[1]).max() > 1e-3
