import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise.axis import Axis


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


def test_a_run_that_is_alone_shares_large_batches_among_cores():
    cores = jax.local_devices()[:1] * 4
    used = {batch: len(Axis.over(1, cores, batch=batch).devices) for batch in (1, 16, 32, 33, 48, 64, 128)}
    assert used == {1: 1, 16: 1, 32: 2, 33: 1, 48: 3, 64: 4, 128: 4}
    assert len(Axis.over(2, cores, batch=128).devices) == 2


SPREAD = """
import jax, numpy as np, sys
jax.config.update("jax_num_cpu_devices", 3)
jax.config.update("jax_disable_most_optimizations", True)
import poise
from poise import Network, Settings, Training
from poise.algorithms import Problem, find_algorithm
from poise.labeling import label_all, label_space
from poise.models import Statistics
from poise.training import Data, fit, start
assert len(jax.local_devices()) == 3
domain = poise.DOMAINS["basketball"]
demonstrations = domain.demonstrations(100, 0)
styles = [domain.styles["speed"].fit(demonstrations)]
training = Training(policy_steps=5, batch=32, chunk=3)
settings = Settings(network=Network(hidden=8, layers=(8,)), training=training)
algorithm = find_algorithm("rnn", domain)
problem = Problem(Statistics.of(demonstrations), label_space(styles), settings.network, domain)
data = Data.of(demonstrations, label_all(styles, demonstrations))
for runs, used in ((4, 3), (1, 2)):
    made = []
    for devices in (jax.local_devices(), jax.local_devices()[:1]):
        *_, last = fit(algorithm, start(algorithm, problem, np.arange(runs)), data, data, settings, devices=devices)
        made.append((last.state.parts, last.losses, last.validation))
        assert len(last.axis.devices) == min(used, len(devices))
        assert last.axis.shares == (runs < used and len(devices) > 1)
    for one, other in zip(*map(jax.tree.leaves, made), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
print("same")
"""


def test_many_devices_train_what_one_device_trains():
    """Four runs over three devices: one of them is filled up. One run over two: they share its batches."""
    done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "same", done.stderr
