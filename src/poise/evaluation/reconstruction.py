"""How well networks do on demonstrations: NLD and KL of a policy, the losses of a labeler and of learned dynamics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ..data.trajectories import Array, Trajectories
from ..domains import Domain
from ..models import Dynamics, KnownDynamics, Labeler, Policy
from ..models.layers import on_cpu
from ..rollouts.steer import is_flow

PIECE = 4_096  # test demonstrations at a time
EXACT_ROWS = 512  # test demonstrations whose density under a flow is computed
FEW_EXACT_ROWS, LEAST_EXACT_ROWS, EXACT_NUMBERS = 128, 16, 6_000  # on a CPU; and about how many numbers of actions


def reconstruction_metrics(
    policy: Policy, domain: Domain, test: Trajectories, labels: Int[np.ndarray, "N M"], key
) -> tuple[float, float | None]:
    """Negative log-density in the domain's units and KL, each per step, on demonstrations."""
    nld, kl, has_kl = 0.0, 0.0, False
    if is_flow(policy):  # an exact density takes a flow many evaluations of its network
        affordable = max(LEAST_EXACT_ROWS, EXACT_NUMBERS // test.actions[0].size)
        rows = slice(min(FEW_EXACT_ROWS, affordable) if on_cpu() else EXACT_ROWS)
        test, labels = test[rows], labels[rows]
    for first, rows in _pieces(test):
        found = _imitate(policy, test[rows].arrays, jnp.asarray(labels[rows]), jax.random.fold_in(key, first))
        nld, kl, has_kl = nld + float(found.nld.sum()), kl + float(found.kl.sum()), bool(found.kl.shape[-1])
    steps = float(np.asarray(test.lengths).sum())
    return nld / steps - log_units(domain), kl / steps if has_kl else None


def log_units(domain: Domain) -> float:
    """What a log-density of actions changes by when they are measured in the domain's units."""
    return float(np.log(domain.units).sum()) if domain.units else 0.0


def label_loss(labeler: Labeler, test: Trajectories, labels: Int[np.ndarray, "N M"]) -> float:
    """Cross-entropy of a labeler on demonstrations."""
    return _mean(test, lambda rows: _label_loss(labeler, test[rows].arrays, jnp.asarray(labels[rows])))


def estimate_labels(labeler: Labeler, trajectories: Trajectories) -> Int[np.ndarray, "N M"]:
    """The most likely labels of trajectories by a labeler."""
    return np.asarray(_decide(labeler, trajectories.arrays))


def dynamics_error(dynamics: Dynamics, domain: Domain, test: Trajectories) -> float:
    """Squared error of dynamics per step and dimension on demonstrations, in the domain's units."""
    return _mean(test, lambda rows: _squared_error(domain.units, dynamics, test[rows].arrays))


def error_of_no_change(domain: Domain, test: Trajectories) -> float:
    """Squared error of dynamics in which nothing moves: what the error of learned dynamics is compared with."""
    return dynamics_error(KnownDynamics(_no_change), domain, test)


def _no_change(states: Array, actions: Array) -> Array:
    return states


def _pieces(test: Trajectories) -> Iterator[tuple[int, np.ndarray]]:
    """The first row of each piece, and all its rows."""
    for first in range(0, len(test), PIECE):
        yield first, np.arange(first, min(first + PIECE, len(test)))


def _mean(test: Trajectories, measure: Callable[[np.ndarray], Any]) -> float:
    """The mean over demonstrations, piece by piece."""
    return float(np.concatenate([measure(rows) for _, rows in _pieces(test)]).mean())


@eqx.filter_jit
def _imitate(policy, demonstrations: Trajectories, labels, key):
    return policy.imitate(demonstrations, labels, key)


@eqx.filter_jit
def _label_loss(labeler, demonstrations: Trajectories, labels):
    return labeler.space.loss(labeler(demonstrations), labels)


@eqx.filter_jit
def _decide(labeler, trajectories: Trajectories):
    return labeler.space.decide(labeler(trajectories))


@eqx.filter_jit
def _squared_error(units: tuple[float, ...] | None, dynamics, demonstrations: Trajectories):
    """The squared error of each demonstration, the mean over its steps and dimensions; of the mean if stochastic."""
    states, real = demonstrations.states, demonstrations.mask
    noise = jnp.zeros((*real.shape, dynamics.noise))
    error = (dynamics.step(states[:, :-1], demonstrations.actions, noise) - states[:, 1:]) ** 2
    if units is not None and len(units) == states.shape[-1]:
        error = error / jnp.square(jnp.asarray(units))
    return jnp.where(real, error.mean(axis=-1), 0.0).sum(axis=1) / demonstrations.lengths
