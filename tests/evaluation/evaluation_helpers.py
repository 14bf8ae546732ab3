"""What the tests of evaluation share: demonstrations that walk straight ahead, two styles, and parts made by hand."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from poise import Network, Trajectories, labeling_function
from poise.config import Sampling
from poise.domains import Domain, integrator
from poise.evaluation.consistency import SeedScore
from poise.evaluation.evaluate import roll_out_seed, score_seed
from poise.evaluation.realism import Realism
from poise.evaluation.scored import TrainedSeed
from poise.models import Imitation, KnownDynamics, Labeler, Statistics
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all

ROLLOUTS = 1000
FLAT = Domain("flat")


@labeling_function(classes=("left", "right"), thresholds=(0.0,))
def side(states, actions):
    return states[-1, 0] - states[0, 0]


@labeling_function(classes=("down", "up"), thresholds=(0.0,))
def rise(states, actions):
    return states[-1, 1] - states[0, 1]


STYLES = (side, rise)


class Oracle:
    """A policy that walks where the labels point, with an NLD of 12 and a KL of 2 per demonstration."""

    noise, replan, open_labels = 1, 1, False

    def imitate(self, demonstrations, labels, key):
        return Imitation(jnp.full(len(labels), 12.0), jnp.ones((len(labels), 2)))

    def begin(self, labels, lengths, key):
        return 2.0 * labels - 1.0, jnp.zeros((len(labels), 1))

    def propose(self, context, memory, state, noise):
        return context[:, None]

    def remember(self, context, memory, state, action):
        return memory + 1


class Blind(Oracle):
    """A policy that ignores the labels and walks anywhere."""

    def begin(self, labels, lengths, key):
        return 2.0 * jax.random.bernoulli(key, 0.5, labels.shape) - 1.0, jnp.zeros((len(labels), 1))


class Constant(Labeler):
    """A labeler whose outputs are the same for all trajectories."""

    outputs: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, outputs: tuple[float, ...]):
        super().__init__(Statistics.of(AHEAD), label_space(STYLES), Network(hidden=1), key=jax.random.key(0))
        self.outputs = outputs

    def __call__(self, trajectories):
        return jnp.tile(jnp.asarray(self.outputs), (len(trajectories), 1))


ORACLE, BLIND = Oracle(), Blind()  # one of each, because a program belongs to one policy

_ahead = np.repeat(np.random.default_rng(0).choice([-1.0, 1.0], size=(600, 1, 2)), 4, axis=1)
AHEAD = Trajectories(np.concatenate([np.zeros((600, 1, 2)), _ahead.cumsum(axis=1)], axis=1))
"""Six hundred demonstrations of four steps, each of them in one of four directions."""
LABELS = label_all(STYLES, AHEAD)


def trained(policy: Oracle, domain: Domain = FLAT, styles: Any = STYLES, **parts: Any) -> TrainedSeed:
    """A seed with this policy; its dynamics add the action to the state if no others are given."""
    return TrainedSeed.alone({"policy": policy, "dynamics": KnownDynamics(integrator), **parts}, domain, styles)


def score(policy: Oracle, domain: Domain = FLAT, **parts: Any) -> SeedScore:
    """The scores of this policy."""
    seed = trained(policy, domain, **parts)
    made = roll_out_seed(seed, AHEAD, LABELS, Sampling(tries=2), rollouts=ROLLOUTS)
    return score_seed(seed, AHEAD, LABELS, made, [Realism()] * len(made.ways))
