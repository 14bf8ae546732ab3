"""The shapes of what an experiment trains, without training it."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..algorithms import Algorithm, Problem
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..losses import Parts
from ..models import Standardizer, Statistics
from ..styles.label_spaces import LabelSpace
from ..training.state import start
from .experiment import Experiment


def shapes_of_parts(
    experiment: Experiment, algorithm: Algorithm, domain: Domain, space: LabelSpace, like: Trajectories, steps: int
) -> Parts:
    """The shapes of an experiment's parts for these labels, and for states, actions and trajectories of these sizes."""
    assert experiment.settings is not None
    sizes = (like.states.shape[-1], like.actions.shape[-1], like.states.shape[-1])
    statistics = Statistics(
        *(Standardizer(jnp.zeros(n), jnp.ones(n)) for n in sizes), limits=domain.actions, steps=steps
    )
    problem = Problem(statistics, space, experiment.settings.network, domain)
    return eqx.filter_eval_shape(lambda: start(algorithm, problem, np.asarray(experiment.seed_numbers)).parts)
