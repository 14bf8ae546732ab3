"""The losses of `poise.losses` in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import torch
from eager_networks import Dynamics, Labeler, Policy, gaussian
from torch import Tensor, nn

from poise.algorithms import Stage
from poise.config import Settings
from poise.data.trajectories import Trajectories

Modules = dict[str, Any]


class Work(NamedTuple):
    """One stage of one Poise run: its parts, without the axis of runs, and the data to train on."""

    parts: dict[str, Any]
    stage: Stage
    settings: Settings
    demonstrations: Trajectories
    labels: np.ndarray


class Batch(NamedTuple):
    """Demonstrations and the step's random numbers (standard normal), time first, as PyTorch's GRU expects."""

    states: Tensor
    actions: Tensor
    labels: Tensor  # one-hot, side by side
    z: Tensor  # [2, batch, latent]: one for the posterior, one for the prior
    noise: Tensor  # like the actions


def imitation(modules: Modules, batch: Batch) -> dict[str, Tensor]:
    """Negative log-density of the demonstrated actions, and the embedding's KL beyond its free bits."""
    policy: Policy = modules["policy"]
    states, actions = policy.state(batch.states[:-1]), policy.action(batch.actions)
    seen, context, named = torch.cat([states, actions], -1), batch.labels, {}
    if policy.reader is not None and policy.posterior is not None:
        embedding = gaussian(policy.posterior(torch.cat([policy.reader(seen)[0].mean(0), batch.labels], -1)))
        context = torch.cat([embedding.sample(batch.z[0]), batch.labels], -1)
        mean, log_sigma = embedding
        kl = 0.5 * (mean**2 + (2 * log_sigma).exp() - 1) - log_sigma
        named["kl"] = kl.mean(0).clamp(min=policy.free_bits).sum()
    units = len(actions) * policy.action.deviation.log().sum()
    return {"nld": policy.nld(states, actions, seen, context).mean() + units, **named}


def style(modules: Modules, batch: Batch) -> dict[str, Tensor]:
    """The labeler's cross-entropy on rollouts from the starts of the batch."""
    policy, dynamics, labeler = (modules[name] for name in ("policy", "dynamics", "labeler"))
    context, state = torch.cat([batch.z[1], batch.labels], -1), batch.states[0]
    memory, states, actions = policy.memory(context), [policy.state(state)], []
    for noise in batch.noise:
        actions.append(policy.act(states[-1], context, memory).sample(noise))
        seen = torch.cat([states[-1], actions[-1]], -1)
        memory = policy.remember(memory, seen)
        state = dynamics(state, policy.action.undo(actions[-1]), seen)
        states.append(policy.state(state))
    return {"style": labeler.loss(torch.stack(states), torch.stack(actions), batch.labels)}


def label(modules: Modules, batch: Batch) -> dict[str, Tensor]:
    """The labeler's cross-entropy on demonstrations."""
    labeler: Labeler = modules["labeler"]
    return {"label": labeler.loss(labeler.state(batch.states), labeler.action(batch.actions), batch.labels)}


TERMS = {"imitation": imitation, "style": style, "label": label}


def load(parts: dict[str, Any], stage: Stage, structure: str, device: str) -> Modules:
    """The parts of one Poise run as PyTorch modules with its weights; only what the stage trains has gradients."""
    parts = jax.tree.map(np.asarray, parts)
    make: dict[str, Callable] = {"policy": lambda x: Policy(x, structure), "labeler": Labeler, "dynamics": Dynamics}
    with torch.device(device):
        return {name: make[name](part).requires_grad_(name in stage.trains) for name, part in parts.items()}


def trained(modules: Modules, stage: Stage) -> dict[str, nn.Parameter]:
    """The parameters that the stage trains, by name."""
    return {f"{part}.{name}": value for part in stage.trains for name, value in modules[part].named_parameters()}


def objective(work: Work, modules: Modules, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of the stage's named losses, and the losses."""
    weights = work.settings.weights.by_name()
    named = {k: v for term in work.stage.terms for k, v in TERMS[term.__name__](modules, batch).items()}
    return torch.stack([weights[name] * value for name, value in named.items()]).sum(), named


def tensors(work: Work, device: str) -> list[Tensor]:
    """States, actions and one-hot labels of all demonstrations, on the device."""
    data, labels = work.demonstrations, work.parts["policy"].space.encode(jnp.asarray(work.labels))
    return [torch.tensor(np.asarray(x), device=device) for x in (data.states, data.actions, labels)]


def allow_tf32(allowed: bool) -> None:
    """Sets whether matrix products and cuDNN may use TF32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
