"""Raw SportVU logs of NBA games become demonstrations: an .npz of live half-court play, every attack on one rim.

A log is JSON, or a .7z of it: a game with its events, or one event of a game. Events overlap and a game may lie in many
files, so a game is first put together from its distinct moments; `play` finds the windows in it. Files are read by
processes of their own, as in `parallel`: fresh interpreters that answer over a pipe.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from .errors import PoiseError, unknown
from .parallel import CORES
from .play import SCALE, Cut, Moments, Scenes, find_scenes
from .storage import write_bytes

WHAT = ("players", "scenes")
LARGEST = 1 << 31  # bytes of JSON in an archive; a game has a hundred million


class Imported(NamedTuple):
    """The windows of each game, and the files that are of no use, each with the reason."""

    games: dict[str, Scenes]
    skipped: dict[str, str]

    def arrays(self, what: str = "players", hz: float = 3.0) -> dict[str, np.ndarray]:
        """What `Trajectories.load` reads: one row an offensive player ("players"), or one a window ("scenes")."""
        if what not in WHAT:
            raise unknown("kind of row", what, WHAT)
        scenes = Scenes.joined(list(self.games.values()))
        count, frames = scenes.states.shape[:2]
        numbered = all(game.isdecimal() and len(game) < 19 for game in self.games)
        names = [int(game) if numbered else game for game in self.games]
        columns = {
            "game": np.repeat(names, [len(found.states) for found in self.games.values()]),
            "quarter": scenes.quarter.astype(np.int8),
            "game_clock": scenes.clock.astype(np.float32),
            "shot_clock": scenes.shot_clock.astype(np.float32),
        }
        if what == "scenes":
            states = scenes.states.reshape(count, frames, 22)
            columns |= {"team_id": scenes.teams, "player_id": scenes.players}
        else:
            states = scenes.states[:, :, 1:6].swapaxes(1, 2).reshape(count * 5, frames, 2)
            columns |= {"scene": np.arange(count), "team_id": scenes.teams[:, 0]}
            columns = {name: np.repeat(values, 5) for name, values in columns.items()}
            columns["player_id"] = scenes.players[:, :5].reshape(-1)
            columns["ball_nearest_frac"] = scenes.ball_nearest().reshape(-1).astype(np.float16)
        return {"states": states, "scale": np.array(SCALE, np.float32), "hz": np.array(hz, np.float32), **columns}


def import_sportvu(
    folder: str | Path,
    out: str | Path,
    what: str = "players",
    cut: Cut | None = None,
    jobs: int | None = None,
    progress: bool = False,
) -> Imported:
    """Writes the windows of all logs in a folder and below it as an .npz, which is whole or not there.

    Files of no use are named on standard error. The result is the same for any number of `jobs`.
    """
    folder, out, cut = Path(folder), Path(out), cut or Cut()
    if what not in WHAT:
        raise unknown("kind of row", what, WHAT)
    if out.suffix != ".npz":
        raise PoiseError(f"demonstrations are written as .npz; got {out}")
    if not out.parent.is_dir():
        raise PoiseError(f"cannot write {out}: no such folder: {out.parent}")
    found = read_folder(folder, cut, jobs, progress)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **found.arrays(what, cut.hz))  # pyright: ignore[reportArgumentType]
    write_bytes(out, buffer.getvalue())
    return found


def read_folder(folder: Path, cut: Cut, jobs: int | None = None, progress: bool = False) -> Imported:
    """The windows of every game in a folder and below it, in the order of the games' numbers."""
    jobs = CORES if jobs is None else jobs
    if jobs < 1:
        raise PoiseError(f"at least 1 job reads the files; got {jobs}")
    files = find_logs(folder)
    units = defaultdict(list)
    for file in files:
        units[game_in_name(file) or str(file)].append(file)
    games, skipped, sources = {}, {}, defaultdict(list)

    def skip(file: str, reason: str) -> None:
        skipped[file] = reason
        tqdm.write(f"skipped {file}: {reason}", file=sys.stderr)

    with tqdm(total=len(files), desc="import", unit="file", disable=None if progress else True, leave=False) as bar:
        for unit, part in zip(units.values(), _read_all(list(units.values()), cut, jobs), strict=True):
            for file, reason in part.skipped.items():
                skip(file, reason)
            for game, scenes in part.games.items():
                games[game] = scenes
                sources[game].append([file for file in unit if str(file) not in part.skipped])
            bar.update(len(unit))
    # a game that is there as an archive and as its events, say, is put together from all of them
    twice = {game: sorted(itertools.chain(*found)) for game, found in sources.items() if len(found) > 1}
    for game, part in zip(twice, _read_all(list(twice.values()), cut, jobs), strict=True):
        games[game] = part.games[game]
    for game in [game for game in sorted(games) if not len(games[game].states)]:
        skip(str(sources[game][0][0]), f"game {game} has no {cut.seconds:.1f} s of unbroken half-court play")
    games = {game: games[game] for game in sorted(games) if len(games[game].states)}
    if not games:
        raise PoiseError(f"nothing to import: no file of {folder} is of use; the lines above say why, one a file")
    return Imported(games, skipped)


def find_logs(folder: Path) -> list[Path]:
    """The .json and .7z files in a folder and below it."""
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


def read_unit(files: Sequence[Path], cut: Cut) -> Imported:
    """The windows of some files, as a rule all of one game; a game without any is there, with none."""
    parts, skipped = defaultdict(list), {}
    for file in files:
        try:
            game, moments = read_log(file)
            parts[game].append(moments)
        except PoiseError as error:
            skipped[str(file)] = str(error)
    return Imported({game: find_scenes(Moments.joined(part), cut) for game, part in parts.items()}, skipped)


def read_log(path: Path) -> tuple[str, Moments]:
    """The game that a file is of, and its moments; an error says why the file is of no use."""
    tables, seen, count = [], set(), 0

    def keep(found: dict[str, Any]) -> dict[str, Any]:
        """Makes arrays of an event as soon as it is read: a whole game of Python's lists takes a gigabyte."""
        nonlocal count
        if isinstance(moments := found.get("moments"), list):
            count += len(moments)
            tables.append(_table(moments, seen))
            found["moments"] = None
        return found

    try:
        with _uncollected():
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


def serve() -> None:
    """The life of a worker: files to read come in on its standard input, windows go out on its standard output."""
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = _pack(read_unit([Path(file) for file in asked["files"]], Cut(**asked["cut"])))
        except MemoryError:
            return
        answers.write(len(answer).to_bytes(8, "little") + answer)
        answers.flush()


def _table(moments: list, seen: set) -> tuple[Float[np.ndarray, "n 4"], Float[np.ndarray, "n 11 5"]]:
    """The moments of an event that are new and have eleven entities: their heads and the entities."""
    new = []
    try:
        for moment in moments:
            whole = len(moment) > 5 and len(moment[5] or ()) == 11
            if whole and (when := (moment[0], moment[1])) not in seen:
                seen.add(when)
                new.append(moment)
        heads = np.array([moment[:4] for moment in new], float).reshape(-1, 4)  # a shot clock that is off is null: NaN
        return heads, np.array([moment[5] for moment in new], float).reshape(-1, 11, 5)
    except (TypeError, ValueError, LookupError) as error:
        shape = "[quarter, ms, clock, shot clock, null, [[team, player, x, y, z], ...]]"
        raise PoiseError(f"a moment is {shape}, and one of its moments is not ({error})") from error


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage, of which JSON makes none: it is read in half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _content(path: Path) -> bytes:
    """The JSON of a log, which an archive holds as its one file."""
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
    except Exception as error:  # a damaged archive ends in errors of many kinds
        raise PoiseError(f"a damaged archive, or cut short ({type(error).__name__}: {error})") from error
    if len(names) != 1:
        raise PoiseError(f"an archive of a log holds one file, and this one holds {len(names) or 'none'}")
    return memory.get(names[0]).read()


def _read_all(units: list[list[Path]], cut: Cut, jobs: int) -> Iterator[Imported]:
    """What comes of each unit of files, in order."""
    jobs = min(jobs, len(units))
    if jobs < 2:
        yield from (read_unit(unit, cut) for unit in units)
        return
    command = [sys.executable, "-c", "from poise.sportvu import serve; serve()"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
    processes = [subprocess.Popen(command, **pipes) for _ in range(jobs)]
    idle, pool = list(processes), ThreadPoolExecutor(jobs)

    def ask(unit: list[Path]) -> Imported:
        process = idle.pop()
        assert process.stdin is not None
        assert process.stdout is not None
        question = {"files": [str(file) for file in unit], "cut": asdict(cut)}
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            answer = _receive(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            raise PoiseError(
                f"the process that read {unit[0]} ended early, for want of memory as a rule; try again with --jobs 1"
            ) from error
        idle.append(process)
        return answer

    try:
        yield from pool.map(ask, units)
    finally:
        for process in processes:
            process.kill()
        pool.shutdown(cancel_futures=True)
        for process in processes:
            process.communicate()


def _pack(part: Imported) -> bytes:
    """What a worker found, as bytes that need no pickle."""
    fields = {
        f"{i}.{name}": array for i, found in enumerate(part.games.values()) for name, array in found._asdict().items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, notes=np.asarray(json.dumps([list(part.games), part.skipped])), **fields)
    return buffer.getvalue()


def _receive(stream: IO[bytes]) -> Imported:
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    with np.load(io.BytesIO(stream.read(int.from_bytes(head, "little"))), allow_pickle=False) as file:
        names, skipped = json.loads(file["notes"].item())
        games = {name: Scenes(*(file[f"{i}.{field}"] for field in Scenes._fields)) for i, name in enumerate(names)}
    return Imported(games, skipped)
