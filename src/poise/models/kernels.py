"""GRUs that read whole sequences as one GPU kernel there and one back.

A loop of XLA launches several small kernels a step, and each of them reads and writes memory. Here a program on the GPU
takes some rows of a batch through all steps, and their memory never leaves it but to be kept. Products take bfloat16
and add up in float32; everything else is float32.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Float, Shaped

from ..trajectories import Array

try:  # JAX has announced the end of this backend: without it, loops of XLA do the same
    from jax.experimental.pallas import triton
except ImportError:
    triton: Any = None

ROWS = 32  # of a batch in one program
WARPS = 8
WIDEST = 256  # of a layer, so that its matrix fits into the memory of a program


def available() -> bool:
    """Whether what is compiled now runs where these kernels do; POISE_KERNELS=0 switches them off."""
    return triton is not None and jax.default_backend() == "gpu" and os.environ.get("POISE_KERNELS") != "0"


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def recur(
    weight: Float[Array, "several size gates"],
    bias: Float[Array, "several gates"],
    projected: Float[Array, "time several batch gates"],
    real: Shaped[Array, "time several batch"],
    interpret: bool = False,
) -> Float[Array, "time several batch size"]:
    """The memories of several GRUs after each step, from what their inputs project to."""
    return _there(weight, bias, projected, real, interpret)[0]


def _there(weight, bias, projected, real, interpret):
    several, size, _ = weight.shape
    steps, _, batch, _ = projected.shape
    width, padded = width_of(size), batch + -batch % rows_of(batch)
    by_gate = fill(projected.reshape(steps, several, batch, 3, size), {2: padded, 4: width})
    matrices = weight.reshape(several, size, 3, size).swapaxes(1, 2).astype(jnp.bfloat16)
    matrices = fill(matrices, {2: width, 3: width})
    biases = fill(bias.reshape(several, 3, size), {2: width})
    mask = fill(real.astype(jnp.float32), {2: padded})
    memories, kept = launch(
        _read_there,
        (several, padded // rows_of(batch)),
        [
            jax.ShapeDtypeStruct((steps, several, padded, width), jnp.float32),
            jax.ShapeDtypeStruct((steps, several, 4, padded, width), jnp.bfloat16),
        ],
        interpret,
    )(matrices, biases, by_gate, mask)
    return memories[:, :, :batch, :size], (matrices, memories, kept, mask, projected[:0])


def _back(interpret, residuals, back):
    matrices, memories, kept, mask, projected = residuals
    steps, several, padded, width = memories.shape
    batch, size = back.shape[2:]
    low = matrices.dtype
    of_input, of_new, totals = launch(
        _read_back,
        (several, padded // rows_of(batch)),
        [
            jax.ShapeDtypeStruct((steps, several, padded, 3, width), low),
            jax.ShapeDtypeStruct((steps, several, padded, width), low),
            jax.ShapeDtypeStruct((several, padded, 3, width), jnp.float32),
        ],
        interpret,
    )(matrices.swapaxes(2, 3), memories, kept, mask, fill(back, {2: padded, 3: width}))
    before = jnp.pad(memories[:-1].astype(low), ((1, 0), (0, 0), (0, 0), (0, 0)))
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)  # of whole arrays: a slice would be a copy
    of_gates = product("tgbh,tgbik->ghik", before, of_input)
    of_weight = of_gates.at[:, :, 2].set(product("tgbh,tgbk->ghk", before, of_new))[:, :size, :, :size]
    of_bias, of_input = totals.sum(axis=1)[..., :size], of_input[:, :, :batch, :, :size]
    made = [x.reshape(*x.shape[:-2], 3 * size) for x in (of_weight, of_bias, of_input)]
    return *made[:2], made[2].astype(projected.dtype), None


recur.defvjp(_there, _back)


def _read_there(weights, biases, projected, mask, memories, kept):
    """Some rows of one GRU's batch through all steps."""
    steps, _, batch, width = memories.shape
    gru, at = pl.program_id(0), block(batch, axis=1)

    def step(t, memory):
        of_memory = [dot(memory, weights[gru, i]) + biases[gru, i][None] for i in range(3)]
        reset, update, new = gate([projected[t, gru, at, i].astype(jnp.float32) for i in range(3)], of_memory)
        memory = memory + mask[t, gru, at][:, None] * (1 - update) * (new - memory)
        memories[t, gru, at] = memory
        for i, value in enumerate((reset, update, new, of_memory[2])):
            kept[t, gru, i, at] = value.astype(kept.dtype)
        return memory

    jax.lax.fori_loop(0, steps, step, jnp.zeros((at.size, width), jnp.float32))


def _read_back(weights, memories, kept, mask, backs, of_input, of_new, totals):
    """The same rows through all steps from the last, with what came back to the memory after each."""
    steps, _, batch, width = memories.shape
    gru, at = pl.program_id(0), block(batch, axis=1)

    def step(i, now):
        (back, *sums), t = now, steps - 1 - i
        before = jnp.where(t > 0, memories[jnp.maximum(t - 1, 0), gru, at], 0.0)
        back = back + backs[t, gru, at]
        mine = mask[t, gru, at][:, None] * back
        kept_now = [kept[t, gru, i, at].astype(jnp.float32) for i in range(4)]
        *by_gate, back_new = gate_back(mine, before, *kept_now)
        for i, value in enumerate((*by_gate, back_new)):
            of_input[t, gru, at, i] = value.astype(of_input.dtype)
        of_memory = [*by_gate, back_new * kept_now[0]]
        of_new[t, gru, at] = of_memory[2].astype(of_new.dtype)
        back = back - mine + mine * kept_now[1]
        for i, value in enumerate(of_memory):
            back = back + dot(value, weights[gru, i])
        return back, *(total + value for total, value in zip(sums, of_memory, strict=True))

    _, *sums = jax.lax.fori_loop(0, steps, step, (jnp.zeros((at.size, width), jnp.float32),) * 4)
    for i, total in enumerate(sums):
        totals[gru, at, i] = total


def gate(of_input: list[Array], of_memory: list[Array]) -> tuple[Array, Array, Array]:
    """The gates of a GRU in a kernel: reset, update and new."""
    reset, update = (jax.nn.sigmoid(of_input[i] + of_memory[i]) for i in range(2))
    return reset, update, jnp.tanh(of_input[2] + reset * of_memory[2])


def gate_back(back, before, reset, update, new, of_memory) -> tuple[Array, Array, Array]:
    """What comes back to reset, update and new, before their sigmoids and tanh."""
    back_new = back * (1 - update) * (1 - new * new)
    back_update = back * (before - new) * update * (1 - update)
    return back_new * of_memory * reset * (1 - reset), back_update, back_new


def dot(x: Array, matrix: Array, precision: Any = None) -> Array:
    """A product in the type of the matrix, added up in float32."""
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


def block(batch: int, axis: int) -> Any:
    """The rows of a batch that this program takes; asked for outside of loops."""
    rows = rows_of(batch)
    return pl.ds(pl.program_id(axis) * rows, rows)


def rows_of(batch: int) -> int:
    """Rows of a batch that one program takes: a power of two, and no fewer than a matrix unit takes."""
    return max(16, min(ROWS, 1 << (batch - 1).bit_length()))


def width_of(size: int) -> int:
    """The power of two that a size is filled up to."""
    return max(16, 1 << (size - 1).bit_length())


def fill(x: Array, sizes: dict[int, int], **how: Any) -> Array:
    """x with zeros at the end of each of these axes up to a size."""
    return jnp.pad(x, [(0, sizes.get(axis, size) - size) for axis, size in enumerate(x.shape)], **how)
