"""Milliseconds of one optimiser step of a stage, for many shapes, with the floor that the hardware sets.

The floor is the larger of two times: the step's arithmetic at the rate of a large product, and its unavoidable memory
traffic at the rate of a large copy, both measured here. The length of the chain of dependent products is
reported as well: no product of a chain can begin before the one before it has ended.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from poise.algorithms import Algorithm, Problem, find_algorithm, fit_to_domain
from poise.config import PRESETS, Settings
from poise.data.batches import Data
from poise.data.trajectories import Trajectories
from poise.domains import Domain, find_domain
from poise.models import Statistics
from poise.models.layers import on_cpu
from poise.styles.label_spaces import Categories, LabelSpace
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.system.devices import use_cpu_devices
from poise.training.run_axis import Axis
from poise.training.stages import Optimisation, Turn, begin, compile_stage
from poise.training.state import PerRun, start

DEMONSTRATIONS = 8_192
use_cpu_devices()


@dataclass(frozen=True)
class Shape:
    """The shape of one step; the defaults are the paper's for basketball."""

    algorithm: str = "ctvae-style"
    stage: str = "policy"
    preset: str = "basketball"
    runs: int = 1
    batch: int = 128
    steps: int = 24
    hidden: int = 128
    styles: int = 1

    @property
    def settings(self) -> Settings:
        """The preset's settings with these sizes."""
        preset = PRESETS[self.preset]
        layers = tuple(self.hidden for _ in preset.network.layers)
        network = replace(preset.network, hidden=self.hidden, layers=layers)
        return replace(preset, network=network, training=replace(preset.training, batch=self.batch))


CHEETAH = Shape(preset="cheetah", batch=16, steps=200, hidden=200)


@dataclass(frozen=True)
class Work:
    """Everything that a step of a shape needs."""

    shape: Shape
    domain: Domain
    problem: Problem
    demonstrations: Trajectories
    labels: np.ndarray

    @property
    def algorithm(self) -> Algorithm:
        """The shape's algorithm as it is trained in the domain."""
        return fit_to_domain(find_algorithm(self.shape.algorithm), self.domain)


def build(shape: Shape) -> Work:
    """Demonstrations and labels: simulated players, or random walks of the Cheetah's sizes."""
    if shape.preset == "cheetah":
        random = np.random.default_rng(0)
        states = 0.1 * random.normal(size=(512, shape.steps + 1, 18)).cumsum(axis=1)
        demonstrations = Trajectories(states, np.tanh(random.normal(size=(512, shape.steps, 6))))
        domain, space = Domain("data"), LabelSpace((Categories(2),) * shape.styles)
        labels = random.integers(0, 2, size=(512, shape.styles)).astype(np.int32)
    else:
        domain = find_domain("basketball")
        assert domain.demonstrations is not None
        made = domain.demonstrations(DEMONSTRATIONS, 0)
        times = -(-shape.steps // made.steps)
        actions = np.tile(np.asarray(made.actions), (1, times, 1))[:, : shape.steps]
        states = np.concatenate([made.states[:, :1], made.states[:, :1] + actions.cumsum(axis=1)], axis=1)
        demonstrations = Trajectories(states, actions)
        styles = [style.fit(demonstrations) for style in list(domain.styles.values())[: shape.styles]]
        labels, space = label_all(styles, demonstrations), label_space(styles)
    problem = Problem(Statistics.of(demonstrations), space, shape.settings.network, domain)
    return Work(shape, domain, problem, demonstrations, labels)


def measure(work: Work, least: int = 10, seconds: float = 2.0, repeats: int = 3) -> dict[str, Any]:
    """One row of results: compilation, and the best of several repeats of many steps."""
    shape, settings = work.shape, work.shape.settings
    algorithm, stage = work.algorithm, work.algorithm.stage(shape.stage)
    order = [Turn(stage, 0, settings.training.steps(stage.name))]
    state = begin(start(algorithm, work.problem, np.arange(shape.runs)), order, 0, settings.training)
    axis = Axis.over(shape.runs, None if on_cpu() else jax.local_devices()[:1], batch=shape.batch)
    arrays, static = eqx.partition(state, eqx.is_array)
    data = Data.of(work.demonstrations, work.labels)
    data, few = axis.share((data, data.rows(np.arange(2))))  # validation is not part of a step: two rows suffice
    each, arrays = axis.fill((PerRun.equal(shape.runs, settings), arrays))
    run = compile_stage(stage, Optimisation.of(stage, settings.training), axis, static)

    def steps(count: int) -> float:
        nonlocal arrays
        began = time.perf_counter()
        arrays, losses, _ = run((data, few, jnp.asarray(count), each), arrays)
        jax.block_until_ready((arrays, losses))
        return time.perf_counter() - began

    compiled = steps(1)
    count = int(np.clip(seconds / max(steps(2) / 2, 1e-6) / repeats, least, 1000))
    best = min(steps(count) for _ in range(repeats)) / count * 1e3
    floor = floor_of(work)
    return {
        "name": name_of(shape),
        "algorithm": shape.algorithm,
        "stage": shape.stage,
        "preset": shape.preset,
        "runs": shape.runs,
        "batch": shape.batch,
        "steps": shape.steps,
        "hidden": shape.hidden,
        "styles": shape.styles,
        "ms_per_step": round(best, 4),
        "ms_per_step_and_run": round(best / shape.runs, 5),
        "floor_ms": round(floor["ms"] * shape.runs, 5),
        "gflop": round(floor["gflop"] * shape.runs, 3),
        "dependent_products": floor["dependent_products"],
        "baseline_ms": None,
        "compile_s": round(compiled, 2),
        "peak_memory_mb": _peak_memory(),
    }


def name_of(shape: Shape) -> str:
    """A unique name of a shape."""
    return (
        f"{shape.algorithm} {shape.stage} {shape.preset} r{shape.runs} b{shape.batch} T{shape.steps} "
        f"h{shape.hidden} s{shape.styles}"
    )


def floor_of(work: Work) -> dict[str, float]:
    """An estimate of the fewest milliseconds for one step of one run, its arithmetic, and its chain of products."""
    shape, network = work.shape, work.shape.settings.network
    statistics, labels = work.problem.statistics, work.problem.space.width
    states, actions = statistics.state.mean.size, statistics.action.mean.size
    rows, hidden, T = shape.batch * shape.steps, network.hidden, shape.steps
    recurrent = network.decoder == "recurrent"

    def gru(inputs: int) -> int:
        return 2 * rows * (inputs + hidden) * 3 * hidden

    seen = states + actions
    latent = network.latent if "tvae" in shape.algorithm else 0
    widths = (
        states + latent + labels + hidden * recurrent,
        *network.layers,
        actions * (2 if network.variance == "state" else 1),
    )
    body = 2 * rows * sum(a * b for a, b in itertools.pairwise(widths))
    decode = body + (gru(seen) if recurrent else 0)
    encode = 2 * gru(seen) if "tvae" in shape.algorithm else 0
    label = 2 * gru(seen + states)
    learned = (states + actions, *network.dynamics_layers, states)
    dynamics = 0 if work.domain.dynamics else 2 * rows * sum(a * b for a, b in itertools.pairwise(learned))
    per_step = (len(network.layers) + 1) + recurrent + (0 if work.domain.dynamics else len(learned) - 1)
    if shape.stage == "labeler":
        flop, chain, memories = 3 * label, 2 * T, 2
    else:
        flop, chain, memories = 3 * (encode + decode), 2 * T, 2 * ("tvae" in shape.algorithm) + recurrent
        if "style" in shape.algorithm:  # the frozen parts have no gradients of their own
            flop += 3 * decode + 2 * (label + dynamics)
            chain, memories = 2 * (T * per_step + T), memories + recurrent + 2
    parameters = sum(x.size for x in jax.tree.leaves(_parts_of(work)) if hasattr(x, "size"))
    moved = 4 * (9 * parameters + 2 * memories * rows * hidden)
    rates = machine()
    return {
        "ms": max(flop / rates["gflops"] / 1e6, moved / rates["gbytes_per_s"] / 1e6),
        "gflop": flop / 1e9,
        "dependent_products": chain,
    }


def _parts_of(work: Work) -> Any:
    parts = eqx.filter_eval_shape(lambda: work.algorithm.build(work.problem, jax.random.key(0)))
    return [parts[name] for name in work.algorithm.stage(work.shape.stage).trains]


@cache
def machine() -> dict[str, float]:
    """The rates of a large product and of a large copy on this device."""
    size = 2048 if jax.default_backend() == "cpu" else 8192
    x = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda x: x @ x)
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    big = jnp.zeros(2**27 if jax.default_backend() == "cpu" else 2**30)
    bytes_moved = 2 * big.nbytes

    def best(function, given, again) -> float:
        times = []
        for _ in range(6):
            began = time.perf_counter()
            made = jax.block_until_ready(function(given))
            times.append(time.perf_counter() - began)
            given = made if again else given
        return min(times[1:])

    return {
        "gflops": round(2 * size**3 / best(product, x, again=False) / 1e9, 1),
        "gbytes_per_s": round(bytes_moved / best(add, big, again=True) / 1e9, 1),
    }


def _peak_memory() -> float | None:
    stats = jax.devices()[0].memory_stats()
    return round(stats["peak_bytes_in_use"] / 1e6, 1) if stats else None


if __name__ == "__main__":
    import sys

    print(machine())
    for runs in map(int, sys.argv[1:] or ["1"]):
        print(measure(build(Shape(runs=runs))), flush=True)
