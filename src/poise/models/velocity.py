"""The network of a flow's velocity: residual layers whose scale and shift come from a condition."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from ..data.trajectories import Array
from .layers import MLP, Linear


class Block(eqx.Module):
    """A residual layer whose scale and shift come from the condition (FiLM)."""

    film: Linear
    up: Linear
    down: Linear

    def __init__(self, width: int, *, key: PRNGKeyArray):
        key_film, key_up = jax.random.split(key)
        self.film = Linear(width, 2 * width, key=key_film)
        self.up = Linear(width, 2 * width, key=key_up)
        self.down = Linear(2 * width, width, key=key_up, scale=0.0)

    def __call__(self, x: Float[Array, "batch width"], condition: Float[Array, "batch width"]) -> Array:
        scale, shift = jnp.split(self.film(condition), 2, axis=-1)
        hidden = self.up(_normalise(x).astype(condition.dtype) * (1 + scale) + shift)
        return x + self.down(jax.nn.silu(hidden)).astype(x.dtype)


class VelocityNetwork(eqx.Module):
    """A residual network whose outputs begin at zero."""

    inputs: Linear
    condition: MLP
    blocks: tuple[Block, ...]
    outputs: Linear

    def __init__(self, inputs: int, condition: int, outputs: int, width: int, blocks: int, *, key: PRNGKeyArray):
        key_in, key_condition, key_out, *keys = jax.random.split(key, 3 + blocks)
        self.inputs = Linear(inputs, width, key=key_in)
        self.condition = MLP((condition, width, width), key=key_condition)
        self.blocks = tuple(Block(width, key=key) for key in keys)
        self.outputs = Linear(width, outputs, key=key_out, scale=0.0)

    def __call__(
        self, x: Float[Array, "batch inputs"], condition: Float[Array, "batch condition"], precision: Any = jnp.float32
    ) -> Array:
        """The outputs; what the blocks add is computed in a precision, their sum always in single precision."""
        features, x = jax.nn.silu(self.condition(condition)).astype(precision), self.inputs(x)
        for block in jax.tree.map(lambda weight: weight.astype(precision), self.blocks):
            x = block(x, features)
        return self.outputs(_normalise(x))


def _normalise(x: Float[Array, "batch width"]) -> Float[Array, "batch width"]:
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)
