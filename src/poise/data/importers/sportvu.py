"""Importing SportVU logs of NBA games: an .npz of live half-court play, with every attack on the same rim.

Events overlap, and a game may be spread over many files, so a game is first assembled from its distinct moments;
`half_court` finds the windows of play in it. Games are read in parallel by worker processes.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ...errors import PoiseError, unknown
from ...system.devices import count_cores
from ...system.workers import Message, Worker, WorkerEnded, ask_all
from ..files import write_npz
from .half_court import SCALE, Cut, Moments, Scenes, find_scenes
from .sportvu_files import find_logs, game_in_name, read_log

WHAT = ("players", "scenes")  # one row per offensive player, or one per window


class Imported(NamedTuple):
    """The windows of each game, and the files that could not be used, each with the reason."""

    games: dict[str, Scenes]
    skipped: dict[str, str]

    def skip(self, file: str, reason: str) -> None:
        """Records and reports a file that cannot be used."""
        self.skipped[file] = reason
        tqdm.write(f"skipped {file}: {reason}", file=sys.stderr)

    def arrays(self, what: str = "players", hz: float = 3.0) -> dict[str, np.ndarray]:
        """The arrays that `Trajectories.load` reads: one row per offensive player, or one per window ("scenes")."""
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
    """Writes the windows of all SportVU logs in a folder and its subfolders as an .npz.

    Files that cannot be used are named on standard error, with the reason, and skipped.

    Args:
        folder: The folder of .json and .7z logs.
        out: The .npz to write, in a folder that exists.
        what: "players" for one row per offensive player, or "scenes" for one row per window.
        cut: The length, frame rate and stride of windows.
        jobs: The number of processes that read files; the result does not depend on it. Default: one per core.
        progress: Whether to show a progress bar.

    Returns:
        The windows of each game, and the files that were skipped.

    Raises:
        PoiseError: An argument is out of range, or no file can be used. Nothing is written then.
    """
    folder, out, cut = Path(folder), Path(out), cut or Cut()
    if what not in WHAT:
        raise unknown("kind of row", what, WHAT)
    if out.suffix != ".npz":
        raise PoiseError(f"demonstrations are written as .npz; got {out}")
    if not out.parent.is_dir():
        raise PoiseError(f"cannot write {out}: no such folder: {out.parent}")
    found = read_folder(folder, cut, jobs, progress)
    write_npz(out, found.arrays(what, cut.hz))
    return found


def read_folder(folder: Path, cut: Cut, jobs: int | None = None, progress: bool = False) -> Imported:
    """The windows of every game in a folder and its subfolders, in the order of the games' numbers."""
    jobs = count_cores() if jobs is None else jobs
    if jobs < 1:
        raise PoiseError(f"at least 1 job reads the files; got {jobs}")
    files = find_logs(folder)
    units: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        units[game_in_name(file) or str(file)].append(file)
    found = Imported({}, {})
    sources: dict[str, list[list[Path]]] = defaultdict(list)
    with tqdm(total=len(files), desc="import", unit="file", disable=None if progress else True, leave=False) as bar:
        for unit, part in zip(units.values(), _read_units(list(units.values()), cut, jobs), strict=True):
            for file, reason in part.skipped.items():
                found.skip(file, reason)
            for game, scenes in part.games.items():
                found.games[game] = scenes
                sources[game].append([file for file in unit if str(file) not in part.skipped])
            bar.update(len(unit))
    found.games.update(_read_together(sources, cut, jobs))
    for game in sorted(found.games):
        if not len(found.games[game].states):
            reason = f"game {game} has no {cut.seconds:.1f} s of unbroken half-court play"
            found.skip(str(sources[game][0][0]), reason)
    games = {game: found.games[game] for game in sorted(found.games) if len(found.games[game].states)}
    if not games:
        raise PoiseError(f"nothing to import: no file in {folder} can be used; the lines above give the reasons")
    return Imported(games, found.skipped)


def read_unit(files: Sequence[Path], cut: Cut) -> Imported:
    """The windows of some files, usually all files of one game; a game without windows is included."""
    parts, skipped = defaultdict(list), {}
    for file in files:
        try:
            game, moments = read_log(file)
            parts[game].append(moments)
        except PoiseError as error:
            skipped[str(file)] = str(error)
    return Imported({game: find_scenes(Moments.joined(part), cut) for game, part in parts.items()}, skipped)


def serve(cut: str) -> Callable[[Message], Message]:
    """The handler of a worker that reads files; `cut` is JSON."""
    wanted = Cut(**json.loads(cut))
    return lambda question: _pack(read_unit([Path(file) for file in question["files"]], wanted))


def _read_together(sources: dict[str, list[list[Path]]], cut: Cut, jobs: int) -> dict[str, Scenes]:
    """The windows of games that are in several units, such as an archive and files of its events, from all of them."""
    several = {game: sorted(itertools.chain(*units)) for game, units in sources.items() if len(units) > 1}
    parts = _read_units(list(several.values()), cut, jobs)
    return {game: part.games[game] for game, part in zip(several, parts, strict=True)}


def _read_units(units: list[list[Path]], cut: Cut, jobs: int) -> Iterator[Imported]:
    """The windows of each unit of files, in order."""
    jobs = min(jobs, len(units))
    if jobs < 2:
        yield from (read_unit(unit, cut) for unit in units)
        return
    workers = [Worker(f"{__name__}:{serve.__name__}", json.dumps(asdict(cut))) for _ in range(jobs)]
    questions = [lambda unit=unit: {"files": np.asarray([str(file) for file in unit])} for unit in units]
    answers = ask_all(workers, questions)
    for unit in units:
        try:
            answer = next(answers)
        except WorkerEnded as error:
            raise PoiseError(
                f"the process that read {unit[0]} ended early, usually for lack of memory; try again with --jobs 1"
            ) from error
        yield _unpack(answer)


def _pack(part: Imported) -> Message:
    """The windows of a unit as named arrays, for the pipe."""
    fields = {
        f"{i}.{name}": array for i, found in enumerate(part.games.values()) for name, array in found._asdict().items()
    }
    return {"notes": np.asarray(json.dumps([list(part.games), part.skipped])), **fields}


def _unpack(answer: Message) -> Imported:
    names, skipped = json.loads(str(answer["notes"]))
    games = {name: Scenes(*(answer[f"{i}.{field}"] for field in Scenes._fields)) for i, name in enumerate(names)}
    return Imported(games, skipped)
