"""Training of demonstrators in a folder, from which an interrupted training is resumed."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ...data.trajectories import Array, Transition
from ...errors import PoiseError, unknown
from ...system import provenance, storage
from ...system.interrupts import CheckpointTimer, Interruptible
from ..mujoco import physics
from . import ppo
from .demonstrations import measure
from .policies import Demonstrators, TaskSpec
from .ppo import Learner, PPOConfig

CHUNK = 8  # updates per compiled call; checkpoints, time limits and Ctrl-C take effect between two calls
POOL = 4096  # states that environments are reset to; they are made once, before training
DRIVERS, SOLVERS = ("threads", "mjx"), ("newton", "cg")


@dataclass(frozen=True)
class TrainConfig:
    """How many demonstrators are trained, for how long, and in which physics."""

    policies: int
    """The number of policies. Their targets are evenly spaced."""
    steps: int = 1_000_000
    """Control steps per policy."""
    environments: int = 64
    """Environments per policy."""
    seed: int = 0
    driver: str = "threads"
    """The physics: MuJoCo in `threads`, or `mjx`."""
    solver: str = "newton"
    """MJX's contact solver."""
    iterations: int = 6
    """The most iterations of MJX's contact solver."""
    line_search_iterations: int = 8
    """The most iterations of its line search."""

    def __post_init__(self):
        for name in ("policies", "steps", "environments", "iterations", "line_search_iterations"):
            if getattr(self, name) < 1:
                raise PoiseError(f"--{name.replace('_', '-')} is at least 1; got {getattr(self, name)}")
        if not 0 <= self.seed < 2**31:
            raise PoiseError(f"--seed lies between 0 and 2^31; got {self.seed}")
        for name, known in (("driver", DRIVERS), ("solver", SOLVERS)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)

    def updates(self, ppo: PPOConfig) -> int:
        """The number of PPO updates, rounded up."""
        return -(-self.steps // (self.environments * ppo.unroll))


def train(
    task: TaskSpec, config: TrainConfig, out: str | Path, seconds: float | None = None, progress: bool = True
) -> dict[str, Any]:
    """Trains demonstrators in a folder, or resumes their training, and returns how well they reach their targets.

    Args:
        task: What they learn.
        config: How many are trained, for how long, and in which physics.
        out: The folder, in which checkpoint.safetensors, policies.safetensors and demonstrators.json are written.
        seconds: If given, training stops after about this time. The same call resumes it.
        progress: Whether progress bars are shown.

    Returns:
        The content of demonstrators.json: errors, the configuration, and the provenance.
    """
    out = storage.make_folder(Path(out))
    with storage.lock(out):
        trainer = _Trainer(task, config, out / "checkpoint.safetensors")
        trainer.train(seconds, progress)
        made = trainer.demonstrators
        made.save(out / "policies.safetensors")
        about = {"config": asdict(config), "ppo": asdict(task.ppo), "steps": trainer.steps}
        result = {**measure(task, made, config.seed + 1, progress), **about, **provenance.provenance(trainer.seconds)}
        storage.write_json(out / "demonstrators.json", result)
    return result


class _Trainer:
    """A training in progress: the learners, the compiled program and the checkpoint."""

    def __init__(self, task: TaskSpec, config: TrainConfig, path: Path):
        """Reads the checkpoint at `path`, if there is one."""
        self.task, self.config, self.path = task, config, path
        self.targets = jnp.linspace(*task.targets, config.policies, dtype=jnp.float32)
        self.settings = {**asdict(config), **asdict(task.ppo)}
        notes = storage.read_notes(path) if path.exists() else None
        for name, value in self.settings.items():
            known = notes["settings"].get(name) if notes else value
            if known != value:
                raise PoiseError(
                    f"{path.parent} holds other demonstrators ({name}: {known}, not {value}); choose another --out"
                )
        self.pool = jnp.asarray(task.resets(POOL, config.seed), jnp.float32)
        self.seconds = notes["seconds"] if notes else 0.0
        self.learners = storage.read_tree(path, jax.eval_shape(self._init)) if notes else self._init()
        self.done = int(self.learners.updates[0])
        self.total = config.updates(task.ppo)

    @property
    def demonstrators(self) -> Demonstrators:
        """The policies as trained so far."""
        return Demonstrators(self.targets, self.learners.norm, self.learners.actor)

    @property
    def steps_per_update(self) -> int:
        """Control steps that each policy takes per update."""
        return self.config.environments * self.task.ppo.unroll

    @property
    def steps(self) -> int:
        """Control steps that each policy has taken so far."""
        return self.done * self.steps_per_update

    def train(self, seconds: float | None, progress: bool) -> None:
        """Trains to the end, or for about `seconds`, and writes checkpoints."""
        began, earlier, timer = time.perf_counter(), self.seconds, CheckpointTimer()
        total, title = self.total * self.steps_per_update, f"{self.config.policies} policies"
        shown = {"desc": title, "unit": "step", "unit_scale": True, "disable": not progress}
        with tqdm(total=total, initial=self.steps, **shown) as bar, Interruptible(saving=True) as interrupt:
            while self.done < self.total and (seconds is None or time.perf_counter() - began < seconds):
                count = min(CHUNK, self.total - self.done)
                self.learners, errors = self._program(self.learners, self.targets, self.pool, jnp.asarray(count))
                error = float(np.mean(errors))  # waits for the program
                self.done += count
                self.seconds = earlier + time.perf_counter() - began
                bar.set_postfix({"mean error": f"{error:.2f} {self.task.unit}"}, refresh=False)
                bar.update(count * self.steps_per_update)
                with timer.due(force=interrupt.asked) as due:
                    if due:
                        self.save()
                interrupt.check()
        self.save()

    def save(self) -> None:
        """Writes the checkpoint."""
        storage.write_tree(self.path, self.learners, {"settings": self.settings, "seconds": self.seconds})

    def _init(self) -> Learner:
        """Untrained learners, one per policy."""
        keys = jax.random.split(jax.random.key(self.config.seed), self.config.policies)
        actions = self.task.threads().model.nu
        init = functools.partial(
            ppo.init_learner, self.task.reward, self.task.ppo, self.pool, self.config.environments, actions
        )
        return jax.jit(jax.vmap(init))(keys)

    @functools.cached_property
    def _program(self) -> Callable[..., Any]:
        """`ppo.learn` in the physics of the configuration, compiled."""
        task, config = self.task, self.config
        if config.driver == "mjx":
            driver = task.compiled(config.solver, config.iterations, config.line_search_iterations)
            transition = jax.vmap(driver.transition)
        else:
            transition = host_callback(task.threads())
        learn = functools.partial(ppo.learn, reward=task.reward, ppo=task.ppo, total=self.total, transition=transition)
        return jax.jit(learn, donate_argnums=0)


def host_callback(driver: physics.Driver) -> Transition:
    """A driver's step as a function that JAX traces and that calls the host.

    Under `vmap` over policies, the host is called once with the environments of all of them. A state that becomes
    unstable is NaN, and PPO resets its environment: an exception would end the whole program.
    """

    def step(states, actions):
        flat = (np.asarray(x).reshape(-1, x.shape[-1]) for x in (states, actions))
        return driver.try_step(*flat).astype(np.float32).reshape(states.shape)

    def transition(states: Array, actions: Array) -> Array:
        like = jax.ShapeDtypeStruct(states.shape, jnp.float32)
        return jax.pure_callback(step, like, states, actions, vmap_method="broadcast_all")

    return transition
