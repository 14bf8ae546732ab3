"""What the tests of training share: two small algorithms, and random walks to train them on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from conftest import TINY, wander

from poise import DOMAINS, Stage, Trajectories, losses
from poise.algorithms import Algorithm, Problem, dynamics, rnn
from poise.config import Network, Settings
from poise.data.batches import Data
from poise.models import Statistics
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.training.fit import Progress, Sources, fit
from poise.training.state import State, one_run, start

BASKETBALL = DOMAINS["basketball"]
NETWORK = Network(
    hidden=4,
    layers=(4,),
    dynamics_layers=(4,),
    decoder="markov",
    variance="global",
    dynamics="deterministic",
    flow=TINY.network.flow,
)
SMALL = replace(TINY, network=NETWORK)

POLICY = Stage("policy", ("policy",), (losses.imitation,))
REFINE = Stage("refine", ("dynamics",), (losses.dynamics,), collects=True, alternates_with="policy")
ONE = Algorithm({"policy": rnn}, (POLICY,))
TWO = Algorithm({"policy": rnn, "dynamics": dynamics}, (POLICY, REFINE))


def counting(algorithm: Algorithm) -> tuple[Algorithm, list[str]]:
    """The same algorithm with new terms, and a list of the names of their stages, one entry per trace."""
    traces: list[str] = []

    def with_count(stage: Stage) -> Stage:
        def term(parts, batch, key):
            traces.append(stage.name)
            return stage.terms[0](parts, batch, key)

        return replace(stage, terms=(term,))

    return replace(algorithm, stages=tuple(map(with_count, algorithm.stages))), traces


@functools.cache
def problem() -> Problem:
    """Random walks, conditioned on their speed."""
    walks = wander(60)
    styles = [BASKETBALL.styles["speed"].fit(walks)]
    return Problem(Statistics.of(walks), label_space(styles), NETWORK, BASKETBALL)


@functools.cache
def data() -> Data:
    """The random walks of `problem`, and their labels."""
    walks = wander(60)
    return Data.of(walks, label_all([BASKETBALL.styles["speed"].fit(walks)], walks))


@functools.cache
def far() -> Data:
    """The same walks and labels, three times as far."""
    walks = wander(60)
    return Data.of(Trajectories(3 * np.asarray(walks.states)), np.asarray(data().labels))


def chunks(
    settings: Settings = SMALL,
    seeds: Sequence[int] = (0, 1),
    algorithm: Algorithm = ONE,
    sources: Sources | None = None,
    validation: Data | None = None,
    **more: Any,
) -> list[Progress]:
    """Everything that `fit` yields; the memory of all states but the last is used again."""
    state = start(algorithm, problem(), np.asarray(seeds))
    return list(fit(algorithm, state, sources or Sources(data()), validation or data(), settings, **more))


def trained(*given: Any, **more: Any) -> State:
    """The last state."""
    return chunks(*given, **more)[-1].state


@functools.cache
def base() -> State:
    """Two seeds of the small algorithm, trained once for all tests."""
    return trained()


def flat(state: State, run: int | None = None, part: str | None = None) -> np.ndarray:
    """All numbers of a state's parts: of all runs or one, of all parts or one."""
    parts = state.parts if run is None else one_run(state.parts, run)
    leaves = jax.tree.leaves(parts if part is None else parts[part])
    return np.concatenate([np.ravel(x) for x in leaves if hasattr(x, "dtype")])


def with_training(**more: Any) -> Settings:
    """The small settings with other settings of training."""
    return replace(SMALL, training=replace(SMALL.training, **more))
