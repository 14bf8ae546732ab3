"""How far the losses and gradients of the PyTorch baseline are from Poise's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from eager_losses import Batch, Work, allow_tf32, load, objective, tensors, trained

from poise.data.trajectories import Trajectories
from poise.training.stages import trainable

TOLERANCE = {"loss": 1e-4, "gradient": 1e-3}
"""The largest relative difference of a loss and of a gradient."""


def losses_in_poise(parts: dict[str, Any], work: Work, z, noise) -> dict[str, Any]:
    """The stage's named losses by Poise's own networks, with the given random numbers."""
    terms, policy, data = {term.__name__ for term in work.stage.terms}, parts["policy"], work.demonstrations
    decoder, labels, named = policy.decoder, jnp.asarray(work.labels), {}
    states, actions = jnp.swapaxes(data.states, 0, 1), jnp.swapaxes(data.actions, 0, 1)
    context, empty = policy.space.encode(labels), decoder.memory(len(labels))
    prior = jnp.concatenate([z[1], context], -1)

    def step_nld(memory, now):
        nld = decoder.act(context, memory, now[0]).nld(decoder.statistics.action(now[1]))
        return decoder.remember(memory, *now), nld + jnp.log(decoder.statistics.action.deviation).sum()

    def roll_out(now, noise):
        drawn = decoder.act(prior, now[1], now[0])
        action = decoder.statistics.action.undo(drawn.mean + jnp.exp(drawn.log_sigma) * noise)
        following = parts["dynamics"].step(
            now[0], action, jnp.zeros_like(now[0])
        )  # deterministic: the noise has no effect
        return (following, decoder.remember(now[1], now[0], action)), (following, action)

    if "imitation" in terms:
        if hasattr(policy, "encode"):
            embedding = policy.encode(data, labels)
            context = jnp.concatenate([embedding.mean + jnp.exp(embedding.log_sigma) * z[0], context], -1)
            named["kl"] = jnp.maximum(embedding.kl().mean(0), policy.free_bits / policy.latent).sum()
        named["nld"] = jax.lax.scan(step_nld, empty, (states[:-1], actions))[1].sum(0).mean()
    if "style" in terms:
        following, actions = jax.lax.scan(roll_out, (states[0], empty), noise)[1]
        states = jnp.concatenate([states[:1], following])
    for name in terms & {"style", "label"}:
        seen = Trajectories.unchecked(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), data.lengths)
        named[name] = parts["labeler"].space.loss(parts["labeler"](seen), labels).mean()
    return named


def parity(work: Work, structure: str, device: str) -> dict[str, float]:
    """The relative difference between PyTorch and Poise with equal weights, noise and batch (all of the work's data).

    One number per named loss ("loss ...") and per gradient of a trained tensor ("gradient ...").
    """
    random, weights = np.random.default_rng(0), work.settings.weights.by_name()
    z = random.standard_normal((2, len(work.labels), getattr(work.parts["policy"], "latent", 0)), np.float32)
    noise = random.standard_normal(np.swapaxes(work.demonstrations.actions, 0, 1).shape, np.float32)
    work = work._replace(demonstrations=work.demonstrations.arrays)

    @eqx.filter_jit
    @eqx.filter_grad(has_aux=True)
    def differentiate(parts):
        named = losses_in_poise(parts, work, z, noise)
        return sum(weights[name] * value for name, value in named.items()), named

    with jax.default_matmul_precision("highest"):
        gradient, expected = differentiate(work.parts)
    allow_tf32(False)
    modules, (states, actions, labels) = load(work.parts, work.stage, structure, device), tensors(work, device)
    drawn = (torch.tensor(x, device=device) for x in (z, noise))
    loss, named = objective(work, modules, Batch(states.transpose(0, 1), actions.transpose(0, 1), labels, *drawn))
    loss.backward()
    found = {f"loss {name}": float(abs(value.item() / expected[name] - 1)) for name, value in named.items()}
    theirs = trained(load(gradient, work.stage, structure, device), work.stage)  # gradients load as weights do
    for name, parameter in trained(modules, work.stage).items():
        error = (parameter.grad - theirs[name]).abs().max()  # pyright: ignore[reportOptionalOperand]
        found[f"gradient {name}"] = (error / theirs[name].abs().max()).item()
    return found


def shake(work: Work) -> Work:
    """The same work with perturbed weights and less weight on the log-density, so that differences show.

    Untrained networks have no bias and a KL within its free bits, and the log-density's gradient outweighs the others.
    """
    random, settings, parts = np.random.default_rng(1), work.settings, dict(work.parts)
    for name in work.stage.trains:
        moved, rest = eqx.partition(parts[name], trainable(parts[name]))
        moved = jax.tree.map(lambda x: x + 0.1 * random.standard_normal(x.shape, np.float32), moved)
        parts[name] = eqx.combine(moved, rest)
    return work._replace(parts=parts, settings=replace(settings, weights=replace(settings.weights, nld=0.01)))
