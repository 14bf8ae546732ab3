"""The paper's equations, one short function each.

A term takes (parts, batch, key) and returns named scalars. Everywhere: the sum over time, the mean over the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray, Shaped

from .rollout import imagine
from .trajectories import Array, Trajectories

Parts = dict[str, Any]
Named = dict[str, Float[Array, ""]]


class Batch(NamedTuple):
    """Labelled demonstrations."""

    demonstrations: Trajectories
    labels: Shaped[Array, "batch M"]


Term = Callable[[Parts, Batch, PRNGKeyArray], Named]


def imitation(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Negative log-density of the demonstrated actions, and the embedding's KL beyond its free bits (Eq. 2, 10)."""
    policy = parts["policy"]
    explained = policy.imitate(batch.demonstrations, batch.labels, key)
    if not explained.kl.shape[-1]:
        return {"nld": explained.nld.mean()}
    kl = explained.kl.mean(axis=0)
    return {"nld": explained.nld.mean(), "kl": jnp.maximum(kl, policy.free_bits / policy.latent).sum()}


def style(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Cross-entropy between the labels asked for and the labeler's view of imagined rollouts (Eq. 6, 8)."""
    demonstrations = batch.demonstrations
    rollouts = imagine(
        parts["policy"],
        parts["dynamics"],
        demonstrations.starts,
        batch.labels,
        demonstrations.lengths,
        demonstrations.steps,
        key=key,
    )
    labeler = parts["labeler"]
    return {"style": labeler.space.loss(labeler(rollouts), batch.labels).mean()}


def label(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Cross-entropy between the labels of demonstrations and the labeler's view of them (Eq. 7)."""
    labeler = parts["labeler"]
    return {"label": labeler.space.loss(labeler(batch.demonstrations), batch.labels).mean()}


def dynamics(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Error of the predicted change of state (Eq. 9), or its negative log-density (Eq. 14)."""
    error = parts["dynamics"].loss(batch.demonstrations)
    return {"dynamics": jnp.where(batch.demonstrations.mask, error, 0.0).sum(axis=1).mean()}
