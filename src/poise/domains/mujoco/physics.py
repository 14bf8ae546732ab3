"""Physics of rigid bodies as a function (states, actions) -> next states: MuJoCo in threads, or MJX compiled by JAX.

A state is qpos and qvel, side by side. The contact solver starts every control step from zero, not from the solution of
the step before, so that a step depends on the state and the action alone. MuJoCo is an extra, and is imported only when
a driver is made.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...data.trajectories import Array
from ...errors import PoiseError
from ...system.devices import count_cores

LARGEST = 1e10  # MuJoCo silently resets states with larger numbers


@runtime_checkable
class Driver(Protocol):
    """Physics that take one control step of many bodies at once."""

    model: Any
    """MuJoCo's model of a body."""

    def step(self, states: Any, actions: Any) -> np.ndarray:
        """The next states [N, S] of states [N, S] and actions [N, A].

        Raises:
            PoiseError: If a state or an action is out of range, NaN or of another size, or if a next state is unstable.
        """
        ...

    def try_step(self, states: Any, actions: Any) -> np.ndarray:
        """The next states, for rollouts that must continue: actions are clipped to their range.

        The next state is NaN where the state or the action is not finite, or where the simulation becomes unstable.
        """
        ...


def require(*packages: str) -> None:
    """Raises an error that names the extra to install, if one of these packages is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name.partition(".")[0]) is None]
    if missing:
        late = "dm_control" in missing and sys.version_info >= (3, 13)
        hint = "; dm-control supports Python 3.11 and 3.12 only" if late else ""
        raise PoiseError(f"bodies in MuJoCo need {' and '.join(missing)}: pip install 'poise[cheetah]'{hint}")


@functools.cache
def import_mujoco() -> Any:
    """The module `mujoco`. It loads OpenGL when it is imported, and fails if MUJOCO_GL names a missing backend.

    Its log is switched off: the drivers report unstable states, and no MUJOCO_LOG.TXT appears in the working directory.
    """
    require("mujoco")
    try:
        mujoco = importlib.import_module("mujoco")
    except Exception as error:  # every backend raises errors of its own
        backend = os.environ.get("MUJOCO_GL")
        if not backend:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PoiseError(
            f"MuJoCo cannot be imported with MUJOCO_GL={backend} ({reason}): unset it; physics and stick figures need "
            "no OpenGL"
        ) from error
    log = mujoco.MjLogConfig.get()
    log.logto_file = log.logto_console = False
    log.set()
    return mujoco


@functools.cache
def suite_model(name: str, timestep: float) -> Any:
    """MuJoCo's model of a body of the Control Suite: the XML of the installed package, with another time step."""
    require("mujoco", "dm_control")
    mujoco, package = import_mujoco(), importlib.util.find_spec("dm_control")
    assert package is not None  # pyright
    assert package.origin is not None
    spec = mujoco.MjSpec.from_file(str(Path(package.origin).parent / "suite" / f"{name}.xml"))
    mass, spec.compiler.settotalmass = spec.compiler.settotalmass, -1  # MuJoCo warns about this attribute
    spec.option.timestep = timestep
    model = spec.compile()
    if mass > 0:
        mujoco.mj_setTotalmass(model, mass)
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class Threads:
    """MuJoCo: batches of states are divided among threads, in double precision."""

    def __init__(self, model: Any, substeps: int, threads: int | None = None):
        """`substeps` is the number of physics steps per control step; `threads` is one per CPU core if not given."""
        mujoco, rollout = import_mujoco(), importlib.import_module("mujoco.rollout")
        self.model, self.substeps = model, substeps
        count = threads or count_cores()
        self._data = [mujoco.MjData(model) for _ in range(count)]
        self._pool, self._lock = rollout.Rollout(nthread=count if count > 1 else 0), threading.Lock()

    def step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states, after one control step."""
        states, actions = check(self.model, states, actions)
        return _check_stable(states, self._advance(states, actions, self.substeps))

    def try_step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states; NaN where a state is invalid or becomes unstable."""
        return _where_valid(self.model, states, actions, lambda s, a: self._advance(s, a, self.substeps))

    def settle(self, states: Any, steps: int) -> Float[np.ndarray, "N S"]:
        """The states after `steps` physics steps with zero actions."""
        states = check_states(self.model, states)
        return _check_stable(states, self._advance(states, np.zeros((len(states), self.model.nu)), steps))

    def _advance(self, states: np.ndarray, actions: np.ndarray, steps: int) -> np.ndarray:
        """The states after `steps` physics steps; NaN where they became unstable."""
        if not len(states):
            return states
        full = np.concatenate([np.zeros((len(states), 1)), states], axis=1)  # MuJoCo's state begins with the time
        control = np.repeat(actions[:, None], steps, axis=1)
        with self._lock:
            made, _ = self._pool.rollout(
                self.model, self._data, full, control, initial_warmstart=np.zeros((len(states), self.model.nv))
            )
        last = np.asarray(made)[:, -1]
        stable = np.isclose(last[:, :1], steps * self.model.opt.timestep)  # MuJoCo resets unstable states, and the time
        return np.where(stable, last[:, 1:], np.nan)


class Compiled:
    """MJX: the same physics as a function that JAX traces, in single precision."""

    def __init__(
        self, model: Any, substeps: int, solver: str = "newton", iterations: int = 6, line_search_iterations: int = 8
    ):
        """The contact solver is "newton" or "cg", with at most `iterations` iterations.

        "cg" with few iterations is faster and much less accurate.
        """
        mjx = _import_mjx()
        self.model, self.substeps = model, substeps
        found = mjx.put_model(model, impl="jax")
        options = {
            "solver": mjx.SolverType[solver.upper()],
            "iterations": iterations,
            "ls_iterations": line_search_iterations,
        }
        self._compiled_model = found.replace(opt=found.opt.replace(**options))
        self._data, self._step = mjx.make_data(model, impl="jax"), mjx.step
        self._batch = jax.jit(jax.vmap(self.transition))

    def transition(self, state: Float[Array, " S"], action: Float[Array, " A"]) -> Float[Array, " S"]:
        """The next state of a single state, for use in `vmap`, `jit` and `scan`. MuJoCo's motors clip the action."""
        qpos, qvel = jnp.split(state, [self.model.nq])
        data = self._data.replace(qpos=qpos, qvel=qvel, ctrl=action)
        with jax.default_matmul_precision("highest"):  # a GPU would round the factors of a product to 10 bits
            data = jax.lax.fori_loop(0, self.substeps, lambda _, now: self._step(self._compiled_model, now), data)
        return jnp.concatenate([data.qpos, data.qvel])

    def step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states, after one control step."""
        states, actions = check(self.model, states, actions)
        return _check_stable(states, self._advance(states, actions))

    def try_step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states; NaN where a state is invalid or becomes unstable."""
        return _where_valid(self.model, states, actions, self._advance)

    def _advance(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        made = np.asarray(self._batch(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32)))
        return np.where((np.abs(made) < LARGEST).all(axis=1, keepdims=True), made, np.nan)


def _where_valid(
    model: Any, states: Any, actions: Any, advance: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Float[np.ndarray, "N S"]:
    """The next states where state and action are finite, with actions clipped to their range; NaN elsewhere.

    All rows are advanced, with zeros in place of invalid ones: MJX would compile again for another number of rows.
    """
    states, actions = _check_sizes(model, states, actions)
    valid = ((np.abs(states) < LARGEST).all(axis=1) & np.isfinite(actions).all(axis=1))[:, None]  # false for NaN
    control = np.clip(actions, *model.actuator_ctrlrange.T)
    return np.where(valid, advance(np.where(valid, states, 0.0), np.where(valid, control, 0.0)), np.nan)


def _check_stable(states: np.ndarray, following: np.ndarray) -> np.ndarray:
    """The next states, if none of them is NaN."""
    unstable = np.flatnonzero(np.isnan(following).any(axis=1))
    if len(unstable):
        raise PoiseError(f"the simulation became unstable in state {states[unstable[0]].round(3).tolist()}")
    return following


def check(model: Any, states: Any, actions: Any) -> tuple[Float[np.ndarray, "N S"], Float[np.ndarray, "N A"]]:
    """States and actions in double precision, if they are equally many, of the right sizes, finite and in range."""
    states, actions = _check_sizes(model, states, actions)
    check_states(model, states)
    low, high = model.actuator_ctrlrange.T
    in_range = (low <= actions) & (actions <= high)  # false for NaN
    if not in_range.all():
        row, column = np.argwhere(~in_range)[0]
        raise PoiseError(
            f"number {column} of an action lies between {low[column]:g} and {high[column]:g}; "
            f"got {actions[row, column]:g} in row {row}"
        )
    return states, actions


def check_states(model: Any, states: Any) -> Float[np.ndarray, "N S"]:
    """States in double precision, if they have the right size and are finite."""
    states = _rows("state", states, model.nq + model.nv)
    good = np.abs(states) < LARGEST  # false for NaN
    if not good.all():
        row, column = np.argwhere(~good)[0]
        rule = f"below {LARGEST:g}" if np.isfinite(states[row, column]) else "finite"
        raise PoiseError(f"a state is {rule}; got {states[row, column]:g} as number {column} of row {row}")
    return states


def _check_sizes(model: Any, states: Any, actions: Any) -> tuple[Float[np.ndarray, "N S"], Float[np.ndarray, "N A"]]:
    """States and actions in double precision, if they are equally many and of the right sizes."""
    states, actions = _rows("state", states, model.nq + model.nv), _rows("action", actions, model.nu)
    if len(states) != len(actions):
        raise PoiseError(f"every state has an action; got {len(states)} states and {len(actions)} actions")
    return states, actions


def _rows(name: str, values: Any, size: int) -> Float[np.ndarray, "N size"]:
    """Values in double precision, if they are rows of this size."""
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] != size:
        one = "an" if name == "action" else "a"
        raise PoiseError(f"{one} {name} is {size} numbers, and {name}s are [N, {size}]; got {list(values.shape)}")
    return values


def _import_mjx() -> Any:
    """The module `mujoco.mjx`."""
    require("mujoco")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that Warp is missing, which is not needed
            from mujoco import mjx
    except ImportError as error:  # MJX is a package of its own
        raise PoiseError("MJX is missing: pip install 'poise[cheetah]'") from error
    return mjx
