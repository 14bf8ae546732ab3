"""The table of algorithms: a policy, the parts beside it, and the stages that train them.

A stage minimises a weighted sum of named terms with respect to named parts. Everything that would otherwise be an
`if` on a model's name is a value in this table.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from . import losses
from .config import Network
from .domains import Domain
from .errors import PoiseError, unknown
from .labeling import LabelSpace
from .losses import Parts, Term
from .models import RNN, TVAE, Adversary, KnownDynamics, Labeler, LearnedDynamics, Statistics


@dataclass(frozen=True)
class Problem:
    """All that parts need to know to be built."""

    statistics: Statistics
    space: LabelSpace
    network: Network
    domain: Domain


Build = Callable[[Problem, PRNGKeyArray], Any]


def tvae(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE that is never told the labels."""
    return TVAE(problem.statistics, LabelSpace(()), problem.network, key=key)


def ctvae(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE whose encoder and decoder are told the labels."""
    return TVAE(problem.statistics, problem.space, problem.network, key=key)


def blind(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE whose decoder is told the labels, and whose encoder is not."""
    return TVAE(problem.statistics, problem.space, problem.network, key=key, blind_encoder=True)


def rnn(problem: Problem, key: PRNGKeyArray) -> RNN:
    """A recurrent policy that is told the labels."""
    return RNN(problem.statistics, problem.space, problem.network, key=key)


def dynamics(problem: Problem, key: PRNGKeyArray) -> KnownDynamics | LearnedDynamics:
    """The domain's dynamics if they are known and nothing else is asked for, a network otherwise."""
    known = problem.domain.dynamics
    if known and problem.network.dynamics == "known":
        return KnownDynamics(known)
    return LearnedDynamics(problem.statistics, problem.network, key=key)


def adversary(problem: Problem, key: PRNGKeyArray) -> Adversary:
    """A network that tells labels from embeddings."""
    return Adversary(problem.space, problem.network, key=key)


def labeler(problem: Problem, key: PRNGKeyArray) -> Labeler:
    """A network that learns the labeling functions."""
    return Labeler(problem.statistics, problem.space, problem.network, key=key)


@dataclass(frozen=True)
class Stage:
    """Minimises the weighted sum of its terms with respect to the parts it trains; the other parts stand still."""

    name: str
    trains: tuple[str, ...]
    terms: tuple[Term, ...]
    wide: bool = False
    """Whether its batches also hold perturbed copies of demonstrations (`widening`)."""
    l2: float = 0.0
    """Weight of the squared parameters, as the paper has it for the dynamics."""
    collects: bool = False
    """Whether its batches also hold rollouts of the current policy in the environment; it takes turns with the stage
    before it (`training.turns`). It must leave the policy alone: a resumed turn rolls it out once more."""


@dataclass(frozen=True)
class Algorithm:
    """Parts, each with the function that builds it, and the stages that train them, in order."""

    parts: dict[str, Build]
    stages: tuple[Stage, ...]

    def build(self, problem: Problem, key: PRNGKeyArray) -> Parts:
        """New parts; the same part gets the same weights in every algorithm that has it."""
        return {name: make(problem, jax.random.fold_in(key, _number(name))) for name, make in self.parts.items()}


DYNAMICS = Stage("dynamics", trains=("dynamics",), terms=(losses.dynamics,), l2=1e-5)
REFINE = replace(DYNAMICS, name="refine", collects=True)  # Algorithm 2, lines 12 to 15
LABELER = Stage("labeler", trains=("labeler",), terms=(losses.label,), wide=True)
IMITATE = Stage("policy", trains=("policy",), terms=(losses.imitation,))
IMITATE_UNINFORMED = Stage("policy", trains=("policy", "adversary"), terms=(losses.imitation, losses.information))
IMITATE_INFORMED = Stage("policy", trains=("policy", "labeler"), terms=(losses.imitation, losses.mutual_information))
IMITATE_IN_STYLE = Stage("policy", trains=("policy",), terms=(losses.imitation, losses.style))
MODELS: dict[str, Build] = {"dynamics": dynamics, "labeler": labeler}

ALGORITHMS: dict[str, Algorithm] = {
    "tvae": Algorithm({"policy": tvae}, (IMITATE,)),
    "ctvae": Algorithm({"policy": ctvae}, (IMITATE,)),
    "rnn": Algorithm({"policy": rnn}, (IMITATE,)),
    "ctvae-info": Algorithm({"policy": blind, "adversary": adversary}, (IMITATE_UNINFORMED,)),
    "ctvae-mi": Algorithm({"policy": ctvae, **MODELS}, (DYNAMICS, IMITATE_INFORMED, REFINE)),
    "ctvae-style": Algorithm({"policy": ctvae, **MODELS}, (DYNAMICS, LABELER, IMITATE_IN_STYLE, REFINE)),
    "rnn-style": Algorithm({"policy": rnn, **MODELS}, (DYNAMICS, LABELER, IMITATE_IN_STYLE, REFINE)),
}


def find_algorithm(name: str, domain: Domain) -> Algorithm:
    """The algorithm of that name; where nothing else can take a step, it learns dynamics to be rolled out in."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    algorithm = ALGORITHMS[name]
    if not domain.environment and not domain.dynamics and "dynamics" not in algorithm.parts:
        algorithm = replace(
            algorithm, parts={**algorithm.parts, "dynamics": dynamics}, stages=(DYNAMICS, *algorithm.stages)
        )
    return algorithm


def register(name: str, algorithm: Algorithm) -> None:
    """Adds a row to the table of this process, so that `train` and `load_run` know it by name."""
    if name in ALGORITHMS:
        raise PoiseError(f"there is an algorithm {name!r} already; choose another name")
    ALGORITHMS[name] = algorithm


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
