"""Runs of several label spaces as one program: each of them fits into a space that has room for all.

A label that a run does not have is -1 for it: nothing is read from it and nothing is learned from it. Labels are the
last columns of whatever reads them, and all columns of what a labeler returns, so a part for one space is a part for a
larger one with zeros in between. Zeros stay zeros in training: a run ends as if it had been trained alone. Parts of
your own keep to it: where labels are read beside other things, they are the last of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from .labeling import Categories, LabelSpace
from .trajectories import Array


def join(spaces: Sequence[LabelSpace]) -> LabelSpace:
    """The smallest space with room for each of these: of every kind as many labels as any of them has."""
    if len(set(spaces)) == 1:
        return spaces[0]
    most: Counter = Counter()
    for space in spaces:
        most |= Counter(space.kinds)
    joint = LabelSpace(tuple(kind for kind, count in most.items() for _ in range(count)))
    if any(space.width == joint.width and space != joint for space in spaces):  # only their order differs, and
        return LabelSpace((*joint.kinds, Categories(1)))  # it is by its size that an axis of labels is found
    return joint


class Place(NamedTuple):
    """Where the labels of one space stand in a larger one."""

    own: LabelSpace
    joint: LabelSpace

    @property
    def _labels(self) -> list[int]:
        free = {kind: [i for i, other in enumerate(self.joint.kinds) if other == kind] for kind in self.own.kinds}
        return [free[kind].pop(0) for kind in self.own.kinds]

    @property
    def _columns(self) -> np.ndarray:
        ends = np.cumsum([0, *(kind.width for kind in self.joint.kinds)])
        return np.concatenate([np.arange(ends[i], ends[i + 1]) for i in self._labels] or [np.arange(0)])

    def labels(self, labels: Int[np.ndarray, "N M"]) -> Int[np.ndarray, "N joint"]:
        """Labels of the own space as labels of the joint one."""
        placed = np.full((len(labels), len(self.joint.kinds)), -1, np.int32)
        placed[:, self._labels] = labels
        return placed

    def labels_of(self, labels: Int[np.ndarray, "N joint"]) -> Int[np.ndarray, "N M"]:
        """Labels of the joint space as labels of the own one."""
        return np.asarray(labels)[:, self._labels]

    def put(self, tree: Any, like: Any) -> Any:
        """Arrays of the own space as arrays of the joint one, whose tree `like` is."""
        return self._map(self._put, tree, like)

    def take(self, tree: Any, like: Any) -> Any:
        """Arrays of the joint space as arrays of the own one, whose tree `like` is."""
        return self._map(self._take, tree, like)

    def _map(self, move, tree: Any, like: Any) -> Any:
        if self.own == self.joint:
            return tree
        leaves, (others, shape) = jax.tree.leaves(tree), jax.tree.flatten(like)
        moved = [move(x, y.shape) if isinstance(x, Array) else y for x, y in zip(leaves, others, strict=True)]
        return jax.tree.unflatten(shape, moved)

    def _put(self, x: Array, shape: tuple[int, ...]) -> Array:
        where = self._where(x.shape, shape)
        return x if where is None else jnp.zeros(shape, x.dtype).at[where].set(x)

    def _take(self, x: Array, shape: tuple[int, ...]) -> Array:
        where = self._where(shape, x.shape)
        return x if where is None else x[where]

    def _where(self, own: tuple[int, ...], joint: tuple[int, ...]) -> tuple | None:
        """What of a joint array is the own one: all of it, or one axis ends in labels."""
        for axis, (a, b) in enumerate(zip(own, joint, strict=True)):
            if a != b:
                before = a - self.own.width
                return *[slice(None)] * axis, np.concatenate([np.arange(before), before + self._columns])
        return None
