"""Settings of networks, training and losses, as frozen dataclasses: the options of --help and part of config.json.

Example:
    >>> from poise import PRESETS
    >>> list(PRESETS)
    ['basketball', 'small', 'cheetah', 'cheetah-small']
    >>> PRESETS["small"].network.hidden
    64
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import typing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .errors import PoiseError, check_list, unknown

ABOVE_ZERO = {"latent", "hidden", "layers", "dynamics_layers", "rounds", "rollouts"}
ABOVE_ZERO |= {"batch", "flow_batch", "chunk", "learning_rate", "clip", "width", "blocks", "steps", "tries", "typical"}
LARGEST = 1e30  # of a setting; networks compute with numbers of single precision, which end at 3e38


@dataclass(frozen=True)
class FlowNetwork:
    """Sizes of a flow, and how it is trained.

    Examples:
        >>> from poise.config import FlowNetwork
        >>> FlowNetwork(width=256, blocks=4).steps
        20
    """

    width: int = 512
    """Size of its residual layers."""
    blocks: int = 6
    """Number of its residual layers."""
    horizon: int = 0
    """Actions of a plan; 0: the whole trajectory where next state = state + action, 4 elsewhere."""
    replan: int = 0
    """Actions of a plan that are taken before the next is proposed; 0: all of a whole trajectory, half of others."""
    steps: int = 20
    """Steps of the sampler."""
    drop: float = 0.5
    """Share of training rows in which styles are left free, each on its own."""
    shake: float = 0.05
    """Noise on the states that short plans are trained from, in units of their deviation, so that they recover."""
    grades: bool = True
    """Whether labels of short plans also say where the score lies, so that a rollout keeps one aim in all its plans."""


@dataclass(frozen=True)
class Network:
    """Sizes and kinds of the networks. The defaults are the paper's for basketball (its table of model parameters).

    Examples:
        >>> from poise import Network
        >>> Network(hidden=64, layers=(64, 64)).latent
        4
    """

    latent: int = 4
    """Size of the trajectory embedding z."""
    hidden: int = 128
    """Size of every GRU: of the encoder, the labeler and the decoder."""
    layers: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the policy's decoder."""
    dynamics_layers: tuple[int, ...] = (128, 128)
    """Sizes of the hidden layers of the dynamics."""
    decoder: Literal["recurrent", "markov"] = "recurrent"
    """Whether the decoder has a memory of earlier steps (basketball) or reads the current state only (Cheetah)."""
    variance: Literal["state", "global"] = "state"
    """Whether the policy's variance depends on the state (basketball) or is one number per action (Cheetah)."""
    free_bits: float = 1.0
    """KL divergence, in nats over all of z, that has no cost."""
    dynamics: Literal["known", "deterministic", "gaussian"] = "known"
    """known: those of the domain, learned only if it has none. Else always learned: a deterministic next state, or a
    Gaussian over it."""
    gradient_decay: float = 1.0
    """Factor on the gradient at every step back through learned dynamics. Below 1, it keeps the gradient of long
    rollouts of a body with contacts from exploding."""
    flow: FlowNetwork = field(default_factory=FlowNetwork)
    """Sizes of a flow."""


@dataclass(frozen=True)
class Weights:
    """The weight of each named loss.

    Examples:
        >>> from poise import Weights
        >>> Weights(style=10.0, extra={"smoothness": 0.1}).by_name()["smoothness"]
        0.1
    """

    nld: float = 1.0
    """Negative log-density of the demonstrated actions."""
    velocity: float = 1.0
    """Squared error of a flow's velocity."""
    kl: float = 1.0
    """KL divergence of the embedding from its prior."""
    style: float = 5.0
    """Cross-entropy of the labeler on imagined rollouts (the paper: 1)."""
    flow_style: float = 0.02
    """The same for a flow, whose other loss is a mean over numbers (flow-style)."""
    information: float = 1.0
    """Cross-entropy of the adversary that predicts the labels from the embedding (ctvae-info)."""
    mutual: float = 1.0
    """Negative bound on the mutual information of labels and rollouts (ctvae-mi)."""
    label: float = 1.0
    """Cross-entropy of the labeler on demonstrations."""
    dynamics: float = 1.0
    """Error of the dynamics on demonstrations."""
    extra: dict[str, float] = field(default_factory=dict)
    """Weights of the losses of your own algorithms, by name."""

    def by_name(self) -> dict[str, float]:
        """The weight of every named loss."""
        known = {name: value for name, value in dataclasses.asdict(self).items() if name != "extra"}
        return {**known, **self.extra}


@dataclass(frozen=True)
class Training:
    """Numbers of steps, batch size, optimiser and augmentation.

    Examples:
        >>> from poise import Training
        >>> Training(policy_steps=500, batch=32).steps("policy")
        500
    """

    policy_steps: int = 10_000
    """Optimiser steps of the stage that trains the policy."""
    flow_steps: int = 10_000
    """Optimiser steps of the stage that trains a flow."""
    style_steps: int = 3_000
    """Optimiser steps of the stage that trains a flow to be consistent with its labels (flow-style)."""
    labeler_steps: int = 10_000
    """Optimiser steps of the stage that trains the labeler."""
    dynamics_steps: int = 4_000
    """Optimiser steps of the stage that trains the dynamics, if they are learned."""
    refine_steps: int = 0
    """Optimiser steps of the stage that trains learned dynamics on rollouts in the environment as well."""
    rounds: int = 10
    """Rounds in which policy and dynamics take turns, if the dynamics are refined."""
    rollouts: int = 64
    """Rollouts in the environment per round."""
    augment: float = 1.0
    """Size of the perturbations of the copies of demonstrations that the labeler is also trained on (the paper: 0)."""
    batch: int = 128
    """Trajectories per batch."""
    flow_batch: int = 1_024
    """Trajectories per batch of the stage that trains a flow."""
    learning_rate: float = 1e-3
    """Adam's learning rate at the first step; it decays to zero along a cosine."""
    clip: float = 10.0
    """Norm that gradients are clipped to."""
    extra_steps: dict[str, int] = field(default_factory=dict)
    """Optimiser steps of the stages of your own algorithms, by name."""
    chunk: int = 100
    """Steps between two updates of progress, metrics and checkpoints; results do not depend on it."""

    def steps(self, stage: str) -> int:
        """The number of optimiser steps of the stage of that name.

        Raises:
            PoiseError: The stage has no number of steps.
        """
        names = ("policy", "flow", "style", "labeler", "dynamics", "refine")
        steps = {**{name: getattr(self, f"{name}_steps") for name in names}, **self.extra_steps}
        if stage not in steps:
            raise PoiseError(f"stage {stage!r} has no number of steps; give Training(extra_steps={{{stage!r}: ...}})")
        return steps[stage]

    def batch_of(self, stage: str) -> int:
        """The trajectories per batch of the stage of that name."""
        return getattr(self, f"{stage}_batch", self.batch)


@dataclass(frozen=True)
class Sampling:
    """How a trained policy is sampled: how strongly it is asked, and how often.

    Guidance and steering are for flows. The defaults were chosen on validation games of real basketball.

    Examples:
        >>> from poise import Sampling
        >>> Sampling(tries=1, strength=0.0).guidance
        1.0
    """

    guidance: float = 1.0
    """How much the labels count: 1 is as trained, above 1 exaggerates what they change."""
    strength: float = 1.0
    """How strongly the labeling function pulls while a flow samples; 0 neither pulls nor corrects."""
    limit: float = 1.0
    """The largest pull, in units of the actions' deviation."""
    softness: float = 0.05
    """How soft thresholds are at the end of sampling, in units of a score's deviation."""
    steps: int = 20
    """Steps of the sampler where it is steered."""
    margin: float = 0.05
    """Where labels are graded, the share of demonstrations on each side of a threshold that no rollout aims at."""
    tries: int = 16
    """Rollouts of a request until the labeling functions agree; 1 asks them nothing."""
    typical: int = 1
    """Accepted rollouts of a request, each with its own tries, of which the one nearest to demonstrations is kept."""


@dataclass(frozen=True)
class Settings:
    """The sizes, steps and weights of an experiment. Change a preset with `dataclasses.replace`.

    Args:
        network: Sizes and kinds of the networks.
        training: Numbers of steps, batch size, optimiser and augmentation.
        weights: The weight of each named loss.
        sampling: How a trained policy is sampled.

    Raises:
        PoiseError: A number is negative, not finite, or 0 where that makes no sense.

    Examples:
        >>> from dataclasses import replace
        >>> from poise import PRESETS, Network, Settings
        >>> small = PRESETS["small"]
        >>> replace(small, training=replace(small.training, policy_steps=100)).training.batch
        64
        >>> Settings(network=Network(hidden=0))
        Traceback (most recent call last):
        poise.errors.PoiseError: network.hidden must be above 0; got 0
    """

    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    weights: Weights = field(default_factory=Weights)
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self):
        for part, kind in {"network": Network, "training": Training, "weights": Weights, "sampling": Sampling}.items():
            _check_numbers(part, getattr(self, part), kind)
        if not self.network.flow.drop <= 1:
            raise PoiseError(f"network.flow.drop is a share, at most 1; got {self.network.flow.drop}")
        if self.network.gradient_decay > 1:
            raise PoiseError(f"network.gradient_decay must be at most 1; got {self.network.gradient_decay}")


def check_sampling(sampling: Sampling, tries: int | None = None) -> Sampling:
    """The same value, with so many tries if they are given, if its numbers are in range."""
    if tries is not None and isinstance(sampling, Sampling):
        sampling = replace(sampling, tries=tries)
    _check_numbers("sampling", sampling, Sampling)
    if sampling.typical > 1 and sampling.tries == 1:
        raise PoiseError(
            f"sampling.typical chooses among accepted rollouts; got {sampling.typical} with one try, which accepts "
            "none: allow more tries"
        )
    return sampling


def _check_numbers(part: str, settings: Any, kind: type) -> None:
    """Refuses what is no number, or not a whole one; negative and too large numbers; and 0 where it makes no sense."""
    if not isinstance(settings, kind):
        raise PoiseError(f"{part} is a poise.{kind.__name__}(...); got a {type(settings).__name__}")
    for name, hint in typing.get_type_hints(kind).items():
        value, full_name = getattr(settings, name), f"{part}.{name}"
        if dataclasses.is_dataclass(hint):
            _check_numbers(full_name, value, typing.cast(type, hint))
        elif hint in (int, float):
            _check_number(full_name, value, hint is int)
        elif hint == tuple[int, ...]:
            for number in check_list(full_name, value, "(64, 64)", lambda _: True):
                _check_number(full_name, number, True)


def _check_number(name: str, number: Any, whole: bool) -> None:
    if not isinstance(number, numbers.Real) or not math.isfinite(number) or number < 0:
        raise PoiseError(f"{name} must be a finite number, not negative; got {number!r}")
    if float(number) > LARGEST:
        raise PoiseError(f"{name} must be at most {LARGEST:g}; got {number!r}")
    if whole and not isinstance(number, numbers.Integral):
        raise PoiseError(f"{name} is a whole number; got {number!r}")
    if number == 0 and name.rpartition(".")[2] in ABOVE_ZERO:
        raise PoiseError(f"{name} must be above 0; got {number!r}")


_CHEETAH = Settings(
    network=Network(
        latent=8,
        hidden=200,
        layers=(200, 200),
        dynamics_layers=(500, 500),
        decoder="markov",
        variance="global",
        gradient_decay=0.9,
        flow=FlowNetwork(steps=5),
    ),
    training=Training(
        policy_steps=4_000,
        batch=16,
        dynamics_steps=4_000,
        labeler_steps=2_000,
        refine_steps=4_000,
        rounds=20,
        rollouts=64,
    ),
    weights=Weights(style=200.0),  # the NLD is a sum over 200 steps
)

PRESETS: dict[str, Settings] = {
    "basketball": Settings(),
    "small": Settings(
        network=Network(hidden=64, layers=(64, 64), flow=FlowNetwork(width=256, blocks=4)),
        training=Training(
            policy_steps=2_500,
            flow_steps=1_500,
            style_steps=500,
            labeler_steps=2_500,
            dynamics_steps=2_500,
            batch=64,
            flow_batch=256,
            learning_rate=2e-3,
        ),
    ),
    "cheetah": _CHEETAH,
    "cheetah-small": replace(
        _CHEETAH,
        network=replace(
            _CHEETAH.network,
            hidden=64,
            layers=(128, 128),
            dynamics_layers=(256, 256),
            flow=FlowNetwork(width=256, blocks=4, steps=5),
        ),
        training=replace(
            _CHEETAH.training,
            flow_steps=6_000,
            flow_batch=256,
            policy_steps=1_500,
            dynamics_steps=2_500,
            labeler_steps=300,
            refine_steps=2_000,
            rounds=10,
            learning_rate=2e-3,
        ),
    ),
}
"""Settings by name: the paper's sizes for its two domains, and small ones that two cores train in minutes."""


def to_json(value: Any) -> Any:
    """A dataclass as dictionaries, tuples and numbers, which JSON can hold."""
    return dataclasses.asdict(value)


def fill(kind: type, tree: dict[str, Any]) -> dict[str, Any]:
    """What `to_json` of an earlier version wrote, with defaults for the settings that it did not have."""
    return json.loads(json.dumps(to_json(from_json(kind, tree))))


def from_json(kind: type, tree: dict[str, Any]) -> Any:
    """The dataclass that `to_json` wrote; settings that are missing have their defaults.

    Raises:
        PoiseError: A name is unknown, or a value is out of range.
    """
    hints = typing.get_type_hints(kind)
    for name in tree:
        if name not in hints:
            raise unknown(f"setting of {kind.__name__}", name, hints)
    values = {}
    for name, value in tree.items():
        hint = hints[name]
        if dataclasses.is_dataclass(hint):
            value = from_json(typing.cast(type, hint), value)
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return kind(**values)
