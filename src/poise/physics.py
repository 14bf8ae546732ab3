"""Physics of rigid bodies as a function (states, actions) -> next states: MuJoCo in threads, or MJX compiled by JAX.

A state is qpos and qvel, side by side, and nothing else: the contact solver starts every control step from zero, not
from the step before, so that a step depends on the state and the action alone. MuJoCo is an extra and is imported
when a driver is made, never before.
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

from .cores import count_cores
from .errors import PoiseError
from .trajectories import Array, Trajectories

LARGEST = 1e10  # MuJoCo silently starts anew from larger numbers


@runtime_checkable
class Driver(Protocol):
    """Takes one control step of many bodies at once."""

    model: Any
    """MuJoCo's model of a body."""

    def step(self, states: Any, actions: Any) -> np.ndarray:
        """The next states [N, S] of states [N, S] and actions [N, A]; what is not a state or an action is refused."""
        ...

    def try_step(self, states: Any, actions: Any) -> np.ndarray:
        """The same for rollouts that must go on: actions are cut to their range, and what is not finite, or becomes
        unstable, is NaN."""
        ...


def require(*packages: str) -> None:
    """Says which extra to install if one of these packages is missing."""
    missing = [name for name in packages if importlib.util.find_spec(name.partition(".")[0]) is None]
    if missing:
        late = "dm_control" in missing and sys.version_info >= (3, 13)
        hint = "; dm-control can be had for Python 3.11 and 3.12 only" if late else ""
        raise PoiseError(f"the Cheetah needs {' and '.join(missing)}: pip install 'poise[cheetah]'{hint}")


@functools.cache
def import_mujoco() -> Any:
    """MuJoCo, which looks for OpenGL as soon as it is imported: a MUJOCO_GL that names what is not there is told.

    It is quiet from then on: what becomes unstable is told here, not in a MUJOCO_LOG.TXT wherever the user stands.
    """
    require("mujoco")
    try:
        mujoco = importlib.import_module("mujoco")
    except Exception as error:  # of many kinds, one a backend
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
    """MuJoCo's model of a body of the Control Suite, from the XML in the installed package, with this time step."""
    require("mujoco", "dm_control")
    mujoco, package = import_mujoco(), importlib.util.find_spec("dm_control")
    assert package is not None  # pyright
    assert package.origin is not None
    spec = mujoco.MjSpec.from_file(str(Path(package.origin).parent / "suite" / f"{name}.xml"))
    mass, spec.compiler.settotalmass = spec.compiler.settotalmass, -1  # MuJoCo warns of that attribute at every use
    spec.option.timestep = timestep
    model = spec.compile()
    if mass > 0:
        mujoco.mj_setTotalmass(model, mass)
        mujoco.mj_setConst(model, mujoco.MjData(model))
    return model


class Threads:
    """MuJoCo itself: batches of states in threads, in double precision."""

    def __init__(self, model: Any, substeps: int, threads: int | None = None):
        """`substeps` are the physics steps of a control step."""
        mujoco, rollout = import_mujoco(), importlib.import_module("mujoco.rollout")
        self.model, self.substeps = model, substeps
        count = threads or count_cores()
        self._data = [mujoco.MjData(model) for _ in range(count)]
        self._pool, self._lock = rollout.Rollout(nthread=count if count > 1 else 0), threading.Lock()

    def step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states, after one control step."""
        states, actions = check(self.model, states, actions)
        return _stable(states, self._advance(states, actions, self.substeps))

    def try_step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states; NaN for what cannot be."""
        return _where_fine(self.model, states, actions, lambda s, a: self._advance(s, a, self.substeps))

    def settle(self, states: Any, steps: int) -> Float[np.ndarray, "N S"]:
        """The states after so many physics steps without action."""
        states = check_states(self.model, states)
        return _stable(states, self._advance(states, np.zeros((len(states), self.model.nu)), steps))

    def _advance(self, states: np.ndarray, actions: np.ndarray, steps: int) -> np.ndarray:
        """The states after so many physics steps; NaN where they became unstable."""
        if not len(states):
            return states
        full = np.concatenate([np.zeros((len(states), 1)), states], axis=1)  # MuJoCo's state begins with the time
        control = np.repeat(actions[:, None], steps, axis=1)
        with self._lock:
            made, _ = self._pool.rollout(
                self.model, self._data, full, control, initial_warmstart=np.zeros((len(states), self.model.nv))
            )
        last = np.asarray(made)[:, -1]
        whole = np.isclose(last[:, :1], steps * self.model.opt.timestep)  # MuJoCo starts those anew that are not
        return np.where(whole, last[:, 1:], np.nan)


class Compiled:
    """MJX: the same physics as a function that JAX traces, in single precision, for batches on an accelerator."""

    def __init__(
        self, model: Any, substeps: int, solver: str = "newton", iterations: int = 6, line_search_iterations: int = 8
    ):
        """The contact solver is "newton" or "cg", stopped after so many iterations.

        "cg" with few iterations is faster and far less exact.
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
        """The next state of one state; traced, so for `vmap`, `jit` and `scan`. MuJoCo's motors clip the action."""
        place, speed = jnp.split(state, [self.model.nq])
        data = self._data.replace(qpos=place, qvel=speed, ctrl=action)
        with jax.default_matmul_precision("highest"):  # a GPU would round to 10 bits inside of products
            data = jax.lax.fori_loop(0, self.substeps, lambda _, now: self._step(self._compiled_model, now), data)
        return jnp.concatenate([data.qpos, data.qvel])

    def step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states, after one control step."""
        states, actions = check(self.model, states, actions)
        return _stable(states, self._advance(states, actions))

    def try_step(self, states: Any, actions: Any) -> Float[np.ndarray, "N S"]:
        """The next states; NaN for what cannot be."""
        return _where_fine(self.model, states, actions, self._advance)

    def _advance(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        made = np.asarray(self._batch(jnp.asarray(states, jnp.float32), jnp.asarray(actions, jnp.float32)))
        return np.where((np.abs(made) < LARGEST).all(axis=1, keepdims=True), made, np.nan)


def _where_fine(
    model: Any, states: Any, actions: Any, advance: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Float[np.ndarray, "N S"]:
    """The next states where state and action are finite, with the action cut to its range; NaN elsewhere.

    All rows are advanced, zeros in place of those that are not fine: another number of rows would be compiled anew.
    """
    states, actions = _check_sizes(model, states, actions)
    fine = ((np.abs(states) < LARGEST).all(axis=1) & np.isfinite(actions).all(axis=1))[:, None]  # false for NaN
    control = np.clip(actions, *model.actuator_ctrlrange.T)
    return np.where(fine, advance(np.where(fine, states, 0.0), np.where(fine, control, 0.0)), np.nan)


def _stable(states: np.ndarray, following: np.ndarray) -> np.ndarray:
    lost = np.flatnonzero(np.isnan(following).any(axis=1))
    if len(lost):
        raise PoiseError(f"the simulation became unstable in state {states[lost[0]].round(3).tolist()}")
    return following


def drive(
    driver: Driver, act: Callable[[int, np.ndarray], Any], starts: Float[Array, "N S"], steps: int
) -> Trajectories:
    """Closed-loop rollouts: `act` gives the actions [N, A] of a step, by its number and the states [N, S]."""
    states, actions = [np.asarray(starts)], []
    for number in range(steps):
        actions.append(np.asarray(act(number, states[-1])))
        states.append(driver.step(states[-1], actions[-1]))
    return Trajectories(np.stack(states, axis=1), np.stack(actions, axis=1))


def check(model: Any, states: Any, actions: Any) -> tuple[Float[np.ndarray, "N S"], Float[np.ndarray, "N A"]]:
    """States and actions in double precision, if they are as many, of the right size, finite and within range."""
    states, actions = _check_sizes(model, states, actions)
    check_states(model, states)
    low, high = model.actuator_ctrlrange.T
    within = (low <= actions) & (actions <= high)  # false for NaN
    if not within.all():
        row, column = np.argwhere(~within)[0]
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
    """States and actions in double precision, if they are as many and of the right size."""
    states, actions = _rows("state", states, model.nq + model.nv), _rows("action", actions, model.nu)
    if len(states) != len(actions):
        raise PoiseError(f"every state has an action; got {len(states)} states and {len(actions)} actions")
    return states, actions


def _rows(name: str, values: Any, size: int) -> Float[np.ndarray, "N size"]:
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or values.shape[1] != size:
        one = "an" if name == "action" else "a"
        raise PoiseError(f"{one} {name} is {size} numbers, and {name}s are [N, {size}]; got {list(values.shape)}")
    return values


def _import_mjx() -> Any:
    require("mujoco")
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that it found no warp, which is not needed
            from mujoco import mjx
    except ImportError as error:  # part of another package than the rest of MuJoCo
        raise PoiseError("MJX is missing: pip install 'poise[cheetah]'") from error
    return mjx
