"""Label spaces: encoding, and runs of different label spaces that are padded to a shared one."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

import poise
from poise import ALGORITHMS, DOMAINS, PoiseError
from poise.algorithms import Problem
from poise.data.batches import Batch
from poise.domains import Domain
from poise.models import TVAE, Labeler, Statistics
from poise.styles.label_spaces import GRADES, Categories, Graded, LabelSpace, SharedSpace, shared_space
from poise.training.stages import losses_of

TWO, THREE, FOUR = Categories(2), Categories(3), Categories(4)
OWN = LabelSpace((THREE, FOUR))
SHARED = shared_space([LabelSpace((TWO, FOUR)), OWN])
NO_DYNAMICS = Domain("elsewhere", styles=DOMAINS["basketball"].styles)  # so that dynamics are learned, too
KEY = jax.random.key(0)


class Head(eqx.Module):
    """A module that returns outputs for labels, as a labeler does."""

    weight: jax.Array
    declares: bool = eqx.field(static=True, default=True)

    def label_axes(self):
        return {"weight": -1} if self.declares else {}


def head(space: LabelSpace, outputs: np.ndarray | None = None, declares: bool = True) -> Head:
    """A head of two rows for a label space: zeros, or these outputs."""
    return Head(jnp.zeros((2, space.width)) if outputs is None else jnp.asarray(outputs), declares)


def test_labels_are_encoded_side_by_side_and_decided_one_by_one():
    space = LabelSpace((TWO, THREE))
    labels = np.asarray([[1, 2], [0, 0]])
    encoded = space.encode(labels)
    assert encoded.tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    assert space.decide(encoded).tolist() == labels.tolist()
    np.testing.assert_allclose(space.loss(jnp.zeros((2, 5)), labels), np.log(2) + np.log(3), rtol=1e-6)


def test_a_graded_label_is_a_class_with_or_without_a_grade():
    kind = Graded(3)
    classes, grades = np.repeat([0, 1, 2], GRADES), np.tile(np.arange(GRADES), 3)
    labels = kind.grade(classes, grades)
    assert len(set(labels.tolist())) == 3 * GRADES
    for given in (labels, jnp.asarray(labels)):
        np.testing.assert_array_equal(kind.class_of(given), classes)
    alone = np.asarray([-1, 0, 1, 2])
    assert kind.class_of(alone).tolist() == alone.tolist()
    assert kind.grade(np.asarray([-1]), np.asarray([5])).tolist() == [-1]
    encoded = np.asarray(kind.encode(jnp.asarray(labels)))
    np.testing.assert_array_equal(encoded[:, :3], THREE.encode(jnp.asarray(classes)))
    np.testing.assert_array_equal(kind.encode(jnp.asarray(alone))[:, 3:], 0)
    places = encoded[:GRADES, 3:]
    assert np.linalg.norm(places[1] - places[0]) < np.linalg.norm(places[8] - places[0])
    assert len(np.unique(places, axis=0)) == GRADES


def test_a_labeler_of_graded_labels_learns_their_classes():
    space, outputs = LabelSpace((Graded(2),)), np.random.default_rng(0).normal(size=(4, Graded(2).width))
    labels = np.asarray([[0], [1], [1 + 2 * 7], [0 + 2 * GRADES]])
    expected = LabelSpace((TWO,)).loss(jnp.asarray(outputs[:, :2]), np.asarray([[0], [1], [1], [0]]))
    np.testing.assert_allclose(space.loss(jnp.asarray(outputs), labels), expected, rtol=1e-6)
    np.testing.assert_array_equal(space.decide(outputs)[:, 0], outputs[:, :2].argmax(axis=1))


def test_a_shared_space_holds_each_space_and_no_more():
    assert shared_space([LabelSpace((THREE,)), LabelSpace((THREE,))]) == LabelSpace((THREE,))
    shared = shared_space([LabelSpace((THREE, THREE)), LabelSpace((TWO, THREE)), LabelSpace((FOUR,))])
    assert sorted(kind.size for kind in shared.kinds) == [2, 3, 3, 4]


def test_padded_labels_have_the_same_encoding_and_loss_and_come_back():
    labels = np.asarray([[2, 0], [1, 3]])
    within = SharedSpace(OWN, SHARED)
    padded = within.pad_labels(labels)
    assert (np.sort(padded, axis=1)[:, 0] == -1).all()  # the label that they do not have
    np.testing.assert_array_equal(within.unpad_labels(padded), labels)
    encoded = np.pad(OWN.encode(labels), ((0, 0), (TWO.width, 0)))
    np.testing.assert_array_equal(np.sort(SHARED.encode(padded)), np.sort(encoded))
    own = head(OWN, np.random.default_rng(0).normal(size=(2, OWN.width)).astype(np.float32))
    wide = within.pad(own, head(SHARED))
    np.testing.assert_allclose(SHARED.loss(wide.weight, padded), OWN.loss(own.weight, labels), rtol=1e-6)
    np.testing.assert_array_equal(within.unpad(wide, own).weight, own.weight)


def test_spaces_that_differ_in_their_order_alone_are_padded_too():
    one, other = LabelSpace((THREE, TWO)), LabelSpace((TWO, THREE))
    shared = shared_space([one, other])
    outputs = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    for own, labels in ((one, [[2, 1]] * 2), (other, [[1, 2]] * 2)):
        within, labels = SharedSpace(own, shared), np.asarray(labels)
        wide = within.pad(head(own, outputs), head(shared))
        np.testing.assert_allclose(
            shared.loss(wide.weight, within.pad_labels(labels)), own.loss(outputs, labels), rtol=1e-6
        )
        np.testing.assert_array_equal(within.unpad(wide, head(own)).weight, outputs)
        with pytest.raises(PoiseError, match="must name it in label_axes"):  # its shape must show it
            within.pad(head(own, outputs, declares=False), head(shared, declares=False))


@pytest.fixture(scope="module")
def alone():
    """A run that was trained alone."""
    experiment = poise.Experiment("ctvae-mi", styles=("speed",), classes=4, count=300, settings=TINY, noise=0.5)
    return poise.train_many([experiment], progress=False)[0]


@pytest.mark.slow
def test_runs_of_several_label_spaces_end_as_if_each_were_alone(alone):
    other = replace(alone.experiment, styles=("destination", "direction"), classes=3)
    together, _ = poise.train_many([alone.experiment, other], progress=False)
    for a, b in zip(jax.tree.leaves(together.parts), jax.tree.leaves(alone.parts), strict=True):
        if hasattr(a, "shape"):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_padding_to_a_shared_space_changes_no_score(alone):
    shared = shared_space([LabelSpace((FOUR,)), OWN, LabelSpace((TWO, THREE))])
    own, padded = (alone.evaluate(rollouts=50, shared=space).to_json() for space in (None, shared))
    assert own["algorithms"] == padded["algorithms"]


@eqx.filter_jit
def losses_in(stage, parts, batch):
    """The named losses of a stage: a program of its own, since algorithms have stages in common."""
    return losses_of(stage, parts, batch, KEY)


def losses_by_stage(stages, parts, batch):
    """The named losses of every stage."""
    return {stage.name: losses_in(stage, parts, batch) for stage in stages}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_losses_of_every_stage_are_the_same_in_a_shared_space(name, walks):
    algorithm, within = ALGORITHMS[name], SharedSpace(OWN, SHARED)
    labels = np.random.default_rng(0).integers(0, 3, size=(len(walks), 2)).astype(np.int32)
    own, wide = (
        algorithm.build(Problem(Statistics.of(walks), space, TINY.network, NO_DYNAMICS), KEY) for space in (OWN, SHARED)
    )
    padded = within.pad(own, wide)
    small = losses_by_stage(algorithm.stages, own, Batch(walks.arrays, labels))
    large = losses_by_stage(algorithm.stages, padded, Batch(walks.arrays, within.pad_labels(labels)))
    assert set(small) == {stage.name for stage in algorithm.stages}
    for stage in algorithm.stages:
        assert set(small[stage.name]) == set(large[stage.name])
        for loss, value in small[stage.name].items():
            np.testing.assert_allclose(value, large[stage.name][loss], rtol=1e-4, err_msg=f"{stage.name}: {loss}")
    back = jax.tree.leaves(within.unpad(padded, own))
    for a, b in zip(back, jax.tree.leaves(own), strict=True):
        if hasattr(a, "shape"):
            np.testing.assert_array_equal(a, b)


def test_an_array_with_label_columns_that_is_not_declared_is_named():
    within = SharedSpace(OWN, SHARED)
    with pytest.raises(PoiseError) as raised:
        within.pad({"policy": head(OWN, declares=False)}, {"policy": head(SHARED, declares=False)})
    assert str(raised.value) == (
        "policy.weight has shape [2, 7] for one label space and [2, 9] for another; "
        "its module must name it in label_axes()"
    )


@pytest.mark.parametrize(("module", "axis"), [(Labeler, -2), (TVAE, -1)])
def test_an_axis_that_is_declared_wrongly_is_refused(module, axis, walks):
    own, wide = (module(Statistics.of(walks), space, TINY.network, key=KEY) for space in (OWN, SHARED))
    path = next(iter(own.label_axes()))

    class Wrong(module):
        def label_axes(self):
            return {**super().label_axes(), path: axis}

    wrong = object.__new__(Wrong)
    for name, value in vars(own).items():
        object.__setattr__(wrong, name, value)
    with pytest.raises(PoiseError, match=rf"label columns on axis {axis}, as its module declares"):
        SharedSpace(OWN, SHARED).pad(wrong, wide)


def test_modules_that_have_another_number_of_arrays_cannot_be_padded():
    with pytest.raises(PoiseError, match=r"2 arrays for one label space and 3 for another.*train them one by one"):
        SharedSpace(OWN, SHARED).pad([head(OWN)] * 2, [head(SHARED)] * 3)
