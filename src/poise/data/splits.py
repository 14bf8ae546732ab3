"""Splits: demonstrations in three parts, for training, validation and test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ..errors import PoiseError, unknown
from .files import Rows
from .trajectories import NAMES, Trajectories, per_row

HELD_OUT = 65_536  # the most trajectories on disk that are held out for validation, and as many for test


class Splits(NamedTuple):
    """Demonstrations in three parts: `train` to train on, `validation` to choose by, `test` to report on.

    `split` makes them. Pass your own to `poise.train` where the parts are given.

    Examples:
        >>> import numpy as np, poise
        >>> walks = poise.Trajectories(np.zeros((30, 5, 2)))
        >>> splits = poise.Splits(train=walks[:20], validation=walks[20:25], test=walks[25:])
        >>> len(splits.train)
        20
    """

    train: Trajectories
    validation: Trajectories
    test: Trajectories


def split(
    demonstrations: Trajectories,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    by: str | None = None,
    seed: int = 0,
) -> Splits:
    """Splits demonstrations at random into parts for training, validation and test.

    Of demonstrations on disk, the training part stays there. The other two parts are read into memory, at most 65,536
    trajectories each; the rest of their share is trained on, unless that would divide a group.

    Args:
        demonstrations: At least three trajectories, in memory or on disk.
        fractions: The share of each part; only their ratio matters.
        by: A column of the metadata, such as "game": trajectories that share its value stay in one part.
        seed: The same seed gives the same parts.

    Returns:
        The three parts. Each has at least one trajectory.

    Raises:
        PoiseError: There are fewer than three trajectories or groups, or `by` is not a column with one entry for each
            trajectory.

    Examples:
        >>> import numpy as np, poise
        >>> walks = poise.Trajectories(np.zeros((30, 5, 2)), metadata={"game": np.arange(30) // 3})
        >>> [len(part) for part in poise.split(walks)]
        [24, 3, 3]
        >>> parts = poise.split(walks, fractions=(0.5, 0.2, 0.3), by="game")
        >>> [len(set(part.metadata["game"].tolist())) for part in parts]
        [5, 2, 3]
    """
    if demonstrations.on_disk():
        most = HELD_OUT / len(demonstrations) * sum(fractions)
        held_out = [min(fraction, most) for fraction in fractions[1:]]
        fractions = (sum(fractions) - sum(held_out), held_out[0], held_out[1])
    groups = _groups(demonstrations, by)
    random = np.random.default_rng(seed)
    order = random.permutation(groups.max() + 1)
    if len(order) < 3:
        what = "trajectories" if by is None else f"groups of {by!r}"
        raise PoiseError(f"a split needs at least 3 {what}, one for each part; got {len(order)}: bring more data")
    part_of = np.empty(len(order), np.int8)
    for number, part in enumerate(np.split(order, _cuts(fractions, len(order)))):
        part_of[part] = number
    train, *held_out = (np.flatnonzero(part_of[groups] == number) for number in range(3))
    if demonstrations.on_disk():
        held_out = [random.permutation(rows)[:HELD_OUT] for rows in held_out]
        return Splits(_select_on_disk(demonstrations, train), *(demonstrations[rows] for rows in held_out))
    # Rows are shuffled within a part, so that its first rows are a random sample of it.
    return Splits(*(demonstrations[random.permutation(rows)] for rows in (train, *held_out)))


def in_memory(demonstrations: Trajectories, most: int = HELD_OUT) -> Trajectories:
    """Demonstrations in memory as they are; of demonstrations on disk, a random sample of at most so many, read."""
    if not demonstrations.on_disk():
        return demonstrations
    return demonstrations[np.random.default_rng(0).permutation(len(demonstrations))[:most]]


def _groups(demonstrations: Trajectories, by: str | None) -> Int[np.ndarray, " N"]:
    """The number of each trajectory's group; without a column every trajectory is its own group."""
    count, metadata = len(demonstrations), demonstrations.metadata
    if by is None:
        return np.arange(count)
    if by not in metadata:
        raise unknown("column to split by", by, [name for name, values in metadata.items() if per_row(values, count)])
    if not per_row(metadata[by], count):
        entries = metadata[by].size
        raise PoiseError(f"column {by!r} has {entries} entries for {count} trajectories; it needs one for each")
    return number_groups(metadata[by])


def number_groups(column: np.ndarray) -> Int[np.ndarray, " N"]:
    """A number for each entry of a column, the same for equal ones; an entry may be several values.

    Examples:
        >>> import numpy as np
        >>> number_groups(np.asarray([[1, 5], [2, 5], [1, 5]])).tolist()
        [0, 1, 0]
    """
    axis = None if column.ndim == 1 else 0
    return np.unique(column, axis=axis, return_inverse=True)[1].reshape(-1)


def _cuts(fractions: tuple[float, float, float], count: int) -> list[int]:
    """Where `count` groups are cut into three parts, none of them empty."""
    share = np.cumsum(fractions) / np.sum(fractions)
    first, second = max(1, round(share[0] * count)), max(2, round(share[1] * count))
    first = min(first, count - 2)
    return [first, min(max(second, first + 1), count - 1)]


def _select_on_disk(demonstrations: Trajectories, rows: np.ndarray) -> Trajectories:
    """The trajectories of these rows, which stay on disk."""
    source, selected = demonstrations.source_and_rows()
    chosen = rows if isinstance(selected, slice) else selected[rows]
    arrays = (Rows(np.asarray(getattr(source, name)), chosen) for name in NAMES)
    return Trajectories.unchecked(*arrays, metadata=demonstrations.metadata_of(rows))
