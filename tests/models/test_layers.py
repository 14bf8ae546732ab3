import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.models.layers import GRU, Gaussian, Reader, Standardizer, Statistics


def gru_by_hand(gru, x):
    """The textbook's update and reset gates, one time at a time."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    (w, b), (u, c) = ((np.asarray(layer.weight), np.asarray(layer.bias)) for layer in (gru.inputs, gru.recurrent))
    h, n, found = np.zeros((len(x), gru.size)), gru.size, []
    for t in range(x.shape[1]):
        a, d = x[:, t] @ w + b, h @ u + c
        reset, update = sigmoid(a[:, :n] + d[:, :n]), sigmoid(a[:, n : 2 * n] + d[:, n : 2 * n])
        h = (1 - update) * np.tanh(a[:, 2 * n :] + reset * d[:, 2 * n :]) + update * h
        found.append(h)
    return np.stack(found, axis=1)


def test_a_gru_is_its_equations():
    gru = GRU(3, 4, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 3))
    np.testing.assert_allclose(gru.scan(x, jnp.ones((2, 5), bool)), gru_by_hand(gru, np.asarray(x)), atol=1e-5)


def test_stepping_is_scanning():
    gru = GRU(3, 4, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 3))
    memory = jnp.zeros((2, 4))
    for t in range(5):
        memory = gru.step(memory, x[:, t])
    np.testing.assert_allclose(memory, gru.scan(x, jnp.ones((2, 5), bool))[:, -1], atol=1e-6)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_a_reader_never_sees_padding(lengths):
    reader = Reader(2, 3, key=jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(len(lengths), 6, 2)).astype(np.float32)
    mask = np.arange(6) < np.asarray(lengths)[:, None]
    read = reader(jnp.where(mask[..., None], x, 7.0), jnp.asarray(mask))
    for row, length in enumerate(lengths):
        alone = reader(jnp.asarray(x[row : row + 1, :length]), jnp.ones((1, length), bool))
        np.testing.assert_allclose(read[row], alone[0], atol=1e-5)


def test_standardised_values_have_mean_zero_and_deviation_one_and_come_back():
    values = np.random.default_rng(0).normal(3, 5, size=(1000, 2)).astype(np.float32)
    values[:, 1] = 4.0  # a value that never changes
    standard = Standardizer.fit(values)
    np.testing.assert_allclose(standard(values)[:, 0].std(), 1, rtol=1e-3)
    np.testing.assert_allclose(standard(values)[:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(standard.undo(standard(values)), values, rtol=1e-5, atol=1e-5)


def test_statistics_ignore_padding(ragged):
    mean = np.asarray(ragged.actions)[np.asarray(ragged.mask)].mean(axis=0)
    np.testing.assert_allclose(Statistics.of(ragged).action.mean, mean, rtol=1e-5)


def test_a_gaussians_density_integrates_to_one_and_its_kl_is_zero_at_the_prior():
    grid = jnp.linspace(-20, 20, 4001)[:, None]
    wide = Gaussian(jnp.full((4001, 1), 0.5), jnp.full((4001, 1), 0.3))
    np.testing.assert_allclose(jnp.exp(-wide.nld(grid)).sum() * 0.01, 1, atol=1e-4)
    np.testing.assert_allclose(Gaussian(jnp.zeros(3), jnp.zeros(3)).kl(), 0)
    shifted = Gaussian(jnp.asarray([2.0]), jnp.asarray([0.0])).kl()
    np.testing.assert_allclose(shifted, 2.0)  # half the squared distance
