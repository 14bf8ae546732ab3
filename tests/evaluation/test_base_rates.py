"""Base rates: what a policy scores that ignores the labels."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_helpers import side

from poise import Trajectories
from poise.evaluation.base_rates import base_rates
from poise.styles.scoring import label_all


def test_where_the_start_decides_the_label_a_policy_that_ignores_labels_is_right():
    first = np.random.default_rng(0).choice([-5.0, 5.0], size=(200, 1, 1))
    states = np.concatenate([first, first * 2], axis=1) * np.ones((1, 1, 2))
    data = Trajectories(states)
    labels = label_all((side,), data)
    rates = base_rates(data, labels, data, labels)
    assert rates["own"] == 1.0
    assert rates["shuffled"] == pytest.approx(0.5, abs=0.02)
    assert rates["by_style"] == [{"own": 1.0, "shuffled": pytest.approx(0.5, abs=0.02)}]
    far = Trajectories(states + 5000)
    assert base_rates(far, labels, far, labels)["own"] == 1.0


def test_equal_starts_are_replayed_at_random():
    """With one start for all, the base rate is the chance that two demonstrations agree, whatever the order."""
    actions = np.where(np.arange(400) < 120, 1.0, -1.0)[:, None, None] * np.ones((1, 1, 2))
    data = Trajectories(np.concatenate([np.zeros((400, 1, 2)), actions], axis=1))
    labels = label_all((side,), data)
    assert base_rates(data, labels, data, labels)["own"] == pytest.approx(0.3**2 + 0.7**2, abs=0.06)
