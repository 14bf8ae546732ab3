"""Flows: what a plan is conditioned on, what it keeps, and the density of what it draws."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander
from flow_helpers import drifting, new_flow, no_labels, rough_flow

from poise import Trajectories
from poise.models import Flow, Policy
from poise.models import flow as module
from poise.models.flow import BEYOND, HAPPENED, TO_PLAN, Past
from poise.styles.label_spaces import GRADES, Categories, Graded, LabelSpace, SharedSpace

KEY = jax.random.key(1)
match = eqx.filter_jit(lambda flow, *given: flow.match(*given))
imitate = eqx.filter_jit(lambda flow, *given: flow.imitate(*given))
begin = eqx.filter_jit(lambda flow, labels, lengths: flow.begin(labels, lengths, KEY))
situation_of = eqx.filter_jit(lambda flow, *given: flow.situation(*given))
leave_free = eqx.filter_jit(lambda flow, *given: flow.leave_free(*given))


def nld(flow: Flow, data: Trajectories, labels: Any) -> Any:
    return imitate(flow, data, labels, KEY).nld


draw = eqx.filter_jit(lambda flow, *given: flow.draw(*given))
propose = eqx.filter_jit(lambda flow, *given: flow.propose(*given))
remember = eqx.filter_jit(lambda flow, *given: flow.remember(*given))


def garbage(data: Trajectories, value: float) -> Trajectories:
    """The same trajectories with this value beyond their lengths."""
    real = np.asarray(data.mask)[..., None]
    states = np.concatenate([data.states[:, :1], np.where(real, np.asarray(data.states)[:, 1:], value)], axis=1)
    actions = np.where(real, data.actions, value).astype(np.float32)
    return Trajectories.unchecked(states.astype(np.float32), actions, data.lengths).arrays


def noise_for(flow: Flow, count: int, seed: int = 0) -> Any:
    return jax.random.normal(jax.random.key(seed), (count, flow.noise))


def test_short_plans_do_not_read_where_a_body_is(walks):
    short, whole = (rough_flow(walks, adds_up=adds_up, position=(0,)) for adds_up in (False, True))
    for flow, reads in ((short, [False, True]), (whole, [True, True])):
        context, memory = begin(flow, no_labels(60), jnp.asarray(walks.lengths))
        noise, starts = noise_for(flow, 60), np.asarray(walks.starts)
        plans = [propose(flow, context, memory, starts + move, noise) for move in ([0, 0], [1, 0], [0, 1])]
        assert [bool(np.abs(plan - plans[0]).max() > 1e-3) for plan in plans[1:]] == reads


def test_graded_labels_lose_their_grades_in_some_rows(walks):
    graded = Graded(3).grade(np.arange(2_000) % 3, np.arange(2_000) % GRADES)
    labels = jnp.asarray(np.stack([graded, np.arange(2_000) % 2], axis=1))
    flow = new_flow(walks, (Graded(3), 2), drop=0.0)
    left = np.asarray(leave_free(flow, labels, KEY))
    alone = left[:, 0] < 3
    np.testing.assert_allclose(alone.mean(), module.CLASS_ALONE, atol=0.03)
    np.testing.assert_array_equal(left[~alone], np.asarray(labels)[~alone])
    np.testing.assert_array_equal(flow.space.classes_of(left), flow.space.classes_of(labels))


KINDS = pytest.mark.parametrize("adds_up", [True, False], ids=["whole", "short"])


@KINDS
def test_a_flow_has_the_interface_of_a_policy(adds_up, walks):
    flow = rough_flow(walks, adds_up=adds_up)
    assert isinstance(flow, Policy)
    labels, lengths = no_labels(60), jnp.asarray(walks.lengths)
    found = imitate(flow, walks.arrays, labels, KEY)
    assert found.nld.shape == (60,)
    assert found.kl.shape == (60, 0)
    context, memory = begin(flow, labels, lengths)
    plan = propose(flow, context, memory, walks.arrays.starts, noise_for(flow, 60))
    assert plan.shape == (60, 6 if adds_up else 4, 2)
    assert flow.noise == plan[0].size
    after = remember(flow, context, memory, walks.arrays.starts, plan[:, 0])
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, memory)


@pytest.mark.parametrize(
    ("adds_up", "sizes", "horizon", "replan", "whole"),
    [
        (True, {}, 6, 6, True),
        (True, {"replan": 2}, 6, 2, True),
        (True, {"horizon": 3}, 3, 2, False),
        (True, {"horizon": 50, "replan": 50}, 6, 6, True),
        (False, {}, 4, 2, False),
        (False, {"horizon": 6}, 6, 3, False),
        (False, {"horizon": 5, "replan": 5}, 5, 5, False),
    ],
)
def test_a_plan_is_whole_where_actions_add_up_and_short_elsewhere(adds_up, sizes, horizon, replan, whole, walks):
    flow = rough_flow(walks, adds_up=adds_up, shake=0.3, **sizes)
    assert (flow.horizon, flow.replan, flow.whole) == (horizon, replan, whole)
    assert flow.shake == (0.0 if whole else 0.3)


def test_states_are_shaken_in_the_training_of_short_plans_alone(walks):
    losses = {
        (adds_up, shake): match(rough_flow(walks, adds_up=adds_up, shake=shake), walks.arrays, no_labels(60), KEY)
        for adds_up in (True, False)
        for shake in (0.0, 1.0)
    }
    np.testing.assert_array_equal(losses[True, 0.0], losses[True, 1.0])
    assert np.abs(losses[False, 0.0] - losses[False, 1.0]).max() > 1e-3


@KINDS
def test_training_and_density_ignore_what_lies_beyond_the_length(adds_up, ragged):
    flow, labels = rough_flow(ragged, adds_up=adds_up), no_labels(len(ragged))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def slope(flow, data):
        return flow.match(data, labels, KEY).mean()

    one, other = slope(flow, ragged.arrays), slope(flow, garbage(ragged, 1e3))
    assert np.isfinite(one[0])
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    for value in (1e3, np.nan):
        np.testing.assert_array_equal(nld(flow, garbage(ragged, value), labels), nld(flow, ragged, labels))


def test_training_sees_the_first_steps_of_some_demonstrations_as_given_and_counts_the_others_alone(walks):
    """A flow without velocity errs by x - noise: the mean over the free numbers has a mean of 2 whatever is given."""
    flow, many = rough_flow(walks, rough=0.0), walks[np.arange(6000) % 60]
    situation, plan = flow._part(many.arrays, no_labels(6000), KEY)
    happened = np.asarray(situation.status == HAPPENED).sum(axis=1)
    assert set(happened.tolist()) == set(range(6))
    assert 0.5 < (happened == 0).mean() < 0.7
    given = np.asarray(situation.status == HAPPENED)[..., None]
    np.testing.assert_array_equal(situation.past, np.where(given, plan, 0))
    assert match(flow, many.arrays, no_labels(6000), KEY).mean() == pytest.approx(2, abs=0.1)


def test_a_free_label_is_encoded_as_zeros_and_changes_what_is_drawn(walks):
    flow = rough_flow(walks, (3, 2), rough=2.0)
    plans = []
    for labels in ([1, -1], [1, 0], [-1, -1]):
        context, memory = begin(flow, jnp.tile(jnp.asarray(labels), (60, 1)), jnp.asarray(walks.lengths))
        expected = [float(labels[0] == i) for i in range(3)] + [float(labels[1] == i) for i in range(2)]
        assert context.labels[0].tolist() == expected
        plans.append(propose(flow, context, memory, walks.arrays.starts, noise_for(flow, 60)))
    assert np.abs(plans[0] - plans[1]).max() > 1e-2
    assert np.abs(plans[0] - plans[2]).max() > 1e-2


@pytest.mark.parametrize("dropped", [0.0, 0.5, 1.0])
def test_each_style_is_left_free_on_its_own_in_a_share_of_rows(dropped, walks):
    """By a chance of the row's own, so that few free styles are as common as many."""
    flow = rough_flow(walks, (3, 3, 2), drop=dropped)
    labels = jnp.tile(jnp.asarray([[0, 2, 1]]), (20_000, 1))
    left = np.asarray(leave_free(flow, labels, KEY))
    free = left == -1
    assert np.array_equal(left[~free], np.asarray(labels)[~free])
    np.testing.assert_allclose(free.mean(axis=0), dropped / 2, atol=0.015)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (free[:, one] & free[:, other]).mean() == pytest.approx(dropped / 3, abs=0.015)
        assert (free[:, one] & ~free[:, other]).mean() == pytest.approx(dropped / 6, abs=0.015)
    assert flow.open_labels == (dropped > 0)


def test_a_run_in_a_shared_label_space_trains_as_if_it_were_alone(walks):
    own, shared = (3, 2, 3), (2, 2, 3, 4, 3)
    space = SharedSpace(LabelSpace(tuple(map(Categories, own))), LabelSpace(tuple(map(Categories, shared))))
    alone, like = rough_flow(walks, own), rough_flow(walks, shared)
    padded = space.pad(alone, like)
    labels = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.int32)
    for key in jax.random.split(KEY, 3):
        mine = leave_free(alone, jnp.asarray(labels), key)
        theirs = leave_free(padded, jnp.asarray(space.pad_labels(labels)), key)
        np.testing.assert_array_equal(space.unpad_labels(np.asarray(theirs)), mine)
        np.testing.assert_array_equal(theirs, space.pad_labels(np.asarray(mine)))
    found = [
        match(f, walks.arrays, jnp.asarray(x), KEY) for f, x in ((alone, labels), (padded, space.pad_labels(labels)))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


@KINDS
def test_without_a_velocity_the_density_is_that_of_the_statistics(adds_up, ragged):
    flow = new_flow(ragged, adds_up=adds_up)
    mean, deviation = (np.asarray(x) for x in (flow.statistics.action.mean, flow.statistics.action.deviation))
    each = 0.5 * ((np.asarray(ragged.actions) - mean) / deviation) ** 2 + np.log(deviation * np.sqrt(2 * np.pi))
    expected = np.where(np.asarray(ragged.mask)[..., None], each, 0).sum(axis=(1, 2))
    np.testing.assert_allclose(nld(flow, ragged.arrays, no_labels(len(ragged))), expected, rtol=1e-5)


def test_the_density_integrates_to_one_and_is_that_of_what_is_drawn():
    data = wander(300, steps=1, size=1)
    flow = rough_flow(data, rough=1.5, steps=100)
    mean, deviation = float(flow.statistics.action.mean[0]), float(flow.statistics.action.deviation[0])
    grid = mean + deviation * np.linspace(-9, 9, 601).astype(np.float32)
    states = np.stack([np.zeros_like(grid), grid], axis=1)[..., None]
    line = Trajectories.unchecked(states, grid[:, None, None], np.ones(len(grid), np.int32)).arrays
    density = np.exp(-np.asarray(nld(flow, line, no_labels(len(grid)))))
    width = float(grid[1] - grid[0])
    assert density.sum() * width == pytest.approx(1, abs=0.02)
    context, memory = begin(flow, no_labels(5_000), jnp.ones(5_000, jnp.int32))
    drawn = np.asarray(propose(flow, context, memory, jnp.zeros((5_000, 1)), noise_for(flow, 5_000))).ravel()
    below = np.searchsorted(np.sort(drawn), grid) / len(drawn)
    assert np.abs(below - density.cumsum() * width).max() < 0.04
    standard = np.exp(-0.5 * ((grid - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    assert np.abs((standard - density).cumsum()).max() * width > 0.1  # the velocity does something


@pytest.mark.parametrize("length", [3, 2])
def test_the_density_of_a_plan_is_the_noise_and_the_volume_that_the_sampler_changes(length, monkeypatch):
    """With many steps, for numbers that depend on each other; beyond the length there are none."""
    monkeypatch.setattr(module, "EXACT_STEPS", 200)
    data = wander(200, steps=3)
    flow = rough_flow(data, rough=1.5, steps=400)
    context, memory = begin(flow, no_labels(1), jnp.asarray([length]))
    situation, _ = situation_of(flow, context, memory, jnp.ones((1, 2)))
    noise, count = noise_for(flow, 1), 2 * length

    def drawn(free):
        plan = flow.draw(situation, noise.at[0, :count].set(free)).ravel()[:count]
        return plan, plan

    free = noise[0, :count]
    jacobian, plan = jax.jit(jax.jacfwd(drawn, has_aux=True))(free)
    volume = np.linalg.slogdet(np.asarray(jacobian))[1]
    units = jnp.tile(jnp.log(flow.statistics.action.deviation), length).sum()
    expected = 0.5 * jnp.sum(free**2) + count * 0.5 * np.log(2 * np.pi) + volume + units
    actions = jnp.zeros((1, 3, 2)).at[0, :length].set(flow.statistics.action.undo(plan.reshape(length, 2)))
    states = jnp.ones((1, 4, 2)).at[:, 1:].add(jnp.cumsum(actions, axis=1))
    shown = Trajectories.unchecked(states, actions, jnp.asarray([length]))
    assert float(nld(flow, shown, no_labels(1))[0]) == pytest.approx(float(expected), abs=0.02)
    assert abs(float(volume)) > 0.1


@KINDS
def test_the_density_is_in_the_units_of_the_action(adds_up, walks):
    scaled = Trajectories(np.asarray(walks.states) * 10)
    found = [nld(rough_flow(data, adds_up=adds_up), data.arrays, no_labels(60)) for data in (walks, scaled)]
    np.testing.assert_allclose(found[1] - found[0], 6 * 2 * np.log(10), rtol=1e-3)


@pytest.mark.parametrize("steps", [4, 9])
def test_the_density_of_demonstrations_of_another_number_of_steps_is_finite(steps, walks):
    flow, other = rough_flow(walks), wander(20, steps=steps)
    assert np.isfinite(nld(flow, other.arrays, no_labels(20))).all()


def walk_on(flow: Flow, context, memory, state, actions):
    """The memory and the state after these actions."""
    for action in actions:
        memory = remember(flow, context, memory, state, action)
        state = state + action
    return memory, state


@pytest.fixture(scope="module")
def rough(walks) -> Flow:
    return rough_flow(walks)


def begun(flow: Flow, walks: Trajectories, seed: int = 0):
    context, memory = begin(flow, no_labels(60), jnp.asarray(walks.lengths))
    state = walks.arrays.starts
    return context, memory, state, propose(flow, context, memory, state, noise_for(flow, 60, seed))


def test_a_plan_made_anew_keeps_what_happened_and_begins_with_what_is_to_come(rough, walks):
    context, memory, start, plan = begun(rough, walks)
    taken = [plan[:, 0], plan[:, 1] + 0.3]
    memory, state = walk_on(rough, context, memory, start, taken)
    situation, count = situation_of(rough, context, memory, state)
    assert int(count) == 2
    assert situation.status[0].tolist() == [HAPPENED] * 2 + [TO_PLAN] * 4
    np.testing.assert_allclose(situation.state, start, atol=1e-6)
    anew = propose(rough, context, memory, state, noise_for(rough, 60, 1))
    np.testing.assert_allclose(anew[:, 4:], np.stack(taken, axis=1), atol=1e-4)
    assert np.abs(anew[:, :4] - plan[:, 2:]).max() > 0.1
    undisturbed, other = walk_on(rough, context, begun(rough, walks)[1], start, [plan[:, 0], plan[:, 1]])
    elsewhere = propose(rough, context, undisturbed, other, noise_for(rough, 60, 1))
    assert np.abs(elsewhere[:, :4] - anew[:, :4]).max() > 1e-2  # what happened counts


def test_after_a_push_the_last_action_is_the_one_that_leads_to_the_state(rough, walks):
    context, memory, start, plan = begun(rough, walks)
    memory, state = walk_on(rough, context, memory, start, [plan[:, 0], plan[:, 1]])
    pushed = state + jnp.asarray([3.0, -1.0])
    situation, _ = situation_of(rough, context, memory, pushed)
    past = rough.statistics.action.undo(situation.past)
    np.testing.assert_allclose(past[:, 0], plan[:, 0], atol=1e-4)
    np.testing.assert_allclose(past[:, 1], plan[:, 1] + jnp.asarray([3.0, -1.0]), atol=1e-4)
    np.testing.assert_allclose(rough.states(situation, situation.past)[:, 2], pushed, atol=1e-4)
    after: Any = remember(rough, context, memory, pushed, plan[:, 2])
    kept = rough.statistics.action.undo(after.actions)
    np.testing.assert_allclose(start + kept[:, :3].sum(axis=1), pushed + plan[:, 2], atol=1e-4)


def test_after_the_last_step_another_trajectory_begins(rough, walks):
    context, memory, start, plan = begun(rough, walks)
    memory, state = walk_on(rough, context, memory, start, [plan[:, i] for i in range(5)])
    assert isinstance(memory, Past)
    assert int(memory.steps) == 5
    memory, state = walk_on(rough, context, memory, state, [plan[:, 5]])
    assert int(memory.steps) == 0
    again = propose(rough, context, memory, state, noise_for(rough, 60, 2))
    fresh = propose(rough, *begin(rough, no_labels(60), jnp.asarray(walks.lengths)), state, noise_for(rough, 60, 2))
    np.testing.assert_array_equal(again, fresh)
    later, state = walk_on(rough, context, memory, state, [again[:, 0]])
    assert isinstance(later, Past)
    np.testing.assert_allclose(later.start, start + plan.sum(axis=1), atol=1e-4)


def test_steps_beyond_the_length_have_no_effect_on_a_plan(rough, walks):
    context, memory = begin(rough, no_labels(60), jnp.full(60, 3, jnp.int32))
    situation, _ = situation_of(rough, context, memory, walks.arrays.starts)
    assert situation.status[0].tolist() == [TO_PLAN] * 3 + [BEYOND] * 3
    noise = noise_for(rough, 60)
    one, other = (propose(rough, context, memory, walks.arrays.starts, x) for x in (noise, noise.at[:, 6:].set(9.0)))
    np.testing.assert_array_equal(one[:, :3], other[:, :3])
    nonsense = situation._replace(past=jnp.where((situation.status == BEYOND)[..., None], 1e3, situation.past))
    np.testing.assert_array_equal(draw(rough, situation, noise)[:, :3], draw(rough, nonsense, noise)[:, :3])
    long, _ = begin(rough, no_labels(60), jnp.asarray(walks.lengths))
    assert np.abs(propose(rough, long, memory, walks.arrays.starts, noise)[:, :3] - one[:, :3]).max() > 1e-3


def test_guidance_scales_what_the_labels_change(rough, walks):
    context, memory, state, plan = begun(rough, walks)
    situation, _ = situation_of(rough, context, memory, state)
    x = noise_for(rough, 60).reshape(60, 6, 2)

    def velocity(guidance, situation=situation):
        return rough.sampled(rough.steps, guidance).field(situation)(x, jnp.asarray(0.3))

    free = velocity(1.0, situation._replace(labels=jnp.zeros_like(situation.labels)))
    asked = rough.velocity(situation, x, jnp.full(60, 0.3))
    assert np.abs(asked - free).max() > 1e-2
    np.testing.assert_allclose(velocity(1.0), asked, atol=1e-5)
    np.testing.assert_allclose(velocity(0.0), free, atol=1e-5)
    np.testing.assert_allclose(velocity(2.5) - free, 2.5 * (asked - free), atol=1e-4)
    same = propose(rough.sampled(rough.steps, 1.0), context, memory, state, noise_for(rough, 60))
    np.testing.assert_array_equal(same, plan)


def test_short_plans_depend_on_the_state_alone(walks):
    flow = rough_flow(walks, adds_up=False)
    context, memory = begin(flow, no_labels(60), jnp.asarray(walks.lengths))
    state, noise = walks.arrays.starts, noise_for(flow, 60)
    one, other = (propose(flow, context, memory, x, noise) for x in (state, state + 3))
    assert np.abs(one - other).max() > 1e-2
    assert remember(flow, context, memory, state, one[:, 0]) == ()


def test_half_precision_changes_a_velocity_and_its_gradient_by_little():
    data = drifting(32)
    flow = rough_flow(data)
    situation, plan = flow._part(data, flow.space.encode(jnp.zeros((32, 1), jnp.int32)), jax.random.key(0))

    def error(network, precision):
        policy = eqx.tree_at(lambda f: f.network, flow, network)
        return jnp.sum((policy.velocity(situation, plan, jnp.full(32, 0.5), precision) - plan) ** 2)

    whole, half = (eqx.filter_value_and_grad(error)(flow.network, p) for p in (jnp.float32, jnp.bfloat16))
    assert 0 < abs(half[0] / whole[0] - 1) < 0.02
    for one, other in zip(*(jax.tree.leaves(each[1]) for each in (whole, half)), strict=True):
        assert other.dtype == one.dtype == jnp.float32
        assert float(jnp.linalg.norm(one - other)) < 0.05 * float(jnp.linalg.norm(one)) + 1e-4
