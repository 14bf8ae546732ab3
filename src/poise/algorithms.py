"""The table of algorithms: a policy, the parts beside it, and the stages that train them.

A stage minimises a weighted sum of named terms with respect to named parts. Everything that would otherwise be an
`if` on an algorithm's name is a value in this table.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jaxtyping import PRNGKeyArray

from . import losses
from .config import Network
from .domains import Domain
from .domains.base import Simulation, integrator
from .errors import PoiseError, unknown
from .losses import Parts, Term
from .models import RNN, TVAE, Adversary, Flow, KnownDynamics, Labeler, LearnedDynamics, Statistics
from .styles.label_spaces import LabelSpace
from .styles.labeling_functions import LabelingFunction
from .system.imports import import_value, is_file_spec


@dataclass(frozen=True)
class Problem:
    """All that parts need to know to be built."""

    statistics: Statistics
    space: LabelSpace
    network: Network
    domain: Domain


Build = Callable[[Problem, PRNGKeyArray], Any]


def tvae(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE that is not conditioned on labels."""
    return TVAE(problem.statistics, LabelSpace(()), problem.network, key=key)


def ctvae(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE whose encoder and decoder are conditioned on the labels."""
    return TVAE(problem.statistics, problem.space, problem.network, key=key)


def ctvae_without_encoder_labels(problem: Problem, key: PRNGKeyArray) -> TVAE:
    """A TVAE whose decoder is conditioned on the labels and whose encoder is not."""
    return TVAE(problem.statistics, problem.space, problem.network, key=key, encode_labels=False)


def rnn(problem: Problem, key: PRNGKeyArray) -> RNN:
    """A recurrent policy that is conditioned on the labels."""
    return RNN(problem.statistics, problem.space, problem.network, key=key)


def flow(problem: Problem, key: PRNGKeyArray) -> Flow:
    """A flow that is conditioned on the labels."""
    domain = problem.domain
    adds_up, position = domain.dynamics is integrator, domain.position
    return Flow(problem.statistics, problem.space, problem.network, adds_up=adds_up, position=position, key=key)


def dynamics(problem: Problem, key: PRNGKeyArray) -> KnownDynamics | LearnedDynamics:
    """The domain's dynamics if they are known and the settings ask for nothing else, a network otherwise."""
    known = problem.domain.dynamics
    if known and problem.network.dynamics == "known":
        return KnownDynamics(known)
    return LearnedDynamics(problem.statistics, problem.network, key=key)


def adversary(problem: Problem, key: PRNGKeyArray) -> Adversary:
    """A network that predicts labels from embeddings."""
    return Adversary(problem.space, problem.network, key=key)


def labeler(problem: Problem, key: PRNGKeyArray) -> Labeler:
    """A network that learns the labeling functions."""
    return Labeler(problem.statistics, problem.space, problem.network, key=key)


@dataclass(frozen=True)
class Stage:
    """Minimises the weighted sum of its terms with respect to the parts it trains; the other parts are frozen.

    Args:
        name: What metrics, progress and `Training.steps` call it.
        trains: The names of the parts that it trains.
        terms: Functions (parts, batch, key) -> named scalars; each name has a weight in `Weights`.
        augmented: Whether its batches also hold perturbed copies of demonstrations (`styles.augmentation`).
        l2: Weight of the squared parameters, as in the paper's dynamics.
        average: Decay of a running average of the parameters, which takes their place at the stage's end; 0: the last
            parameters stay.
        collects: Whether its batches also hold rollouts of the current policy in the environment. Such a stage must not
            train the policy: a resumed stage rolls the policy out once more.
        alternates_with: The name of the stage right before it with which it takes turns, `Training.rounds` times.

    Raises:
        PoiseError: The stage collects rollouts of the policy and trains the policy.

    Examples:
        >>> from poise import Stage
        >>> from poise.losses import imitation
        >>> Stage("policy", trains=("policy",), terms=(imitation,)).name
        'policy'
    """

    name: str
    trains: tuple[str, ...]
    terms: tuple[Term, ...]
    augmented: bool = False
    l2: float = 0.0
    average: float = 0.0
    collects: bool = False
    alternates_with: str | None = None

    def __post_init__(self):
        if self.collects and "policy" in self.trains:
            raise PoiseError(f"stage {self.name!r} collects rollouts of the policy, so it must not train the policy")


@dataclass(frozen=True)
class Algorithm:
    """Parts, each with the function that builds it, and the stages that train them, in order.

    Args:
        parts: By name, the functions (problem, key) -> module that build the parts; one of them is "policy".
        stages: What is trained, in order. Stages have different names.
        steered: Whether labeling functions steer the policy while it samples, so that a labeler must take the place of
            those that have no useful gradient.

    Raises:
        PoiseError: Two stages have one name, a stage trains a part that is not there, or a stage alternates with one
            that is not right before it.

    Examples:
        A row of your own is best made from one of the table, by exchanging a stage:

        >>> from dataclasses import replace
        >>> from poise import ALGORITHMS
        >>> parent = ALGORITHMS["ctvae-style"]
        >>> policy = replace(parent.stage("policy"), l2=1e-6)
        >>> [stage.name for stage in parent.with_stage(policy).stages]
        ['dynamics', 'labeler', 'policy', 'refine']
    """

    parts: dict[str, Build]
    stages: tuple[Stage, ...]
    steered: bool = False

    def __post_init__(self):
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                raise PoiseError(f"two stages are named {name!r}; give each stage a name of its own")
        for stage in self.stages:
            for part in stage.trains:
                if part not in self.parts:
                    raise unknown(f"part that stage {stage.name!r} trains:", part, self.parts)
        before = {after.name: stage.name for stage, after in itertools.pairwise(self.stages)}
        for stage in self.stages:
            if stage.alternates_with is not None and before.get(stage.name) != stage.alternates_with:
                raise PoiseError(
                    f"stage {stage.name!r} alternates with {stage.alternates_with!r}, which must stand before it; "
                    f"there is {before.get(stage.name)!r}"
                )

    def build(self, problem: Problem, key: PRNGKeyArray) -> Parts:
        """New parts; a part starts with the same weights in every algorithm that has it."""
        return {name: make(problem, jax.random.fold_in(key, _number(name))) for name, make in self.parts.items()}

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise unknown("stage", name, [stage.name for stage in self.stages])

    def with_stage(self, stage: Stage) -> Algorithm:
        """The same algorithm with this stage in the place of the one that has its name."""
        self.stage(stage.name)
        return replace(self, stages=tuple(stage if old.name == stage.name else old for old in self.stages))


DYNAMICS = Stage("dynamics", trains=("dynamics",), terms=(losses.dynamics,), l2=1e-5)
LABELER = Stage("labeler", trains=("labeler",), terms=(losses.label,), augmented=True)
IMITATE = Stage("policy", trains=("policy",), terms=(losses.imitation,))
IMITATE_UNINFORMED = Stage("policy", trains=("policy", "adversary"), terms=(losses.imitation, losses.information))
IMITATE_INFORMED = Stage("policy", trains=("policy", "labeler"), terms=(losses.imitation, losses.mutual_information))
IMITATE_IN_STYLE = Stage("policy", trains=("policy",), terms=(losses.imitation, losses.style))
REFINE = replace(DYNAMICS, name="refine", collects=True, alternates_with="policy")  # Algorithm 2, lines 12 to 15
FLOW = Stage("flow", trains=("policy",), terms=(losses.flow_matching,), average=0.999)
FLOW_IN_STYLE = Stage("style", trains=("policy",), terms=(losses.flow_matching, losses.flow_style), average=0.999)
MODELS: dict[str, Build] = {"dynamics": dynamics, "labeler": labeler}

ALGORITHMS: dict[str, Algorithm] = {
    "tvae": Algorithm({"policy": tvae}, (IMITATE,)),
    "ctvae": Algorithm({"policy": ctvae}, (IMITATE,)),
    "rnn": Algorithm({"policy": rnn}, (IMITATE,)),
    "ctvae-info": Algorithm({"policy": ctvae_without_encoder_labels, "adversary": adversary}, (IMITATE_UNINFORMED,)),
    "ctvae-mi": Algorithm({"policy": ctvae, **MODELS}, (DYNAMICS, IMITATE_INFORMED, REFINE)),
    "ctvae-style": Algorithm({"policy": ctvae, **MODELS}, (DYNAMICS, LABELER, IMITATE_IN_STYLE, REFINE)),
    "rnn-style": Algorithm({"policy": rnn, **MODELS}, (DYNAMICS, LABELER, IMITATE_IN_STYLE, REFINE)),
    "flow": Algorithm({"policy": flow}, (FLOW,), steered=True),
    "flow-style": Algorithm({"policy": flow, **MODELS}, (FLOW, DYNAMICS, LABELER, FLOW_IN_STYLE), steered=True),
}
"""The algorithms by name."""


def find_algorithm(name: str) -> Algorithm:
    """The algorithm of that name, or the one that file.py:NAME stands for; only for names that the user gave."""
    if not is_file_spec(name):
        return known_algorithm(name)
    value = import_value(name, lambda value: isinstance(value, Algorithm))
    if not isinstance(value, Algorithm):
        raise PoiseError(f"{name} is not a poise.Algorithm but {type(value).__name__}")
    return value


def known_algorithm(name: str) -> Algorithm:
    """The algorithm of that name in the table; nothing is imported."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, [*ALGORITHMS, "file.py:NAME"])
    return ALGORITHMS[name]


def fit_to(algorithm: Algorithm, domain: Domain, styles: Sequence[LabelingFunction]) -> Algorithm:
    """The algorithm as it is trained in a domain and in some styles.

    Where nothing else can take a step it learns dynamics, and where a style has no gradient to steer by, a labeler.
    """
    if domain.simulation is Simulation.LEARNED_DYNAMICS and "dynamics" not in algorithm.parts:
        parts, stages = {**algorithm.parts, "dynamics": dynamics}, (DYNAMICS, *algorithm.stages)
        algorithm = replace(algorithm, parts=parts, stages=stages)
    if any(style.gradient is False for style in styles) and "labeler" not in algorithm.parts:
        parts, stages = {**algorithm.parts, "labeler": labeler}, (*algorithm.stages, LABELER)
        algorithm = replace(algorithm, parts=parts, stages=stages)
    return algorithm


def steers_in(algorithm: Algorithm, domain: Domain, horizon: int, steps: int) -> bool:
    """Whether labeling functions steer the algorithm: where a plan is a whole trajectory, and says where it leads.

    Args:
        algorithm: The algorithm.
        domain: The domain that it is trained in.
        horizon: Actions of a plan, as the settings of flows have them; 0 for as many as possible.
        steps: Steps of the longest demonstration.
    """
    return algorithm.steered and domain.dynamics is integrator and (not horizon or horizon >= steps)


def begins_with(algorithm: Algorithm, other: Algorithm) -> bool:
    """Whether the first stages of an algorithm are all those of another one, on parts that are built alike."""
    same_parts = all(algorithm.parts.get(name) is build for name, build in other.parts.items())
    return same_parts and algorithm.stages[: len(other.stages)] == other.stages and algorithm != other


def register(name: str, algorithm: Algorithm) -> None:
    """Adds a row to the table of this process, so that `train` and `load_run` know it by name.

    Args:
        name: A name that no other algorithm has.
        algorithm: The row.

    Raises:
        PoiseError: There is an algorithm of that name already.

    Examples:
        >>> import poise
        >>> poise.register("ctvae-again", poise.ALGORITHMS["ctvae"])
        >>> "ctvae-again" in poise.ALGORITHMS
        True
        >>> del poise.ALGORITHMS["ctvae-again"]
    """
    if name in ALGORITHMS:
        raise PoiseError(f"there is an algorithm {name!r} already; choose another name")
    ALGORITHMS[name] = algorithm


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) & 0x7FFFFFFF
