"""Milliseconds per training step in eager PyTorch: the baseline that Poise's step is compared with.

    python benchmarks/eager.py --algorithm ctvae-style --batch 128 --steps 24 --hidden 128 --styles 1 --classes 3
    python benchmarks/eager.py --parity

It follows the training loop that the paper's authors published (ezhan94/calibratable-style-consistency), with Poise's
networks, losses and sizes: modules are made from Poise's own parts, so only the program differs.

- `published` loops over time in Python as the authors do: readers get the whole sequence, the decoder one step after
  the other, in imitation and in the rollout, with an `nn.GRU` that is called on sequences of one step.
- `whole` is the best that eager PyTorch can reasonably do: imitation is one `nn.GRU` and one batched MLP; only the
  rollout, where each state needs the action before it, is a loop, with PyTorch's GRU cell.

Both leave out the rest of the authors' loop (loading data on the host, reading losses back at every step, labelling
rollouts in Python for the log), draw all noise at once and use fused Adam: all to the baseline's advantage.
Float32; on CUDA, matrix products and cuDNN may use TF32, as JAX's do by default. No torch.compile, no CUDA graphs. No
masks either: all trajectories have the same length.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
import torch
import tyro
from eager_losses import Batch, Work, allow_tf32, load, objective, tensors, trained
from eager_parity import TOLERANCE, parity, shake
from torch import Tensor, nn

from poise.algorithms import Problem, find_algorithm, fit_to_domain
from poise.config import PRESETS
from poise.data.trajectories import Trajectories
from poise.domains import Domain, integrator
from poise.models import Statistics
from poise.styles.label_spaces import Categories, LabelSpace

STRUCTURES = ("published", "whole")


def make_step(work: Work, structure: str, device: str) -> Callable[[], dict[str, Tensor]]:
    """Returns a function that takes one optimiser step on random rows and returns the named losses."""
    modules, data = load(work.parts, work.stage, structure, device), tensors(work, device)
    parameters, training = list(trained(modules, work.stage).values()), work.settings.training
    adam = torch.optim.Adam(parameters, training.learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, training.steps(work.stage.name))
    z = (2, training.batch, getattr(work.parts["policy"], "latent", 0))

    def step() -> dict[str, Tensor]:
        rows = torch.randint(len(data[0]), (training.batch,), device=device)
        states, actions, labels = (x[rows] for x in data)
        states, actions = states.transpose(0, 1), actions.transpose(0, 1)
        batch = Batch(states, actions, labels, torch.randn(z, device=device), torch.randn_like(actions))
        loss, named = objective(work, modules, batch)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, training.clip)
        adam.step()
        schedule.step()
        return named

    return step


def measure(step: Callable[[], Any], device: str, warmup: int = 5, count: int = 10, repeats: int = 5) -> float:
    """Milliseconds per step: the median of several repeats of `count` steps, after a warm-up."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    allow_tf32(True)

    def repeat(count: int) -> float:
        wait()
        began = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        return 1000 * (time.perf_counter() - began) / count

    repeat(warmup)
    return statistics.median(repeat(count) for _ in range(repeats))


@dataclass
class Arguments:
    """Milliseconds per step of both structures on random demonstrations; with --parity, their difference from Poise."""

    algorithm: Literal["tvae", "ctvae", "rnn", "ctvae-style", "rnn-style"] = "ctvae-style"
    stage: Literal["policy", "labeler"] = "policy"
    preset: Literal["basketball", "cheetah"] = "basketball"
    """2 states, 2 actions, state + action; or 18 states, 6 actions, learned dynamics and a decoder without memory."""
    batch: int | None = None
    """Trajectories in a minibatch; the preset's if not given."""
    steps: int = 24
    """T, the steps of a trajectory."""
    hidden: int | None = None
    """Width of the GRUs and of the decoder; the preset's if not given."""
    styles: int = 1
    classes: int = 3
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    parity: bool = False
    """Compare losses and gradients on one batch instead of timing; exit with 1 if they differ by too much."""


def build(arguments: Arguments, rows: int | None = None) -> Work:
    """The stage and data that the arguments describe; `rows` random demonstrations, one batch by default."""
    settings, random, known = PRESETS[arguments.preset], np.random.default_rng(0), arguments.preset == "basketball"
    width, batch = arguments.hidden or settings.network.hidden, arguments.batch or settings.training.batch
    network = replace(settings.network, hidden=width, layers=(width,) * len(settings.network.layers))
    settings, rows = replace(settings, network=network, training=replace(settings.training, batch=batch)), rows or batch
    states = random.standard_normal((rows, arguments.steps + 1, 2 if known else 18))
    actions = None if known else random.standard_normal((rows, arguments.steps, 6))
    data = Trajectories(states.cumsum(1) if known else states, actions)
    labels = random.integers(arguments.classes, size=(rows, arguments.styles))
    space = LabelSpace((Categories(arguments.classes),) * arguments.styles)
    domain = Domain(arguments.preset, dynamics=integrator if known else None, environment=integrator)
    algorithm = fit_to_domain(find_algorithm(arguments.algorithm), domain)
    stages = [stage for stage in algorithm.stages if stage.name == arguments.stage]
    if not stages:
        raise SystemExit(f"{arguments.algorithm} has no stage {arguments.stage!r}; --algorithm ctvae-style has")
    parts = algorithm.build(Problem(Statistics.of(data), space, network, domain), jax.random.key(0))
    if not known and "dynamics" in parts:  # untrained dynamics are unstable: long rollouts would overflow
        slower = parts["dynamics"].body.layers[-1].weight / arguments.steps
        parts["dynamics"] = eqx.tree_at(lambda part: part.body.layers[-1].weight, parts["dynamics"], slower)
    return Work(parts, stages[0], settings, data, labels)


def main(arguments: Arguments) -> int:
    """Prints the times, or the differences; returns 1 if a difference is too large."""
    too_far = False
    for structure in STRUCTURES:
        if not arguments.parity:
            step = make_step(build(arguments, 1024), structure, arguments.device)
            print(f"{structure:10} {measure(step, arguments.device):8.2f} ms per step")
            continue
        for name, value in parity(shake(build(arguments)), structure, arguments.device).items():
            print(f"{structure:10} {value:.1e} {name}")
            too_far |= not value <= TOLERANCE[name.split()[0]]  # NaN is too far as well
    return int(too_far)


if __name__ == "__main__":
    raise SystemExit(main(tyro.cli(Arguments)))
