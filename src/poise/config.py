"""Names and numbers of an experiment: frozen dataclasses that are --help, log header and config.json at once."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from dataclasses import dataclass, field, replace
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
    dynamics: Literal["known", "deterministic", "gaussian"] = "known"
    """Those of the domain if it knows them, else learned; or learned: one next state, or a Gaussian over it."""
    fading: float = 1.0
    """The share of a gradient that goes one step further back through learned dynamics: below 1 where long rollouts
    of a body with contacts would make it explode."""


@dataclass(frozen=True)
class Weights:
    """Weight of each named term of a loss."""

    nld: float = 1.0
    """Negative log-density of the demonstrated actions."""
    kl: float = 1.0
    """KL divergence of the embedding from its prior."""
    style: float = 5.0
    """Cross-entropy of the labeler on imagined rollouts (the paper: 1)."""
    information: float = 1.0
    """Cross-entropy of the adversary that tells the label from the embedding (ctvae-info)."""
    mutual: float = 1.0
    """Negative bound on the mutual information between labels and rollouts (ctvae-mi)."""
    label: float = 1.0
    """Cross-entropy of the labeler on demonstrations."""
    dynamics: float = 1.0
    """Error of the dynamics on demonstrations."""
    extra: dict[str, float] = field(default_factory=dict)
    """Weights of losses that an algorithm of the user's own adds."""

    def by_name(self) -> dict[str, float]:
        """The weight of every named loss."""
        known = {name: value for name, value in dataclasses.asdict(self).items() if name != "extra"}
        return {**known, **self.extra}


@dataclass(frozen=True)
class Training:
    """How long and how fast to train."""

    policy_steps: int = 10_000
    """Optimiser steps of the stage that trains the policy."""
    labeler_steps: int = 10_000
    """Optimiser steps of the labeler's stage."""
    dynamics_steps: int = 4_000
    """Optimiser steps of the dynamics' stage; a known dynamics needs none."""
    refine_steps: int = 0
    """Optimiser steps of learned dynamics on rollouts of the policy in the environment as well, if there is one."""
    rounds: int = 10
    """How often policy and dynamics take turns, if the dynamics are refined."""
    rollouts: int = 64
    """Rollouts in the environment at the beginning of each such round."""
    widen: float = 1.0
    """How far the labeler's perturbed copies of demonstrations stray, labelled by the true functions (the paper: 0)."""
    batch: int = 128
    """Trajectories in a minibatch."""
    learning_rate: float = 1e-3
    """Adam's learning rate at the start; it falls to zero along a cosine."""
    clip: float = 10.0
    """Largest norm of a gradient."""
    extra_steps: dict[str, int] = field(default_factory=dict)
    """Optimiser steps of stages that an algorithm of the user's own adds, by the stage's name."""
    chunk: int = 100
    """Steps between two returns to the host for progress, metrics and checkpoints; results do not depend on it."""

    def steps(self, stage: str) -> int:
        """Optimiser steps of a stage, by its name."""
        names = ("policy", "labeler", "dynamics", "refine")
        steps = {**{name: getattr(self, f"{name}_steps") for name in names}, **self.extra_steps}
        if stage not in steps:
            raise PoiseError(f"stage {stage!r} has no number of steps; give Training(extra_steps={{{stage!r}: ...}})")
        return steps[stage]


NEVER_ZERO = (
    "latent",
    "hidden",
    "layers",
    "dynamics_layers",
    "batch",
    "chunk",
    "rounds",
    "rollouts",
    "learning_rate",
    "clip",
)


@dataclass(frozen=True)
class Settings:
    """Everything a domain presets and a user may change."""

    network: Network = field(default_factory=Network)
    training: Training = field(default_factory=Training)
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self):
        for part in ("network", "training", "weights"):
            for name, value in dataclasses.asdict(getattr(self, part)).items():
                numbers = [value] if isinstance(value, int | float) else value if isinstance(value, tuple) else []
                for number in numbers:
                    if not math.isfinite(number) or number < 0:
                        raise PoiseError(f"{part}.{name} must be a finite number, not negative; got {number}")
                    if number == 0 and name in NEVER_ZERO:
                        raise PoiseError(f"{part}.{name} must be above 0; got {number}")
        if self.network.fading > 1:
            raise PoiseError(f"network.fading must be at most 1; got {self.network.fading}")


_CHEETAH = Settings(
    network=Network(
        latent=8,
        hidden=200,
        layers=(200, 200),
        dynamics_layers=(500, 500),
        decoder="markov",
        variance="global",
        fading=0.9,
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
    weights=Weights(style=200.0),  # beside an NLD that is a sum over 200 steps
)

PRESETS: dict[str, Settings] = {
    "basketball": Settings(),
    "small": Settings(
        network=Network(hidden=64, layers=(64, 64)),
        training=Training(policy_steps=2_500, labeler_steps=2_500, dynamics_steps=2_500, batch=64, learning_rate=2e-3),
    ),
    "cheetah": _CHEETAH,
    "cheetah-small": replace(
        _CHEETAH,
        network=replace(_CHEETAH.network, hidden=64, layers=(128, 128), dynamics_layers=(256, 256)),
        training=replace(
            _CHEETAH.training,
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


@dataclass(frozen=True)
class Experiment:
    """What was asked for: the header of a run, and all that is needed to repeat it."""

    algorithm: str = "ctvae-style"
    """A row of the table of algorithms: tvae, ctvae, ctvae-info, ctvae-mi, ctvae-style, rnn, rnn-style."""
    data: str = "basketball"
    """Demonstrations: the name of a domain that makes its own, or the path of an .npz or of a folder of .npy."""
    domain: str | None = None
    """Where styles, units and presets come from when `data` is a path (for example: basketball)."""
    test: str | None = None
    """An .npz (or a folder) of test demonstrations; without one, a tenth of the data is set aside."""
    split_by: str | None = None
    """A column of the .npz (game, player) whose groups are never torn apart by the split."""
    count: int | None = None
    """How many demonstrations a domain makes (its own default if not given)."""
    styles: tuple[str, ...] = ("speed", "destination")
    """Styles by name, or as file.py:function."""
    classes: int | None = None
    """Classes of every style that sets no thresholds of its own; without it, as many as the style names."""
    noise: float = 0.0
    """Gaussian noise on the scores that training labels come from, in units of each score's deviation."""
    seeds: int = 1
    """How many seeds to train, as one compiled program."""
    first_seed: int = 0
    """The first seed; the others follow it."""
    settings: Settings = field(default_factory=Settings)


def to_json(value: Any) -> Any:
    """A dataclass of this module as plain dictionaries, lists and numbers."""
    return dataclasses.asdict(value)


def fill(kind: type, tree: dict[str, Any]) -> dict[str, Any]:
    """What an earlier version wrote, with the defaults of settings that it did not know, as JSON has it."""
    return json.loads(json.dumps(to_json(from_json(kind, tree))))


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
