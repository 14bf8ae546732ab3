"""Rollouts that are scored by the true labeling functions, and which of them count as wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from evaluation_helpers import AHEAD, LABELS, ORACLE, STYLES, Oracle, rise, trained

from poise import Trajectories, labeling_function
from poise.domains import Domain
from poise.evaluation.scored import ScoredRollouts, TrainedSeed, score_rollouts
from poise.rollouts.requests import Request
from poise.styles.label_spaces import Categories, LabelSpace, SharedSpace
from poise.styles.labeling_functions import label_space


def scored(seed: TrainedSeed, like: Trajectories = AHEAD, labels: np.ndarray = LABELS) -> ScoredRollouts:
    return seed.score(Request.like(like, labels), jax.random.key(0))


def test_a_rollout_is_right_where_the_labeling_function_gives_the_label_asked_for():
    wrong = LABELS.copy()
    wrong[::2, 0] = 1 - wrong[::2, 0]
    found = score_rollouts(STYLES, AHEAD, wrong)
    assert found.right[:, 0].tolist() == found.joint.tolist() == [False, True] * 300
    assert found.right[:, 1].all()
    assert found.only([1]).joint.all()
    np.testing.assert_array_equal(found.rollouts.metadata["labels"], wrong)


def test_a_rollout_that_becomes_infinite_is_wrong_in_every_style():
    class Overflowing(Oracle):
        def propose(self, context, memory, state, noise):
            return (context * jnp.where(jnp.arange(len(context)) % 2, 1.0, jnp.inf)[:, None])[:, None]

    found = scored(trained(Overflowing()))
    assert found.right[1::2].all()
    assert not found.right[::2].any()
    assert found.finite.tolist() == [False, True] * 300
    assert np.isfinite(found.rollouts.states).all()


def test_what_happens_beyond_a_length_is_no_failure():
    class Late(Oracle):
        def propose(self, context, memory, state, noise):
            return jnp.where(memory >= 2, jnp.inf, context)[:, None]

    short = Trajectories(AHEAD.states, AHEAD.actions, np.full(600, 2))
    found = scored(trained(Late()), short)
    assert found.right.all()
    assert found.finite.all()


@labeling_function(classes=("left", "right"), thresholds=(0.0,))
def fragile(states, actions):
    if float(states[-1, 1]) > 0:
        raise ValueError("nobody goes up")
    return float(states[-1, 0])


def test_a_rollout_that_a_function_cannot_score_is_wrong_in_that_style_only():
    found = scored(trained(ORACLE, styles=(fragile, rise)))
    assert found.right[:, 1].all()
    assert found.scored[:, 1].all()
    np.testing.assert_array_equal(found.right[:, 0], LABELS[:, 1] == 0)
    np.testing.assert_array_equal(found.scored[:, 0], LABELS[:, 1] == 0)


def test_a_rollout_that_is_not_finite_is_not_also_counted_as_unscored():
    @labeling_function(classes=("left", "right"), thresholds=(0.0,))
    def direction(states, actions):
        return (states[-1, 0] - states[0, 0]) / abs(states[-1, 0] - states[0, 0])  # NaN where nothing moves

    states = np.array(AHEAD.states[:4])
    states[0] = 1.0  # no movement: finite, and without a score
    states[1, 2:] = np.nan
    found = score_rollouts(
        (direction,), Trajectories.unchecked(states, AHEAD.actions[:4], AHEAD.lengths[:4]), LABELS[:4, :1]
    )
    assert found.finite.tolist() == [True, False, True, True]
    assert found.scored[:, 0].tolist() == [False, True, True, True]
    assert found.right[:, 0].tolist() == [False, False, True, True]


def test_a_seed_in_a_shared_label_space_is_asked_for_its_own_labels():
    class Second(Oracle):
        """Its labels of these styles are the second and the third of three."""

        def begin(self, labels, lengths, key):
            return super().begin(labels[:, 1:], lengths, key)

    own = label_space(STYLES)
    shared = SharedSpace(own, LabelSpace((Categories(3), *own.kinds)))
    alone = trained(Second())
    found = scored(TrainedSeed(alone.parts, alone.domain, STYLES, shared))
    assert found.joint.all()


def test_rollouts_are_made_in_the_environment_where_there_is_one():
    def still(states, actions):
        return states

    made = trained(ORACLE, Domain("still", environment=still)).roll_out(Request.like(AHEAD, LABELS), jax.random.key(0))
    assert not np.asarray(made.states).any()
