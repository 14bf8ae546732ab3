"""Style-consistency: shares with their intervals, and the scores of a seed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from evaluation_helpers import AHEAD, BLIND, LABELS, ORACLE, ROLLOUTS, Constant, score, side
from hypothesis import given
from hypothesis import strategies as st

from poise import Trajectories
from poise.domains import Domain
from poise.evaluation.base_rates import base_rates
from poise.evaluation.evaluate import draw_starts
from poise.evaluation.report import Report
from poise.evaluation.scored import out_of_range, score_rollouts
from poise.evaluation.shares import Share


def test_an_oracle_scores_one():
    found = score(ORACLE)
    assert found.joint.value == found.joint_shuffled.value == 1.0
    assert all(share.value == 1.0 for share in found.by_style.values())
    assert all(share.value == 1.0 for share in found.by_style_shuffled.values())
    assert all(share.value == 1.0 for classes in found.by_class.values() for share in classes.values())
    assert found.joint.low < 1.0
    assert (found.out_of_range, found.joint_in_range, found.not_finite) == (0.0, 1.0, 0)
    assert found.unscored == {"side": 0, "rise": 0}


def test_a_policy_that_ignores_labels_scores_the_base_rate():
    found = score(BLIND)
    base = base_rates(AHEAD, LABELS, AHEAD, LABELS)["shuffled"]
    assert base == pytest.approx(0.25, abs=0.01)
    assert found.joint.value == pytest.approx(base, abs=0.045)
    assert found.joint_shuffled.value == pytest.approx(base, abs=0.045)
    assert found.by_style["side"].value == pytest.approx(0.5, abs=0.05)


def breaks_traced(states, actions):
    return (states + actions).at[::4, 1].set(jnp.nan)


def breaks_on_the_host(states, actions):
    following = np.add(np.asarray(states), np.asarray(actions))
    following[::4, 1] = np.nan
    return following


@pytest.mark.parametrize("environment", [breaks_traced, breaks_on_the_host], ids=["traced", "on the host"])
def test_rollouts_that_become_nan_are_counted_reported_and_wrong(environment):
    found = score(ORACLE, Domain("broken", environment=environment))
    assert found.not_finite == ROLLOUTS // 4
    assert found.joint.value == found.joint_shuffled.value == found.joint_in_range == 0.75
    assert {share.value for share in found.by_style.values()} == {0.75}
    assert found.out_of_range == 0.25
    assert found.unscored == {"side": 0, "rise": 0}
    assert found.to_json()["not_finite"] == ROLLOUTS // 4
    report = Report({"oracle": [found]}, {"rollouts": ROLLOUTS, "test": len(AHEAD)}, {})
    line = "250 of 1000 rollouts of oracle, seed 0 became NaN or infinite: they count as wrong"
    assert report.warnings() == [line]


def test_rollouts_outside_of_the_range_of_the_known_states_are_counted():
    known = Trajectories(AHEAD.states, AHEAD.actions, AHEAD.lengths - 2)  # so short that every rollout goes beyond it
    found = score_rollouts((side,), AHEAD, LABELS[:, :1])
    assert out_of_range(found, known).all()
    assert not out_of_range(found, AHEAD).any()


def test_the_labelers_estimate_is_reported_beside_the_true_share():
    """A labeler that always answers left and down, over a policy that ignores labels."""
    found = score(BLIND, labeler=Constant((1.0, 0.0, 1.0, 0.0)))
    assert found.labeler_estimate is not None
    assert found.labeler_estimate["side"] == pytest.approx((LABELS[:, 0] == 0).mean(), abs=0.05)
    assert score(BLIND).labeler_estimate is None


@given(st.integers(1, 400), st.floats(0, 1))
def test_an_interval_holds_its_value_and_narrows_with_more_rollouts(count, share):
    successes = np.arange(count) < round(share * count)
    small, large = Share.of(successes), Share.of(np.repeat(successes, 100))
    assert 0 <= small.low <= small.value <= small.high <= 1
    assert large.high - large.low < small.high - small.low


def test_wilsons_interval_by_hand():
    share = Share.of(np.arange(10) < 8)
    assert (share.low, share.high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))


def test_repeated_starts_do_not_narrow_an_interval():
    successes, starts = np.arange(1000) % 4 > 0, np.arange(1000) % 10
    few, many = Share.of(successes, starts), Share.of(successes)
    assert few.high - few.low > 5 * (many.high - many.low)
    assert few.count == many.count == 1000


def test_starts_are_drawn_without_repeats_while_they_last():
    chosen, shuffled = draw_starts(50, 120, 0)
    assert len(set(chosen[:50].tolist())) == len(set(chosen[50:100].tolist())) == 50
    assert len(shuffled) == 120
    np.testing.assert_array_equal(draw_starts(50, 120, 0)[0], chosen)
