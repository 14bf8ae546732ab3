"""The GRU kernel, interpreted on a CPU, returns what single steps return."""

import jax
import jax.numpy as jnp
import numpy as np

from poise.models.kernels.gru import fused_gru_scan
from poise.models.recurrent import GRU, gru_cell

SEVERAL, BATCH, STEPS, SIZE = 2, 18, 3, 20


def test_the_memories_and_gradients_of_several_grus_are_those_of_their_steps():
    keys = jax.random.split(jax.random.key(0), 4)
    grus = [GRU(3, SIZE, key=key).recurrent for key in keys[:SEVERAL]]
    weight, bias = jnp.stack([x.weight for x in grus]), 0.1 * jax.random.normal(keys[2], (SEVERAL, 3 * SIZE))
    projected = jax.random.normal(keys[3], (STEPS, SEVERAL, BATCH, 3 * SIZE))
    real = jnp.arange(STEPS)[:, None, None] < jnp.arange(1, BATCH + 1)[None, None] * jnp.ones((1, SEVERAL, 1))

    def by_steps(weight, bias, projected):
        def step(memory, inputs):
            x, real = inputs
            after = gru_cell(memory, x, memory @ weight + bias[:, None], real[..., None].astype(jnp.float32))
            return after, after

        return jax.lax.scan(step, jnp.zeros((SEVERAL, BATCH, SIZE)), (projected, real))[1]

    def by_kernel(weight, bias, projected):
        return fused_gru_scan(weight, bias, projected, real, True)

    def results(function):
        loss = lambda *arguments: jnp.sum(jnp.sin(3 * function(*arguments)))  # noqa: E731
        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(weight, bias, projected)

    for one, other in zip(jax.tree.leaves(results(by_steps)), jax.tree.leaves(results(by_kernel)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2 * float(jnp.abs(one).max()))
