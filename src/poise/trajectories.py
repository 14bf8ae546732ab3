"""Trajectories: states, actions and lengths as one value that is checked at birth; .npz in and out; splits."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from .errors import PoiseError, unknown

Array = jax.Array | np.ndarray


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
        states = _numbers("states", states)
        if states.ndim != 3:
            raise PoiseError(f"states have the shape [N, T+1, S]; got {_shape(states)}")
        with np.errstate(invalid="ignore", over="ignore"):
            actions = np.diff(states, axis=1) if actions is None else _numbers("actions", actions)
            states, actions = states.astype(np.float32), actions.astype(np.float32)
        if actions.ndim != 3:
            raise PoiseError(f"actions have the shape [N, T, A]; got {_shape(actions)}")
        rows, steps = len(states), states.shape[1] - 1
        if len(actions) != rows:
            raise PoiseError(f"states and actions have one row a trajectory; got {rows} and {len(actions)} rows")
        if actions.shape[1] != steps:
            raise PoiseError(
                f"a trajectory has one more state than actions; got {steps + 1} states and {actions.shape[1]} actions"
            )
        if steps < 1:
            raise PoiseError("a trajectory has at least one step; got T = 0 (one state and no action)")
        if rows < 1 or not states.shape[2] or not actions.shape[2]:
            raise PoiseError(f"nothing to learn from: states {_shape(states)}, actions {_shape(actions)}")
        lengths = _checked_lengths(np.full(rows, steps) if lengths is None else lengths, rows, steps)
        self.states, self.actions = _checked_values(states, actions, lengths)
        self.lengths = lengths
        self.metadata = {name: _checked_column(name, values) for name, values in (metadata or {}).items()}

    @classmethod
    def trusted(cls, states: Array, actions: Array, lengths: Array) -> Trajectories:
        """Trajectories of arrays that are known to be good, or that a compiled program has yet to compute."""
        made = object.__new__(cls)
        for name, value in (("states", states), ("actions", actions), ("lengths", lengths), ("metadata", {})):
            object.__setattr__(made, name, value)
        return made

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, rows) -> Trajectories:
        """The named rows, with their metadata."""
        rows = np.asarray(rows) if not isinstance(rows, slice) else rows
        metadata = {k: v[rows] if _per_row(v, len(self)) else v for k, v in self.metadata.items()}
        return Trajectories(self.states[rows], self.actions[rows], self.lengths[rows], metadata)

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
        """Writes the .npz that `load` reads."""
        if Path(path).suffix != ".npz":
            raise PoiseError(f"trajectories are written as .npz; got {path}")
        arrays = {k: np.asarray(getattr(self, k)) for k in ("states", "actions", "lengths")}
        try:
            with open(path, "wb") as file:
                np.savez_compressed(file, **arrays, **self.metadata)  # pyright: ignore[reportArgumentType]
        except OSError as error:
            raise PoiseError(f"cannot write {path}: {error.strerror or error}") from error

    @staticmethod
    def load(path: str | Path) -> Trajectories:
        """The trajectories of an .npz: `states`, optional `actions`, `lengths` and `scale`; the rest is metadata."""
        arrays = _read_npz(Path(path))
        if "states" not in arrays:
            raise PoiseError(f"{path} has no array 'states'; it holds: {', '.join(arrays) or 'nothing'}")
        scale = arrays.pop("scale", None)
        if scale is not None and (scale.size != 1 or not np.isfinite(scale).all()):
            raise PoiseError(f"{path}: scale is one finite number; got an array of shape {scale.shape}")
        for name in ("states", "actions"):
            if scale is not None and name in arrays and np.issubdtype(arrays[name].dtype, np.integer):
                arrays[name] = arrays[name] * float(scale.item())
        parts = [arrays.pop(name, None) for name in ("states", "actions", "lengths")]
        try:
            return Trajectories(*parts, metadata=arrays)
        except PoiseError as error:
            raise PoiseError(f"{path}: {error}") from error


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
    """The demonstrations in three parts; with `by`, rows that share that column's value stay together."""
    count = len(demonstrations)
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
    # rows are shuffled within a part, so that its first rows are a sample of it
    rows = [random.permutation(np.flatnonzero(np.isin(groups, part))) for part in np.split(order, cuts)]
    return Splits(*(demonstrations[part] for part in rows))


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    if path.suffix == ".npy":
        raise PoiseError(f"{path} is a single array; save it with np.savez(path, states=...)")
    if path.is_dir() or not zipfile.is_zipfile(path):
        raise PoiseError(f"{path} is not an .npz, or cut short; examples/own_data.py shows how to write one")
    name = "states"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {}
            for name in file.files:
                arrays[name] = file[name]
            return arrays
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        if "allow_pickle" in str(error):
            raise PoiseError(
                f"{path}: {name!r} holds Python objects; save it as numbers or with .astype(str)"
            ) from error
        raise PoiseError(f"{path} is not a readable .npz ({type(error).__name__}: {error})") from error


def _numbers(name: str, values: Any) -> np.ndarray:
    """The values as they are, integers as floats: differences are taken before anything is rounded."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise PoiseError(f"{name} are numbers; got an array of {values.dtype}")
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def _checked_column(name: str, values: Any) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiubUSmM":
        raise PoiseError(f"metadata are plain arrays of numbers or words; {name!r} holds {values.dtype}")
    return values


def _checked_lengths(lengths: Any, rows: int, steps: int) -> np.ndarray:
    lengths = np.asarray(lengths)
    if lengths.shape != (rows,):
        raise PoiseError(f"lengths have the shape [N] = [{rows}]; got {_shape(lengths)}")
    if lengths.dtype.kind not in "iu" and not (lengths == np.round(lengths)).all():
        raise PoiseError("lengths are whole numbers of steps")
    if lengths.min() < 1 or lengths.max() > steps:
        bad = int(np.flatnonzero((lengths < 1) | (lengths > steps))[0])
        raise PoiseError(f"a length lies between 1 and T = {steps}; got {lengths[bad]} for trajectory {bad}")
    return lengths.astype(np.int32)


def _checked_values(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    steps = actions.shape[1]
    real = np.arange(steps) < lengths[:, None]
    real_states = np.arange(steps + 1) <= lengths[:, None]
    for name, values, mask in (("states", states, real_states), ("actions", actions, real)):
        bad = mask & ~np.isfinite(values).all(axis=-1)
        if bad.any():
            row, step = np.argwhere(bad)[0]
            raise PoiseError(
                f"{name} must be finite; trajectory {row} has {values[row, step]} at step {step}: clean or drop it"
            )
    if not real.all():
        last = np.take_along_axis(states, lengths[:, None, None].astype(int), axis=1)
        states = np.where(real_states[..., None], states, last)
        actions = np.where(real[..., None], actions, np.float32(0))
    return states, actions


def _per_row(values: np.ndarray, rows: int) -> bool:
    return values.ndim > 0 and len(values) == rows


def _shape(values: Array) -> str:
    return f"[{', '.join(map(str, values.shape))}]"
