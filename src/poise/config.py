"""Names and numbers of an experiment: frozen dataclasses that are --help, log header and config.json at once."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import PoiseError, unknown


@dataclass(frozen=True)
class Network:
    """Sizes of the networks; the defaults are the paper's for basketball (its table of model parameters)."""

    latent: int = 4
    """Size of the trajectory embedding z."""
    hidden: int = 128
    """Size of every GRU: encoder, labeler and decoder."""
    layers: tuple[int, ...] = (128, 128)
    """Hidden layers of the policy's decoder."""
    dynamics_layers: tuple[int, ...] = (128, 128)
    """Hidden layers of the dynamics."""
    decoder: Literal["recurrent", "markov"] = "recurrent"
    """Whether the decoder remembers earlier steps (basketball) or sees the current state only (Cheetah)."""
    variance: Literal["state", "global"] = "state"
    """Whether the policy's variance depends on the state (basketball) or is one number an action (Cheetah)."""
    free_bits: float = 1.0
    """KL, in nats over all of z, that the encoder may use at no cost."""
    dynamics: Literal["deterministic", "gaussian"] = "deterministic"
    """Learned dynamics: one next state (Eq. 9) or a Gaussian over it (appendix B)."""


@dataclass(frozen=True)
class Weights:
    """Weight of each named term of a loss."""

    nld: float = 1.0
    """Negative log-density of the demonstrated actions."""
    kl: float = 1.0
    """KL divergence of the embedding from its prior."""
    style: float = 5.0
    """Cross-entropy of the labeler on imagined rollouts (the paper: 1)."""
    label: float = 1.0
    """Cross-entropy of the labeler on demonstrations."""
    dynamics: float = 1.0
    """Error of the dynamics on demonstrations."""


@dataclass(frozen=True)
class Training:
    """How long and how fast to train."""

    policy_steps: int = 10_000
    """Optimiser steps of the stage that trains the policy."""
    labeler_steps: int = 4_000
    """Optimiser steps of the labeler's stage."""
    dynamics_steps: int = 4_000
    """Optimiser steps of the dynamics' stage; a known dynamics needs none."""
    widen: float = 1.0
    """How far the labeler's perturbed copies of demonstrations stray, labelled by the true functions (the paper: 0)."""
    batch: int = 128
    """Trajectories in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's learning rate at the start; it falls to zero along a cosine."""
    clip: float = 10.0
    """Largest norm of a gradient."""
    chunk: int = 100
    """Steps between two returns to the host for progress, metrics and checkpoints; results do not depend on it."""

    def steps(self, stage: str) -> int:
        """Optimiser steps of a stage, by its name."""
        return getattr(self, f"{stage}_steps")


@dataclass(frozen=True)
class Settings:
    """Everything a domain presets and a user may change."""

    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self):
        positive = {
            "network.hidden": self.network.hidden,
            "training.batch": self.training.batch,
            "training.chunk": self.training.chunk,
            "training.learning_rate": self.training.learning_rate,
        }
        for name, value in positive.items():
            if not value > 0:
                raise PoiseError(f"{name} must be above 0; got {value}")
        for field_ in dataclasses.fields(self.training):
            if field_.name.endswith("_steps") and getattr(self.training, field_.name) < 0:
                raise PoiseError(
                    f"training.{field_.name} must not be negative; got {getattr(self.training, field_.name)}"
                )


@dataclass(frozen=True)
class Experiment:
    """What was asked for: the header of a run, and all that is needed to repeat it."""

    algorithm: str = "ctvae-style"
    """A row of the table of algorithms: tvae, ctvae, rnn, ctvae-style, rnn-style."""
    data: str = "basketball"
    """Demonstrations: the name of a domain that makes its own, or the path of an .npz."""
    domain: str | None = None
    """Where styles, units and presets come from when `data` is a path (for example: basketball)."""
    test: str | None = None
    """An .npz of test demonstrations; without one, a tenth of the data is set aside."""
    split_by: str | None = None
    """A column of the .npz (game, player) whose groups are never torn apart by the split."""
    count: int | None = None
    """How many demonstrations a domain makes (its own default if not given)."""
    styles: tuple[str, ...] = ("speed", "destination")
    """Styles by name, or as file.py:function."""
    classes: int | None = None
    """Classes of every style that sets no thresholds of its own; without it, as many as the style names."""
    seeds: int = 1
    """How many seeds to train, as one compiled program."""
    first_seed: int = 0
    """The first seed; the others follow it."""
    settings: Settings = field(default_factory=Settings)


def to_json(value: Any) -> Any:
    """A dataclass of this module as plain dictionaries, lists and numbers."""
    return dataclasses.asdict(value)


def from_json(kind: type, tree: dict[str, Any]) -> Any:
    """The dataclass that `to_json` wrote; unknown names are refused, so nothing is lost silently."""
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
