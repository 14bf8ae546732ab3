from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, count_compilations
from hypothesis import given
from hypothesis import strategies as st

from poise import DOMAINS, Trajectories, labeling_function
from poise.domains import Domain, integrator
from poise.evaluation import (
    Share,
    astray,
    base_rates,
    check,
    draw_starts,
    explain,
    judge,
    mean_change,
    score_seed,
    spread,
)
from poise.labeling import label_all, label_space
from poise.models import Imitation, KnownDynamics, LearnedDynamics, Statistics

BASKETBALL = DOMAINS["basketball"]


@labeling_function(classes=("left", "right"), thresholds=(0.0,))
def side(states, actions):
    return states[-1, 0] - states[0, 0]


@labeling_function(classes=("down", "up"), thresholds=(0.0,))
def rise(states, actions):
    return states[-1, 1] - states[0, 1]


class Oracle:
    """A policy that walks where the labels point, or, blind, anywhere."""

    noise = 1

    def __init__(self, blind=False):
        self.blind = blind

    def imitate(self, demonstrations, labels, key):
        return Imitation(jnp.ones(len(labels)) * 12.0, jnp.ones((len(labels), 2)))

    def context(self, labels, key):
        random = jax.random.bernoulli(key, 0.5, labels.shape).astype(jnp.int32)
        return 2.0 * (random if self.blind else labels) - 1.0

    def memory(self, batch):
        return jnp.zeros((batch, 0))

    def step(self, context, memory, state, noise):
        return context, memory


@pytest.fixture(scope="module")
def demonstrations():
    random = np.random.default_rng(0)
    actions = np.repeat(random.choice([-1.0, 1.0], size=(600, 1, 2)), 4, axis=1)
    return Trajectories(np.concatenate([np.zeros((600, 1, 2)), actions.cumsum(axis=1)], axis=1))


def scored(policy, demonstrations, dynamics=None, **more):
    styles = (side, rise)
    parts = {"policy": policy, "dynamics": dynamics or KnownDynamics(integrator)}
    return score_seed(
        parts, 0, Domain("flat"), styles, demonstrations, label_all(styles, demonstrations), rollouts=1000, **more
    )


def test_an_oracle_scores_one(demonstrations):
    score = scored(Oracle(), demonstrations)
    assert score.joint.value == score.joint_independent.value == 1.0
    assert all(share.value == 1.0 for share in score.by_style.values())
    assert all(share.value == 1.0 for classes in score.by_class.values() for share in classes.values())
    assert score.joint.low < 1.0
    assert score.astray == 0.0
    assert score.joint_inside == 1.0


def test_learned_dynamics_are_measured_by_their_squared_error(demonstrations):
    class Still(LearnedDynamics):
        """All that it has learned is that nothing moves; really every step is of length 1 in both directions."""

        def step(self, state, action, noise):
            return state

    assert scored(Oracle(), demonstrations).dynamics_error is None
    still = Still(Statistics.of(demonstrations), TINY.network, key=jax.random.key(0))
    assert scored(Oracle(), demonstrations, still).dynamics_error == pytest.approx(1.0)
    assert mean_change(Domain("flat"), demonstrations, label_all((side,), demonstrations)) == pytest.approx(1.0)


def test_rollouts_that_go_where_nobody_went_are_counted(demonstrations):
    near = demonstrations.lengths - 2  # cut short, so that half of what the oracle walks lies beyond
    known = Trajectories(demonstrations.states, demonstrations.actions, near)
    checked = judge((side,), demonstrations, label_all((side,), demonstrations))
    assert astray(checked, known).all()
    assert not astray(checked, demonstrations).any()


def test_a_blind_policy_scores_the_base_rate(demonstrations):
    score = scored(Oracle(blind=True), demonstrations)
    labels = label_all((side, rise), demonstrations)
    base = base_rates(demonstrations, labels, demonstrations, labels)["independent"]
    assert base == pytest.approx(0.25, abs=0.01)
    assert score.joint.value == pytest.approx(base, abs=0.045)
    assert score.joint_independent.value == pytest.approx(base, abs=0.045)
    assert score.by_style["side"].value == pytest.approx(0.5, abs=0.05)


def test_the_base_rate_knows_what_a_start_gives_away():
    """Where the start decides the label, a policy that ignores labels is right all the same."""
    random = np.random.default_rng(0)
    start = random.choice([-5.0, 5.0], size=(200, 1, 1))
    states = np.concatenate([start, start * 2], axis=1) * np.ones((1, 1, 2))
    data = Trajectories(states)
    labels = label_all((side,), data)
    assert base_rates(data, labels, data, labels)["own"] == 1.0
    assert base_rates(data, labels, data, labels)["independent"] == pytest.approx(0.5, abs=0.02)
    far = Trajectories(states + 5000)
    assert base_rates(far, labels, far, labels)["own"] == 1.0
    assert base_rates(data, labels, data, labels)["by_style"] == [
        {"own": 1.0, "independent": pytest.approx(0.5, abs=0.02)}
    ]


def test_equal_starts_are_replayed_at_random():
    """With one start for all, the base rate is the chance that two demonstrations agree, whatever the order."""
    actions = np.where(np.arange(400) < 120, 1.0, -1.0)[:, None, None] * np.ones((1, 1, 2))
    data = Trajectories(np.concatenate([np.zeros((400, 1, 2)), actions], axis=1))
    labels = label_all((side,), data)
    assert base_rates(data, labels, data, labels)["own"] == pytest.approx(0.3**2 + 0.7**2, abs=0.06)


def test_a_rollout_that_leaves_the_finite_numbers_is_wrong(demonstrations):
    class Wild(Oracle):
        def step(self, context, memory, state, noise):
            return context * jnp.where(jnp.arange(len(context)) % 2, 1.0, jnp.inf)[:, None], memory

    labels = label_all((side, rise), demonstrations)
    parts = {"policy": Wild(), "dynamics": KnownDynamics(integrator)}
    seen = check(parts, Domain("flat"), (side, rise), demonstrations, labels, jax.random.key(0))
    assert seen.right[1::2].all()
    assert not seen.right[::2].any()
    assert seen.finite.tolist() == [False, True] * 300


def test_nld_and_kl_are_told_per_step_and_in_the_domains_units(demonstrations):
    labels = label_all((side, rise), demonstrations)
    plain = explain(Oracle(), Domain("flat"), demonstrations, labels, jax.random.key(0))
    assert plain == pytest.approx((12 / 4, 2 / 4))
    scaled = explain(Oracle(), Domain("flat", units=(94.0, 50.0)), demonstrations, labels, jax.random.key(0))
    assert scaled[0] == pytest.approx(3 - np.log(94) - np.log(50))


def test_lengths_weigh_as_many_steps_as_they_have(ragged):
    labels = np.zeros((len(ragged), 1), np.int32)
    nld, _ = explain(Oracle(), Domain("flat"), ragged, labels, jax.random.key(0))
    assert nld == pytest.approx(12 * len(ragged) / ragged.lengths.sum())


@given(st.integers(1, 400), st.floats(0, 1))
def test_an_interval_holds_its_value_and_narrows_with_more_rollouts(count, share):
    successes = np.arange(count) < round(share * count)
    small, large = Share.of(successes), Share.of(np.repeat(successes, 100))
    assert 0 <= small.low <= small.value <= small.high <= 1
    assert large.high - large.low < small.high - small.low


def test_wilsons_interval_by_hand():
    share = Share.of(np.arange(10) < 8)
    assert (share.low, share.high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))


def test_starts_are_drawn_without_repeats_while_they_last():
    chosen, shuffled = draw_starts(50, 120, 0)
    assert len(set(chosen[:50].tolist())) == len(set(chosen[50:100].tolist())) == 50
    assert len(shuffled) == 120
    np.testing.assert_array_equal(draw_starts(50, 120, 0)[0], chosen)


def test_spread_is_min_median_max():
    assert spread([0.3, 0.9, 0.5]) == {"min": 0.3, "median": 0.5, "max": 0.9}


def test_a_report_has_the_fields_that_others_read(run):
    report = run.evaluate(rollouts=64)
    told = report.to_json()
    seeds = told["algorithms"]["ctvae-style"]["seeds"]
    assert [seed["seed"] for seed in seeds] == [0, 1]
    for seed in seeds:
        assert {"seed", "joint", "joint_independent", "by_style", "nld", "kl"} <= set(seed)
        assert set(seed["by_style"]) == set(seed["believed"]) == {"speed", "destination"}
        assert seed["joint_interval"][0] <= seed["joint"] <= seed["joint_interval"][1]
    joint = told["algorithms"]["ctvae-style"]["joint"]
    assert joint["min"] <= joint["median"] <= joint["max"]
    assert {"versions", "hardware", "command", "commit", "seconds", "environment", "base_rate"} <= set(told)
    assert "ctvae-style" in str(report)


def test_an_evaluation_is_the_same_twice(run):
    one, two = (run.evaluate(rollouts=64).to_json()["algorithms"] for _ in range(2))
    assert one == two


def test_seeds_share_their_programs(run):
    """A second seed compiles nothing."""
    report = run.evaluate(rollouts=48)
    with count_compilations() as compiled:
        assert run.evaluate(rollouts=48, draw=1).about == report.about
    assert compiled == []
    more = replace(run, parts=jax.tree.map(lambda x: x[::-1] if eqx.is_array(x) else x, run.parts))
    with count_compilations() as compiled:
        other = more.evaluate(rollouts=48)
    assert not [name for name in compiled if "imagine" in name or "_imitate" in name or "_label" in name]
    assert other.to_json()["algorithms"] != report.to_json()["algorithms"]


def test_what_the_labeler_believes_is_told_beside_the_truth(demonstrations):
    """A labeler that takes everything for right, over a policy that ignores labels."""

    class Believer(eqx.Module):
        space = label_space((side, rise))

        def __call__(self, trajectories):
            ends = trajectories.states[:, -1] > trajectories.states[:, 0]
            return self.space.encode((ends * 0).astype(jnp.int32))  # always left and down

    styles = (side, rise)
    parts = {"policy": Oracle(blind=True), "dynamics": KnownDynamics(integrator), "labeler": Believer()}
    labels = label_all(styles, demonstrations)
    score = score_seed(parts, 0, Domain("flat"), styles, demonstrations, labels, rollouts=1000)
    assert score.believed["side"] == pytest.approx((labels[:, 0] == 0).mean(), abs=0.05)


def test_a_rollout_that_a_function_cannot_score_is_wrong_in_that_style_only(demonstrations):
    @labeling_function(classes=("left", "right"), thresholds=(0.0,))
    def fragile(states, actions):
        if float(states[-1, 1]) > 0:
            raise ValueError("nobody goes up")
        return float(states[-1, 0])

    labels = label_all((side, rise), demonstrations)
    parts = {"policy": Oracle(), "dynamics": KnownDynamics(integrator)}
    seen = check(parts, Domain("flat"), (fragile, rise), demonstrations, labels, jax.random.key(0))
    assert seen.right[:, 1].all()
    np.testing.assert_array_equal(seen.right[:, 0], labels[:, 1] == 0)
    np.testing.assert_array_equal(seen.scored[:, 0], labels[:, 1] == 0)


def test_what_happens_beyond_a_length_is_no_failure(demonstrations):
    class Late(Oracle):
        def memory(self, batch):
            return jnp.zeros((batch, 1))

        def step(self, context, memory, state, noise):
            return jnp.where(memory >= 2, jnp.inf, context), memory + 1

    short = Trajectories(demonstrations.states, demonstrations.actions, np.full(600, 2))
    parts = {"policy": Late(), "dynamics": KnownDynamics(integrator)}
    labels = label_all((side, rise), short)
    assert check(parts, Domain("flat"), (side, rise), short, labels, jax.random.key(0)).right.all()


def test_repeated_starts_do_not_narrow_an_interval():
    successes, starts = np.arange(1000) % 4 > 0, np.arange(1000) % 10
    wide, narrow = Share.of(successes, starts), Share.of(successes)
    assert wide.high - wide.low > 5 * (narrow.high - narrow.low)
    assert wide.count == narrow.count == 1000
