"""Recurrent layers: GRU and the bidirectional reader. Sequences are [time, batch, features].

No layer keeps a hidden memory. Sequences that are known beforehand are read by several GRUs in one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from ..trajectories import Array, Trajectories
from . import kernels
from .layers import Linear, on_cpu
from .loops import loop


def in_time(trajectories: Trajectories) -> tuple[Array, Array, Array]:
    """States, actions and mask with time as their first axis: turned here, while they are small."""
    states, actions, mask = trajectories.states, trajectories.actions, trajectories.mask
    return jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), jnp.swapaxes(mask, 0, 1)


ALWAYS = np.ones(1, np.float32)


class GRU(eqx.Module):
    """A gated recurrent unit; its three gates are one matrix."""

    inputs: Linear
    recurrent: Linear
    size: int = eqx.field(static=True)

    def __init__(self, inputs: int, size: int, *, key: PRNGKeyArray):
        key_in, key_out = jax.random.split(key)
        self.inputs = Linear(inputs, 3 * size, key=key_in)
        self.recurrent = Linear(size, 3 * size, key=key_out)
        self.size = size

    def step(
        self, memory: Float[Array, "*batch size"], x: Float[Array, "*batch inputs"]
    ) -> Float[Array, "*batch size"]:
        """The memory after one input."""
        return gates(memory, self.inputs(x), self.recurrent(memory), ALWAYS)


@jax.custom_vjp
def gates(memory: Array, from_input: Array, from_memory: Array, real: Array) -> Array:
    """The memory of a GRU after a step, from what its input and its memory project to; as it was if not `real`."""
    return _gates(memory, from_input, from_memory, real)[0]


def _gates(memory, from_input, from_memory, real):
    x_reset, x_update, x_new = jnp.split(from_input, 3, axis=-1)
    h_reset, h_update, h_new = jnp.split(from_memory, 3, axis=-1)
    reset, update = _sigmoid(x_reset + h_reset), _sigmoid(x_update + h_update)
    new = jnp.tanh(x_new + reset * h_new)
    return memory + real * (1 - update) * (new - memory), (reset, update, new, h_new, memory, real)


def _sigmoid(x: Array) -> Array:
    """By tanh, which a CPU has in half the time of an exponential and a quotient."""
    return 0.5 + 0.5 * jnp.tanh(0.5 * x)


def _back_through_gates(kept, back):
    reset, update, new, h_new, memory, real = kept
    part = real * (1 - update)
    back_new = back * part * (1 - new * new)
    back_update = back * part * (memory - new) * update
    back_reset = back_new * h_new * reset * (1 - reset)
    from_input = jnp.concatenate([back_reset, back_update, back_new], axis=-1)
    from_memory = jnp.concatenate([back_reset, back_update, back_new * reset], axis=-1)
    return back * (1 - part), from_input, from_memory, None


gates.defvjp(_gates, _back_through_gates)  # keeps fewer values than JAX would


Sequence = Float[Array, "time batch inputs"]
Mask = Bool[Array, "time batch"]


def read(grus: list[GRU], sequences: list[Sequence], masks: list[Mask]) -> list[Float[Array, "time batch size"]]:
    """The memories of each GRU after each input of its sequence, from empty ones; a masked input changes nothing.

    All are read in one loop; inputs are projected for all times at once before it.
    """
    real = [mask.astype(jnp.float32) for mask in masks]
    projected = [gru.inputs(x) for gru, x in zip(grus, sequences, strict=True)]
    if on_cpu():
        empty = [jnp.zeros((x.shape[1], gru.size)) for gru, x in zip(grus, projected, strict=True)]
        return loop(_read_step, [gru.recurrent for gru in grus], empty, (projected, real))[0]
    linear = jax.tree.map(lambda *each: jnp.stack(each), *(gru.recurrent for gru in grus))
    memories = _read_as_one(linear, jnp.stack(projected, axis=1), jnp.stack(real, axis=1))
    return [memories[:, i] for i in range(len(grus))]


def _read_as_one(linear: Linear, projected: Array, real: Array) -> Array:
    """The memories of several GRUs, with one product a step for all of them, or none but a kernel's."""
    if kernels.available() and linear.weight.shape[1] <= kernels.WIDEST:
        low = projected.astype(jnp.bfloat16)  # half the memory to read and write
        return cast(Array, kernels.recur(linear.weight, linear.bias, low, real))
    empty = jnp.zeros((*projected.shape[1:3], projected.shape[-1] // 3))
    return loop(_read_step, [linear], [empty], ([projected], [real]))[0][0]


def _read_step(recurrent: list[Callable[[Array], Array]], memories: list[Array], now: tuple[list[Array], list[Array]]):
    after = [
        gates(memory, x, linear(memory), real[..., None])
        for linear, memory, x, real in zip(recurrent, memories, *now, strict=True)
    ]
    return after, None


class Reader(eqx.Module):
    """A bidirectional GRU that reads a whole sequence into one vector: its memories, averaged over real time."""

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

    def __call__(self, x: Sequence, mask: Mask) -> Float[Array, "batch width"]:
        return self.beside(None, x, mask)[0]

    def beside(
        self, other: GRU | None, x: Sequence, mask: Mask
    ) -> tuple[Float[Array, "batch width"], Float[Array, "time batch size"] | None]:
        """The vector, and the memories of another GRU that reads the same sequence in the same loop."""
        grus = [self.forward, self.backward, *([other] if other is not None else [])]
        masks = [mask, mask[::-1], mask][: len(grus)]
        ahead, back, *more = read(grus, [x, x[::-1], x][: len(grus)], masks)
        sums = [jnp.where(masks[i][..., None], memories, 0.0).sum(axis=0) for i, memories in enumerate((ahead, back))]
        return jnp.concatenate(sums, axis=-1) / mask.sum(axis=0)[:, None], more[0] if more else None
