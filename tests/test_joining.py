from dataclasses import replace

import jax
import numpy as np
import pytest
from conftest import TINY

import poise
from poise import ALGORITHMS, DOMAINS
from poise.algorithms import Problem
from poise.joining import Place, join
from poise.labeling import Categories, LabelSpace
from poise.losses import Batch
from poise.models import Statistics
from poise.training import losses_of

TWO, THREE, FOUR = Categories(2), Categories(3), Categories(4)
OWN = LabelSpace((THREE, FOUR))


def test_there_is_room_for_each_and_no_more():
    assert join([LabelSpace((THREE,)), LabelSpace((THREE,))]) == LabelSpace((THREE,))
    joint = join([LabelSpace((THREE, THREE)), LabelSpace((TWO, THREE)), LabelSpace((FOUR,))])
    assert sorted(kind.size for kind in joint.kinds) == [2, 3, 3, 4]


def test_labels_are_read_as_before_from_their_places():
    joint = join([LabelSpace((TWO, FOUR)), OWN])
    labels = np.asarray([[2, 0], [1, 3]])
    place = Place(OWN, joint)
    placed = place.labels(labels)
    assert (np.sort(placed, axis=1)[:, 0] == -1).all()  # one label is not theirs
    np.testing.assert_array_equal(place.labels_of(placed), labels)
    np.testing.assert_array_equal(np.sort(joint.encode(placed)), np.sort(np.pad(OWN.encode(labels), ((0, 0), (2, 0)))))
    outputs = np.random.default_rng(0).normal(size=(2, OWN.width)).astype(np.float32)
    put = place.put(jax.numpy.asarray(outputs), jax.ShapeDtypeStruct((2, joint.width), np.float32))
    np.testing.assert_allclose(joint.loss(put, placed), OWN.loss(outputs, labels), rtol=1e-6)
    np.testing.assert_array_equal(place.take(put, jax.ShapeDtypeStruct(outputs.shape, np.float32)), outputs)


def test_runs_of_several_label_spaces_end_as_if_each_were_alone():
    one = poise.Experiment("ctvae-style", styles=("speed",), classes=4, count=300, settings=TINY, noise=0.5)
    together = poise.train_many([one, replace(one, styles=("destination", "direction"), classes=3)], progress=False)
    (alone,) = poise.train_many([one], progress=False)
    for a, b in zip(jax.tree.leaves(together[0].parts), jax.tree.leaves(alone.parts), strict=True):
        if hasattr(a, "shape"):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_whatever_reads_or_returns_labels_has_the_same_losses_with_room_for_others(name, walks):
    joint, key = join([LabelSpace((TWO, FOUR)), OWN]), jax.random.key(0)
    labels = np.random.default_rng(0).integers(0, 3, size=(len(walks), 2))
    algorithm, statistics = ALGORITHMS[name], Statistics.of(walks)
    own, wide = (
        algorithm.build(Problem(statistics, space, TINY.network, DOMAINS["basketball"]), key) for space in (OWN, joint)
    )
    place = Place(OWN, joint)
    for stage in algorithm.stages[-1:]:
        small = losses_of(stage, own, Batch(walks.arrays, labels), key)
        large = losses_of(stage, place.put(own, wide), Batch(walks.arrays, place.labels(labels)), key)
        np.testing.assert_allclose(list(small.values()), list(large.values()), rtol=1e-4)


def test_labels_in_another_order_are_labels_of_another_space():
    one, other = LabelSpace((THREE, TWO)), LabelSpace((TWO, THREE))
    joint = join([one, other])
    outputs = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    for own, labels in ((one, [[2, 1]] * 4), (other, [[1, 2]] * 4)):
        place = Place(own, joint)
        put = place.put(jax.numpy.asarray(outputs), jax.ShapeDtypeStruct((4, joint.width), np.float32))
        labels = np.asarray(labels)
        np.testing.assert_allclose(joint.loss(put, place.labels(labels)), own.loss(outputs, labels), rtol=1e-6)
        np.testing.assert_array_equal(place.take(put, jax.ShapeDtypeStruct(outputs.shape, np.float32)), outputs)


def test_room_for_other_labels_changes_no_score():
    experiment = poise.Experiment("ctvae-style", styles=("speed",), count=300, settings=TINY)
    (run,) = poise.train_many([experiment], progress=False)
    alone, among = (run.evaluate(rollouts=50, joint=joint) for joint in (None, join([OWN, LabelSpace((TWO, THREE))])))
    assert alone.to_json()["algorithms"] == among.to_json()["algorithms"]
