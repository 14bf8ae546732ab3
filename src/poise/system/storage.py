"""Files that are complete or not there: they are written beside the old file and then moved over it.

Nothing is pickled. A checksum in the header of a safetensors file tells a damaged file from a good one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..errors import PoiseError

LISTED = 3  # arrays that a message names


@contextlib.contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Turns an OSError inside into a one-line PoiseError that says why `path` could not be written."""
    try:
        yield
    except OSError as error:
        raise PoiseError(f"cannot write {path}: {error.strerror or error}") from error


def make_folder(folder: Path) -> Path:
    """Returns the folder, after creating it and its parents if they do not exist."""
    with one_line_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def temporary_name(path: Path) -> Path:
    """A hidden name beside `path` that no other process uses, so that it can be moved over `path` in one step."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file that replaces `path` once it is written completely; everything that Poise writes goes through here.

    The content goes to a temporary file beside the target. If the block ends without an error, that file is flushed to
    disk and moved over the target in one step. Otherwise (an exception, a full disk, Ctrl-C) it is removed, and the old
    file stays as it was. The parent folder is created. A symbolic link is
    replaced by the file: a folder from somebody else may hold links to anywhere.

    Args:
        path: The file to write.

    Yields:
        A binary file, open for writing.

    Raises:
        PoiseError: The file cannot be written; one line with the reason.
    """
    new = temporary_name(path)
    make_folder(path.parent)
    try:
        with open(new, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        kept = "; the old file is still good" if path.is_file() else ""
        raise PoiseError(f"cannot write {path}: {error.strerror or error}{kept}") from error
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file with this content, completely or not at all."""
    with writing(path) as file:
        file.write(content)


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON; a value that JSON cannot hold, such as NaN, is an error."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def append_line(path: Path, text: str) -> None:
    """Appends one line of text to a file, which is created if it does not exist."""
    with one_line_errors(path), os.fdopen(_open_itself(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(f"{text}\n".encode())
        file.flush()


def _open_itself(path: Path, flags: int) -> int:
    """Opens a file, created if it is not there, and never what a symbolic link of that name points to."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def read_json(path: Path) -> Any:
    """Reads what `write_json` wrote."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise PoiseError(f"no such file: {path}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PoiseError(f"{path} is damaged: not readable as JSON ({error})") from error


def write_tree(path: Path, tree: Any, notes: dict[str, Any]) -> None:
    """Writes the arrays of a pytree, including PRNG keys, and notes as one safetensors file."""
    arrays = {name: _as_numpy(leaf) for name, leaf in _named_leaves(tree)}
    header = {"notes": notes, "checksum": _checksum(arrays)}
    # All metadata is one entry, because safetensors does not keep the order of several.
    write_bytes(path, save(arrays, metadata={"poise": json.dumps(header)}))


def read_notes(path: Path) -> dict[str, Any]:
    """The notes that `write_tree` wrote; the file's checksum is verified."""
    return _read(path)[1]


def refuse_foreign(path: Path, run: str, always: bool) -> None:
    """Refuses a file of arrays that another run wrote; `write_tree` was given the digest of its run in its notes.

    Args:
        path: The file.
        run: The digest of the run that is read.
        always: Whether a file without a digest is refused too. Folders of earlier versions have none.
    """
    with _reading(path) as file:
        found = _header(file)["notes"].get("run")
    if found != run and (always or found is not None):
        whose = "does not say whose it is" if found is None else "belongs to another run"
        raise PoiseError(
            f"{path} {whose}, and config.json beside it describes this one; put back the files of one run, "
            "or train again in another --out"
        )


def read_tree(path: Path, like: Any) -> Any:
    """The pytree that `write_tree` wrote; `like` has its structure, shapes and types, and all of its arrays."""
    arrays, _ = _read(path)
    expected = dict(_named_leaves(like))
    if extra := sorted(set(arrays) - set(expected)):
        listed = ", ".join(map(repr, extra[:LISTED])) + (f" and {len(extra) - LISTED} more" if extra[LISTED:] else "")
        raise PoiseError(f"{path} does not fit its config.json, which knows no {listed}; restore it from a copy")
    for name, leaf in expected.items():
        shape = tuple(jax.eval_shape(jax.random.key_data, leaf).shape) if is_key(leaf) else tuple(leaf.shape)
        if name not in arrays or arrays[name].shape != shape:
            found = list(arrays[name].shape) if name in arrays else "nothing"
            raise PoiseError(f"{path} does not fit its config.json: {name} has shape {list(shape)} there, {found} here")
        if not is_key(leaf) and arrays[name].dtype != leaf.dtype:
            kinds = f"numbers of {leaf.dtype} there, {arrays[name].dtype} here"
            raise PoiseError(f"{path} does not fit its config.json: {name} has {kinds}; restore it from a copy")
    leaves = [
        jax.random.wrap_key_data(jnp.asarray(arrays[name])) if is_key(leaf) else jnp.asarray(arrays[name])
        for name, leaf in expected.items()
    ]
    dynamic, static = eqx.partition(like, _is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), leaves), static)


@contextlib.contextmanager
def lock(folder: Path, needed: bool = True) -> Iterator[None]:
    """Keeps other processes from training in a folder; the lock is released when the process ends, however it ends.

    If it is not `needed`, a folder that nobody may write in is not locked.
    """
    try:
        file = os.fdopen(_open_itself(folder / ".lock", os.O_RDWR), "r+")
    except OSError as error:
        if not needed:
            yield
            return
        raise PoiseError(f"cannot write in {folder}: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PoiseError(f"another process is training in {folder}; wait for it or choose another --out") from error
        yield


def is_key(leaf: Any) -> bool:
    """Whether an array holds PRNG keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Any]:
    """Opens a safetensors file that `write_tree` wrote; what is wrong with it is one line."""
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise PoiseError(f"{path} is damaged or cut short ({error}); restore it from a copy or train again") from error


def _header(file: Any) -> dict[str, Any]:
    """The notes and the checksum of an open file."""
    header = json.loads((file.metadata() or {})["poise"])
    if not isinstance(header, dict) or not isinstance(header["notes"], dict):
        raise ValueError("its notes are not named")
    return header


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the notes of a file, after a look at its checksum."""
    with _reading(path) as file:
        header = _header(file)
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
    if _checksum(arrays) != header["checksum"]:
        raise PoiseError(f"{path} is damaged: its checksum does not match; restore it from a copy or train again")
    return arrays, header["notes"]


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """The arrays of a pytree, each with its path as a name."""
    arrays = eqx.filter(tree, _is_array)
    return [
        (jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)
    ]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _as_numpy(leaf: jax.Array | np.ndarray) -> np.ndarray:
    # safetensors writes an array's memory in the order it has, so a transposed view must become contiguous first.
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf, order="C")


def _checksum(arrays: dict[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(np.asarray(arrays[name], order="C").tobytes(), zlib.crc32(name.encode(), total))
    return total
