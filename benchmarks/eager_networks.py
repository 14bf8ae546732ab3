"""Poise's networks as PyTorch modules, made from Poise's own parts: the baseline of `eager.py`."""

from __future__ import annotations

import math
from typing import NamedTuple

try:
    import torch
except ModuleNotFoundError as error:
    raise SystemExit("the baseline needs PyTorch: pip install torch==2.13.0") from error
from torch import Tensor, nn

from poise.domains import integrator
from poise.models.layers import LOG_SIGMA


class Gaussian(NamedTuple):
    mean: Tensor
    log_sigma: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        return self.mean + self.log_sigma.exp() * noise

    def nld(self, x: Tensor) -> Tensor:
        z = (x - self.mean) * (-self.log_sigma).exp()
        return (0.5 * z**2 + self.log_sigma + 0.5 * math.log(2 * math.pi)).sum(-1)


def gaussian(outputs: Tensor) -> Gaussian:
    mean, log_sigma = outputs.chunk(2, dim=-1)
    return Gaussian(mean, log_sigma.clamp(*LOG_SIGMA))


class Standardizer:
    def __init__(self, source):
        self.mean, self.deviation = torch.tensor(source.mean), torch.tensor(source.deviation)

    def __call__(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.deviation

    def undo(self, values: Tensor) -> Tensor:
        return torch.addcmul(self.mean, values, self.deviation)


def linear(source) -> nn.Linear:
    made = nn.Linear(*source.weight.shape)
    made.load_state_dict({"weight": torch.tensor(source.weight.T), "bias": torch.tensor(source.bias)})
    return made


def mlp(source) -> nn.Sequential:
    first, *rest = map(linear, source.layers)
    return nn.Sequential(first, *(layer for following in rest for layer in (nn.ReLU(), following)))


def gru(*sources) -> nn.GRU:
    """Poise's GRU, or two of them as one bidirectional GRU; PyTorch's has the same gates in the same order."""
    made, weights = nn.GRU(len(sources[0].inputs.weight), sources[0].size, bidirectional=len(sources) == 2), {}
    for source, end in zip(sources, ("l0", "l0_reverse"), strict=False):
        for name, layer in ((f"ih_{end}", source.inputs), (f"hh_{end}", source.recurrent)):
            weights |= {f"weight_{name}": torch.tensor(layer.weight.T), f"bias_{name}": torch.tensor(layer.bias)}
    made.load_state_dict(weights)
    return made


class Policy(nn.Module):
    """Poise's TVAE, or its RNN, which has no reader. States and actions are standardised."""

    def __init__(self, source, structure: str):
        super().__init__()
        decoder, self.structure = source.decoder, structure
        self.state, self.action = Standardizer(decoder.statistics.state), Standardizer(decoder.statistics.action)
        self.reader = self.posterior = None
        if hasattr(source, "reader"):
            self.reader, self.posterior = gru(source.reader.forward, source.reader.backward), linear(source.posterior)
            self.free_bits = source.free_bits / source.latent
        self.body = mlp(decoder.body)
        self.recurrence = gru(decoder.recurrence) if decoder.recurrence is not None else None
        self.log_sigma = nn.Parameter(torch.tensor(decoder.log_sigma)) if decoder.log_sigma is not None else None

    def act(self, state: Tensor, context: Tensor, memory: Tensor) -> Gaussian:
        outputs = self.body(torch.cat([state, memory, context], -1))
        if self.log_sigma is None:
            return gaussian(outputs)
        return Gaussian(outputs, self.log_sigma.clamp(*LOG_SIGMA).expand_as(outputs))

    def memory(self, context: Tensor) -> Tensor:
        return context.new_zeros(len(context), self.recurrence.hidden_size if self.recurrence else 0)

    def remember(self, memory: Tensor, seen: Tensor) -> Tensor:
        if self.recurrence is None:
            return memory
        if self.structure == "published":
            return self.recurrence(seen.unsqueeze(0), memory.unsqueeze(0))[1].squeeze(0)
        return torch.gru_cell(seen, memory, *self.recurrence.all_weights[0])

    def nld(self, states: Tensor, actions: Tensor, seen: Tensor, context: Tensor) -> Tensor:
        """Negative log-density of the actions of each trajectory, in standard units."""
        memory, total = self.memory(context), context.new_zeros(len(context))
        if self.structure == "whole":
            memories = memory.expand(len(states), -1, -1)
            if self.recurrence is not None:
                memories = torch.cat([memory.unsqueeze(0), self.recurrence(seen[:-1])[0]])
            return self.act(states, context.expand(len(states), -1, -1), memories).nld(actions).sum(0)
        for t in range(len(actions)):
            total = total + self.act(states[t], context, memory).nld(actions[t])
            memory = self.remember(memory, seen[t])
        return total


class Labeler(nn.Module):
    """Poise's labeler. States and actions are standardised, labels one-hot."""

    def __init__(self, source):
        super().__init__()
        self.state, self.action = Standardizer(source.statistics.state), Standardizer(source.statistics.action)
        self.reader, self.head = gru(source.reader.forward, source.reader.backward), linear(source.head)
        self.sizes = [kind.width for kind in source.space.kinds]

    def loss(self, states: Tensor, actions: Tensor, labels: Tensor) -> Tensor:
        outputs = self.head(self.reader(torch.cat([states[:-1], actions, states[1:]], -1))[0].mean(0))
        log_shares = torch.cat([style.log_softmax(-1) for style in outputs.split(self.sizes, -1)], -1)
        return -(log_shares * labels).sum(-1).mean()


class Dynamics(nn.Module):
    """Poise's dynamics: state + action, or the learned change of a standardised state and action."""

    def __init__(self, source):
        super().__init__()
        self.known = not hasattr(source, "body")
        if self.known and source.transition is integrator:
            return
        if self.known or len(source.body.layers[-1].bias) > len(source.statistics.state.mean):
            raise SystemExit("the baseline has dynamics that are state + action, or learned and deterministic")
        self.change, self.body = Standardizer(source.statistics.change), mlp(source.body)

    def forward(self, state: Tensor, action: Tensor, seen: Tensor) -> Tensor:
        return state + (action if self.known else self.change.undo(self.body(seen)))
