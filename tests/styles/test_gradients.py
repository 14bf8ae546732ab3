"""Which scores have a gradient that steering can follow."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander

from poise import Trajectories
from poise.styles.gradients import useful_gradients


def mean(states, actions):
    return actions[:, 0].mean()


def speed(states, actions):
    return jnp.linalg.norm(actions, axis=-1).mean()


def end(states, actions):
    return states[-1, 0] - states[0, 0]


def late(states, actions):
    return states[:, 1].sum()


def count(states, actions):
    return (actions[:, 0] > 0).sum()


def hosted(states, actions):
    return float(np.asarray(actions)[:, 0].mean())


def jumpy(states, actions):
    return jnp.floor(actions[:, 0].mean()) + 0.01 * actions[:, 0].mean()


def rounded(states, actions):
    return jnp.round(actions[:, 0].mean())


def first(states, actions):
    return states[0, 0]


def blind(states, actions):
    return jnp.asarray(1.0)


USEFUL = {mean: True, speed: True, end: True, late: True}
USELESS = {count: False, hosted: False, jumpy: False, rounded: False, first: False, blind: False}


def test_smooth_scores_have_a_useful_gradient_and_counts_jumps_and_host_functions_have_none():
    """All at once, in an order that mixes them: each answer belongs to its own score."""
    expected = dict(pair for both in zip(USELESS.items(), [*USEFUL.items()] * 2, strict=False) for pair in both)
    found = useful_gradients(list(expected), wander(300))
    assert dict(zip((score.__name__ for score in expected), found, strict=True)) == {
        score.__name__: answer for score, answer in expected.items()
    }


def test_a_score_of_states_is_not_followed_where_states_and_actions_differ_in_size():
    """Nothing says then how the states follow from the actions."""
    walks = wander(100)
    more = np.concatenate([walks.states, walks.states[..., :1]], axis=-1)
    assert useful_gradients([end, mean], Trajectories(more, walks.actions)) == [False, True]


def test_demonstrations_of_the_most_common_length_answer():
    """A score that fails on shorter ones is not called on them, nor on what lies beyond them."""

    def fifth(states, actions):
        return actions[4, 0] + (0.0 if len(actions) == 6 else jnp.nan)

    walks = wander(100)
    lengths = np.where(np.arange(100) % 3 == 0, 2, 6)
    assert useful_gradients([fifth, mean], Trajectories(walks.states, walks.actions, lengths)) == [True, True]


@pytest.mark.parametrize("scores", [[], [hosted]])
def test_without_a_score_that_can_be_traced_nothing_is_compiled(scores, walks):
    assert useful_gradients(scores, walks) == [False] * len(scores)
