"""Trajectories: states, actions and lengths as one value that is checked when it is made.

They are read from and written to an .npz file, or a folder of arrays (`states.npy`, `actions.npy`, ...) that may be
larger than memory: trajectories of a folder stay on disk, and rows are read when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from ..errors import PoiseError
from .checks import (
    as_numbers,
    check_finite,
    check_padding,
    checked_column,
    checked_lengths,
    checked_sizes,
    padded,
    shape_text,
)
from .files import Rows, read_arrays, read_npz, write_npz

Array = jax.Array | np.ndarray
Transition = Callable[[Array, Array], Array]
"""A function of (states, actions) that returns the next states."""

NAMES = ("states", "actions", "lengths")  # the arrays of trajectories, and of their files
PIECE = 1 << 23  # bytes of trajectories that are read from disk at a time


class Trajectories(eqx.Module):
    """N trajectories of up to T steps, checked and copied when they are made.

    What lies beyond a trajectory's length is ignored: its last state is repeated there, and its actions are 0.

    Args:
        states: Numbers of shape [N, T+1, S]; one more state than actions.
        actions: Numbers of shape [N, T, A]. Default: the differences of successive states.
        lengths: The number of steps of each trajectory, of shape [N], from 1 to T. Default: T.
        metadata: Columns of numbers or words by name. A column with N entries has one per trajectory and is selected
            with the trajectories; any other column belongs to all of them, such as a frame rate.

    Raises:
        PoiseError: The shapes do not fit together, a length is out of range, or a state or action is not finite.

    Examples:
        >>> import numpy as np
        >>> import poise
        >>> walks = np.zeros((3, 5, 2)).cumsum(axis=1)
        >>> demonstrations = poise.Trajectories(walks, lengths=[4, 2, 4], metadata={"game": ["a", "a", "b"]})
        >>> len(demonstrations), demonstrations.steps, demonstrations.actions.shape
        (3, 4, (3, 4, 2))
        >>> demonstrations.mask.sum(axis=1).tolist()
        [4, 2, 4]
        >>> demonstrations[[2, 0]].metadata["game"].tolist()
        ['b', 'a']
        >>> poise.Trajectories(walks, walks)
        Traceback (most recent call last):
        poise.errors.PoiseError: a trajectory has one more state than actions; got 5 states and 5 actions
    """

    states: Array
    actions: Array
    lengths: Array
    metadata: dict[str, np.ndarray]

    def __init__(
        self, states: Any, actions: Any = None, lengths: Any = None, metadata: Mapping[str, Any] | None = None
    ):
        states = as_numbers("states", states)
        if states.ndim != 3:
            raise PoiseError(f"states have the shape [N, T+1, S]; got {shape_text(states)}")
        with np.errstate(invalid="ignore", over="ignore"):
            actions = np.diff(states, axis=1) if actions is None else as_numbers("actions", actions)
            states, actions = states.astype(np.float32), actions.astype(np.float32)
        lengths = checked_lengths(lengths, *checked_sizes(states, actions))
        check_finite(states, actions, lengths)
        self.states, self.actions = padded(states, actions, lengths)
        self.lengths = lengths
        self.metadata = _checked_metadata(metadata or {})

    @classmethod
    def unchecked(cls, states: Any, actions: Any, lengths: Any, *, metadata: dict | None = None) -> Trajectories:
        """Trajectories that are neither checked nor copied, for arrays known to be good or traced by JAX."""
        made = object.__new__(cls)
        for name, value in zip((*NAMES, "metadata"), (states, actions, lengths, metadata or {}), strict=True):
            object.__setattr__(made, name, value)
        return made

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows) -> Trajectories:
        """The trajectories of these rows (a slice, indices or a mask) with their metadata, in memory."""
        rows = np.asarray(rows) if not isinstance(rows, slice) else rows
        return Trajectories(self.states[rows], self.actions[rows], self.lengths[rows], self.metadata_of(rows))

    def on_disk(self) -> bool:
        """Whether the states and actions stay on disk until they are used."""
        return isinstance(self.states, np.memmap | Rows)

    def pieces(self) -> Iterator[Trajectories]:
        """All trajectories in order, about `PIECE` bytes at a time; arrays in memory are not copied."""
        count = max(1, PIECE // max(1, self.nbytes // len(self)))
        for first in range(0, len(self), count):
            rows = slice(first, first + count)
            yield Trajectories.unchecked(
                *(getattr(self, name)[rows] for name in NAMES), metadata=self.metadata_of(rows)
            )

    def source_and_rows(self) -> tuple[Trajectories, slice | np.ndarray]:
        """All trajectories of the folder that these were selected from, without metadata, and the selected rows.

        Trajectories that were not selected from a folder are returned as they are, with the slice of all rows.
        """
        if not isinstance(self.states, Rows):
            return self, slice(None)
        return Trajectories.unchecked(*(getattr(self, name).array for name in NAMES)), self.states.rows

    def metadata_of(self, rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """The metadata of these rows: columns with one entry per trajectory are indexed, the others are kept."""
        return {k: v[rows] if per_row(v, len(self)) else v for k, v in self.metadata.items()}

    @property
    def nbytes(self) -> int:
        """The size of states, actions and lengths in bytes."""
        return sum(getattr(self, name).nbytes for name in NAMES)

    @property
    def steps(self) -> int:
        """T, the number of steps that every trajectory is padded to."""
        return self.actions.shape[1]

    @property
    def starts(self) -> Array:
        """The first state of each trajectory, [N, S]."""
        return self.states[:, 0]

    @property
    def mask(self) -> Bool[Array, "N T"]:
        """True where a step lies within its trajectory's length."""
        numpy: Any = jnp if isinstance(self.lengths, jax.Array) else np
        return numpy.arange(self.steps) < self.lengths[:, None]

    @property
    def arrays(self) -> Trajectories:
        """The same trajectories as JAX arrays without metadata, for compiled functions."""
        return Trajectories.unchecked(*(jnp.asarray(x) for x in (self.states, self.actions, self.lengths)))

    def numpy(self) -> Trajectories:
        """The same trajectories as NumPy arrays in memory, checked."""
        states, actions, lengths = (np.asarray(x) for x in (self.states, self.actions, self.lengths))
        return Trajectories(states, actions, lengths, self.metadata)

    def save(self, path: str | Path) -> None:
        """Writes the trajectories and their metadata, completely or not at all; `load` reads them.

        Args:
            path: A file that ends in .npz, which is replaced if it exists; or, without a suffix, a new folder of
                arrays as `Writer` makes it. Parent folders are created.

        Raises:
            PoiseError: The suffix is another one, the folder exists and is not empty, or the disk refuses the file.

        Examples:
            >>> import tempfile, numpy as np, poise
            >>> walks = poise.Trajectories(np.zeros((3, 5, 2)))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     walks.save(f"{folder}/walks.npz")
            ...     len(poise.Trajectories.load(f"{folder}/walks.npz"))
            3
        """
        path = Path(path)
        if path.suffix not in ("", ".npz"):
            raise PoiseError(f"trajectories are written as .npz, or without a suffix as a folder; got {path}")
        if not path.suffix:
            from .writer import Writer  # here, because writer.py imports this module

            with Writer(path) as out:
                for piece in self.pieces():
                    out.add(piece)
            return
        write_npz(path, {**{name: np.asarray(getattr(self, name)) for name in NAMES}, **self.metadata})

    @staticmethod
    def load(path: str | Path) -> Trajectories:
        """Reads trajectories from an .npz file, or opens a folder of arrays.

        Args:
            path: An .npz with the array `states` and, optionally, `actions`, `lengths` and `scale` (a number that
                integer states and actions are multiplied by); all other arrays are metadata. Or a folder with one
                .npy file per array, as `save` and `Writer` make it; its states and actions stay on disk.

        Returns:
            The trajectories, checked. Those of a folder are read once for that.

        Raises:
            PoiseError: The file is missing, damaged or holds Python objects, or the arrays are not trajectories.
        """
        if Path(path).is_dir():
            return _open_folder(Path(path))
        arrays = read_npz(Path(path))
        if "states" not in arrays:
            raise PoiseError(f"{path} has no array 'states'; it holds: {', '.join(arrays) or 'nothing'}")
        scale = arrays.pop("scale", None)
        if scale is not None and (scale.size != 1 or not np.isfinite(scale).all()):
            raise PoiseError(f"{path}: scale is one finite number; got an array of shape {scale.shape}")
        for name in ("states", "actions"):
            if scale is not None and name in arrays and np.issubdtype(arrays[name].dtype, np.integer):
                arrays[name] = arrays[name] * float(scale.item())
        parts = [arrays.pop(name, None) for name in NAMES]
        try:
            return Trajectories(*parts, metadata=arrays)
        except PoiseError as error:
            raise PoiseError(f"{path}: {error}") from error


def per_row(values: np.ndarray, rows: int) -> bool:
    """Whether a column of metadata has one entry per trajectory."""
    return values.ndim > 0 and len(values) == rows


def _checked_metadata(metadata: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The columns of metadata as arrays; their names differ from those of the other arrays, which share their file."""
    taken = [name for name in metadata if name in NAMES]
    if taken:
        raise PoiseError(f"metadata must not be named {', '.join(NAMES)}; got {taken[0]!r}: choose another name")
    return {name: checked_column(name, values) for name, values in metadata.items()}


def _open_folder(folder: Path) -> Trajectories:
    """The trajectories of a folder of arrays, which stay on disk; they are checked piece by piece."""
    arrays = read_arrays(folder, mapped=("states", "actions"))
    for name in ("states", "actions"):
        if name not in arrays:
            files = sorted(file.name for file in folder.glob("*.npz"))
            held = ", ".join([*arrays, *files]) or "no arrays"
            hint = f"; name a file in it, such as {folder / files[0]}" if files else ""
            raise PoiseError(f"{folder} has no {name}.npy; it holds: {held}{hint}")
        if arrays[name].dtype != np.float32:
            raise PoiseError(
                f"{folder / name}.npy holds {arrays[name].dtype}, and a folder holds float32; write it with "
                "poise.Writer, or as an .npz if it fits into memory"
            )
    states, actions, lengths = arrays.pop("states"), arrays.pop("actions"), arrays.pop("lengths", None)
    try:
        lengths = checked_lengths(lengths, *checked_sizes(states, actions))
        opened = Trajectories.unchecked(states, actions, lengths, metadata=_checked_metadata(arrays))
        _check_pieces(opened)
    except PoiseError as error:
        raise PoiseError(f"{folder}: {error}") from error
    return opened


def _check_pieces(trajectories: Trajectories) -> None:
    """Checks states and actions on disk without holding all of them in memory."""
    first = 0
    for piece in trajectories.pieces():
        states, actions, lengths = (np.asarray(getattr(piece, name)) for name in NAMES)
        check_finite(states, actions, lengths, first)
        check_padding(states, actions, lengths, first)
        first += len(piece)
