from dataclasses import replace

import jax
import numpy as np
from conftest import TINY

import poise
from poise.joining import Place, join
from poise.labeling import Categories, LabelSpace

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
    """With a labeler, an adversary and noise: whatever reads labels or returns them."""
    for algorithm in ("ctvae-style", "ctvae-info"):
        one = poise.Experiment(algorithm, styles=("speed",), classes=4, count=300, settings=TINY, noise=0.5)
        other = replace(one, styles=("destination", "direction"), classes=3)
        together = poise.train_many([one, other], progress=False)
        for experiment, run in zip((one, other), together, strict=True):
            (alone,) = poise.train_many([experiment], progress=False)
            for a, b in zip(jax.tree.leaves(run.parts), jax.tree.leaves(alone.parts), strict=True):
                if hasattr(a, "shape"):
                    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_room_for_other_labels_changes_no_score():
    experiment = poise.Experiment("ctvae-style", styles=("speed",), count=300, settings=TINY)
    (run,) = poise.train_many([experiment], progress=False)
    alone, among = (run.evaluate(rollouts=50, joint=joint) for joint in (None, join([OWN, LabelSpace((TWO, THREE))])))
    assert alone.to_json()["algorithms"] == among.to_json()["algorithms"]
