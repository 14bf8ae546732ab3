"""Recurrent layers: the GRU and the bidirectional reader. Sequences have the shape [time, batch, features].

The modules are immutable: the memory of a GRU (its hidden state) is passed in and returned. Where whole sequences are
known, several GRUs read them in one scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from ..data.trajectories import Array, Trajectories
from .kernels import gru as gru_kernel
from .layers import Linear, on_cpu
from .scan import scan

Inputs = Float[Array, "time batch inputs"]
Mask = Bool[Array, "time batch"]
Memories = Float[Array, "time batch size"]


def time_major(trajectories: Trajectories) -> tuple[Array, Array, Array]:
    """States, actions and mask with time as their first axis; transposed before they are projected to larger arrays."""
    states, actions, mask = trajectories.states, trajectories.actions, trajectories.mask
    return jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.swapaxes(mask, 0, 1)


UNMASKED = np.ones(1, np.float32)
"""The mask of a step in which no row is padding."""


class GRU(eqx.Module):
    """A gated recurrent unit; its three gates (reset, update, new) share one matrix."""

    inputs: Linear
    recurrent: Linear
    size: int = eqx.field(static=True)

    def __init__(self, inputs: int, size: int, *, key: PRNGKeyArray):
        key_inputs, key_recurrent = jax.random.split(key)
        self.inputs = Linear(inputs, 3 * size, key=key_inputs)
        self.recurrent = Linear(size, 3 * size, key=key_recurrent)
        self.size = size

    def step(
        self, memory: Float[Array, "*batch size"], x: Float[Array, "*batch inputs"]
    ) -> Float[Array, "*batch size"]:
        """The memory after one input."""
        return gru_cell(memory, self.inputs(x), self.recurrent(memory), UNMASKED)


@jax.custom_vjp
def gru_cell(memory: Array, from_input: Array, from_memory: Array, mask: Array) -> Array:
    """The memory of a GRU after a step; where the mask is zero, the memory does not change.

    Args:
        memory: The memory before the step.
        from_input: The input times the input weights, plus their bias.
        from_memory: The memory times the recurrent weights, plus their bias.
        mask: One at real steps and zero at padding, with a last axis of size one.
    """
    return _gru_cell_forward(memory, from_input, from_memory, mask)[0]


def _gru_cell_forward(memory, from_input, from_memory, mask):
    x_reset, x_update, x_new = jnp.split(from_input, 3, axis=-1)
    h_reset, h_update, h_new = jnp.split(from_memory, 3, axis=-1)
    reset, update = _sigmoid(x_reset + h_reset), _sigmoid(x_update + h_update)
    new = jnp.tanh(x_new + reset * h_new)
    return memory + mask * (1 - update) * (new - memory), (reset, update, new, h_new, memory, mask)


def _sigmoid(x: Array) -> Array:
    """The sigmoid by tanh, which takes a CPU half the time of an exponential and a quotient."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


def _gru_cell_backward(residuals, ct):
    reset, update, new, h_new, memory, mask = residuals
    share = mask * (1 - update)
    ct_new = ct * share * (1 - new * new)
    ct_update = ct * share * (memory - new) * update
    ct_reset = ct_new * h_new * reset * (1 - reset)
    ct_input = jnp.concatenate([ct_reset, ct_update, ct_new], axis=-1)
    ct_memory = jnp.concatenate([ct_reset, ct_update, ct_new * reset], axis=-1)
    return ct * (1 - share), ct_input, ct_memory, None


gru_cell.defvjp(_gru_cell_forward, _gru_cell_backward)  # stores fewer residuals than JAX's own gradient


def scan_grus(grus: Sequence[GRU], sequences: Sequence[Inputs], masks: Sequence[Mask]) -> list[Memories]:
    """The memories of each GRU after each input of its sequence, starting at zero; masked inputs are skipped.

    One scan serves all GRUs. The inputs of all times are projected at once before it.
    """
    real = [mask.astype(jnp.float32) for mask in masks]
    projected = [gru.inputs(x) for gru, x in zip(grus, sequences, strict=True)]
    if on_cpu():
        zeros = [jnp.zeros((x.shape[1], gru.size)) for gru, x in zip(grus, projected, strict=True)]
        return scan(_scan_step, [gru.recurrent for gru in grus], zeros, (projected, real))[0]
    linear = jax.tree.map(lambda *each: jnp.stack(each), *(gru.recurrent for gru in grus))
    memories = _scan_stacked(linear, jnp.stack(projected, axis=1), jnp.stack(real, axis=1))
    return [memories[:, i] for i in range(len(grus))]


def _scan_stacked(linear: Linear, projected: Array, real: Array) -> Array:
    """The memories of several GRUs of one size, by a fused kernel or by a scan with one product per step for all."""
    if gru_kernel.available() and linear.weight.shape[1] <= gru_kernel.MAX_WIDTH:
        projected = projected.astype(jnp.bfloat16)  # halves the memory traffic
        return cast(Array, gru_kernel.fused_gru_scan(linear.weight, linear.bias, projected, real))
    zeros = jnp.zeros((*projected.shape[1:3], projected.shape[-1] // 3))
    return scan(_scan_step, [linear], [zeros], ([projected], [real]))[0][0]


def _scan_step(
    recurrent: list[Callable[[Array], Array]], memories: list[Array], inputs: tuple[list[Array], list[Array]]
) -> tuple[list[Array], None]:
    after = [
        gru_cell(memory, x, linear(memory), real[..., None])
        for linear, memory, x, real in zip(recurrent, memories, *inputs, strict=True)
    ]
    return after, None


class Reader(eqx.Module):
    """A bidirectional GRU that maps a sequence to one vector: its memories, averaged over the real steps."""

    forward: GRU
    backward: GRU

    def __init__(self, inputs: int, size: int, *, key: PRNGKeyArray):
        key_forward, key_backward = jax.random.split(key)
        self.forward = GRU(inputs, size, key=key_forward)
        self.backward = GRU(inputs, size, key=key_backward)

    @property
    def width(self) -> int:
        """Size of the vector."""
        return 2 * self.forward.size

    def __call__(self, x: Inputs, mask: Mask) -> Float[Array, "batch width"]:
        return self.read_with(None, x, mask)[0]

    def read_with(
        self, other: GRU | None, x: Inputs, mask: Mask
    ) -> tuple[Float[Array, "batch width"], Memories | None]:
        """The vector, and the memories of another GRU that reads the same sequence in the same scan."""
        grus = [self.forward, self.backward, *([other] if other is not None else [])]
        masks = [mask, mask[::-1], mask][: len(grus)]
        forward, backward, *more = scan_grus(grus, [x, x[::-1], x][: len(grus)], masks)
        both = zip((forward, backward), masks[:2], strict=True)
        sums = [jnp.where(mask[..., None], memories, 0.0).sum(axis=0) for memories, mask in both]
        return jnp.concatenate(sums, axis=-1) / mask.sum(axis=0)[:, None], more[0] if more else None
