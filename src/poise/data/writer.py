"""Writing trajectories piece by piece into a folder of arrays that may be larger than memory."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import PoiseError
from ..system.storage import make_folder, one_line_errors, temporary_name
from .trajectories import NAMES, Trajectories, per_row


class Writer:
    """Writes trajectories piece by piece into a new folder, which `Trajectories.load` opens.

    States, actions and lengths go to disk at once; only metadata is kept in memory. The folder appears when the `with`
    block ends without an error. If anything fails, nothing is left behind.

    Args:
        folder: The folder to make. It does not exist yet, or it is empty. Parent folders are created.

    Raises:
        PoiseError: The folder exists and is not empty, a piece does not fit the pieces before it, no piece was added,
            or the disk is full.

    Examples:
        >>> import tempfile, numpy as np, poise
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with poise.Writer(f"{folder}/games") as out:
        ...         for game in range(3):
        ...             out.add(poise.Trajectories(np.zeros((4, 6, 2)), metadata={"game": [game] * 4}))
        ...     demonstrations = poise.Trajectories.load(f"{folder}/games")
        ...     len(demonstrations), demonstrations.on_disk()
        (12, True)
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise PoiseError(f"{self.folder} exists and is not an empty folder; name another or delete it")
        self._new = temporary_name(self.folder)
        self._arrays: dict[str, GrowingArray] = {}
        self._pieces: list[tuple[int, dict[str, np.ndarray]]] = []  # the number of rows and the metadata of each
        self._damaged = False

    def add(self, trajectories: Any) -> None:
        """Appends trajectories.

        Args:
            trajectories: `Trajectories` of the same T, S and A, and with the same metadata, as the pieces before. Pad
                shorter trajectories and give their lengths.

        Raises:
            PoiseError: The piece does not fit the ones before it, or the disk is full.
        """
        self._check(trajectories)
        values = {name: np.asarray(getattr(trajectories, name)) for name in NAMES}
        try:
            with one_line_errors(self.folder):
                if not self._arrays:
                    make_folder(self.folder.parent)
                    self._new.mkdir()
                    for name, like in values.items():
                        self._arrays[name] = GrowingArray(self._new / f"{name}.npy", like)
                for name, array in self._arrays.items():
                    array.add(values[name])
        except BaseException:
            self._damaged = True  # some arrays may have the new rows, and others not
            raise
        self._pieces.append((len(trajectories), trajectories.metadata))

    def _check(self, trajectories: Any) -> None:
        """Raises PoiseError if this piece does not fit the ones before it."""
        if not isinstance(trajectories, Trajectories):
            raise PoiseError(f"a writer takes poise.Trajectories(states); got a {type(trajectories).__name__}")
        for name, array in self._arrays.items():
            new, before = list(getattr(trajectories, name).shape[1:]), list(array.shape)
            if new != before:
                raise PoiseError(f"all {name} of a folder have one shape; got {new} after {before}")
        if self._pieces and trajectories.metadata.keys() != self._pieces[0][1].keys():
            names = [", ".join(metadata) or "none" for metadata in (trajectories.metadata, self._pieces[0][1])]
            raise PoiseError(f"all pieces of a folder have the same metadata; got {names[0]} after {names[1]}")

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        try:
            if kind is None:
                with one_line_errors(self.folder):
                    self._finish()
        finally:
            for array in self._arrays.values():
                array.close()
            shutil.rmtree(self._new, ignore_errors=True)

    def _finish(self) -> None:
        """Writes the metadata and moves the finished folder to its name."""
        if self._damaged:
            raise PoiseError(f"{self.folder} is not written, because a piece of it could not be; write all of it again")
        if not self._pieces:
            raise PoiseError(f"nothing to write in {self.folder}: no trajectories were added")
        for array in self._arrays.values():
            array.finish()
        for name, first in self._pieces[0][1].items():
            one_each = all(per_row(metadata[name], rows) for rows, metadata in self._pieces)
            column = np.concatenate([metadata[name] for _, metadata in self._pieces]) if one_each else first
            with open(self._new / f"{name}.npy", "wb") as file:
                np.save(file, column)
                _flush_to_disk(file)
        os.replace(self._new, self.folder)


class GrowingArray:
    """A .npy file that rows are appended to; it can be read once it is finished."""

    def __init__(self, path: Path, like: np.ndarray):
        self.shape, self.dtype, self.rows = like.shape[1:], like.dtype, 0
        self.file = open(path, "wb")  # noqa: SIM115  (closed below)
        self._write_header()

    def add(self, values: np.ndarray) -> None:
        """Appends rows."""
        self.file.write(np.ascontiguousarray(values, self.dtype).data)
        self.rows += len(values)

    def finish(self) -> None:
        """Writes the final number of rows into the header, where NumPy's format leaves space for it."""
        self.file.seek(0)
        self._write_header()
        _flush_to_disk(self.file)

    def close(self) -> None:
        """Closes the file, finished or not."""
        with contextlib.suppress(OSError):  # of an unfinished file, on a disk that is full
            self.file.close()

    def _write_header(self) -> None:
        description = np.lib.format.dtype_to_descr(self.dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.rows, *self.shape)}
        np.lib.format.write_array_header_1_0(self.file, header)


def _flush_to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
