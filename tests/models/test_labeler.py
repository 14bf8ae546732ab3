import equinox as eqx
import jax
import numpy as np
from conftest import TINY, wander

from poise import Trajectories
from poise.models import Labeler, Statistics
from poise.styles.label_spaces import Categories, LabelSpace

SPACE = LabelSpace((Categories(3),))


def test_a_labeler_reads_the_last_state(walks):
    labeler = Labeler(Statistics.of(walks), SPACE, TINY.network, key=jax.random.key(0))
    moved = np.array(walks.states)
    moved[:, -1] += 5
    other = Trajectories(moved, np.asarray(walks.actions))
    one, two = (np.asarray(eqx.filter_jit(labeler)(walk.arrays)) for walk in (walks, other))
    assert one.shape == (60, 3)
    assert np.abs(one - two).max() > 1e-4


def test_a_labeler_ignores_padding(ragged):
    labeler = Labeler(Statistics.of(wander(30)), SPACE, TINY.network, key=jax.random.key(0))
    label = eqx.filter_jit(lambda trajectories: labeler(trajectories))
    outputs = label(ragged.arrays)
    for row in range(5):
        length = int(ragged.lengths[row])
        short = Trajectories(ragged.states[[row], : length + 1], ragged.actions[[row], :length])
        np.testing.assert_allclose(outputs[row], label(short.arrays)[0], atol=1e-5)
