import jax
import jax.numpy as jnp
import numpy as np

from poise.models.layers import (
    MLP,
    Gaussian,
    Linear,
    Standardizer,
    Statistics,
    concatenate_outputs,
    split_columns,
)


def test_standardised_values_have_mean_zero_and_deviation_one_and_can_be_undone():
    values = np.random.default_rng(0).normal(3, 5, size=(1000, 2)).astype(np.float32)
    values[:, 1] = 4.0  # a constant column
    standard = Standardizer.fit(values)
    np.testing.assert_allclose(standard(values)[:, 0].std(), 1, rtol=1e-3)
    np.testing.assert_allclose(standard(values)[:, 1], 0, atol=1e-6)
    np.testing.assert_allclose(standard.undo(standard(values)), values, rtol=1e-5, atol=1e-5)


def test_statistics_ignore_padding(ragged):
    mean = np.asarray(ragged.actions)[np.asarray(ragged.mask)].mean(axis=0)
    np.testing.assert_allclose(Statistics.of(ragged).action.mean, mean, rtol=1e-5)


def test_a_gaussians_density_integrates_to_one_and_its_kl_is_zero_at_the_prior():
    grid = jnp.linspace(-20, 20, 4001)[:, None]
    density = Gaussian(jnp.full((4001, 1), 0.5), jnp.full((4001, 1), 0.3))
    np.testing.assert_allclose(jnp.exp(-density.nld(grid)).sum() * 0.01, 1, atol=1e-4)
    np.testing.assert_allclose(Gaussian(jnp.zeros(3), jnp.zeros(3)).kl(), 0)
    shifted = Gaussian(jnp.asarray([2.0]), jnp.asarray([0.0])).kl()
    np.testing.assert_allclose(shifted, 2.0)  # half the squared distance


def test_the_parts_of_a_layer_split_by_its_inputs_add_up_to_it():
    layer = Linear(12, 5, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (7, 12))
    parts = layer.split_inputs(2, 9)
    np.testing.assert_allclose(
        sum(f(x[:, a:b]) for f, a, b in zip(parts, (0, 2, 9), (2, 9, 12), strict=True)), layer(x), atol=1e-5
    )


def test_layers_with_concatenated_outputs_are_one_layer():
    layers = Linear(12, 5, key=jax.random.key(0)), Linear(12, 3, key=jax.random.key(2))
    x = jax.random.normal(jax.random.key(1), (7, 12))
    outputs = jnp.concatenate([layer(x) for layer in layers], axis=-1)
    np.testing.assert_allclose(concatenate_outputs(*layers)(x), outputs, atol=1e-5)


def test_a_layer_with_few_inputs_has_the_values_and_gradients_of_a_matrix_product():
    layer = Linear(3, 5, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 7, 3))
    loss = lambda f: jax.grad(lambda layer, x: jnp.sum(jnp.sin(f(layer, x))), argnums=(0, 1))(layer, x)  # noqa: E731
    ours, plain = loss(lambda layer, x: layer(x)), loss(lambda layer, x: x @ layer.weight + layer.bias)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_stacked_layers_return_what_each_of_them_returns():
    layers = [Linear(12, 5, key=jax.random.key(k)) for k in range(2)]
    x = jax.random.normal(jax.random.key(3), (2, 7, 12))
    stacked = jax.tree.map(lambda *each: jnp.stack(each), *layers)
    np.testing.assert_allclose(stacked(x), jnp.stack([f(y) for f, y in zip(layers, x, strict=True)]), atol=1e-5)


def test_an_mlp_continues_from_the_outputs_of_its_first_layer():
    body = MLP((4, 6, 2), key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (3, 4))
    np.testing.assert_array_equal(body(x), body.after_first(body.layers[0](x)))


def test_split_columns_have_the_gradient_of_slices():
    x, weight = jax.random.normal(jax.random.key(0), (2, 3, 5))

    def gradient(split):
        return jax.grad(lambda x: (jnp.sin(split(x)[0]) * weight[:, :2]).sum() + (split(x)[1] ** 2).sum())(x)

    ours, plain = gradient(lambda x: split_columns(x, 2)), gradient(lambda x: (x[..., :2], x[..., 2:]))
    np.testing.assert_allclose(ours, plain, rtol=1e-6)
