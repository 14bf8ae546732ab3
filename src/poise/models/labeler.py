"""Networks that predict labels: the labeler from trajectories, the adversary from embeddings."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from ..config import Network
from ..data.trajectories import Array, Trajectories
from ..styles.label_spaces import LabelSpace
from .layers import MLP, Linear, Statistics
from .recurrent import Reader, time_major


class Adversary(eqx.Module):
    """A(z), which predicts labels from embeddings (Eq. 11)."""

    body: MLP
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        self.space = space
        self.body = MLP((network.latent, network.hidden, space.width), key=key)

    def __call__(self, z: Float[Array, "batch latent"]) -> Float[Array, "batch width"]:
        """The logits of the labels of each embedding."""
        return self.body(z)

    def label_axes(self) -> dict[str, int]:
        """The axis that ends in the label columns, for each array that has them, by dotted path."""
        last = f"body.layers.{len(self.body.layers) - 1}"
        return {f"{last}.weight": -1, f"{last}.bias": -1} if self.space.kinds else {}


class Labeler(eqx.Module):
    """C(τ), the differentiable approximation of the labeling functions of all styles (Eq. 7)."""

    statistics: Statistics
    reader: Reader
    head: Linear
    space: LabelSpace = eqx.field(static=True)

    def __init__(self, statistics: Statistics, space: LabelSpace, network: Network, *, key: PRNGKeyArray):
        states, actions = statistics.state.mean.size, statistics.action.mean.size
        key_reader, key_head = jax.random.split(key)
        self.statistics, self.space = statistics, space
        self.reader = Reader(2 * states + actions, network.hidden, key=key_reader)
        self.head = Linear(self.reader.width, space.width, key=key_head)

    def __call__(self, trajectories: Trajectories) -> Float[Array, "batch width"]:
        """The logits of the labels of each trajectory; the last state is read as well."""
        states, actions, mask = time_major(trajectories)
        states, actions = self.statistics.state(states), self.statistics.action(actions)
        steps = jnp.concatenate([states[:-1], actions, states[1:]], axis=-1)
        return self.head(self.reader(steps, mask))

    def label_axes(self) -> dict[str, int]:
        """The axis that ends in the label columns, for each array that has them, by dotted path."""
        return {"head.weight": -1, "head.bias": -1} if self.space.kinds else {}
