"""The axis of runs: pieces and devices change nothing in what a run computes."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise.training.run_axis import Axis


def double_and_add(shared, one):
    return {"sum": 2 * one["x"] + shared}


@pytest.mark.parametrize(("runs", "pieces"), [(1, 1), (4, 2), (5, 2), (3, 3), (7, 4)])
def test_pieces_change_nothing(runs, pieces):
    axis = Axis.over(runs, jax.local_devices()[:1], pieces)
    assert not axis.shares
    each = {"x": jnp.arange(3.0 * runs).reshape(runs, 3)}
    made = jax.jit(lambda shared, each: axis.map(double_and_add, shared, each))(1.0, axis.fill(each))
    np.testing.assert_array_equal(axis.cut(made)["sum"], 2 * each["x"] + 1)
    assert axis.piece * axis.pieces >= runs


def test_the_batches_of_a_run_that_is_alone_are_shared_among_cores_if_they_are_large():
    cores = jax.local_devices()[:1] * 4
    used = {batch: len(Axis.over(1, cores, batch=batch).devices) for batch in (1, 16, 32, 33, 48, 64, 128)}
    assert used == {1: 1, 16: 1, 32: 2, 33: 1, 48: 3, 64: 4, 128: 4}
    assert len(Axis.over(2, cores, batch=128).devices) == 2


SPREAD = """
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_disable_most_optimizations", True)
from poise import DOMAINS, Network, Settings, Training, Trajectories
from poise.algorithms import Problem, find_algorithm
from poise.data.batches import Data
from poise.models import Statistics
from poise.styles.label_spaces import Categories, LabelSpace
from poise.training.fit import Sources, fit
from poise.training.state import start
assert len(jax.local_devices()) == 3
walks = Trajectories(np.random.default_rng(0).normal(size=(40, 5, 2)).cumsum(axis=1))
settings = Settings(network=Network(hidden=4, layers=(4,)), training=Training(policy_steps=3, batch=32, chunk=2))
algorithm = find_algorithm("rnn")
problem = Problem(Statistics.of(walks), LabelSpace((Categories(2),)), settings.network, DOMAINS["basketball"])
data = Data.of(walks, np.arange(40, dtype=np.int32)[:, None] % 2)
def train(runs, devices, used, shares):
    state = start(algorithm, problem, np.arange(runs))
    *_, last = fit(algorithm, state, Sources(data), data, settings, devices=devices)
    assert (len(last.axis.devices), last.axis.shares) == (used, shares)
    return jax.tree.leaves((last.state.parts, last.losses, last.validation))

devices = jax.local_devices()
expected = train(4, devices[:1], used=1, shares=False)
for runs, used, shares in ((4, 3, False), (1, 2, True)):
    for one, other in zip(train(runs, devices, used, shares), expected, strict=True):
        np.testing.assert_allclose(one, other[:runs], rtol=1e-5, atol=1e-6)
print("same")
"""


def test_many_devices_train_what_one_device_trains():
    """Four runs over three devices: one of them is filled up. One run over two: they share its batches."""
    done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr
