"""Demonstrators: policies trained by PPO, one a target, whose rollouts are the demonstrations of a domain.

`train` makes them in a folder, from which an interrupted training goes on; `Demonstrators` are what comes out, as one
small file; `demonstrate` lets them act in MuJoCo.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from tqdm import tqdm

from . import origin, physics, ppo, storage
from .errors import PoiseError, unknown
from .files import make_folder
from .pacing import Pace, Stop
from .ppo import Actor, Course, Learner, Network, Recipe, Scale
from .program_cache import cache_folder
from .trajectories import Array, Trajectories, Transition

CHUNK = 8  # updates between two looks at the clock: as much as is lost at the worst, or 5 s
POOL = 4096  # states that training starts from, again and again
FORMAT = 1  # of kept demonstrations: raised when they are made in another way
NOISE = 0.5  # of a policy's own, in demonstrations: with all of it, some of the fast ones stumble
ROLLOUTS = 25  # of each policy, to measure it: as many as it gives demonstrations
DRIVERS, SOLVERS = ("threads", "mjx"), ("newton", "cg")
PARTS = ("train", "test")
VARIABLE = "POISE_DEMONSTRATIONS"


@dataclass(frozen=True)
class Skill:
    """What the demonstrators of a domain learn, and in which physics."""

    course: Course
    targets: tuple[float, float]
    """The lowest and the highest."""
    unit: str
    hertz: int
    steps: int
    """Of a demonstration."""
    resets: Callable[[int, int], np.ndarray]
    """First states, by count and seed."""
    threads: Callable[[], physics.Driver]
    compiled: Callable[..., physics.Compiled]
    recipe: Recipe = field(default_factory=Recipe)
    measures: dict[str, Callable[[Array], Array]] = field(default_factory=dict)
    """What of states [..., S] is told of demonstrations beside the target, by name: as quantiles."""
    shares: dict[str, Callable[[Array], Array]] = field(default_factory=dict)
    """What is true of some states [..., S], by name: told as the share of the time."""


@dataclass(frozen=True)
class Plan:
    """How many demonstrators are trained, for how long, and in which physics."""

    policies: int
    """Their targets are spread evenly."""
    steps: int = 1_000_000
    """Control steps of a policy."""
    environments: int = 64
    """Environments of a policy."""
    seed: int = 0
    driver: str = "threads"
    """MuJoCo in `threads`, or `mjx`."""
    solver: str = "newton"
    """MJX's contact solver, with the iterations that it and its line search may take."""
    iterations: int = 6
    line_search_iterations: int = 8

    def __post_init__(self):
        for name in ("policies", "steps", "environments", "iterations", "line_search_iterations"):
            if getattr(self, name) < 1:
                raise PoiseError(f"--{name.replace('_', '-')} is at least 1; got {getattr(self, name)}")
        if not 0 <= self.seed < 2**31:
            raise PoiseError(f"--seed lies between 0 and 2^31; got {self.seed}")
        for name, known in (("driver", DRIVERS), ("solver", SOLVERS)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)

    def updates(self, recipe: Recipe) -> int:
        """Updates of PPO, the last one whole."""
        return -(-self.steps // (self.environments * recipe.unroll))


class Demonstrators(eqx.Module):
    """P policies for known targets; every array has them as its first axis."""

    targets: Float[Array, " P"]
    scale: Scale
    actor: Actor

    def __len__(self) -> int:
        return len(self.targets)

    def save(self, path: Path) -> None:
        """Writes them as one safetensors file."""
        sizes = [self.scale.mean.shape[1], *(bias.shape[1] for bias in self.actor.network.biases)]
        storage.write_tree(path, self, {"policies": len(self), "sizes": sizes})

    @staticmethod
    def load(path: str | Path) -> Demonstrators:
        """What `save` wrote."""
        path = Path(path)
        notes = storage.read_notes(path)
        P, sizes = notes["policies"], notes["sizes"]

        def like() -> Demonstrators:
            weights = tuple(jnp.zeros((P, *shape)) for shape in itertools.pairwise(sizes))
            network = Network(weights, tuple(jnp.zeros((P, size)) for size in sizes[1:]))
            scale = Scale(jnp.zeros(P), jnp.zeros((P, sizes[0])), jnp.zeros((P, sizes[0])))
            return Demonstrators(jnp.zeros(P), scale, Actor(network, jnp.zeros((P, sizes[-1]))))

        return storage.read_tree(path, jax.eval_shape(like))


def train(
    skill: Skill, plan: Plan, out: str | Path, seconds: float | None = None, progress: bool = True
) -> dict[str, Any]:
    """Trains demonstrators, or goes on training them, in a folder, and says how well they reach their targets.

    With `seconds` it stops after about so long; the same call goes on from there. Writes policies.safetensors and
    demonstrators.json.
    """
    out = make_folder(Path(out))
    with storage.lock(out):
        learning = _Learning(skill, plan, out / "checkpoint.safetensors")
        learning.go_on(seconds, progress)
        made = learning.demonstrators
        made.save(out / "policies.safetensors")
        about = {"plan": asdict(plan), "recipe": asdict(skill.recipe), "steps": learning.steps}
        result = {**measure(skill, made, plan.seed + 1, progress), **about, **origin.origin(learning.seconds)}
        storage.write_json(out / "demonstrators.json", result)
    return result


class _Learning:
    """Training on its way: the learners, the compiled program and the checkpoint."""

    def __init__(self, skill: Skill, plan: Plan, path: Path):
        self.skill, self.plan, self.path = skill, plan, path
        self.targets = jnp.linspace(*skill.targets, plan.policies, dtype=jnp.float32)
        self.settings = {**asdict(plan), **asdict(skill.recipe)}
        notes = storage.read_notes(path) if path.exists() else None
        for name, value in self.settings.items():
            known = notes["settings"].get(name) if notes else value
            if known != value:
                raise PoiseError(
                    f"{path.parent} holds other demonstrators ({name}: {known}, not {value}); choose another --out"
                )
        self.pool = jnp.asarray(skill.resets(POOL, plan.seed), jnp.float32)
        self.seconds = notes["seconds"] if notes else 0.0
        self.learners = storage.read_tree(path, jax.eval_shape(self._begin)) if notes else self._begin()
        self.done = int(self.learners.updates[0])
        self.total = plan.updates(skill.recipe)

    @property
    def demonstrators(self) -> Demonstrators:
        """What the learners are by now."""
        return Demonstrators(self.targets, self.learners.scale, self.learners.actor)

    @property
    def steps(self) -> int:
        """Control steps that each policy has taken."""
        return self.done * self.plan.environments * self.skill.recipe.unroll

    def go_on(self, seconds: float | None, progress: bool) -> None:
        """Trains to the end, or for about so many seconds."""
        began, earlier, pace = time.perf_counter(), self.seconds, Pace()
        share, title = self.plan.environments * self.skill.recipe.unroll, f"{self.plan.policies} policies"
        shown = {"desc": title, "unit": "step", "unit_scale": True, "disable": not progress}
        with tqdm(total=self.total * share, initial=self.steps, **shown) as bar, Stop(saving=True) as stop:
            while self.done < self.total and (seconds is None or time.perf_counter() - began < seconds):
                count = min(CHUNK, self.total - self.done)
                self.learners, errors = self._program(self.learners, self.targets, self.pool, jnp.asarray(count))
                error = float(np.mean(errors))  # waits for the program
                self.done += count
                self.seconds = earlier + time.perf_counter() - began
                bar.set_postfix({"mean error": f"{error:.2f} {self.skill.unit}"}, refresh=False)
                bar.update(count * share)
                with pace.writing(stop.asked) as due:
                    if due:
                        self.save()
                stop.check()
        self.save()

    def save(self) -> None:
        """Writes the checkpoint."""
        storage.write_tree(self.path, self.learners, {"settings": self.settings, "seconds": self.seconds})

    def _begin(self) -> Learner:
        keys = jax.random.split(jax.random.key(self.plan.seed), self.plan.policies)
        actions = self.skill.threads().model.nu
        one = functools.partial(
            ppo.begin, self.skill.course, self.skill.recipe, self.pool, self.plan.environments, actions
        )
        return jax.jit(jax.vmap(one))(keys)

    @functools.cached_property
    def _program(self) -> Callable[..., Any]:
        skill, plan = self.skill, self.plan
        if plan.driver == "mjx":
            driver = skill.compiled(plan.solver, plan.iterations, plan.line_search_iterations)
            transition = jax.vmap(driver.transition)
        else:
            transition = called_back(skill.threads())
        given = {"course": skill.course, "recipe": skill.recipe, "total": self.total, "transition": transition}
        return jax.jit(functools.partial(ppo.learn, **given), donate_argnums=0)


def called_back(driver: physics.Driver) -> Transition:
    """A driver's step as part of a compiled program: it gets the environments of all policies at once.

    What becomes unstable is NaN, from which PPO starts anew: nothing is raised within a program.
    """

    def step(states, actions):
        flat = (np.asarray(x).reshape(-1, x.shape[-1]) for x in (states, actions))
        return driver.try_step(*flat).astype(np.float32).reshape(states.shape)

    def transition(states: Array, actions: Array) -> Array:
        like = jax.ShapeDtypeStruct(states.shape, jnp.float32)
        return jax.pure_callback(step, like, states, actions, vmap_method="broadcast_all")

    return transition


def demonstrate(
    skill: Skill, demonstrators: Demonstrators, count: int, seed: int, progress: bool | None = None
) -> Trajectories:
    """So many demonstrations by MuJoCo, of one policy after the other, in turn; columns: policy, target.

    Actions are drawn from the policies, with half of their deviation, and cut to the motors' range. If not told
    otherwise, progress is shown on a terminal only.
    """
    P, T = len(demonstrators), skill.steps
    each = -(-count // P)
    A = demonstrators.actor.log_deviation.shape[1]
    noise = np.random.default_rng(seed).standard_normal((each, P, T, A), np.float32)
    starts = skill.resets(each * P, seed)

    hidden = None if progress is None else not progress

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 1, 1), out_axes=1)
    def act(one: Demonstrators, states: Array, noise: Array) -> Array:
        mean = one.actor.network(one.scale(skill.course.observe(states)))
        return jnp.clip(mean + NOISE * jnp.exp(one.actor.log_deviation) * noise, *skill.course.actions)

    with (
        jax.default_device(jax.local_devices(backend="cpu")[0]),  # the same with an accelerator and without
        tqdm(total=T, desc=f"{count} demonstrations", unit="step", disable=hidden) as bar,
    ):
        policies = jax.device_put(demonstrators, jax.local_devices(backend="cpu")[0])

        def choose(number: int, states: np.ndarray) -> np.ndarray:
            bar.update()
            seen = states.reshape(each, P, -1).astype(np.float32)
            return np.asarray(act(policies, seen, noise[:, :, number])).reshape(each * P, A)

        made = physics.drive(skill.threads(), choose, starts, T)
    policy = np.arange(count) % P
    columns = {"policy": policy, "target": np.asarray(demonstrators.targets)[policy]}
    return Trajectories(made.states[:count], made.actions[:count], metadata=columns)


def kept_demonstrations(skill: Skill, policies: Path, count: int, seed: int, part: str) -> Trajectories:
    """Demonstrations of the policies in a file, to train or to test with; made once, and then kept in the user's cache.

    POISE_DEMONSTRATIONS names another folder for them, or is empty for none.
    """
    if not 0 <= seed < 2**31:
        raise PoiseError(f"--seed lies between 0 and 2^31; got {seed}")
    found = origin.versions()
    made_by = [found.get(name) for name in ("poise", "jax", "jaxlib", "numpy", "mujoco", "dm-control")]
    given = [FORMAT, count, seed, part, *made_by, NOISE, skill.steps]
    key = hashlib.sha256(json.dumps(given).encode() + policies.read_bytes()).hexdigest()[:16]
    folder = cache_folder("demonstrations", VARIABLE)
    path = folder and folder / f"{policies.stem}-{part}-{key}.npz"
    if path and path.exists():
        with contextlib.suppress(PoiseError):  # a damaged file is made anew
            return Trajectories.load(path)
    own = int(np.random.SeedSequence([seed, PARTS.index(part)]).generate_state(1)[0])
    made = demonstrate(skill, Demonstrators.load(policies), count, own)
    if path:
        _keep(made, path)
    return made


def _keep(made: Trajectories, path: Path) -> None:
    """Writes demonstrations as a whole file or none; where the disk is full, they are made again the next time."""
    new = path.with_name(f".{os.getpid()}-{path.name}")
    with contextlib.suppress(PoiseError, OSError):
        try:
            made.save(new)
            os.replace(new, path)
        finally:
            new.unlink(missing_ok=True)


def measure(skill: Skill, demonstrators: Demonstrators, seed: int, progress: bool = False) -> dict[str, Any]:
    """How well demonstrations of MuJoCo reach their targets."""
    P, course = len(demonstrators), skill.course
    made = demonstrate(skill, demonstrators, ROLLOUTS * P, seed, progress)
    states = np.asarray(made.states).reshape(ROLLOUTS, P, skill.steps + 1, -1)
    reached = np.asarray(course.reached(states))
    targets = np.asarray(demonstrators.targets, np.float64)
    whole, late = reached.mean(axis=(0, 2)), reached[:, :, skill.hertz :].mean(axis=(0, 2))
    quantiles = {
        name: {str(q): _rounded(np.quantile(of(states), q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
        for name, of in skill.measures.items()
    }
    return {
        "mean_error": _rounded(np.abs(whole - targets).mean()),
        "largest_error": _rounded(np.abs(whole - targets).max()),
        "mean_error_after_first_second": _rounded(np.abs(late - targets).mean()),
        "unit": skill.unit,
        "shares": {name: _rounded(np.mean(of(states))) for name, of in skill.shares.items()},
        "quantiles": quantiles,
        "rollouts": f"{ROLLOUTS} of each policy, {skill.steps} steps, C MuJoCo, resets and noise of seed {seed}",
        "policies": [
            {
                "target": _rounded(targets[p]),
                "reached": _rounded(whole[p]),
                "reached_after_first_second": _rounded(late[p]),
                "deviation": _rounded(reached[:, p].mean(axis=1).std()),
            }
            for p in range(P)
        ],
    }


def _rounded(value: Any) -> float:
    return round(float(value), 4)
