"""Steering: what pulls a plan, how far, and what a steered plan keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flow_helpers import PLAIN, STEERED, STEPS, climb, drift, drifting, no_labels, rough_flow, top, trained

from poise import LabelingFunction, Network, Trajectories, labeling_function
from poise.domains import integrator
from poise.domains.base import plain_domain
from poise.evaluation import scored as evaluation
from poise.evaluation.scored import Known, TrainedSeed
from poise.models import Flow, Labeler, Statistics
from poise.models import flow as flows
from poise.models.flow import Steering
from poise.rollouts.requests import Request
from poise.rollouts.simulate import simulate
from poise.rollouts.steer import Bounds, Steered, Target, can_steer, steer
from poise.training.state import one_run

DATA = drifting(400, seed=3)
DRIFT, CLIMB = (labeling_function(f).fit(DATA) for f in (drift, climb))
THRESHOLDS: Any = CLIMB.thresholds
WIDE = np.asarray([[-1e4] * 2, [1e4] * 2], np.float32)
KEY = jax.random.key(0)


def target(style: LabelingFunction) -> Target:
    return Target(style, float(style.scores(DATA).std()))


def flow() -> Flow:
    return one_run(trained().parts, 0)["policy"]


def steered(*styles: LabelingFunction, limits: np.ndarray = WIDE, **given: Any) -> Steered:
    return steer(flow(), [target(s) for s in styles], replace(STEERED, **given), length=STEPS, range=limits)


def asked(label: int, count: int = 64, styles: int = 1) -> Request:
    """Only of the targets: the flow's own label is free."""
    labels = np.full((count, 1 + styles), label, np.int32)
    labels[:, 0] = -1
    return Request(DATA[:count].starts, labels, np.full(count, STEPS, np.int32), STEPS)


def roll(policy: Any, request: Request) -> Trajectories:
    return simulate(policy, integrator, request, key=KEY)


def plain(request: Request) -> Trajectories:
    return roll(flow().sampled(8, 1.0), request.with_labels(np.asarray(request.labels)[:, :1]))


def shown(style: LabelingFunction, made: Trajectories) -> np.ndarray:
    return style.label(Trajectories(np.asarray(made.states), np.asarray(made.actions)))


def standardised(made: Trajectories) -> np.ndarray:
    return np.asarray(flow().statistics.action(jnp.asarray(made.actions)))


@eqx.filter_jit
def _steering(policy: Steered, request: Request, plan: Any, time: Any) -> tuple[Any, Any]:
    context, memory = policy.begin(request.labels, request.lengths, KEY)
    situation, _ = policy.flow.situation(context.flow, memory, request.starts)
    steering = policy.steering(context, situation)
    return steering.pull(plan, time), steering.finish(plan)


def pull_of(policy: Steered, request: Request, end: Any) -> np.ndarray:
    """What is added to the velocity in the middle of sampling, where plans will end there."""
    return np.asarray(_steering(policy, request.rows(np.arange(len(request))), end, jnp.asarray(0.5))[0])


def finished(policy: Steered, request: Request, plan: Any) -> np.ndarray:
    """Drawn plans after the last corrections."""
    return np.asarray(_steering(policy, request.rows(np.arange(len(request))), plan, jnp.asarray(0.5))[1])


@pytest.mark.slow
@pytest.mark.parametrize("word", ["low", "high"])
def test_a_style_that_was_written_after_training_is_shown_far_more_often_if_the_flow_is_steered(word):
    share = [
        trained().sample_scored(128, {"top": word}, styles=[top], sampling=sampling).joint.mean()
        for sampling in (PLAIN, STEERED)
    ]
    assert share[0] < 0.6
    assert share[1] > 0.9


def test_what_is_not_asked_for_follows_the_data():
    """Steering by one style leaves the spread of the other as it was."""
    made, before = roll(steered(CLIMB), asked(2, 256)), plain(asked(2, 256))
    one, other = (np.asarray(x.actions)[..., 0].mean(axis=1) for x in (made, before))
    assert abs(one.mean() - other.mean()) < 0.3
    assert 0.7 < one.std() / other.std() < 1.4


def test_a_pull_is_never_larger_than_the_limit_however_strong_it_is():
    before = standardised(plain(asked(2)))
    end = jax.random.normal(KEY, (64, STEPS, 2))
    for strength, limit in ((1e6, 0.5), (1e30, 1.0)):
        pull = pull_of(steered(CLIMB, strength=strength, limit=limit), asked(2), end)
        assert np.abs(pull).max() == pytest.approx(limit)
    made = standardised(roll(steered(CLIMB, strength=1e30), asked(2)))
    assert np.isfinite(made).all()
    assert np.abs(made).max() < np.abs(before).max() + 2.5


def test_a_weak_pull_is_proportional_to_the_strength():
    one, two = (pull_of(steered(CLIMB, strength=x), asked(2), jnp.zeros((64, STEPS, 2))) for x in (0.001, 0.002))
    assert one[..., 1].min() > 0
    np.testing.assert_allclose(two, 2 * one, rtol=1e-4)


def test_states_stay_in_the_range():
    before = plain(asked(2, 256))
    limits = np.stack([np.full(2, -4.0), np.full(2, 4.0)]).astype(np.float32)
    made = roll(steered(limits=limits), asked(2, 256, styles=0))

    def outside(made):
        return float((np.abs(np.asarray(made.states)) > 4).any(axis=(1, 2)).mean())

    assert outside(before) > 0.4
    assert outside(made) < 0.05
    assert np.asarray(made.states).std() > 0.5 * np.asarray(before.states).std()


def test_a_free_label_exerts_no_pull():
    low, high = Bounds.of([target(DRIFT), target(CLIMB)])(jnp.asarray([[-1, 2], [0, -1], [1, 1]]))
    thresholds: Any = DRIFT.thresholds
    first, second = thresholds
    np.testing.assert_allclose(low[:, 0], [-1e30, -1e30, first], rtol=1e-6)
    np.testing.assert_allclose(high[:, 0], [1e30, first, second], rtol=1e-6)
    free, none = roll(steered(CLIMB), asked(-1)), roll(steered(), asked(-1, styles=0))
    np.testing.assert_allclose(free.actions, none.actions, atol=1e-5)
    assert np.abs(np.asarray(roll(steered(CLIMB), asked(2)).actions) - none.actions).max() > 0.5


def test_styles_of_different_numbers_of_classes_have_bounds_of_their_own():
    two = labeling_function(climb, classes=("down", "up"), thresholds=(0.0,))
    low, high = Bounds.of([target(two), target(DRIFT)])(jnp.asarray([[1, 2], [0, 0]]))
    np.testing.assert_allclose(low[:, 0], [0, -1e30])
    np.testing.assert_allclose(high[:, 0], [1e30, 0])
    np.testing.assert_allclose(high[0, 1], 1e30)


def test_a_gradient_that_is_nan_somewhere_does_not_pull_there_and_leaves_the_rest():
    def singular(states, actions):
        return actions[:, 1].mean() + jnp.linalg.norm(actions[0] - actions[0])  # the gradient of norm at 0 is NaN

    style = LabelingFunction("singular", singular, CLIMB.classes, CLIMB.thresholds)
    made, none = roll(steered(style), asked(2)), roll(steered(), asked(2, styles=0))
    assert np.isfinite(made.states).all()
    assert (shown(CLIMB, made) == 2).mean() > 0.9
    assert (shown(CLIMB, none) == 2).mean() < 0.6

    def nowhere(states, actions):
        return jnp.linalg.norm(actions - actions) + 0.0 * actions[:, 1].mean()

    lost = LabelingFunction("nowhere", nowhere, CLIMB.classes, CLIMB.thresholds)
    np.testing.assert_allclose(roll(steered(lost), asked(2)).actions, none.actions, atol=1e-5)


def test_a_score_whose_gradient_is_nan_takes_nothing_from_the_others():
    def nowhere(states, actions):
        return jnp.linalg.norm(actions - actions)

    style = LabelingFunction("nowhere", nowhere, CLIMB.classes, CLIMB.thresholds)
    end = jnp.zeros((64, STEPS, 2))
    one, both = pull_of(steered(CLIMB), asked(2), end), pull_of(steered(style, CLIMB), asked(2, styles=2), end)
    np.testing.assert_allclose(one, both, atol=1e-5)


def test_the_last_corrections_move_a_score_that_barely_misses_into_its_class_and_no_further():
    policy = steered(CLIMB)
    deviation, second = target(CLIMB).deviation, THRESHOLDS[1]
    count, misses = 64, np.linspace(0.3, -0.3, 64, dtype=np.float32)  # deviations below the class `high`
    actions = np.random.default_rng(0).normal(size=(count, STEPS, 2)).astype(np.float32)
    actions[..., 1] += (second - misses * deviation)[:, None] - actions[..., 1].mean(axis=1, keepdims=True)
    plan = policy.flow.statistics.action(jnp.asarray(actions))
    done = finished(policy, asked(2), plan)
    scores = np.asarray(policy.flow.statistics.action.undo(jnp.asarray(done)))[..., 1].mean(axis=1)
    missed = misses > 0
    assert (scores >= second).all()
    assert (scores[missed] < second + 0.03 * deviation).all()
    inside = misses < -0.03
    np.testing.assert_allclose(done[inside], plan[inside], atol=1e-5)
    np.testing.assert_allclose(done[..., 0], plan[..., 0], atol=1e-4)


def test_a_plan_that_is_made_anew_keeps_what_happened():
    policy, request = steered(CLIMB), asked(2)
    remember = eqx.filter_jit(lambda p, *given: p.remember(*given))
    propose = eqx.filter_jit(lambda p, *given: p.propose(*given))
    context, memory = policy.begin(jnp.asarray(request.labels), jnp.full(64, STEPS), KEY)
    state = jnp.asarray(request.starts)
    taken = [jnp.full((64, 2), value) for value in (0.1, -1.5, 0.4)]
    for action in taken:
        memory = remember(policy, context, memory, state, action)
        state = state + action
    plan = propose(policy, context, memory, state, jax.random.normal(KEY, (64, policy.noise)))
    np.testing.assert_allclose(plan[:, 3:], np.stack(taken, axis=1), atol=1e-4)
    whole = np.concatenate([plan[:, 3:], plan[:, :3]], axis=1)
    assert (whole[..., 1].mean(axis=1) > THRESHOLDS[1]).mean() > 0.9  # counted with what happened


def test_what_pulls_sees_the_steps_that_have_happened_as_they_were():
    walks = drifting(8)
    policy = rough_flow(walks)
    context, memory = policy.begin(no_labels(8), jnp.full(8, STEPS, jnp.int32), KEY)
    situation: Any = policy.situation(context, memory, jnp.asarray(walks.starts))[0]
    status = situation.status.at[:, :3].set(flows.HAPPENED)
    situation = situation._replace(status=status, past=situation.past.at[:, :3].set(0.7))

    def pull(end, time):
        return jnp.where(jnp.abs(end[:, :3] - 0.7).max() < 1e-5, jnp.zeros_like(end), jnp.nan)

    drawn = policy.draw(situation, jnp.zeros((8, policy.noise)), Steering(pull, lambda plan: plan))
    np.testing.assert_allclose(drawn[:, :3], 0.7, atol=1e-6)
    assert np.isfinite(drawn).all()


def test_rollouts_of_different_lengths_are_steered_each_by_its_own():
    """The mean over the steps of a short rollout is asked for, not that over all steps."""
    run = trained()
    seed = run.trained(None, run.fit_later([climb]))(0)
    lengths = np.asarray([3, 6] * 64, np.int32)
    labels = np.tile(np.asarray([[-1, 1]], np.int32), (128, 1))
    scored = seed.score(Request(DATA[:128].starts, labels, lengths, STEPS), KEY, STEERED)
    np.testing.assert_array_equal(scored.rollouts.lengths, lengths)
    np.testing.assert_array_equal(scored.rollouts.starts, DATA[:128].starts)
    assert scored.joint[lengths == 6].mean() > 0.9
    assert scored.joint[lengths == 3].mean() > 0.9


def test_later_styles_pull_harder_the_more_of_them_are_asked_for():
    """The flow's own styles have its labels to follow; later ones have the pull alone. What is free pulls nobody."""
    run = trained()
    policy, followed = run.trained(None, run.fit_later([climb, top, by_hand]))(0).policy(STEERED, STEPS)
    assert isinstance(policy, Steered)
    assert (followed, policy.later, policy.limit) == ([0, 1, 2], 2, STEERED.limit)  # not the one without a gradient
    labels = np.asarray([[-1, 2, -1, -1], [-1, 2, 2, -1], [2, 2, -1, 1], [-1, -1, 2, 0]], np.int32)
    context, _ = policy.begin(labels, np.full(4, STEPS), KEY)
    np.testing.assert_allclose(context.strength, STEERED.strength * np.asarray([1, 1, 1, 2]))


def by_hand(states, actions):
    return float(np.asarray(actions)[:, 0].max())


@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_scores_of_any_size_are_steered(scale):
    def climb_in_small_units(states, actions):
        return scale * actions[:, 1].mean()

    run = trained()
    seed = run.trained(None, run.fit_later([climb_in_small_units]))(0)
    for label in (0, 2):
        labels = np.tile(np.asarray([[-1, label]], np.int32), (64, 1))
        assert seed.score(Request(DATA[:64].starts, labels, DATA[:64].lengths, STEPS), KEY, STEERED).joint.mean() > 0.9


def test_a_style_that_cannot_be_scored_at_a_length_does_not_steer_there():
    def late(states, actions):
        return jnp.max(actions[3:, 0])

    run = trained()
    later = run.fit_later([late, climb])
    for length, steering in ((3, [0, 2]), (4, [0, 1, 2])):
        assert run.trained(None, later)(0).policy(STEERED, length)[1] == steering
    scored = run.sample_scored(4, {"late": "high"}, styles=[late], steps=3, tries=1)
    assert not scored.scored[:, 1].any()


def test_rollouts_of_many_lengths_are_steered_at_few(monkeypatch):
    """Each at its own length or the next shorter one, so that its first steps show the style."""
    monkeypatch.setattr(evaluation, "MOST_LENGTHS", 3)
    lengths = np.resize(np.asarray([3, 4, 5, 6], np.int32), 200)
    starts = replace_lengths(DATA[:200], lengths)
    assert Known.of((CLIMB,), starts).lengths == (3, 4, 5)
    labels = np.tile(np.asarray([[-1, 2]], np.int32), (200, 1))
    run, at = trained(), []
    seed = run.trained(None, run.fit_later([climb]))(0)
    assert seed.known is not None
    known = replace(seed.known, lengths=(3, 4, 5))

    class Watched(TrainedSeed):
        def policy(self, sampling, length):
            at.append(length)
            return super().policy(sampling, length)

    watched = Watched(seed.parts, seed.domain, seed.styles, seed.space, find_known=lambda: known)
    made = watched.score(Request(starts.starts, labels, lengths, STEPS), KEY, STEERED)
    assert at == [3, 4, 5]
    assert min(made.joint[lengths == length].mean() for length in (3, 4, 5)) > 0.9
    free = seed.score(Request(starts.starts, labels, lengths, STEPS), KEY, PLAIN)
    assert made.joint[lengths == 6].mean() > free.joint[lengths == 6].mean() + 0.1
    np.testing.assert_array_equal(made.rollouts.lengths, lengths)
    first = np.asarray(made.rollouts.actions)[:, 0]
    assert len(np.unique(first, axis=0)) == 200  # no two of them from the same noise and start


def replace_lengths(data: Trajectories, lengths: np.ndarray) -> Trajectories:
    return Trajectories(data.states, data.actions, lengths)


class Oracle(Labeler):
    """A labeler that knows `drift`."""

    def __init__(self, space):
        network = Network(hidden=1)
        super().__init__(Statistics.of(DATA), space, network, key=KEY)

    def __call__(self, trajectories: Trajectories):
        score = trajectories.actions[..., 0].mean(axis=1, keepdims=True)
        return -10 * (score - jnp.asarray([-1.2, 0.0, 1.2])) ** 2


def test_a_style_without_a_gradient_is_steered_by_the_labeler_where_there_is_one():
    """The flow ignores its labels here (guidance 0), so that the labeler alone leads it."""

    def hosted(states, actions):
        return float(np.asarray(actions)[:, 0].mean())

    style = LabelingFunction("drift", hosted, DRIFT.classes, DRIFT.thresholds)
    labels = np.full((128, 1), 2, np.int32)
    request = Request(DATA[:128].starts, labels, np.full(128, STEPS, np.int32), STEPS)
    right = {}
    for name, more in (("alone", {}), ("labeler", {"labeler": Oracle(flow().space)})):
        parts = {"policy": flow(), **more}
        seed = TrainedSeed.alone(parts, plain_domain("walks", 2, True), [style])
        seed = replace(seed, find_known=lambda: Known(WIDE, (1.0,), (False,)))
        right[name] = seed.score(request, KEY, replace(STEERED, guidance=0.0)).joint.mean()
    assert right["alone"] < 0.5
    assert right["labeler"] > 0.9


def test_only_a_flow_that_plans_whole_trajectories_can_be_steered():
    assert can_steer(rough_flow(DATA))
    assert not can_steer(rough_flow(DATA, horizon=3))
    assert not can_steer(rough_flow(DATA, adds_up=False))


def test_a_score_that_cannot_be_hashed_is_steered_by_as_well():
    class Climb:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, states, actions):
            return actions[:, 1].mean()

    style = LabelingFunction("climb", Climb(), CLIMB.classes, CLIMB.thresholds)
    assert trained().sample_scored(64, {"climb": "high"}, styles=[style], sampling=STEERED).joint.mean() > 0.9


def test_labeling_functions_see_actions_as_they_are_clipped():
    """Or a pull would go on where the actions cannot follow."""
    limited = eqx.tree_at(lambda f: f.statistics, flow(), replace(flow().statistics, limits=(-0.5, 0.5)))
    steered = steer(limited, [target(CLIMB)], STEERED, length=STEPS, range=WIDE)
    context, memory = steered.begin(np.zeros((50, 2), np.int32), np.full(50, STEPS), KEY)
    situation, _ = limited.situation(context.flow, memory, jnp.asarray(DATA[:50].starts))
    plan = 3 * jax.random.normal(KEY, situation.past.shape)
    states, actions = steered._leads_to(situation, plan)
    taken = limited.statistics.action_of(plan)
    assert np.abs(taken).max() == 0.5
    np.testing.assert_allclose(actions, taken)
    np.testing.assert_allclose(jnp.diff(states, axis=1), taken, atol=1e-5)


def test_a_score_that_wraps_is_led_the_shorter_way_round():
    def heading(states, actions):
        return jnp.arctan2(actions[:, 1].mean(), actions[:, 0].mean())

    back = LabelingFunction("heading", heading, ("left", "ahead", "right"), (-2.0, 2.0), wraps=(-np.pi, np.pi))
    before = 2.9  # just beyond the end of "left", which begins at -pi: the other way round is four times as far
    actions = np.zeros((1, STEPS, 2), np.float32) + 0.3 * np.asarray([np.cos(before), np.sin(before)], np.float32)
    found = {}
    for style in (back, replace(back, wraps=None)):
        policy = steered(style)
        plan = policy.flow.statistics.action(jnp.asarray(actions))
        done = np.asarray(policy.flow.statistics.action.undo(jnp.asarray(finished(policy, asked(0, 1), plan))))
        found[style.wraps is None] = float(heading(None, done[0]))
    assert -np.pi <= found[False] < -2.9
    assert found[True] > -2.9  # all the way through the classes in between


def test_a_flow_is_sampled_in_as_many_steps_as_are_asked_for():
    few, many = (replace(STEERED, steps=steps) for steps in (2, 12))
    assert [steer(flow(), [target(CLIMB)], s, length=STEPS, range=WIDE).flow.steps for s in (few, many)] == [2, 12]
