"""Files of arrays: an .npz, which is read as a whole, and a folder of .npy, which may be larger than memory."""

from __future__ import annotations

import contextlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from .errors import PoiseError


class Rows:
    """Chosen rows of an array that stays on disk: indexing reads what is asked for, and nothing else.

    NumPy and JAX take it for an array, and then read all of it.
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
        """As if it were in memory."""
        return (len(self.rows), *self.array.shape[1:])

    @property
    def ndim(self) -> int:
        """As if it were in memory."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype:
        """As if it were in memory."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """As if it were in memory."""
        return int(np.prod(self.shape)) * self.dtype.itemsize


class GrowingArray:
    """A .npy file that takes rows piece by piece, and is whole once it is closed."""

    def __init__(self, path: Path, like: np.ndarray):
        self.shape, self.dtype, self.rows = like.shape[1:], like.dtype, 0
        self.file = open(path, "wb")  # noqa: SIM115  (closed below)
        self._write_header()

    def add(self, values: np.ndarray) -> None:
        """Appends rows."""
        self.file.write(np.ascontiguousarray(values, self.dtype).data)
        self.rows += len(values)

    def close(self) -> None:
        """Writes how many rows there are; NumPy leaves room for that."""
        with self.file:
            self.file.seek(0)
            self._write_header()

    def _write_header(self) -> None:
        description = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, header)


def read_folder(folder: Path, mapped: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The arrays of a folder by name; the mapped ones stay on disk until they are used."""
    return {path.stem: _read_npy(path, path.stem in mapped) for path in sorted(folder.glob("*.npy"))}


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name."""
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    if path.suffix == ".npy":
        raise PoiseError(f"{path} is a single array; save it with np.savez(path, states=...)")
    if not zipfile.is_zipfile(path):
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


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Says in one line why something could not be written."""
    try:
        yield
    except OSError as error:
        raise PoiseError(f"cannot write {path}: {error.strerror or error}") from error


def make_folder(folder: Path) -> Path:
    """The folder, made if it was not there."""
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _read_npy(path: Path, mapped: bool) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise PoiseError(f"{path} holds Python objects; save it as numbers or with .astype(str)") from error
        raise PoiseError(f"{path} is not a readable .npy, or cut short ({type(error).__name__}: {error})") from error
