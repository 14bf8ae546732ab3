"""Layers: linear, MLP, Gaussian, and the standardisation that every model carries inside.

Everything takes leading batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..trajectories import Array, Trajectories


class Moments(NamedTuple):
    """What a standardisation needs to know of values: their number, mean, summed squared deviation and largest size."""

    count: int
    mean: Float[np.ndarray, " size"]
    squares: Float[np.ndarray, " size"]
    largest: Float[np.ndarray, " size"]

    @staticmethod
    def of(values: Float[np.ndarray, "count size"]) -> Moments:
        """The moments of these values."""
        columns = values.T.astype(np.float64, order="C")  # one after the other: that is what is fast
        mean = columns.mean(axis=1)
        largest = np.maximum(columns.max(axis=1), -columns.min(axis=1))
        columns -= mean[:, None]
        return Moments(len(values), mean, np.einsum("ij,ij->i", columns, columns), largest)

    def join(self, other: Moments) -> Moments:
        """The moments of both together."""
        count, apart = self.count + other.count, other.mean - self.mean
        mean = self.mean + apart * other.count / count
        squares = self.squares + other.squares + apart**2 * self.count * other.count / count
        return Moments(count, mean, squares, np.maximum(self.largest, other.largest))


class Standardizer(eqx.Module):
    """Values in units of their deviation from their mean; saved with the model, never trained."""

    mean: Array
    deviation: Array

    @staticmethod
    def fit(values: Float[np.ndarray, "count size"]) -> Standardizer:
        """The statistics of these values; a value that never changes keeps its units."""
        return Standardizer.of(Moments.of(values))

    @staticmethod
    def of(moments: Moments) -> Standardizer:
        """The same, for values that were counted and summed up."""
        deviation = np.sqrt(moments.squares / moments.count)
        deviation = np.where(deviation > 1e-6 * moments.largest, deviation, 1.0)
        return Standardizer(jnp.asarray(moments.mean, jnp.float32), jnp.asarray(deviation, jnp.float32))

    def __call__(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        return (values - self.mean) / self.deviation

    def undo(self, values: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Standardised values in their own units again."""
        return values * self.deviation + self.mean


class Statistics(eqx.Module):
    """Standardisation of states, actions and changes of state, from the training demonstrations."""

    state: Standardizer
    action: Standardizer
    change: Standardizer
    limits: tuple[float, float] | None = eqx.field(static=True, default=None)
    """The range that actions are cut to, in their own units."""

    @staticmethod
    def of(demonstrations: Trajectories, limits: tuple[float, float] | None = None) -> Statistics:
        """The statistics of the real steps of these demonstrations, piece by piece: they may lie on disk."""
        found: list[Moments] = []
        for piece in demonstrations.pieces():
            states, actions, real = (np.asarray(x) for x in (piece.states, piece.actions, piece.mask))
            taken = (states[:, 1:], actions, states[:, 1:] - states[:, :-1])
            seen = [Moments.of(x.reshape(-1, x.shape[-1]) if real.all() else x[real]) for x in taken]
            found = [a.join(b) for a, b in zip(found, seen, strict=True)] if found else seen
        return Statistics(*map(Standardizer.of, found), limits=limits)

    def action_of(self, standard: Float[Array, "*batch A"]) -> Float[Array, "*batch A"]:
        """An action in its own units, within its range."""
        action = self.action.undo(standard)
        return action if self.limits is None else jnp.clip(action, *self.limits)


NARROW = 8  # inputs up to which a product is a few sums, which XLA fuses with what comes next


def on_cpu() -> bool:
    """Whether what is compiled now runs on a CPU."""
    return jax.default_backend() == "cpu"


@jax.custom_vjp
def _narrow(x: Array, weight: Array) -> Array:
    """x @ weight as a few sums."""
    return sum((x[..., i : i + 1] * weight[i] for i in range(1, len(weight))), start=x[..., :1] * weight[0])


def _back_through_narrow(kept: tuple[Array, Array], back: Array) -> tuple[Array, Array]:
    x, weight = kept
    return back @ weight.T, jnp.einsum("...i,...o->io", x, back)


_narrow.defvjp(lambda x, weight: (_narrow(x, weight), (x, weight)), _back_through_narrow)


class Linear(eqx.Module):
    """x @ weight + bias; several of them as one where they carry a leading axis, and x does."""

    weight: Float[Array, "*several inputs outputs"]
    bias: Float[Array, "*several outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray, scale: float = 1.0):
        bound = scale / np.sqrt(max(inputs, 1))
        self.weight = jax.random.uniform(key, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        narrow = self.weight.ndim == 2 and 0 < len(self.weight) <= NARROW
        narrow = narrow and (x.ndim > 2 or not on_cpu())  # a CPU is slow at it within loops
        y = _narrow(x, self.weight) if narrow else x @ self.weight
        return y + (self.bias if self.bias.ndim == 1 else self.bias[..., None, :])

    @classmethod
    def of(cls, weight: Array, bias: Array) -> Linear:
        """The layer of this weight and bias."""
        made = object.__new__(cls)
        object.__setattr__(made, "weight", weight)
        object.__setattr__(made, "bias", bias)
        return made

    def cut(self, first: int, second: int) -> tuple[Linear, Linear, Linear]:
        """Three layers whose sum this is, one for each part of its inputs; the last has the bias."""
        a, b, c = jnp.split(self.weight, [first, second])
        none = jnp.zeros_like(self.bias)
        return Linear.of(a, none), Linear.of(b, none), Linear.of(c, self.bias)


def beside(*layers: Linear) -> Linear:
    """One layer whose outputs are those of several that read the same, side by side."""
    return Linear.of(
        jnp.concatenate([layer.weight for layer in layers], axis=-1),
        jnp.concatenate([layer.bias for layer in layers], axis=-1),
    )


def apart(x: Float[Array, "*batch both"], first: int) -> tuple[Array, Array]:
    """The first so many columns, and the others; back they come side by side (JAX would add them up, padded)."""
    return cast(tuple[Array, Array], _apart(x, first))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _apart(x, first):
    return x[..., :first], x[..., first:]


_apart.defvjp(lambda x, first: (_apart(x, first), None), lambda first, _, back: (jnp.concatenate(back, axis=-1),))


class MLP(eqx.Module):
    """Linear layers with ReLU between them."""

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], *, key: PRNGKeyArray):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes, sizes[1:], keys, strict=False)
        self.layers = tuple(Linear(a, b, key=k, scale=np.sqrt(3)) for a, b, k in pairs)

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return self.after_first(self.layers[0](x))

    def after_first(self, x: Float[Array, "*batch first"]) -> Float[Array, "*batch outputs"]:
        """The outputs, from what the first layer returned."""
        for layer in self.layers[1:]:
            x = layer(jax.nn.relu(x))
        return x


class Gaussian(eqx.Module):
    """A diagonal Gaussian."""

    mean: Float[Array, "*batch size"]
    log_sigma: Float[Array, "*batch size"]

    def draw(self, noise: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """The value that standard normal noise stands for; gradients flow through it."""
        return self.mean + jnp.exp(self.log_sigma) * noise

    def nld(self, x: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        """Negative log-density of x."""
        z = (x - self.mean) * jnp.exp(-self.log_sigma)
        return jnp.sum(0.5 * z**2 + self.log_sigma + 0.5 * np.log(2 * np.pi), axis=-1)

    def kl(self) -> Float[Array, "*batch size"]:
        """KL divergence from the standard normal, one number a dimension."""
        return 0.5 * (self.mean**2 + jnp.exp(2 * self.log_sigma) - 1) - self.log_sigma


LOG_SIGMA = (-6.0, 3.0)  # in units of the data's deviation: keeps the density of repeated values bounded


def gaussian(outputs: Float[Array, "*batch two_sizes"]) -> Gaussian:
    """The Gaussian whose mean and log sigma a network returns side by side."""
    mean, log_sigma = jnp.split(outputs, 2, axis=-1)
    return Gaussian(mean, jnp.clip(log_sigma, *LOG_SIGMA))
