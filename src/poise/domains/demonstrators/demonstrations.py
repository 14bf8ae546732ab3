"""Demonstrations: rollouts of trained demonstrators in MuJoCo, their cache, and how well they reach their targets."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ...data.trajectories import Array, Trajectories
from ...errors import PoiseError
from ...system import provenance
from ...system.compile_cache import cache_folder
from ..loop import closed_loop
from .policies import Demonstrators, TaskSpec

FORMAT = 1  # part of the name of a cached file; increase it when demonstrations are made differently
NOISE = 0.5  # factor on a policy's standard deviation: with all of it, some of the fast policies stumble
ROLLOUTS = 25  # per policy, when policies are measured: as many as each contributes to the Cheetah's demonstrations
PARTS = ("train", "test")
VARIABLE = "POISE_DEMONSTRATIONS"


def demonstrate(
    task: TaskSpec, demonstrators: Demonstrators, count: int, seed: int, progress: bool | None = None
) -> Trajectories:
    """Demonstrations in MuJoCo, by policies 0, 1, 2, ... in turn; the metadata are their policy and its target.

    Actions are drawn from the policies with half of their standard deviation and clipped to the range of the motors.

    Args:
        task: What the policies have learned.
        demonstrators: The policies.
        count: The number of demonstrations.
        seed: The seed of first states and noise.
        progress: Whether a progress bar is shown; by default only on a terminal.
    """
    P, T, A = len(demonstrators), task.steps, demonstrators.actor.log_deviation.shape[1]
    per_policy = -(-count // P)
    noise = np.random.default_rng(seed).standard_normal((per_policy, P, T, A), np.float32)
    starts = task.resets(per_policy * P, seed)
    cpu = jax.local_devices(backend="cpu")[0]  # demonstrations are the same with and without an accelerator

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 1, 1), out_axes=1)
    def sample(policy: Demonstrators, states: Array, noise: Array) -> Array:
        mean = policy.actor.network(policy.norm(task.reward.observe(states)))
        return jnp.clip(mean + NOISE * jnp.exp(policy.actor.log_deviation) * noise, *task.reward.actions)

    def act(step: int, states: np.ndarray) -> np.ndarray:
        bar.update()
        states = states.reshape(per_policy, P, -1).astype(np.float32)
        return np.asarray(sample(policies, states, noise[:, :, step])).reshape(per_policy * P, A)

    disable = None if progress is None else not progress
    with jax.default_device(cpu), tqdm(total=T, desc=f"{count} demonstrations", unit="step", disable=disable) as bar:
        policies = jax.device_put(demonstrators, cpu)
        states, actions = closed_loop(act, task.threads().step, starts, T)
    policy = np.arange(count) % P
    metadata = {"policy": policy, "target": np.asarray(demonstrators.targets)[policy]}
    return Trajectories(states[:count], actions[:count], metadata=metadata)


def cached_demonstrations(task: TaskSpec, policies: Path, count: int, seed: int, part: str) -> Trajectories:
    """Demonstrations by the policies in a file, read from the user's cache where they have been made before.

    The environment variable POISE_DEMONSTRATIONS names another folder for the cache; if it is empty, nothing is cached.

    Args:
        task: What the policies have learned.
        policies: The file that `Demonstrators.save` wrote.
        count: The number of demonstrations.
        seed: The seed, at least 0 and below 2^31.
        part: "train" or "test". The two have different first states and noise.
    """
    if not 0 <= seed < 2**31:
        raise PoiseError(f"--seed lies between 0 and 2^31; got {seed}")
    versions = provenance.versions()
    made_by = [versions.get(name) for name in ("poise", "jax", "jaxlib", "numpy", "mujoco", "dm-control")]
    given = [FORMAT, count, seed, part, *made_by, NOISE, task.steps]
    key = hashlib.sha256(json.dumps(given).encode() + policies.read_bytes()).hexdigest()[:16]
    folder = cache_folder("demonstrations", VARIABLE)
    path = folder and folder / f"{policies.stem}-{part}-{key}.npz"
    if path and path.exists():
        with contextlib.suppress(PoiseError):  # a damaged file is replaced
            return Trajectories.load(path)
    part_seed = int(np.random.SeedSequence([seed, PARTS.index(part)]).generate_state(1)[0])
    made = demonstrate(task, Demonstrators.load(policies), count, part_seed)
    if path:
        with contextlib.suppress(PoiseError, OSError):  # where the disk is full, they are made again the next time
            made.save(path)
    return made


def measure(task: TaskSpec, demonstrators: Demonstrators, seed: int, progress: bool = False) -> dict[str, Any]:
    """How well demonstrations in MuJoCo reach their targets, overall and per policy."""
    P = len(demonstrators)
    made = demonstrate(task, demonstrators, ROLLOUTS * P, seed, progress)
    states = np.asarray(made.states).reshape(ROLLOUTS, P, task.steps + 1, -1)
    reached = np.asarray(task.reward.reached(states))
    targets = np.asarray(demonstrators.targets, np.float64)
    whole, late = reached.mean(axis=(0, 2)), reached[:, :, task.hertz :].mean(axis=(0, 2))
    quantiles = {
        name: {str(q): _rounded(np.quantile(quantity(states), q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)}
        for name, quantity in task.measures.items()
    }
    return {
        "mean_error": _rounded(np.abs(whole - targets).mean()),
        "largest_error": _rounded(np.abs(whole - targets).max()),
        "mean_error_after_first_second": _rounded(np.abs(late - targets).mean()),
        "unit": task.unit,
        "shares": {name: _rounded(np.mean(condition(states))) for name, condition in task.shares.items()},
        "quantiles": quantiles,
        "rollouts": f"{ROLLOUTS} of each policy, {task.steps} steps, C MuJoCo, resets and noise of seed {seed}",
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
