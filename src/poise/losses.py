"""The paper's equations, one short function each.

A term takes (parts, batch, key) and returns named scalars. Everywhere: the sum over time, the mean over the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, PRNGKeyArray

from .data.batches import Batch
from .data.trajectories import Array
from .rollouts.requests import Request
from .rollouts.simulate import imagine

Parts = dict[str, Any]
"""The modules of an algorithm by name."""
Named = dict[str, Float[Array, ""]]
"""Losses by name."""
Term = Callable[[Parts, Batch, PRNGKeyArray], Named]


def imitation(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Negative log-density of the demonstrated actions, and the embedding's KL beyond its free bits (Eq. 2, 10)."""
    policy = parts["policy"]
    found = policy.imitate(batch.demonstrations, batch.labels, key)
    if not found.kl.shape[-1]:
        return {"nld": found.nld.mean()}
    kl = found.kl.mean(axis=0)
    return {"nld": found.nld.mean(), "kl": jnp.maximum(kl, policy.free_bits / policy.latent).sum()}


def flow_matching(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Squared error of a flow's velocity on the way from noise to the demonstrated actions (Lipman et al., Eq. 23)."""
    return {"velocity": parts["policy"].match(batch.demonstrations, batch.labels, key).mean()}


def style(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Cross-entropy between the labels asked for and the labeler's outputs on imagined rollouts (Eq. 6, 8)."""
    rollouts = imagine(parts["policy"], parts["dynamics"], Request.like(batch.demonstrations, batch.labels), key=key)
    labeler = parts["labeler"]
    return {"style": labeler.space.loss(labeler(rollouts), batch.labels).mean()}


def flow_style(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """As `style`, for a flow: the gradient goes back through all steps of its sampler, and styles are left free."""
    key_labels, key = jax.random.split(key)
    asked = parts["policy"].leave_free(batch.labels, key_labels)
    return {"flow_style": style(parts, batch._replace(labels=asked), key)["style"]}


def information(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Cross-entropy of an adversary that predicts the labels from the embedding (Eq. 11).

    The adversary minimises it. The gradient is reversed on its way to the encoder, so the encoder maximises it.
    """
    embedding = parts["policy"].encode(batch.demonstrations, batch.labels)
    z = _reverse_gradient(embedding.draw(jax.random.normal(key, embedding.mean.shape)))
    adversary = parts["adversary"]
    return {"information": adversary.space.loss(adversary(z), batch.labels).mean()}


def mutual_information(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """The variational bound, negative and without the labels' entropy: -log r(y | τ) on imagined rollouts (Eq. 12, 13).

    The same number as `style`, but here the posterior r learns from the rollouts together with the policy.
    """
    return {"mutual": style(parts, batch, key)["style"]}


def label(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Cross-entropy between the labels of demonstrations and the labeler's outputs on them (Eq. 7)."""
    labeler = parts["labeler"]
    return {"label": labeler.space.loss(labeler(batch.demonstrations), batch.labels).mean()}


def dynamics(parts: Parts, batch: Batch, key: PRNGKeyArray) -> Named:
    """Error of the predicted change of state (Eq. 9), or its negative log-density (Eq. 14)."""
    error = parts["dynamics"].loss(batch.demonstrations)
    return {"dynamics": jnp.where(batch.demonstrations.mask, error, 0.0).sum(axis=1).mean()}


@jax.custom_vjp
def _reverse_gradient(x: Array) -> Array:
    """x itself; its gradient has the opposite sign (gradient reversal)."""
    return x


_reverse_gradient.defvjp(lambda x: (x, None), lambda _, gradient: (-gradient,))
