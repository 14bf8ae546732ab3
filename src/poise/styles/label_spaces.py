"""Label spaces: how labels are encoded for networks, and how runs of different label spaces share one program.

Runs whose styles differ train as one program when each is padded to a shared label space. A label that a run does not
have is -1: it is encoded as zeros and has no loss. A module declares which of its arrays have label columns
(`label_axes`), so its weights for one space are its weights for a larger one with zeros in between. The zeros stay
zeros in training: a run ends as if it had been trained alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

from ..data.trajectories import Array
from ..errors import PoiseError

NO_LABELS = 0  # in the place of an axis, which is negative
GRADES = 64  # ranges of scores, each with about as many demonstrations, that a graded label tells apart
KNOTS = 32  # grades that are encoded each by a number of its own; those between them by two


@dataclass(frozen=True)
class Categories:
    """A label that is one of several classes, encoded as a one-hot vector."""

    size: int

    @property
    def width(self) -> int:
        """Numbers that encode such a label, and that a labeler returns for it."""
        return self.size

    @property
    def graded(self) -> bool:
        """Whether a label may also say where in its class a score lies."""
        return False

    def encode(self, label: Shaped[Array, ...]) -> Float[Array, "... width"]:
        """The label as a policy reads it; -1 is no label and becomes zeros, which have no loss."""
        return jax.nn.one_hot(label, self.size)

    def class_of(self, label: Shaped[Any, ...]) -> Shaped[Any, ...]:
        """The class of a label without more; -1 stays -1."""
        return label

    def loss(self, output: Float[Array, "... width"], label: Shaped[Array, ...]) -> Float[Array, ...]:
        """Cross-entropy of a labeler's output for the class."""
        chances = jax.nn.log_softmax(output[..., : self.size])
        return -jnp.sum(chances * jax.nn.one_hot(self.class_of(label), self.size), axis=-1)

    def decide(self, output: Float[Array, "... width"]) -> Int[Array, ...]:
        """The most likely class by a labeler's output."""
        return jnp.argmax(output[..., : self.size], axis=-1)


@dataclass(frozen=True)
class Graded(Categories):
    """A class, and where the score lies among those of all demonstrations, if that is known: its grade.

    A label is the class, plus `size` times the grade counted from 1. So a class alone is a label too.
    """

    @property
    def width(self) -> int:
        """Numbers that encode such a label: one per class, and those of the grade."""
        return self.size + KNOTS

    @property
    def graded(self) -> bool:
        """Whether a label may also say where in its class a score lies."""
        return True

    def grade(self, classes: Int[np.ndarray, " N"], grades: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The labels of these classes with these grades, from 0 to `GRADES` - 1; -1 stays -1."""
        return np.where(classes < 0, -1, classes + self.size * (grades + 1)).astype(np.int32)

    def encode(self, label: Shaped[Array, ...]) -> Float[Array, "... width"]:
        """The class as a one-hot vector, and the grade as its weights between two neighbouring knots."""
        grade = label // self.size
        place = (grade - 0.5) / GRADES * (KNOTS - 1)
        weights = jnp.maximum(0.0, 1 - jnp.abs(place[..., None] - jnp.arange(KNOTS)))
        known = jnp.where((grade > 0)[..., None], weights, 0.0)
        return jnp.concatenate([jax.nn.one_hot(self.class_of(label), self.size), known], axis=-1)

    def class_of(self, label: Shaped[Any, ...]) -> Shaped[Any, ...]:
        """The class of a label without its grade; -1 stays -1."""
        arrays = jnp if isinstance(label, jax.Array) else np
        return arrays.where(label < 0, -1, label % self.size)


@dataclass(frozen=True)
class LabelSpace:
    """The labels of several styles together, one kind per style: labels [..., M], encoded as [..., width]."""

    kinds: tuple[Categories, ...]

    @property
    def width(self) -> int:
        """Numbers that encode all labels of a trajectory."""
        return sum(kind.width for kind in self.kinds)

    def encode(self, labels: Shaped[Array, "... M"]) -> Float[Array, "... width"]:
        """All labels of a trajectory, side by side."""
        if not self.kinds:
            return jnp.zeros((*labels.shape[:-1], 0))
        return jnp.concatenate([kind.encode(labels[..., i]) for i, kind in enumerate(self.kinds)], axis=-1)

    @property
    def graded(self) -> bool:
        """Whether a label of some style may also say where in its class a score lies."""
        return any(kind.graded for kind in self.kinds)

    def classes_of(self, labels: Shaped[Any, "... M"]) -> Shaped[Any, "... M"]:
        """The classes of labels without more."""
        if not self.graded:
            return labels
        columns = [kind.class_of(labels[..., i]) for i, kind in enumerate(self.kinds)]
        return (jnp if isinstance(labels, jax.Array) else np).stack(columns, axis=-1)

    def loss(self, outputs: Float[Array, "... width"], labels: Shaped[Array, "... M"]) -> Float[Array, ...]:
        """The loss of a labeler, summed over styles (Eq. 6)."""
        return sum(
            (
                kind.loss(out, labels[..., i])
                for i, (kind, out) in enumerate(zip(self.kinds, self._cut(outputs), strict=True))
            ),
            start=jnp.zeros(()),
        )

    def decide(self, outputs: Float[Array, "... width"]) -> Shaped[Array, "... M"]:
        """The most likely labels by a labeler's outputs."""
        return jnp.stack([kind.decide(out) for kind, out in zip(self.kinds, self._cut(outputs), strict=True)], axis=-1)

    def _cut(self, outputs: Array) -> Sequence[Array]:
        return jnp.split(jnp.asarray(outputs), np.cumsum([kind.width for kind in self.kinds])[:-1].tolist(), axis=-1)


@runtime_checkable
class HasLabelAxes(Protocol):
    """A module that declares which of its arrays have label columns."""

    def label_axes(self) -> dict[str, int]:
        """By the dotted path of an array, the axis (a negative number) whose last entries are the label columns."""
        ...


def shared_space(spaces: Sequence[LabelSpace]) -> LabelSpace:
    """A space that holds each of these: of every kind, as many labels as any of them has."""
    if len(set(spaces)) == 1:
        return spaces[0]
    most: Counter = Counter()
    for space in spaces:
        most |= Counter(space.kinds)
    kinds = [kind for kind, count in most.items() for _ in range(count)]
    if any(Counter(space.kinds) == most and space.kinds != tuple(kinds) for space in spaces):
        kinds.append(kinds[0])  # the order alone differs: without one label more, no shape shows what was not declared
    return LabelSpace(tuple(kinds))


class SharedSpace(NamedTuple):
    """One label space within a shared one: pads labels and modules to the shared space, and removes the padding."""

    own: LabelSpace
    shared: LabelSpace
    taken: tuple[int, ...] | None = None
    """The position of each of the own labels among the shared ones; by their kinds if not given."""

    @staticmethod
    def alone(own: LabelSpace) -> SharedSpace:
        """A space that is shared with no other."""
        return SharedSpace(own, own)

    @property
    def _positions(self) -> list[int]:
        """The position of each of the own labels among the shared ones."""
        if self.taken is not None:
            return list(self.taken)
        free = {kind: [i for i, other in enumerate(self.shared.kinds) if other == kind] for kind in self.own.kinds}
        return [free[kind].pop(0) for kind in self.own.kinds]

    @property
    def _columns(self) -> np.ndarray:
        """The columns of the shared encoding that encode the own labels."""
        ends = np.cumsum([0, *(kind.width for kind in self.shared.kinds)])
        return np.concatenate([np.arange(ends[i], ends[i + 1]) for i in self._positions] or [np.arange(0)])

    def position(self, label: int) -> int:
        """The position of one of the own labels among the shared ones."""
        return self._positions[label]

    def only(self, labels: Sequence[int]) -> SharedSpace:
        """Some of the own labels within the same shared space."""
        return SharedSpace(
            LabelSpace(tuple(self.own.kinds[i] for i in labels)), self.shared, tuple(self.position(i) for i in labels)
        )

    def within(self, larger: LabelSpace) -> SharedSpace:
        """The own labels within a space that holds the shared one."""
        around = SharedSpace(self.shared, larger)
        return SharedSpace(self.own, larger, tuple(around.position(i) for i in self._positions))

    def pad_labels(self, labels: Int[np.ndarray, "N M"]) -> Int[np.ndarray, "N shared"]:
        """Labels of the own space as labels of the shared one."""
        padded = np.full((len(labels), len(self.shared.kinds)), -1, np.int32)
        padded[:, self._positions] = labels
        return padded

    def unpad_labels(self, labels: Int[np.ndarray, "N shared"]) -> Int[np.ndarray, "N M"]:
        """Labels of the shared space as labels of the own one."""
        return np.asarray(labels)[:, self._positions]

    def pad(self, tree: Any, like: Any) -> Any:
        """Modules for the own space as modules for the shared one; `like` is their tree, with arrays or shapes."""

        def move(x: Array, axis: int, shape: tuple[int, ...]) -> Array:
            return jnp.zeros(shape, x.dtype).at[self._index(axis, x.shape, shape)].set(x)

        return self._map(move, tree, like)

    def unpad(self, tree: Any, like: Any) -> Any:
        """Modules for the shared space as modules for the own one; `like` is their tree, with arrays or shapes."""

        def move(x: Array, axis: int, shape: tuple[int, ...]) -> Array:
            return x[self._index(axis, shape, x.shape)]

        return self._map(move, tree, like)

    def _map(self, move, tree: Any, like: Any) -> Any:
        if self.own == self.shared:
            return tree
        leaves, (others, structure) = jax.tree_util.tree_leaves_with_path(tree), jax.tree.flatten(like)
        if len(leaves) != len(others):
            raise PoiseError(
                f"modules have {len(leaves)} arrays for one label space and {len(others)} for another, so runs in "
                "these styles cannot train together; train them one by one"
            )
        moved = []
        for (path, x), y, axis in zip(leaves, others, _axes(tree), strict=True):
            if not isinstance(x, Array):
                moved.append(y)
            elif axis != NO_LABELS:
                moved.append(move(x, axis, y.shape))
            elif x.shape == y.shape:
                moved.append(x)
            else:
                raise PoiseError(
                    f"{_dotted(path)} has shape {list(x.shape)} for one label space and {list(y.shape)} for another; "
                    "its module must name it in label_axes()"
                )
        return jax.tree.unflatten(structure, moved)

    def _index(self, axis: int, own: tuple[int, ...], shared: tuple[int, ...]) -> tuple:
        """The part of a shared array that is the own one: what is before the label columns, and its own columns."""
        before = own[axis] - self.own.width
        if before < 0 or shared[axis] - self.shared.width != before:
            raise PoiseError(
                f"an array of shapes {list(own)} and {list(shared)} does not end in label columns on axis {axis}, as "
                "its module declares; correct its label_axes()"
            )
        rows = np.concatenate([np.arange(before), before + self._columns])
        return (..., rows, *[slice(None)] * (-axis - 1))


def _axes(tree: Any) -> list[int]:
    """For each leaf of a tree, the axis that its module declares, or NO_LABELS."""

    def of(node: Any) -> Any:
        declared = node.label_axes() if isinstance(node, HasLabelAxes) else {}
        return jax.tree_util.tree_map_with_path(lambda path, _: declared.get(_dotted(path), NO_LABELS), node)

    return jax.tree.leaves(jax.tree.map(of, tree, is_leaf=lambda node: isinstance(node, HasLabelAxes)))


def _dotted(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
