import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.models.recurrent import GRU, Reader, gru_cell, scan_grus


def time_first(x):
    return jnp.swapaxes(x, 0, 1)


def gru_by_hand(gru, x):
    """The equations of a GRU, step by step."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    (w, b), (u, c) = ((np.asarray(layer.weight), np.asarray(layer.bias)) for layer in (gru.inputs, gru.recurrent))
    h, n, memories = np.zeros((len(x), gru.size)), gru.size, []
    for t in range(x.shape[1]):
        a, d = x[:, t] @ w + b, h @ u + c
        reset, update = sigmoid(a[:, :n] + d[:, :n]), sigmoid(a[:, n : 2 * n] + d[:, n : 2 * n])
        h = (1 - update) * np.tanh(a[:, 2 * n :] + reset * d[:, 2 * n :]) + update * h
        memories.append(h)
    return np.stack(memories, axis=1)


def test_a_gru_follows_its_equations():
    gru = GRU(3, 4, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 3))
    (memories,) = scan_grus([gru], [time_first(x)], [jnp.ones((5, 2), bool)])
    np.testing.assert_allclose(time_first(memories), gru_by_hand(gru, np.asarray(x)), atol=1e-5)


def test_single_steps_return_what_a_scan_returns():
    gru = GRU(3, 4, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 5, 3))
    memory = jnp.zeros((2, 4))
    for t in range(5):
        memory = gru.step(memory, x[:, t])
    (memories,) = scan_grus([gru], [time_first(x)], [jnp.ones((5, 2), bool)])
    np.testing.assert_allclose(memory, memories[-1], atol=1e-6)


@functools.cache
def some_reader():
    return Reader(2, 3, key=jax.random.key(0))


@eqx.filter_jit
def read(reader, x, mask):
    return reader(x, mask)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=15, deadline=None)
def test_a_reader_ignores_padding(lengths):
    reader = some_reader()
    x = np.random.default_rng(0).normal(size=(len(lengths), 6, 2)).astype(np.float32)
    mask = np.arange(6) < np.asarray(lengths)[:, None]
    padded = read(reader, np.swapaxes(np.where(mask[..., None], x, np.float32(7)), 0, 1), mask.T)
    for row, length in enumerate(lengths):
        alone = read(reader, np.swapaxes(x[row : row + 1, :length], 0, 1), np.ones((length, 1), bool))
        np.testing.assert_allclose(padded[row], alone[0], atol=1e-5)


def test_several_grus_in_one_scan_return_what_each_returns_alone():
    grus = [GRU(3, 4, key=jax.random.key(k)) for k in range(3)]
    xs = [jax.random.normal(jax.random.key(k), (5, 2, 3)) for k in range(3)]
    mask = jax.random.uniform(jax.random.key(4), (5, 2)) > 0.3
    for gru, x, memories in zip(grus, xs, scan_grus(grus, xs, [mask] * 3), strict=True):
        np.testing.assert_allclose(memories, scan_grus([gru], [x], [mask])[0], atol=1e-6)


def test_the_gradient_of_a_gru_cell_is_that_of_its_equations():
    def plain(memory, x, h, mask):
        reset, update = (jax.nn.sigmoid(x[:, i : i + 4] + h[:, i : i + 4]) for i in (0, 4))
        new = jnp.tanh(x[:, 8:] + reset * h[:, 8:])
        return jnp.where(mask > 0, (1 - update) * new + update * memory, memory)

    keys = jax.random.split(jax.random.key(0), 3)
    memory, x, h = (jax.random.normal(key, (6, size)) for key, size in zip(keys, (4, 12, 12), strict=True))
    mask = jnp.asarray([1.0, 1, 0, 1, 0, 1])[:, None]
    for one, other in zip(
        *(
            jax.grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a, mask))), argnums=(0, 1, 2))(memory, x, h)
            for f in (gru_cell, plain)
        ),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)
