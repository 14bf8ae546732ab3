"""The state of training: the runs are the first axis of every array."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from training_helpers import ONE, SMALL, flat, problem

from poise.training.state import PerRun, one_run, running, start


def test_every_array_has_the_runs_as_its_first_axis():
    state = start(ONE, problem(), np.asarray([3, 5, 8]))
    assert {x.shape[0] for x in jax.tree.leaves(state) if eqx.is_array(x)} == {3}
    assert state.optimisers == {}
    assert state.step.tolist() == [0, 0, 0]


def test_a_seed_starts_with_the_same_parts_and_key_beside_any_others():
    together, alone = start(ONE, problem(), np.asarray([3, 5])), start(ONE, problem(), np.asarray([5]))
    np.testing.assert_array_equal(flat(together, 1), flat(alone, 0))
    assert not np.array_equal(flat(together, 0), flat(together, 1))
    np.testing.assert_array_equal(jax.random.key_data(together.key[1]), jax.random.key_data(alone.key[0]))


def test_one_run_has_the_parts_of_that_run_without_the_axis_of_runs():
    parts = start(ONE, problem(), np.arange(2)).parts
    for found, all_runs in zip(jax.tree.leaves(one_run(parts, 1)), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(found, all_runs[1] if eqx.is_array(all_runs) else all_runs)


def test_runs_that_were_stopped_are_not_running():
    state = start(ONE, problem(), np.arange(3))
    assert running(state).tolist() == [True, True, True]
    stopped = eqx.tree_at(lambda s: s.stopped, state, jnp.asarray([-1, 0, 7]))
    assert running(stopped).tolist() == [True, False, False]


def test_equal_runs_have_the_weights_of_the_settings_and_the_first_set_of_labels():
    per_run = PerRun.equal(2, SMALL)
    assert {name: value.tolist() for name, value in per_run.weights.items()} == {
        name: [np.float32(value)] * 2 for name, value in SMALL.weights.by_name().items()
    }
    assert per_run.label_set.tolist() == [0, 0]
    assert per_run.rollouts is None
