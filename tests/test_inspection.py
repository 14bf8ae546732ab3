import json

import jax.numpy as jnp
import numpy as np
import pytest

from poise import Trajectories, labeling_function
from poise.inspection import Inspection


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


def test_empty_and_tiny_classes_are_warned_of(seen):
    warnings = "\n".join(seen.warnings())
    assert "class 'high' of second is empty" in warnings
    assert "class 'low' of first is tiny: 3 of 6" in warnings
    assert "of 6 joint styles 2 have no demonstration and 4 have fewer than 20" in warnings


def test_styles_that_say_the_same_are_warned_of():
    starts = np.random.default_rng(0).normal(size=(200, 1, 2)).astype(np.float32)
    twice = labeling_function(name="twice")(lambda s, a: 2 * s[0, 0])
    once = labeling_function(name="once")(lambda s, a: jnp.exp(s[0, 0]))
    seen = Inspection.of([once, twice], Trajectories(np.repeat(starts, 3, axis=1)))
    np.testing.assert_allclose(seen.correlation(), 1.0, atol=1e-6)
    assert any("once and twice say nearly the same" in warning for warning in seen.warnings())


def test_rare_answers_that_are_independent_do_not_correlate():
    random = np.random.default_rng(0)
    starts = (random.random((400, 1, 2)) < 0.05).astype(np.float32)
    seen = Inspection.of([first, second], Trajectories(np.repeat(starts, 3, axis=1)))
    assert abs(seen.correlation()[0, 1]) < 0.2


def test_it_is_told_as_text_and_as_json(seen):
    told = json.loads(json.dumps(seen.to_json()))
    assert told["styles"][1]["counts"] == [3, 3, 0]
    assert told["joint"] == {**told["joint"], "possible": 6, "seen": 4}
    assert "joint styles: 4 of 6" in str(seen)
    assert all(style["coverage"] == 1.0 for style in told["styles"])


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
