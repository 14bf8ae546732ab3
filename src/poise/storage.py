"""Files that are whole or not there: JSON and safetensors, written beside the old file and moved over it.

No pickle. A checksum in the file's header tells a damaged file from a good one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .errors import PoiseError


def write_bytes(path: Path, content: bytes) -> None:
    """Replaces a file as a whole; if that fails (a full disk, say), the old file stays as it was."""
    new = path.with_name(f".{path.name}.new")
    try:
        with open(new, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        kept = "; the old file is still good" if path.exists() else ""
        raise PoiseError(f"cannot write {path}: {error.strerror or error}{kept}") from error


def write_json(path: Path, value: Any) -> None:
    """Writes JSON that people can read."""
    write_bytes(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads what `write_json` wrote."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError as error:
        raise PoiseError(f"no such file: {path}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PoiseError(f"{path} is damaged: not readable as JSON ({error})") from error


def write_tree(path: Path, tree: Any, notes: dict[str, Any]) -> None:
    """Writes the arrays of a tree, keys of random numbers included, and notes, as one safetensors file."""
    arrays = {name: _plain(leaf) for name, leaf in _named(tree)}
    header = {"notes": notes, "checksum": _checksum(arrays)}
    write_bytes(path, save(arrays, metadata={"poise": json.dumps(header)}))  # one entry: their order is not kept


def read_notes(path: Path) -> dict[str, Any]:
    """The notes of a file, without its arrays."""
    return _read(path)[1]


def read_tree(path: Path, like: Any) -> Any:
    """The tree that `write_tree` wrote; `like` has its structure and shapes."""
    arrays, _ = _read(path)
    expected = dict(_named(like))
    for name, leaf in expected.items():
        shape = tuple(jax.eval_shape(jax.random.key_data, leaf).shape) if is_key(leaf) else tuple(leaf.shape)
        if name not in arrays or arrays[name].shape != shape:
            found = list(arrays[name].shape) if name in arrays else "nothing"
            raise PoiseError(f"{path} does not fit its config.json: {name} has shape {list(shape)} there, {found} here")
    leaves = [
        jax.random.wrap_key_data(jnp.asarray(arrays[name])) if is_key(leaf) else jnp.asarray(arrays[name])
        for name, leaf in expected.items()
    ]
    dynamic, static = eqx.partition(like, _is_array)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(dynamic), leaves), static)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Holds a folder for this process; the lock falls with the process, however it ends."""
    try:
        file = open(folder / ".lock", "w")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise PoiseError(f"cannot write in {folder}: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PoiseError(f"another process is training in {folder}; wait for it or choose another --out") from error
        yield


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["poise"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no dictionary)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise PoiseError(f"{path} is damaged or cut short ({error}); restore it from a copy or train again") from error
    if _checksum(arrays) != header["checksum"]:
        raise PoiseError(f"{path} is damaged: its checksum does not match; restore it from a copy or train again")
    return arrays, header["notes"]


def _named(tree: Any) -> list[tuple[str, Any]]:
    arrays = eqx.filter(tree, _is_array)
    return [
        (jax.tree_util.keystr(path).lstrip("."), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)
    ]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def is_key(leaf: Any) -> bool:
    """Whether an array holds keys of random numbers."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: jax.Array | np.ndarray) -> np.ndarray:
    # order="C": safetensors writes the memory as it lies, so a transposed view would come back scrambled
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf, order="C")


def _checksum(arrays: dict[str, np.ndarray]) -> int:
    total = 0
    for name in sorted(arrays):
        total = zlib.crc32(np.asarray(arrays[name], order="C").tobytes(), zlib.crc32(name.encode(), total))
    return total
