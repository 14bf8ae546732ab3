"""Files of arrays: an .npz, which is read as a whole, and a folder of .npy, which may be larger than memory."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from ..errors import PoiseError
from ..system.storage import writing


class Rows:
    """Selected rows of an array that stays on disk; indexing reads only what is asked for.

    It has the shape and dtype of the selected rows. NumPy and JAX accept it as an array, and then read all of it.
    """

    def __init__(self, array: np.ndarray, rows: Int[np.ndarray, " N"]):
        self.array, self.rows = array, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> np.ndarray:
        first, *rest = index if isinstance(index, tuple) else (index,)
        return self.array[(self.rows[first], *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the selected rows."""
        return (len(self.rows), *self.array.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """The size of the selected rows in bytes."""
        return int(np.prod(self.shape)) * self.dtype.itemsize


def read_arrays(folder: Path, mapped: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of a folder of .npy files by name; the `mapped` ones are memory-mapped, so that they stay on disk."""
    return {path.stem: _read_npy(path, path.stem in mapped) for path in sorted(folder.glob("*.npy"))}


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name."""
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    if path.suffix == ".npy":
        raise PoiseError(f"{path} is a single array; save it with np.savez(path, states=...)")
    if not zipfile.is_zipfile(path):
        raise PoiseError(f"{path} is not an .npz, or cut short; examples/own_data.py shows how to write one")
    name = "states"  # the array that is being read, for the message below
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


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a compressed .npz, completely or not at all; arrays may have any name, unlike those of np.savez."""
    with writing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(values), allow_pickle=False)


def _read_npy(path: Path, mapped: bool) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise PoiseError(f"{path} holds Python objects; save it as numbers or with .astype(str)") from error
        raise PoiseError(f"{path} is not a readable .npy, or cut short ({type(error).__name__}: {error})") from error
