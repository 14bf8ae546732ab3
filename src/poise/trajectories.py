"""Trajectories: states, actions and lengths as one value that is checked at birth; files in and out; splits.

A file is an .npz, or a folder of arrays (`states.npy`, `actions.npy`, ...) that may be larger than memory: what comes
from a folder stays on disk until it is asked for.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from .checks import (
    check_finite,
    check_padding,
    checked_column,
    checked_lengths,
    checked_sizes,
    numbers,
    padded,
    shape_text,
)
from .errors import PoiseError, unknown
from .files import GrowingArray, Rows, clear_errors, make_folder, read_folder, read_npz

Array = jax.Array | np.ndarray
Transition = Callable[[Array, Array], Array]
"""(states, actions) -> next states."""

NAMES = ("states", "actions", "lengths")
PIECE = 1 << 23  # bytes of trajectories on disk that are looked at together
HELD_OUT = 65_536  # trajectories on disk to validate, and to test, with: as many as are read into memory


class Trajectories(eqx.Module):
    """N trajectories: states [N, T+1, S], actions [N, T, A] and lengths [N], the number of real steps in each.

    Without actions they are the differences of the states; without lengths every trajectory has T steps.
    Values are copied and checked, and what lies beyond a length is replaced by a harmless repetition. `trusted` makes
    them without a look, for compiled programs.
    """

    states: Array
    actions: Array
    lengths: Array
    metadata: dict[str, np.ndarray]

    def __init__(self, states, actions=None, lengths=None, metadata=None):
        states = numbers("states", states)
        if states.ndim != 3:
            raise PoiseError(f"states have the shape [N, T+1, S]; got {shape_text(states)}")
        with np.errstate(invalid="ignore", over="ignore"):
            actions = np.diff(states, axis=1) if actions is None else numbers("actions", actions)
            states, actions = states.astype(np.float32), actions.astype(np.float32)
        lengths = checked_lengths(lengths, *checked_sizes(states, actions))
        check_finite(states, actions, lengths)
        self.states, self.actions = padded(states, actions, lengths)
        self.lengths = lengths
        self.metadata = {name: checked_column(name, values) for name, values in (metadata or {}).items()}

    @classmethod
    def trusted(cls, states: Any, actions: Any, lengths: Any, *, metadata: dict | None = None) -> Trajectories:
        """Trajectories of arrays that are known to be good, or that a compiled program has yet to compute."""
        made = object.__new__(cls)
        for name, value in zip((*NAMES, "metadata"), (states, actions, lengths, metadata or {}), strict=True):
            object.__setattr__(made, name, value)
        return made

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows) -> Trajectories:
        """The named rows, with their metadata, in memory."""
        rows = np.asarray(rows) if not isinstance(rows, slice) else rows
        return Trajectories(self.states[rows], self.actions[rows], self.lengths[rows], self._metadata(rows))

    def on_disk(self) -> bool:
        """Whether they stay on disk until they are asked for."""
        return isinstance(self.states, np.memmap | Rows)

    def pieces(self) -> Iterator[Trajectories]:
        """All of them, in order, some at a time; what is in memory is not copied."""
        count = max(1, PIECE // max(1, self.nbytes // len(self)))
        for first in range(0, len(self), count):
            rows = slice(first, first + count)
            yield Trajectories.trusted(*(getattr(self, name)[rows] for name in NAMES), metadata=self._metadata(rows))

    def whole(self) -> tuple[Trajectories, slice | np.ndarray]:
        """All trajectories of the folder that these come from, and which of them these are."""
        if not isinstance(self.states, Rows):
            return self, slice(None)
        return Trajectories.trusted(*(getattr(self, name).array for name in NAMES)), self.states.rows

    @property
    def nbytes(self) -> int:
        """Bytes of states, actions and lengths."""
        return sum(getattr(self, name).nbytes for name in NAMES)

    @property
    def steps(self) -> int:
        """T, the number of steps of the longest trajectory."""
        return self.actions.shape[1]

    @property
    def starts(self) -> Array:
        """The first state of each trajectory."""
        return self.states[:, 0]

    @property
    def mask(self) -> Bool[Array, "N T"]:
        """True where a step is real."""
        numpy: Any = jnp if isinstance(self.lengths, jax.Array) else np
        return numpy.arange(self.steps) < self.lengths[:, None]

    @property
    def arrays(self) -> Trajectories:
        """The same without metadata, as arrays of JAX: what a compiled program takes."""
        return Trajectories.trusted(*(jnp.asarray(x) for x in (self.states, self.actions, self.lengths)))

    def numpy(self) -> Trajectories:
        """The same as checked arrays of NumPy."""
        states, actions, lengths = (np.asarray(x) for x in (self.states, self.actions, self.lengths))
        return Trajectories(states, actions, lengths, self.metadata)

    def save(self, path: str | Path) -> None:
        """Writes what `load` reads: an .npz, or without a suffix a new folder of arrays."""
        if Path(path).suffix not in ("", ".npz"):
            raise PoiseError(f"trajectories are written as .npz, or without a suffix as a folder; got {path}")
        make_folder(Path(path).parent)
        if not Path(path).suffix:
            with Writer(path) as out:
                for piece in self.pieces():
                    out.add(piece)
            return
        arrays = {name: np.asarray(getattr(self, name)) for name in NAMES}
        with clear_errors(Path(path)), open(path, "wb") as file:
            np.savez_compressed(file, **arrays, **self.metadata)  # pyright: ignore[reportArgumentType]

    @staticmethod
    def load(path: str | Path) -> Trajectories:
        """The trajectories of an .npz: `states`, optional `actions`, `lengths` and `scale`; the rest is metadata.

        Those of a folder with one .npy an array, as `Writer` makes it, stay on disk.
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

    def _metadata(self, rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        return {k: v[rows] if _per_row(v, len(self)) else v for k, v in self.metadata.items()}


class Writer:
    """Writes trajectories piece by piece into a new folder, which `Trajectories.load` opens.

        with Writer("games") as out:
            for states in games:
                out.add(Trajectories(states))

    All pieces have one size; pad shorter trajectories and give their lengths. States, actions and lengths are never
    held in memory, metadata are. The folder is there once everything is in it; if anything fails, nothing is.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._new = self.folder.with_name(f".{self.folder.name}.{os.getpid()}")
        self._arrays: dict[str, GrowingArray] = {}
        self._pieces: list[tuple[int, dict[str, np.ndarray]]] = []
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise PoiseError(f"{self.folder} is there already and not an empty folder; name another or delete it")

    def add(self, trajectories: Any) -> None:
        """Appends these."""
        if not isinstance(trajectories, Trajectories):
            raise PoiseError(f"a writer takes poise.Trajectories(states); got a {type(trajectories).__name__}")
        values = {name: np.asarray(getattr(trajectories, name)) for name in NAMES}
        with clear_errors(self.folder):
            if not self._arrays:
                self._new.mkdir()
                self._arrays = {name: GrowingArray(self._new / f"{name}.npy", like) for name, like in values.items()}
            for name, array in self._arrays.items():
                if values[name].shape[1:] != array.shape:
                    sizes = [list(shape) for shape in (values[name].shape[1:], array.shape)]
                    raise PoiseError(f"all {name} of a folder have one shape; got {sizes[0]} after {sizes[1]}")
            if self._pieces and trajectories.metadata.keys() != self._pieces[0][1].keys():
                names = [", ".join(metadata) or "none" for metadata in (trajectories.metadata, self._pieces[0][1])]
                raise PoiseError(f"all pieces of a folder have the same metadata; got {names[0]} after {names[1]}")
            for name, array in self._arrays.items():
                array.add(values[name])
        self._pieces.append((len(trajectories), trajectories.metadata))

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        try:
            with clear_errors(self.folder):
                for array in self._arrays.values():
                    array.close()
                if kind is None:
                    self._finish()
        finally:
            shutil.rmtree(self._new, ignore_errors=True)

    def _finish(self) -> None:
        if not self._pieces:
            raise PoiseError(f"nothing to write in {self.folder}: no trajectories were added")
        for name, first in self._pieces[0][1].items():
            per_row = all(_per_row(metadata[name], rows) for rows, metadata in self._pieces)
            np.save(
                self._new / f"{name}.npy",
                np.concatenate([metadata[name] for _, metadata in self._pieces]) if per_row else first,
            )
        os.replace(self._new, self.folder)


class Splits(NamedTuple):
    """Demonstrations to train on, to choose by, and to report on."""

    train: Trajectories
    validation: Trajectories
    test: Trajectories


def split(
    demonstrations: Trajectories,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    by: str | None = None,
    seed: int = 0,
) -> Splits:
    """The demonstrations in three parts; with `by`, rows that share that column's value stay together.

    Of demonstrations on disk, the part to train on stays there. The others are read into memory and never larger than
    `HELD_OUT`: what they do not need is for training, unless a group would be torn.
    """
    count = len(demonstrations)
    if demonstrations.on_disk():
        most = HELD_OUT / count * sum(fractions)
        held_out = [min(fraction, most) for fraction in fractions[1:]]
        fractions = (sum(fractions) - sum(held_out), held_out[0], held_out[1])
    if by is None:
        groups = np.arange(count)
    elif by in demonstrations.metadata and _per_row(demonstrations.metadata[by], count):
        groups = np.unique(demonstrations.metadata[by], return_inverse=True)[1].reshape(-1)
    else:
        if by in demonstrations.metadata:
            entries = demonstrations.metadata[by].size
            raise PoiseError(f"column {by!r} has {entries} entries for {count} trajectories; it needs one for each")
        columns = [k for k, v in demonstrations.metadata.items() if _per_row(v, count)]
        raise unknown("column to split by", by, columns)
    random = np.random.default_rng(seed)
    order = random.permutation(groups.max() + 1)
    if len(order) < 3:
        what = "trajectories" if by is None else f"groups of {by!r}"
        raise PoiseError(f"a split needs at least 3 {what}, one for each part; got {len(order)}: bring more data")
    share = np.cumsum(fractions) / np.sum(fractions)
    cuts = [max(1, round(share[0] * len(order))), max(2, round(share[1] * len(order)))]
    cuts = [min(cuts[0], len(order) - 2), min(max(cuts[1], cuts[0] + 1), len(order) - 1)]
    part_of = np.empty(len(order), np.int8)
    for number, part in enumerate(np.split(order, cuts)):
        part_of[part] = number
    train, *held_out = (np.flatnonzero(part_of[groups] == number) for number in range(3))
    if demonstrations.on_disk():
        held_out = [random.permutation(rows)[:HELD_OUT] for rows in held_out]
        return Splits(_on_disk(demonstrations, train), *(demonstrations[rows] for rows in held_out))
    # rows are shuffled within a part, so that its first rows are a sample of it
    return Splits(*(demonstrations[random.permutation(rows)] for rows in (train, *held_out)))


def in_memory(demonstrations: Trajectories, most: int = HELD_OUT) -> Trajectories:
    """The same, or a sample of so many of those that lie on disk."""
    if not demonstrations.on_disk():
        return demonstrations
    return demonstrations[np.random.default_rng(0).permutation(len(demonstrations))[:most]]


def _on_disk(demonstrations: Trajectories, rows: np.ndarray) -> Trajectories:
    """The named rows, left on disk."""
    whole, among = demonstrations.whole()
    chosen = rows if isinstance(among, slice) else among[rows]
    arrays = (Rows(np.asarray(getattr(whole, name)), chosen) for name in NAMES)
    return Trajectories.trusted(*arrays, metadata=demonstrations._metadata(rows))


def _open_folder(folder: Path) -> Trajectories:
    """The trajectories of a folder of arrays, left there; a look at every piece says whether they are good."""
    arrays = read_folder(folder, mapped=("states", "actions"))
    for name in ("states", "actions"):
        if name not in arrays:
            files = sorted(file.name for file in folder.glob("*.npz"))
            held = ", ".join([*arrays, *files]) or "no arrays"
            hint = f"; name a file in it, as {folder / files[0]}" if files else ""
            raise PoiseError(f"{folder} has no {name}.npy; it holds: {held}{hint}")
        if arrays[name].dtype != np.float32:
            raise PoiseError(
                f"{folder / name}.npy holds {arrays[name].dtype}, and a folder holds float32; write it with "
                "poise.trajectories.Writer, or as an .npz if it fits into memory"
            )
    states, actions, lengths = (arrays.pop(name, None) for name in NAMES)
    assert states is not None
    assert actions is not None
    try:
        lengths = checked_lengths(lengths, *checked_sizes(states, actions))
        metadata = {name: checked_column(name, values) for name, values in arrays.items()}
        made = Trajectories.trusted(states, actions, lengths, metadata=metadata)
        first = 0
        for piece in made.pieces():
            check_finite(*(np.asarray(getattr(piece, name)) for name in NAMES), first=first)
            check_padding(*(np.asarray(getattr(piece, name)) for name in NAMES), first=first)
            first += len(piece)
    except PoiseError as error:
        raise PoiseError(f"{folder}: {error}") from error
    return made


def _per_row(values: np.ndarray, rows: int) -> bool:
    return values.ndim > 0 and len(values) == rows
