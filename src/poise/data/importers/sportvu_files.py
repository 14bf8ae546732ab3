"""Reading SportVU logs: JSON files, or .7z archives of them, as the moments of a game.

A log holds a game with its events, or one event of a game. docs/how-to/sportvu.md describes the format.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ...errors import PoiseError
from .half_court import Moments

LARGEST = 1 << 31  # bytes of JSON in an archive; a game has about a hundred million


def find_logs(folder: Path) -> list[Path]:
    """The .json and .7z files in a folder and its subfolders, sorted."""
    if not folder.is_dir():
        what = f"{folder} is a file" if folder.exists() else f"no such folder: {folder}"
        raise PoiseError(f"{what}; name the folder of SportVU logs")
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".json", ".7z") and path.is_file())
    if not files:
        raise PoiseError(f"no SportVU logs in {folder}: neither it nor a folder in it holds a .json or .7z")
    archives = sum(path.suffix.lower() == ".7z" for path in files)
    if archives and importlib.util.find_spec("py7zr") is None:
        raise PoiseError(f"{archives} of the logs are .7z, and reading them needs py7zr: pip install 'poise[sportvu]'")
    return files


def game_in_name(path: Path) -> str | None:
    """The ten digits of a game's number in the name of a file or of its folder."""
    found = (re.search(r"(?<!\d)\d{10}(?!\d)", name) for name in (path.stem, path.parent.name))
    return next((match.group() for match in found if match), None)


def read_log(path: Path) -> tuple[str, Moments]:
    """The game's number and the moments of a log.

    Raises:
        PoiseError: The file is not a log, is damaged or has no moments; the message gives the reason, not the path.
    """
    tables, seen, count = [], set(), 0

    def keep(found: dict[str, Any]) -> dict[str, Any]:
        """Makes arrays of an event as soon as it is read, because a game as Python lists takes a gigabyte."""
        nonlocal count
        if isinstance(moments := found.get("moments"), list):
            count += len(moments)
            tables.append(_table(moments, seen))
            found["moments"] = None
        return found

    try:
        with _without_garbage_collection():
            content = json.loads(_content(path), object_hook=keep)
    except (ValueError, RecursionError) as error:
        raise PoiseError(f"not JSON, or cut short ({error})") from error
    if not isinstance(content, dict) or not tables:
        raise PoiseError('not a SportVU log: there are no "moments" in it')
    moments = Moments.of(*(np.concatenate(arrays) for arrays in zip(*tables, strict=True)))
    if not len(moments.time):
        found = f"none of its {count} moments has a ball and two teams of five" if count else "it has no moments"
        raise PoiseError(f"{found} (in {len(tables)} events)")
    game = str(content.get("gameid") or game_in_name(path) or "")
    if not game:
        raise PoiseError('no "gameid" in it, nor ten digits in its name: name it GAMEID_EVENT.json')
    return game.zfill(10) if game.isdecimal() else game, moments


def _table(moments: list, seen: set) -> tuple[Float[np.ndarray, "n 4"], Float[np.ndarray, "n 11 5"]]:
    """The first four entries and the entities of an event's moments that have eleven entities and are not in `seen`."""
    new = []
    try:
        for moment in moments:
            complete = len(moment) > 5 and len(moment[5] or ()) == 11
            if complete and (when := (moment[0], moment[1])) not in seen:
                seen.add(when)
                new.append(moment)
        heads = np.array([moment[:4] for moment in new], float).reshape(-1, 4)  # a shot clock that is off: null, so NaN
        return heads, np.array([moment[5] for moment in new], float).reshape(-1, 11, 5)
    except (TypeError, ValueError, LookupError) as error:
        shape = "[quarter, ms, clock, shot clock, null, [[team, player, x, y, z], ...]]"
        raise PoiseError(f"a moment is {shape}, and one of its moments is not ({error})") from error


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Switches the garbage collector off, which halves the time to read JSON: JSON has no reference cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _content(path: Path) -> bytes:
    """The JSON of a log; an archive holds it as its only file."""
    try:
        return path.read_bytes() if path.suffix.lower() == ".json" else _unpack(path)
    except OSError as error:
        raise PoiseError(f"not readable: {error.strerror or error}") from error


def _unpack(path: Path) -> bytes:
    import py7zr
    from py7zr.io import BytesIOFactory

    try:
        with py7zr.SevenZipFile(path) as archive:
            names = [file.filename for file in archive.list() if not file.is_directory]
            memory = BytesIOFactory(LARGEST)
            if len(names) == 1:
                archive.extract(targets=names, factory=memory)
    except OSError:
        raise
    except Exception as error:  # py7zr raises many kinds of errors for a damaged archive
        raise PoiseError(f"a damaged archive, or cut short ({type(error).__name__}: {error})") from error
    if len(names) != 1:
        raise PoiseError(f"an archive of a log holds one file, and this one holds {len(names) or 'none'}")
    return memory.get(names[0]).read()
