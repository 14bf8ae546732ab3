"""The rules that arrays must satisfy to be trajectories; each violation is one line with the rule and the value."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import PoiseError


def as_numbers(name: str, values: Any) -> np.ndarray:
    """The values as floating-point numbers of their own precision, so that differences are taken before rounding."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise PoiseError(f"{name} are numbers; got an array of {values.dtype}")
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def checked_column(name: str, values: Any) -> np.ndarray:
    """A column of metadata as an array of numbers, words or times."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiubUSmM":
        raise PoiseError(f"metadata are plain arrays of numbers or words; {name!r} holds {values.dtype}")
    return values


def checked_sizes(states: np.ndarray, actions: np.ndarray) -> tuple[int, int]:
    """N and T of states [N, T+1, S] and actions [N, T, A] whose shapes fit together."""
    for name, values, shape in (("states", states, "[N, T+1, S]"), ("actions", actions, "[N, T, A]")):
        if values.ndim != 3:
            raise PoiseError(f"{name} have the shape {shape}; got {shape_text(values)}")
    rows, steps = len(states), states.shape[1] - 1
    if len(actions) != rows:
        raise PoiseError(f"states and actions have one row per trajectory; got {rows} and {len(actions)} rows")
    if actions.shape[1] != steps:
        raise PoiseError(
            f"a trajectory has one more state than actions; got {steps + 1} states and {actions.shape[1]} actions"
        )
    if steps < 1:
        raise PoiseError("a trajectory has at least one step; got T = 0 (one state and no action)")
    if rows < 1 or not states.shape[2] or not actions.shape[2]:
        raise PoiseError(f"there is nothing to learn from: states {shape_text(states)}, actions {shape_text(actions)}")
    return rows, steps


def checked_lengths(lengths: Any, rows: int, steps: int) -> np.ndarray:
    """The number of steps of each trajectory; `steps` for all of them if `lengths` is None."""
    if lengths is None:
        return np.full(rows, steps, np.int32)
    lengths = np.asarray(lengths)
    if lengths.shape != (rows,):
        raise PoiseError(f"lengths have the shape [N] = [{rows}]; got {shape_text(lengths)}")
    if lengths.dtype.kind not in "iu" and not (lengths == np.round(lengths)).all():
        raise PoiseError("lengths are whole numbers of steps")
    if lengths.min() < 1 or lengths.max() > steps:
        bad = int(np.flatnonzero((lengths < 1) | (lengths > steps))[0])
        raise PoiseError(f"a length lies between 1 and T = {steps}; got {lengths[bad]} for trajectory {bad}")
    return lengths.astype(np.int32)


def check_finite(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray, first: int = 0) -> None:
    """Raises PoiseError if a state or action within its trajectory's length is NaN or infinite.

    `first` is the number of the first of these trajectories, so that the message names the right one.
    """
    for name, values, real_steps in (("states", states, lengths + 1), ("actions", actions, lengths)):
        if np.isfinite(values).all():
            continue
        real = np.arange(values.shape[1]) < real_steps[:, None]
        bad = real & ~np.isfinite(values).all(axis=-1)
        if bad.any():
            row, step = np.argwhere(bad)[0]
            raise PoiseError(
                f"{name} must be finite; trajectory {first + row} has {values[row, step]} at step {step}: "
                "clean or drop it"
            )


def padded(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States and actions whose values beyond each length are the last state and the action 0."""
    steps = actions.shape[1]
    if (lengths == steps).all():
        return states, actions
    last = np.take_along_axis(states, lengths[:, None, None].astype(int), axis=1)
    states = np.where((np.arange(steps + 1) <= lengths[:, None])[..., None], states, last)
    return states, np.where((np.arange(steps) < lengths[:, None])[..., None], actions, np.float32(0))


def check_padding(states: np.ndarray, actions: np.ndarray, lengths: np.ndarray, first: int) -> None:
    """Raises PoiseError if `padded` would change these arrays, because arrays on disk are used as they are."""
    for name, values, good in zip(
        ("states", "actions"), (states, actions), padded(states, actions, lengths), strict=True
    ):
        if values is not good and not np.array_equal(values, good):
            row = int(np.flatnonzero((values != good).any(axis=(1, 2)))[0])
            rule = "repeat the last state" if name == "states" else "are 0"
            raise PoiseError(
                f"{name} beyond a length {rule}, and those of trajectory {first + row} (length {lengths[row]}) do not; "
                "write the folder with poise.Writer, which pads them so"
            )


def shape_text(values: np.ndarray) -> str:
    """A shape as messages write it: [N, T, A]."""
    return f"[{', '.join(map(str, values.shape))}]"
