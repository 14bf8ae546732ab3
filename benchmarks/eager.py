"""Milliseconds a training step takes in eager PyTorch: the baseline that Poise's step is compared with.

    python benchmarks/eager.py --algorithm ctvae-style --batch 128 --steps 24 --hidden 128 --styles 1 --classes 3
    python benchmarks/eager.py --parity

Written anew after the training loop that the paper's authors published (ezhan94/calibratable-style-consistency), with
Poise's networks, losses and sizes: modules are made from Poise's own parts, so only the program differs.

- `published` loops over time in Python as the authors do: readers take the whole sequence, the decoder takes one step
  after the other, in imitation and in the rollout, by an `nn.GRU` that is called on sequences of one step.
- `whole` is the best that eager PyTorch can reasonably do: imitation is one `nn.GRU` and one batched MLP; only the
  rollout, where each state waits for the action before it, is a loop, by PyTorch's GRU cell.

Both leave out what the authors' loop does beside the step (loading data on the host, reading losses back at every step,
labelling rollouts in Python for the log), draw all noise at once and use fused Adam: all to the baseline's advantage.
Float32; on CUDA, matrix products and cuDNN may use TF32, as JAX's do by default. No torch.compile, no CUDA graphs. No
masks either: all trajectories have the same length.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

try:
    import torch
except ModuleNotFoundError as error:
    raise SystemExit("the baseline needs PyTorch: pip install torch==2.13.0") from error
from torch import Tensor, nn

from poise.algorithms import Problem, Stage, find_algorithm
from poise.config import PRESETS, Settings
from poise.domains import Domain, integrator
from poise.labeling import Categories, LabelSpace
from poise.models import Statistics
from poise.models.layers import LOG_SIGMA
from poise.training import trainable
from poise.trajectories import Trajectories

STRUCTURES = ("published", "whole")
TOLERANCE = {"loss": 1e-4, "gradient": 1e-3}
Modules = dict[str, Any]


class Work(NamedTuple):
    """One stage of one Poise run: its parts, without an axis of runs, and the data to train on."""

    parts: dict[str, Any]
    stage: Stage
    settings: Settings
    demonstrations: Trajectories
    labels: np.ndarray


class Batch(NamedTuple):
    """Demonstrations and the step's randomness, time first, as PyTorch's GRU reads; noise is standard normal."""

    states: Tensor
    actions: Tensor
    labels: Tensor  # one-hot, side by side
    z: Tensor  # [2, batch, latent]: for the posterior and of the prior
    noise: Tensor  # like the actions


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
    """Poise's GRU, or two as the directions of one; PyTorch's has the same gates in the same order."""
    made, weights = nn.GRU(len(sources[0].inputs.weight), sources[0].size, bidirectional=len(sources) == 2), {}
    for source, end in zip(sources, ("l0", "l0_reverse"), strict=False):
        for name, layer in ((f"ih_{end}", source.inputs), (f"hh_{end}", source.recurrent)):
            weights |= {f"weight_{name}": torch.tensor(layer.weight.T), f"bias_{name}": torch.tensor(layer.bias)}
    made.load_state_dict(weights)
    return made


class Policy(nn.Module):
    """Poise's TVAE, or its RNN, which has no reader. It is given states and actions standardised."""

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
        outputs = self.body(torch.cat([state, context, memory], -1))
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
    """Poise's labeler. It is given states and actions standardised, and labels one-hot."""

    def __init__(self, source):
        super().__init__()
        self.state, self.action = Standardizer(source.statistics.state), Standardizer(source.statistics.action)
        self.reader, self.head = gru(source.reader.forward, source.reader.backward), linear(source.head)
        self.sizes = [kind.width for kind in source.space.kinds]

    def loss(self, states: Tensor, actions: Tensor, labels: Tensor) -> Tensor:
        outputs = self.head(self.reader(torch.cat([states[:-1], actions, states[1:]], -1))[0].mean(0))
        believed = torch.cat([style.log_softmax(-1) for style in outputs.split(self.sizes, -1)], -1)
        return -(believed * labels).sum(-1).mean()


class Dynamics(nn.Module):
    """Poise's dynamics: state + action, or the learned change of a standardised state and action."""

    def __init__(self, source):
        super().__init__()
        self.known = not hasattr(source, "body")
        if self.known and source.transition is integrator:
            return
        if self.known or len(source.body.layers[-1].bias) > len(source.statistics.state.mean):
            raise SystemExit("the baseline has dynamics that are state + action, or learned and not stochastic")
        self.change, self.body = Standardizer(source.statistics.change), mlp(source.body)

    def forward(self, state: Tensor, action: Tensor, seen: Tensor) -> Tensor:
        return state + (action if self.known else self.change.undo(self.body(seen)))


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
    """The parts of one Poise run as PyTorch modules with its weights; what the stage does not train is frozen."""
    parts = jax.tree.map(np.asarray, parts)
    make: dict[str, Callable] = {"policy": lambda x: Policy(x, structure), "labeler": Labeler, "dynamics": Dynamics}
    with torch.device(device):
        return {name: make[name](part).requires_grad_(name in stage.trains) for name, part in parts.items()}


def trained(modules: Modules, stage: Stage) -> dict[str, nn.Parameter]:
    """The parameters that the stage trains, by name."""
    return {f"{part}.{name}": value for part in stage.trains for name, value in modules[part].named_parameters()}


def objective(work: Work, modules: Modules, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of the stage's named losses, and these."""
    weights = work.settings.weights.by_name()
    named = {k: v for term in work.stage.terms for k, v in TERMS[term.__name__](modules, batch).items()}
    return torch.stack([weights[name] * value for name, value in named.items()]).sum(), named


def tensors(work: Work, device: str) -> list[Tensor]:
    """States, actions and one-hot labels of all demonstrations, on the device."""
    data, labels = work.demonstrations, work.parts["policy"].space.encode(jnp.asarray(work.labels))
    return [torch.tensor(np.asarray(x), device=device) for x in (data.states, data.actions, labels)]


def make_step(work: Work, structure: str, device: str) -> Callable[[], dict[str, Tensor]]:
    """A function that takes one optimiser step on rows drawn on the device and returns the named losses."""
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
    """Milliseconds a step: the median of several repeats of `count` steps, after a warm-up."""
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


def allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed


def losses_in_poise(parts: dict[str, Any], work: Work, z, noise) -> dict[str, Any]:
    """The stage's named losses by Poise's own networks, with randomness that is given, however Poise draws its own."""
    terms, policy, data = {term.__name__ for term in work.stage.terms}, parts["policy"], work.demonstrations
    decoder, labels, named = policy.decoder, jnp.asarray(work.labels), {}
    states, actions = jnp.swapaxes(data.states, 0, 1), jnp.swapaxes(data.actions, 0, 1)
    context, empty = policy.space.encode(labels), decoder.memory(len(labels))
    prior = jnp.concatenate([z[1], context], -1)

    def explain(memory, now):
        nld = decoder.act(context, memory, now[0]).nld(decoder.statistics.action(now[1]))
        return decoder.remember(memory, *now), nld + jnp.log(decoder.statistics.action.deviation).sum()

    def roll_out(now, noise):
        drawn = decoder.act(prior, now[1], now[0])
        action = decoder.statistics.action.undo(drawn.mean + jnp.exp(drawn.log_sigma) * noise)
        following = parts["dynamics"].step(now[0], action, jnp.zeros_like(now[0]))  # deterministic: zeros are not seen
        return (following, decoder.remember(now[1], now[0], action)), (following, action)

    if "imitation" in terms:
        if hasattr(policy, "encode"):
            embedding = policy.encode(data, labels)
            context = jnp.concatenate([embedding.mean + jnp.exp(embedding.log_sigma) * z[0], context], -1)
            named["kl"] = jnp.maximum(embedding.kl().mean(0), policy.free_bits / policy.latent).sum()
        named["nld"] = jax.lax.scan(explain, empty, (states[:-1], actions))[1].sum(0).mean()
    if "style" in terms:
        following, actions = jax.lax.scan(roll_out, (states[0], empty), noise)[1]
        states = jnp.concatenate([states[:1], following])
    for name in terms & {"style", "label"}:
        seen = Trajectories.trusted(jnp.swapaxes(states, 0, 1), jnp.swapaxes(actions, 0, 1), data.lengths)
        named[name] = parts["labeler"].space.loss(parts["labeler"](seen), labels).mean()
    return named


def parity(work: Work, structure: str, device: str) -> dict[str, float]:
    """How far PyTorch is from Poise with equal weights, noise and batch (all of the work's data): the relative
    difference of each named loss ("loss ...") and of each trained tensor's gradient ("gradient ...")."""
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


@dataclass
class Arguments:
    """Milliseconds a step of both structures on random demonstrations; with --parity, how far they are from Poise."""

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
    """Compare losses and gradients on one batch instead of timing; exit with 1 if they are too far apart."""


def build(arguments: Arguments, rows: int | None = None) -> Work:
    """The work that the arguments describe, on so many random demonstrations (one batch if not given)."""
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
    algorithm = find_algorithm(arguments.algorithm, domain)
    stages = [stage for stage in algorithm.stages if stage.name == arguments.stage]
    if not stages:
        raise SystemExit(f"{arguments.algorithm} has no stage {arguments.stage!r}; --algorithm ctvae-style has")
    parts = algorithm.build(Problem(Statistics.of(data), space, network, domain), jax.random.key(0))
    if not known and "dynamics" in parts:  # new ones are unstable: over many steps rollouts would overflow
        slower = parts["dynamics"].body.layers[-1].weight / arguments.steps
        parts["dynamics"] = eqx.tree_at(lambda part: part.body.layers[-1].weight, parts["dynamics"], slower)
    return Work(parts, stages[0], settings, data, labels)


def shake(work: Work) -> Work:
    """The same work where differences show: trained weights moved, since new ones have no bias and a KL within its free
    bits, and less weight on the log-density, whose gradient hides the others'."""
    random, settings, parts = np.random.default_rng(1), work.settings, dict(work.parts)
    for name in work.stage.trains:
        moved, rest = eqx.partition(parts[name], trainable(parts[name]))
        moved = jax.tree.map(lambda x: x + 0.1 * random.standard_normal(x.shape, np.float32), moved)
        parts[name] = eqx.combine(moved, rest)
    return work._replace(parts=parts, settings=replace(settings, weights=replace(settings.weights, nld=0.01)))


def main(arguments: Arguments) -> int:
    """Prints what the arguments ask for; 1 if PyTorch and Poise are too far apart."""
    far = False
    for structure in STRUCTURES:
        if not arguments.parity:
            step = make_step(build(arguments, 1024), structure, arguments.device)
            print(f"{structure:10} {measure(step, arguments.device):8.2f} ms a step")
            continue
        for name, value in parity(shake(build(arguments)), structure, arguments.device).items():
            print(f"{structure:10} {value:.1e} {name}")
            far |= not value <= TOLERANCE[name.split()[0]]  # not a number is far as well
    return int(far)


if __name__ == "__main__":
    raise SystemExit(main(tyro.cli(Arguments)))
