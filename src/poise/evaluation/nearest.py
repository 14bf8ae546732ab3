"""Nearest neighbours by brute force, a block of queries at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..data.trajectories import Array

QUERIES = 1_024  # in a block; blocks of one shape need one program
ROUNDING = 1e-5  # of a squared length: squared distances below are the rounding of a matrix product


def nearest_distances(queries: Float[np.ndarray, "Q D"], known: Float[np.ndarray, "M D"]) -> Float[np.ndarray, " Q"]:
    """The distance from each query to the nearest known point: 0 if it is one of them, NaN if it is not finite."""
    centre = known.mean(axis=0)  # lengths from there are short, and so is their rounding
    known, queries = known - centre, queries - centre
    points, squares = jnp.asarray(known), jnp.asarray(np.square(known).sum(axis=1))
    blocks = [_fill(queries[first : first + QUERIES]) for first in range(0, len(queries), QUERIES)]
    found = [_nearest(block, points, squares) for block in blocks]  # all are queued before any is awaited
    with np.errstate(over="ignore", invalid="ignore"):  # a query may be NaN, infinite or very far
        lengths = np.square(queries).sum(axis=1)
        squared = lengths + np.concatenate([np.asarray(each) for each in found])[: len(queries)]
        return np.sqrt(np.where(squared < ROUNDING * lengths, 0, squared))


def _fill(block: Float[np.ndarray, "q D"]) -> Float[np.ndarray, "Q D"]:
    return np.pad(block, ((0, QUERIES - len(block)), (0, 0)))


@jax.jit
def _nearest(
    queries: Float[Array, "Q D"], points: Float[Array, "M D"], squares: Float[Array, " M"]
) -> Float[Array, " Q"]:
    """The squared distances to the nearest points, less the squared lengths of the queries."""
    products = jnp.matmul(points, queries.T, precision="highest")  # in this order a CPU takes its minima fast
    return (squares[:, None] - 2 * products).min(axis=0)
