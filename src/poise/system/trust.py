"""Folders that this user trained on this machine: the only ones whose config.json may name code to import.

The list is kept in the user's state folder, outside of any run folder: one small file per run folder, which holds the
digest of its config.json. A folder is trusted while its config.json is byte for byte the one that was trained with.
POISE_TRUST names another folder for the list, or is empty for none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from ..errors import PoiseError
from .storage import write_bytes

VARIABLE = "POISE_TRUST"


def remember(folder: Path) -> None:
    """Adds a folder with its present config.json to the list; without a list, nothing is remembered."""
    entry, digest = _entry(folder), _digest(folder)
    if entry is None or digest is None or _read(entry) == digest:
        return
    with contextlib.suppress(PoiseError):  # a home that cannot be written: --trust still works
        write_bytes(entry, digest.encode())


def is_trusted(folder: Path) -> bool:
    """Whether this user trained the folder here, and its config.json has not changed since."""
    entry, digest = _entry(folder), _digest(folder)
    return entry is not None and digest is not None and _read(entry) == digest


def _entry(folder: Path) -> Path | None:
    named = os.environ.get(VARIABLE)
    if named == "":
        return None
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "poise" / "trusted"
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()
    return (Path(named) if named else base) / name


def _digest(folder: Path) -> str | None:
    try:
        return hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    except OSError:
        return None


def _read(entry: Path) -> str | None:
    try:
        return entry.read_text()
    except (OSError, UnicodeDecodeError):
        return None
