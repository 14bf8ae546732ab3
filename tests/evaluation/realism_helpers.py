"""What the tests of realism share: simulated possessions, and what is done to them that a measure must notice."""

from __future__ import annotations

from typing import Any

import numpy as np

from poise import Trajectories
from poise.domains.basketball import BASKETBALL
from poise.domains.basketball_simulator import simulate_possessions
from poise.evaluation.two_sample import ClassifierSize

COURT = BASKETBALL
TINY = ClassifierSize(rows=500, hidden=16, steps=200, batch=32, rate=2e-2, reads=12)

_played = simulate_possessions(6_000)
TRAIN, HELD_OUT, TEST, OTHERS = (Trajectories(part) for part in np.split(_played, [3_000, 4_000, 5_000]))
"""Possessions; those of `OTHERS` have the law of `TEST`, as the rollouts of a perfect policy would."""


def moved(states: np.ndarray) -> Trajectories:
    """Trajectories of these states, whose actions are their differences."""
    return Trajectories(states)


def shaken(trajectories: Trajectories, feet: float = 1.0) -> Trajectories:
    """The same trajectories with noise on all states but the first."""
    noise = np.random.default_rng(0).normal(scale=feet, size=trajectories.states.shape)
    noise[:, 0] = 0
    return moved(np.asarray(trajectories.states) + noise)


def delayed(trajectories: Trajectories, steps: int = 6) -> Trajectories:
    """The same trajectories, which first stand still for some steps."""
    states = np.asarray(trajectories.states)
    return moved(np.concatenate([np.repeat(states[:, :1], steps, axis=1), states[:, :-steps]], axis=1))


def mirrored(trajectories: Trajectories) -> Trajectories:
    """The same trajectories toward the other basket of a court of 47 feet: with another start, and the same speeds."""
    return moved(np.asarray(trajectories.states) * [-1, 1] + [47, 0])


def circling(trajectories: Trajectories) -> Trajectories:
    """Trajectories with the same speeds that turn left by a tenth of a circle more at each step."""
    actions = np.asarray(trajectories.actions)
    turn = np.exp(2j * np.pi / 10 * np.arange(actions.shape[1]))
    moves = (actions[..., 0] + 1j * actions[..., 1]) * turn
    away = np.cumsum(np.stack([moves.real, moves.imag], axis=-1), axis=1)
    start = np.asarray(trajectories.states)[:, :1]
    return moved(np.concatenate([start, start + away], axis=1))


def cut(trajectories: Trajectories, seed: int = 0) -> Trajectories:
    """The same trajectories with lengths from 4 to T."""
    lengths = np.random.default_rng(seed).integers(4, trajectories.steps + 1, size=len(trajectories))
    return Trajectories(trajectories.states, trajectories.actions, lengths)


def with_garbage(trajectories: Trajectories) -> Trajectories:
    """The same trajectories with other numbers beyond their lengths."""
    real = np.asarray(trajectories.mask)[..., None]
    states, actions = np.array(trajectories.states), np.where(real, trajectories.actions, np.float32(1e3))
    states[:, 1:] = np.where(real, states[:, 1:], np.float32(-1e3))
    return Trajectories.unchecked(states, actions, trajectories.lengths)


def broken(trajectories: Trajectories, rows: Any) -> Trajectories:
    """The same trajectories, of which these rows become NaN."""
    states = np.array(trajectories.states)
    states[rows, 3:] = np.nan
    return Trajectories.unchecked(states, np.diff(states, axis=1), np.asarray(trajectories.lengths))
