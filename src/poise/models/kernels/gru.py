"""GRUs that read whole sequences in one GPU kernel, with a second kernel for the gradient.

A scan in XLA launches several small kernels per step, and each of them reads and writes GPU memory. Here one program of
a Pallas kernel takes a block of batch rows through all steps. The memory of the GRU stays in the program, and is
written only as an output. Matrix products multiply in bfloat16 and accumulate in float32; everything else is float32.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Float, Shaped

from ...data.trajectories import Array

try:  # JAX has announced the removal of this backend; without it, scans in XLA are used instead
    from jax.experimental.pallas import triton
except ImportError:
    triton: Any = None

MAX_ROWS = 32
"""The most batch rows in one program."""
WARPS = 8
"""Warps in one program."""
MAX_WIDTH = 256
"""The largest GRU whose matrix fits into the memory of a program."""


def available() -> bool:
    """Whether JAX compiles for a GPU that can run these kernels; POISE_KERNELS=0 disables them."""
    return triton is not None and jax.default_backend() == "gpu" and os.environ.get("POISE_KERNELS") != "0"


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def fused_gru_scan(
    weight: Float[Array, "several size gates"],
    bias: Float[Array, "several gates"],
    projected: Float[Array, "time several batch gates"],
    real: Shaped[Array, "time several batch"],
    interpret: bool = False,
) -> Float[Array, "time several batch size"]:
    """The memories of several GRUs after each step, starting at zero.

    Args:
        weight: The recurrent weights.
        bias: The recurrent biases.
        projected: The inputs times the input weights, plus their bias.
        real: Whether a step is real and not padding, which leaves the memory unchanged.
        interpret: Whether to interpret the kernels, which works on a CPU.
    """
    return _forward(weight, bias, projected, real, interpret)[0]


def _forward(weight, bias, projected, real, interpret):
    several, size, _ = weight.shape
    steps, _, batch, _ = projected.shape
    width, padded = padded_width(size), padded_batch(batch)
    by_gate = pad_axes(projected.reshape(steps, several, batch, 3, size), {2: padded, 4: width})
    matrices = weight.reshape(several, size, 3, size).swapaxes(1, 2).astype(jnp.bfloat16)
    matrices = pad_axes(matrices, {2: width, 3: width})
    biases = pad_axes(bias.reshape(several, 3, size), {2: width})
    mask = pad_axes(real.astype(jnp.float32), {2: padded})
    memories, gates = launch(
        _gru_forward_kernel,
        (several, padded // rows_per_program(batch)),
        [
            jax.ShapeDtypeStruct((steps, several, padded, width), jnp.float32),
            jax.ShapeDtypeStruct((steps, several, 4, padded, width), jnp.bfloat16),
        ],
        interpret,
    )(matrices, biases, by_gate, mask)
    like = projected[:0]  # carries the type that the gradient of `projected` must have
    return memories[:, :, :batch, :size], (matrices, memories, gates, mask, like)


def _backward(interpret, residuals, ct):
    matrices, memories, gates, mask, like = residuals
    steps, several, padded, width = memories.shape
    batch, size = ct.shape[2:]
    dtype = matrices.dtype
    ct_projected, ct_new, ct_bias = launch(
        _gru_backward_kernel,
        (several, padded // rows_per_program(batch)),
        [
            jax.ShapeDtypeStruct((steps, several, padded, 3, width), dtype),
            jax.ShapeDtypeStruct((steps, several, padded, width), dtype),
            jax.ShapeDtypeStruct((several, padded, 3, width), jnp.float32),
        ],
        interpret,
    )(matrices.swapaxes(2, 3), memories, gates, mask, pad_axes(ct, {2: padded, 3: width}))
    before = jnp.pad(memories[:-1].astype(dtype), ((1, 0), (0, 0), (0, 0), (0, 0)))
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)
    # Reset and update have the same cotangent for the input and for the memory, but new has not. All three gates are
    # multiplied here and new is then overwritten, because a slice of two gates would be a copy.
    ct_weight = product("tgbh,tgbik->ghik", before, ct_projected)
    ct_weight = ct_weight.at[:, :, 2].set(product("tgbh,tgbk->ghk", before, ct_new))[:, :size, :, :size]
    ct_bias, ct_projected = ct_bias.sum(axis=1)[..., :size], ct_projected[:, :, :batch, :, :size]
    ct_weight, ct_bias, ct_projected = (x.reshape(*x.shape[:-2], 3 * size) for x in (ct_weight, ct_bias, ct_projected))
    return ct_weight, ct_bias, ct_projected.astype(like.dtype), None


fused_gru_scan.defvjp(_forward, _backward)


def _gru_forward_kernel(weights, biases, projected, mask, memories, gates):
    """Takes a block of batch rows of one GRU through all steps."""
    steps, _, batch, width = memories.shape
    gru, rows = pl.program_id(0), program_rows(batch, axis=1)

    def step(t, memory):
        from_memory = [dot(memory, weights[gru, i]) + biases[gru, i][None] for i in range(3)]
        from_input = [projected[t, gru, rows, i].astype(jnp.float32) for i in range(3)]
        reset, update, new = gru_gates(from_input, from_memory)
        memory = memory + mask[t, gru, rows][:, None] * (1 - update) * (new - memory)
        memories[t, gru, rows] = memory
        for i, value in enumerate((reset, update, new, from_memory[2])):
            gates[t, gru, i, rows] = value.astype(gates.dtype)
        return memory

    jax.lax.fori_loop(0, steps, step, jnp.zeros((rows.size, width), jnp.float32))


def _gru_backward_kernel(weights, memories, gates, mask, ct_memories, ct_projected, ct_new, ct_bias):
    """Takes the same block of rows through all steps in reverse; the weights are transposed."""
    steps, _, batch, width = memories.shape
    gru, rows = pl.program_id(0), program_rows(batch, axis=1)

    def step(n, carry):
        (ct, *sums), t = carry, steps - 1 - n
        before = jnp.where(t > 0, memories[jnp.maximum(t - 1, 0), gru, rows], 0.0)
        ct = ct + ct_memories[t, gru, rows]
        ct_real = mask[t, gru, rows][:, None] * ct
        reset, update, new, from_memory = (gates[t, gru, i, rows].astype(jnp.float32) for i in range(4))
        by_gate = gru_gates_backward(ct_real, before, reset, update, new, from_memory)
        for i, value in enumerate(by_gate):
            ct_projected[t, gru, rows, i] = value.astype(ct_projected.dtype)
        ct_from_memory = [*by_gate[:2], by_gate[2] * reset]
        ct_new[t, gru, rows] = ct_from_memory[2].astype(ct_new.dtype)
        ct = ct - ct_real + ct_real * update
        for i, value in enumerate(ct_from_memory):
            ct = ct + dot(value, weights[gru, i])
        return ct, *(total + value for total, value in zip(sums, ct_from_memory, strict=True))

    _, *sums = jax.lax.fori_loop(0, steps, step, (jnp.zeros((rows.size, width), jnp.float32),) * 4)
    for i, total in enumerate(sums):
        ct_bias[gru, rows, i] = total


def gru_gates(from_input: list[Array], from_memory: list[Array]) -> tuple[Array, Array, Array]:
    """The gates reset, update and new of a GRU, inside of a kernel."""
    reset, update = (jax.nn.sigmoid(from_input[i] + from_memory[i]) for i in range(2))
    return reset, update, jnp.tanh(from_input[2] + reset * from_memory[2])


def gru_gates_backward(ct, before, reset, update, new, from_memory) -> tuple[Array, Array, Array]:
    """The cotangents of reset, update and new before their sigmoids and tanh, from that of the memory after the step.

    `before` is the memory before the step, `from_memory` is its product for new.
    """
    ct_new = ct * (1 - update) * (1 - new * new)
    ct_update = ct * (before - new) * update * (1 - update)
    return ct_new * from_memory * reset * (1 - reset), ct_update, ct_new


def dot(x: Array, matrix: Array, precision: Any = None) -> Array:
    """A product that multiplies in the type of the matrix and accumulates in float32."""
    return jnp.dot(x.astype(matrix.dtype), matrix, precision=precision, preferred_element_type=jnp.float32)


def launch(kernel, grid: tuple[int, ...], shapes: list[jax.ShapeDtypeStruct], interpret: bool, **fixed: Any):
    """The kernel as a function of arrays that returns arrays of these shapes."""
    parameters = None if interpret else triton.CompilerParams(num_warps=WARPS, num_stages=1)
    return pl.pallas_call(
        partial(kernel, **fixed),
        shapes,
        grid=grid,
        interpret=interpret,
        compiler_params=parameters,
        name=kernel.__name__.strip("_"),
    )


def program_rows(batch: int, axis: int) -> Any:
    """The slice of batch rows of this program; it must be computed outside of loops."""
    rows = rows_per_program(batch)
    return pl.ds(pl.program_id(axis) * rows, rows)


def rows_per_program(batch: int) -> int:
    """Batch rows per program: a power of two, and at least the 16 that a matrix unit multiplies at once."""
    return max(16, min(MAX_ROWS, 1 << (batch - 1).bit_length()))


def padded_batch(batch: int) -> int:
    """The batch size padded to a multiple of the rows per program."""
    return batch + -batch % rows_per_program(batch)


def padded_width(size: int) -> int:
    """The size padded to a power of two, and at least to 16."""
    return max(16, 1 << (size - 1).bit_length())


def pad_axes(x: Array, sizes: dict[int, int], **options: Any) -> Array:
    """x, padded at the end of each of these axes to the size of the axis. Options are those of `jnp.pad`."""
    return jnp.pad(x, [(0, sizes.get(axis, size) - size) for axis, size in enumerate(x.shape)], **options)
