"""Latency and throughput of a trained policy: one rollout, one step of an actor, many rollouts; the paper's sizes.

    python benchmarks/sampling.py
    python benchmarks/sampling.py --eager      (also the same rollouts in PyTorch, one step at a time)

`measure` returns the results: medians of several calls after a first one. The weights do not matter, so the run is
hardly trained.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np

import poise
from poise.training.state import one_run

STYLE = {"speed": "slow", "destination": "near"}
COUNTS = (1, 100, 4_000, 100_000)
SETTINGS = poise.PRESETS["basketball"]


def make_run(count: int = 500) -> poise.Run:
    """A ctvae-style run at the paper's sizes after two steps of training."""
    training = replace(SETTINGS.training, policy_steps=2, labeler_steps=2)
    return poise.train("ctvae-style", settings=replace(SETTINGS, training=training), count=count, progress=False)


def seconds(call: Callable[[], object], enough: float = 2.0, most: int = 1_000) -> np.ndarray:
    """The times of calls after a first one: at least three, and more until there are enough seconds or calls."""
    call()
    times = []
    while len(times) < 3 or (sum(times) < enough and len(times) < most):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return np.asarray(times)


def measure_sample(run: poise.Run) -> dict[str, float]:
    """Milliseconds of `run.sample(1, ..., tries=1)`, and of the first such call."""
    started = time.perf_counter()
    run.sample(1, STYLE, tries=1)
    first, times = time.perf_counter() - started, seconds(lambda: run.sample(1, STYLE, tries=1))
    return {
        "ms": 1e3 * float(np.median(times)),
        "ms_99": 1e3 * float(np.percentile(times, 99)),
        "first_ms": 1e3 * first,
    }


def measure_step(run: poise.Run, count: int | None = None) -> dict[str, float]:
    """Microseconds of `actor.step(state)`."""
    actor = run.actor(STYLE, count=count)
    state = np.asarray(run.starts.starts)[: count or 1].reshape(-1 if count is None else (count, 2))
    times = 1e6 * seconds(lambda: actor.step(state), most=10_000)
    return {"us": float(np.median(times)), "us_99": float(np.percentile(times, 99))}


def measure_rollouts(run: poise.Run, counts: Sequence[int] = COUNTS) -> dict[str, float]:
    """Rollouts per second, by the number that is requested at a time."""
    return {str(n): n / float(np.median(seconds(lambda n=n: run.sample(n, STYLE, tries=1)))) for n in counts}


def measure_eager(run: poise.Run, counts: Sequence[int] = COUNTS[:3]) -> dict[str, float]:
    """The same in eager PyTorch, one step at a time."""
    import torch
    from eager_networks import Policy

    parts = jax.tree.map(np.asarray, one_run(run.parts, run.best))
    policy, latent, width = Policy(parts["policy"], "whole"), parts["policy"].latent, parts["policy"].space.width

    def roll(count: int) -> torch.Tensor:
        state, context = torch.zeros(count, 2), torch.randn(count, latent + width)
        memory, states = policy.memory(context), [state]
        for _ in range(run.starts.steps):
            standard = policy.state(states[-1])
            action = policy.act(standard, context, memory).sample(torch.randn(count, 2))
            memory = policy.remember(memory, torch.cat([standard, action], -1))
            states.append(states[-1] + policy.action.undo(action))
        return torch.stack(states, 1)

    with torch.inference_mode():
        return {str(n): n / float(np.median(seconds(lambda n=n: roll(n)))) for n in counts}


def measure(counts: Sequence[int] = COUNTS, eager: bool = False) -> dict:
    """All results."""
    run = make_run()
    return {
        "steps": run.starts.steps,
        "hidden": SETTINGS.network.hidden,
        "device": str(jax.devices()[0]),
        "sample_one": measure_sample(run),
        "actor_step": measure_step(run),
        "actor_step_of_ten": measure_step(run, 10),
        "rollouts_per_second": measure_rollouts(run, counts),
        **({"eager_rollouts_per_second": measure_eager(run)} if eager else {}),
    }


def main() -> None:
    """Prints the results."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--eager", action="store_true", help="also in PyTorch, which must be installed")
    print(json.dumps(measure(eager=parser.parse_args().eager), indent=2))


if __name__ == "__main__":
    main()
