"""Half-court play in a game's tracked moments: unbroken stretches, turned to one rim, resampled, cut into windows.

Nothing here reads a file. A moment has the positions of the ball and ten players. Where play breaks, which team attacks
which rim and which windows are kept are rules of a few lines each; docs/how-to/sportvu.md gives the reasons.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ...domains.basketball import LENGTH, WIDTH
from ...domains.basketball_simulator import COURT, RIM
from ...errors import PoiseError

LARGEST_NUMBER = 1e15  # larger numbers in a log are errors; times in milliseconds are the largest that are not
SCALE = 0.01  # feet; the states of windows are integer multiples of it
GAP = 0.2  # seconds between two moments over which positions are interpolated; a longer gap is a break
STUTTER = 0.12  # seconds that a running clock may stand still: its feed stutters while play continues
JUMP = 0.2  # seconds by which the clock may differ from the time that has passed between two moments
RESET = 1.0  # seconds by which the shot clock rises, at least, when it is reset
OUTSIDE = 3.0  # feet beyond the baseline and the sidelines up to which a player takes part
BALL_OUTSIDE = 6.0  # the same for the ball, and for the half-court line
FASTEST = 30.0  # feet per second; a player who is faster between two frames was confused with another


@dataclass(frozen=True)
class Cut:
    """How play is cut into windows.

    Args:
        steps: A window has `steps` + 1 frames.
        hz: Frames per second.
        stride: Frames from the start of one window to the start of the next. Default: windows share no frame.
    """

    steps: int = 24
    hz: float = 3.0
    stride: int | None = None

    def __post_init__(self):
        if self.steps < 1:
            raise PoiseError(f"a window has at least 1 step; got {self.steps} steps")
        if not 0 < self.hz <= 25:
            raise PoiseError(f"the logs have 25 frames per second: hz is above 0 and at most 25; got {self.hz}")
        if self.stride is not None and self.stride < 1:
            raise PoiseError(f"a stride is at least 1 frame; got {self.stride}")

    @property
    def seconds(self) -> float:
        """Seconds from the first to the last frame of a window."""
        return self.steps / self.hz


class Moments(NamedTuple):
    """Moments of one game: the ball, then the five players of each team, sorted by the numbers of teams and players."""

    quarter: Int[np.ndarray, " n"]
    time: Float[np.ndarray, " n"]  # seconds
    clock: Float[np.ndarray, " n"]
    shot_clock: Float[np.ndarray, " n"]  # NaN where it is off
    teams: Int[np.ndarray, "n 2"]
    players: Int[np.ndarray, "n 10"]
    positions: Float[np.ndarray, "n 11 2"]

    @staticmethod
    def of(heads: Float[np.ndarray, "n 4"], entities: Float[np.ndarray, "n 11 5"]) -> Moments:
        """The moments that have a ball and two teams of five.

        Args:
            heads: Quarter, milliseconds, game clock and shot clock of each moment.
            entities: Team, player, x, y and z of the ball (team -1) and ten players.
        """
        order = np.lexsort((entities[..., 1], entities[..., 0]), axis=1)
        entities = np.take_along_axis(entities, order[..., None], axis=1)
        team = entities[..., 0]
        complete = (team[:, 0] == -1) & (team[:, 1] > -1) & (team[:, 5] < team[:, 6])
        complete &= (team[:, 1] == team[:, 5]) & (team[:, 6] == team[:, 10])
        complete &= (np.abs(heads[:, :3]) < LARGEST_NUMBER).all(axis=1)
        complete &= (np.abs(entities[..., :4]) < LARGEST_NUMBER).all(axis=(1, 2))
        heads, entities = heads[complete], entities[complete]
        return Moments(
            quarter=heads[:, 0].astype(int),
            time=heads[:, 1] / 1000,
            clock=heads[:, 2],
            shot_clock=np.where(np.abs(heads[:, 3]) < LARGEST_NUMBER, heads[:, 3], np.nan),
            teams=entities[:, [1, 6], 0].astype(int),
            players=entities[:, 1:, 1].astype(int),
            positions=entities[..., 2:4],
        )

    @staticmethod
    def joined(parts: Sequence[Moments]) -> Moments:
        """The distinct moments of all parts, in order; moments are distinct by quarter and time."""
        every = Moments(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        order = np.lexsort((every.time, every.quarter))
        new = np.ones(len(order), bool)
        new[1:] = (np.diff(every.time[order]) != 0) | (np.diff(every.quarter[order]) != 0)
        return every.at(order[new])

    def at(self, rows: slice | np.ndarray) -> Moments:
        """The moments of these rows."""
        return Moments(*(array[rows] for array in self))


class Stretch(NamedTuple):
    """Unbroken play of the same ten players in one half, turned to one rim and resampled."""

    quarter: int
    right: bool  # whether it was played in the right half
    clock: Float[np.ndarray, " K"]
    shot_clock: Float[np.ndarray, " K"]
    teams: Int[np.ndarray, " 2"]
    players: Int[np.ndarray, " 10"]
    positions: Float[np.ndarray, "K 11 2"]

    def swapped(self) -> Stretch:
        """The same stretch with the second team first."""
        players, positions = np.roll(self.players, 5), self.positions.copy()
        positions[:, 1:] = np.roll(self.positions[:, 1:], 5, axis=1)
        return self._replace(teams=self.teams[::-1], players=players, positions=positions)


class Scenes(NamedTuple):
    """Windows of play: ball, offense and defense, players sorted by number. States are in multiples of SCALE feet."""

    states: Int[np.ndarray, "N F 11 2"]
    quarter: Int[np.ndarray, " N"]
    clock: Float[np.ndarray, " N"]  # both clocks as they are at the first frame
    shot_clock: Float[np.ndarray, " N"]
    teams: Int[np.ndarray, "N 2"]  # offense, defense
    players: Int[np.ndarray, "N 10"]

    @staticmethod
    def joined(parts: Sequence[Scenes]) -> Scenes:
        """The windows of all parts, in order."""
        return Scenes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def ball_nearest(self) -> Float[np.ndarray, "N 5"]:
        """The fraction of frames in which each offensive player is the nearest of the five to the ball."""
        distance = np.linalg.norm(self.states[:, :, 1:6] - self.states[:, :, :1].astype(float), axis=-1)
        return (distance.argmin(axis=-1)[..., None] == np.arange(5)).mean(axis=1)


def find_scenes(moments: Moments, cut: Cut) -> Scenes:
    """The windows of a game: unbroken play in one half in which the team that attacks there has the ball."""
    stretches = find_stretches(moments, cut)
    left = find_left_attackers(stretches)
    found = [_no_scenes(cut)]
    for stretch in stretches:
        first_attacks = left[stretch.quarter] != stretch.right
        found.append(cut_windows(stretch if first_attacks else stretch.swapped(), cut))
    return Scenes.joined(found)


def find_stretches(moments: Moments, cut: Cut) -> list[Stretch]:
    """Play without a break by the same ten players in one half, at least as long as a window."""
    right, positions = turn(moments.positions)
    ball, players = positions[:, 0], positions[:, 1:]
    players_inside = ((players >= -OUTSIDE) & (players <= np.add(COURT, (0, OUTSIDE)))).all(axis=(1, 2))
    ball_inside = ((ball >= -BALL_OUTSIDE) & (ball <= COURT + BALL_OUTSIDE)).all(axis=1)
    half = np.where(players_inside & ball_inside, 1 + right, 0)
    broken = find_breaks(moments) | (np.diff(half) != 0)
    edges = np.concatenate([[0], np.flatnonzero(broken) + 1, [len(half)]])
    found = []
    for first, last in itertools.pairwise(edges):
        if last > first and half[first] and moments.time[last - 1] - moments.time[first] >= cut.seconds - 1e-6:
            part = moments.at(slice(first, last))
            at, frames = resample(part.time, positions[first:last], cut.hz)
            clocks = part.clock[at], part.shot_clock[at]
            names = part.teams[0], part.players[0]
            found.append(Stretch(int(part.quarter[0]), bool(right[first]), *clocks, *names, frames))
    return found


def find_breaks(moments: Moments) -> Bool[np.ndarray, " m"]:
    """Whether play breaks between each moment and the next."""
    passed, played = np.diff(moments.time), -np.diff(moments.clock)
    return (
        (np.diff(moments.quarter) != 0)
        | (passed > GAP)
        | _lasting(played <= 0, moments.time, STUTTER)
        | (np.abs(played - passed) > JUMP)
        | (np.diff(moments.shot_clock) > RESET)  # a new possession, or an offensive rebound
        | (np.diff(moments.players, axis=0) != 0).any(axis=1)
    )


def turn(positions: Float[np.ndarray, "n 11 2"]) -> tuple[Bool[np.ndarray, " n"], Float[np.ndarray, "n 11 2"]]:
    """Whether players are in the right half on average, and the positions as seen from that half's end of the court.

    The court is turned by 180 degrees, not mirrored: left stays left for a player who faces the rim.
    """
    right = positions[:, 1:, 0].mean(axis=1) > LENGTH / 2
    return right, np.where(right[:, None, None], np.array([LENGTH, WIDTH]) - positions, positions)


def resample(
    time: Float[np.ndarray, " n"], positions: Float[np.ndarray, "n 11 2"], hz: float
) -> tuple[Int[np.ndarray, " K"], Float[np.ndarray, "K 11 2"]]:
    """The moment before each frame, and the positions at equal time steps, interpolated linearly between moments."""
    since = time - time[0]
    wanted = np.arange(int(since[-1] * hz + 1e-6) + 1) / hz
    before = np.clip(np.searchsorted(since, wanted + 1e-6, "right") - 1, 0, len(since) - 2)
    share = (wanted - since[before]) / (since[before + 1] - since[before])
    return before, positions[before] + share[:, None, None] * (positions[before + 1] - positions[before])


def find_left_attackers(stretches: Sequence[Stretch]) -> dict[int, bool]:
    """Whether the first team attacks the left rim, by quarter.

    The team that defends a rim is nearer to it, on average, than the team that attacks it. Every frame of a quarter
    votes, so that one fast break or scramble does not decide.
    """
    votes = defaultdict(int)
    for stretch in stretches:
        distance = np.linalg.norm(stretch.positions[:, 1:] - RIM, axis=-1).reshape(-1, 2, 5).mean(axis=-1)
        first_attacks = int(np.sign(distance[:, 0] - distance[:, 1]).sum())
        votes[stretch.quarter] += -first_attacks if stretch.right else first_attacks
    return {quarter: vote > 0 for quarter, vote in votes.items()}


def cut_windows(stretch: Stretch, cut: Cut) -> Scenes:
    """The windows of a stretch whose first team attacks, except those in which it does not have the ball."""
    starts = range(0, len(stretch.positions) - cut.steps, cut.stride or cut.steps + 1)
    first = np.array(
        [start for start in starts if is_attack(stretch.positions[start : start + cut.steps + 1], cut.hz)], int
    )
    windows = stretch.positions[first[:, None] + np.arange(cut.steps + 1)]
    return Scenes(
        states=np.rint(windows / SCALE).astype(np.int16),
        quarter=np.full(len(first), stretch.quarter),
        clock=stretch.clock[first],
        shot_clock=stretch.shot_clock[first],
        teams=np.tile(stretch.teams, (len(first), 1)),
        players=np.tile(stretch.players, (len(first), 1)),
    )


def is_attack(window: Float[np.ndarray, "F 11 2"], hz: float) -> bool:
    """Whether the ball is nearest to an attacker in more than half of the frames, and no player exceeds `FASTEST`."""
    nearest = np.linalg.norm(window[:, 1:] - window[:, :1], axis=-1).argmin(axis=1)
    speed = np.linalg.norm(np.diff(window[:, 1:], axis=0), axis=-1) * hz
    return bool((nearest < 5).mean() > 0.5 and speed.max() <= FASTEST)


def _lasting(flags: Bool[np.ndarray, " m"], time: Float[np.ndarray, " n"], seconds: float) -> Bool[np.ndarray, " m"]:
    """The flags between moments, with runs of True that last less than `seconds` set to False."""
    lasting = flags.copy()
    for first, last in np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]))).reshape(-1, 2):
        lasting[first:last] = time[last] - time[first] >= seconds
    return lasting


def _no_scenes(cut: Cut) -> Scenes:
    none = np.zeros(0)
    return Scenes(
        np.zeros((0, cut.steps + 1, 11, 2), np.int16),
        none.astype(int),
        none,
        none,
        np.zeros((0, 2), int),
        np.zeros((0, 10), int),
    )
