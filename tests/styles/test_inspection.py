"""Inspection of labels before training."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from poise import PoiseError, Trajectories, labeling_function
from poise.styles.inspection import Inspection


@labeling_function(classes=("low", "high"), thresholds=(0.5,))
def first(states, actions):
    return states[0, 0]


@labeling_function(classes=("low", "middle", "high"), thresholds=(0.5, 9.0))
def second(states, actions):
    return states[0, 1]


@pytest.fixture
def seen():
    starts = np.asarray([[0, 0], [0, 1], [1, 1], [1, 0], [0, 0], [1, 1]], np.float32)
    return Inspection.of([first, second], Trajectories(np.repeat(starts[:, None], 3, axis=1) + np.zeros((1, 3, 1))))


def test_classes_are_counted(seen):
    assert seen.counts(0) == [3, 3]
    assert seen.counts(1) == [3, 3, 0]


def test_joint_styles_are_counted_rarest_first(seen):
    possible, joint = seen.joint()
    assert possible == 6
    assert dict(joint) == {("low", "low"): 2, ("low", "middle"): 1, ("high", "middle"): 2, ("high", "low"): 1}
    assert [count for _, count in joint] == [1, 1, 2, 2]


def test_there_are_warnings_of_empty_and_tiny_classes(seen):
    warnings = "\n".join(seen.warnings())
    assert "class 'high' of second is empty" in warnings
    assert "class 'low' of first is tiny: 3 of 6" in warnings
    assert "of 6 joint styles 2 have no demonstration and 4 have fewer than 20" in warnings


def test_there_is_a_warning_of_two_styles_that_are_nearly_the_same():
    starts = np.random.default_rng(0).normal(size=(200, 1, 2)).astype(np.float32)
    twice = labeling_function(name="twice")(lambda s, a: 2 * s[0, 0])
    once = labeling_function(name="once")(lambda s, a: jnp.exp(s[0, 0]))
    seen = Inspection.of([once, twice], Trajectories(np.repeat(starts, 3, axis=1)))
    np.testing.assert_allclose(seen.correlation(), 1.0, atol=1e-6)
    assert any("once and twice are nearly the same" in warning for warning in seen.warnings())


def test_rare_classes_that_are_independent_do_not_correlate():
    random = np.random.default_rng(0)
    starts = (random.random((400, 1, 2)) < 0.05).astype(np.float32)
    seen = Inspection.of([first, second], Trajectories(np.repeat(starts, 3, axis=1)))
    assert abs(seen.correlation()[0, 1]) < 0.2


def test_text_and_json_have_the_same_counts(seen):
    tree = json.loads(json.dumps(seen.to_json()))
    assert tree["styles"][1]["counts"] == [3, 3, 0]
    assert tree["joint"] == {**tree["joint"], "possible": 6, "seen": 4}
    assert "joint styles: 4 of 6" in str(seen)
    assert all(style["coverage"] == 1.0 for style in tree["styles"])


def test_coverage_is_the_share_that_a_style_can_score():
    starts = np.random.default_rng(0).normal(size=(200, 1, 2)).astype(np.float32)
    root = labeling_function(name="root", classes=("low", "high"))(lambda s, a: jnp.sqrt(s[0, 0]))
    seen = Inspection.of([root, first], Trajectories(np.repeat(starts, 3, axis=1)))
    share = float((starts[:, 0, 0] >= 0).mean())
    assert seen.coverage(0) == pytest.approx(share)
    assert sum(seen.counts(0)) == round(share * 200)
    assert seen.coverage(1) == 1.0
    assert any("root has no score for" in warning for warning in seen.warnings())
    assert f"covers {share:.0%}" in str(seen)


def test_a_style_that_scores_nothing_is_refused_with_its_own_error():
    starts = np.zeros((30, 3, 2), np.float32)
    absent = labeling_function(name="absent")(lambda s, a: float(s[0, 9]))
    with pytest.raises(PoiseError, match="style 'absent' raised IndexError on trajectory 0"):
        Inspection.of([absent, first], Trajectories(starts))


def test_styles_that_score_no_demonstration_together_do_not_correlate():
    starts = np.random.default_rng(0).normal(size=(60, 1, 2)).astype(np.float32)
    right = labeling_function(lambda s, a: jnp.sqrt(s[0, 0]), name="right", classes=("low", "high"))
    left = labeling_function(lambda s, a: jnp.sqrt(-s[0, 0]), name="left", classes=("low", "high"))
    seen = Inspection.of([right, left], Trajectories(np.repeat(starts, 3, axis=1)))
    assert (seen.correlation() == 0).all()
    assert seen.joint() == (4, [])
    assert "joint styles: 0 of 4" in str(seen)
