"""Actors of policies that plan: when they propose anew, and what a lookahead takes. Below, the closed loop itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import count_compilations
from flow_helpers import PLAIN, STEERED, STEPS, climb, drifting, rough_flow, top, trained

from poise import Network, PoiseError, Trajectories
from poise.algorithms import Problem, find_algorithm
from poise.config import FlowNetwork
from poise.domains import integrator
from poise.domains.base import plain_domain
from poise.models import RNN, KnownDynamics, Policy, Statistics
from poise.rollouts.actor import Actor
from poise.rollouts.requests import Request
from poise.rollouts.simulate import Player, collect, imagine, simulate
from poise.styles.label_spaces import Categories, LabelSpace
from poise.training.state import start

STARTS = np.asarray(drifting(200, seed=4).starts)


def watch(actor: Actor) -> list[np.ndarray]:
    """The noise that an actor draws from now on."""
    drawn, draw = [], actor._noise

    def noise() -> np.ndarray:
        drawn.append(draw())
        return drawn[-1]

    actor._noise = noise
    return drawn


def play(actor: Actor, state: Any, steps: int, pushes: dict[int, Any] | None = None) -> tuple[Trajectories, Any]:
    """What an actor of many does; something pushes it before some of the steps."""
    states, actions = [np.asarray(state, np.float32)], []
    for step in range(steps):
        if pushes and step in pushes:
            states[-1] = states[-1] + np.asarray(pushes[step], np.float32)
        actions.append(actor.step(states[-1]))
        states.append(states[-1] + actions[-1])
    return Trajectories(np.stack(states, axis=1), np.stack(actions, axis=1)), states[-1]


def test_an_actor_follows_its_plan_as_it_was_sampled_and_draws_no_new_noise():
    actor = trained().actor({"drift": "high"}, count=200)
    drawn = watch(actor)
    made, _ = play(actor, STARTS, 1)
    plan = np.asarray(actor._player.at.plan)
    np.testing.assert_array_equal(made.actions[:, 0], plan[:, 0])
    rest, last = play(actor, np.asarray(made.states)[:, -1], STEPS - 1)
    np.testing.assert_allclose(rest.actions, plan[:, 1:], atol=1e-5)
    assert len(drawn) == 1
    play(actor, last, STEPS)
    assert len(drawn) == 2  # the next trajectory has a plan of its own


@pytest.mark.parametrize("sampling", [PLAIN, STEERED], ids=["plain", "steered"])
def test_an_undisturbed_actor_does_what_a_rollout_with_the_same_noise_does(sampling):
    actor = trained().actor({"drift": "high"}, count=64, sampling=sampling)
    drawn = watch(actor)
    made, _ = play(actor, STARTS[:64], STEPS)
    player: Any = actor._player
    policy = actor._policy
    context, memory = policy.begin(jnp.asarray(actor._arrange(actor.labels)), jnp.full(64, STEPS), jax.random.key(0))
    plan = jax.jit(lambda *given: policy.propose(context, memory, *given))(jnp.asarray(STARTS[:64]), drawn[0])
    assert player.at.taken == STEPS
    np.testing.assert_allclose(made.actions, plan, atol=1e-4)


def test_an_actor_proposes_anew_after_a_push_and_not_after_rounding():
    actor = trained().actor({"drift": "high"}, count=200)
    drawn = watch(actor)
    one, _ = play(actor, STARTS, STEPS, {3: 1e-5})
    assert len(drawn) == 1
    actor.reset()
    made, _ = play(actor, STARTS, STEPS, {3: [0.0, 3.0]})
    assert len(drawn) == 3
    assert int(np.asarray(actor._player.at.memory.steps)) == 0
    assert not np.array_equal(one.actions[:, 3:], made.actions[:, 3:])


def test_a_steered_actor_that_is_pushed_still_ends_where_it_is_asked_to():
    actor = trained().actor({"top": "low"}, styles=[top], count=200)
    made, _ = play(actor, STARTS, STEPS, {3: [0.0, 3.0]})
    (style,) = trained().fit_later([top])
    assert (style.label(made) == 0).mean() > 0.6
    assert (style.label(play(trained().actor({}, count=200), STARTS, STEPS, {3: [0.0, 3.0]})[0]) == 0).mean() < 0.3


def test_a_dial_that_is_turned_in_mid_play_is_obeyed_by_the_end_of_the_trajectory():
    actor = trained().actor({"drift": "low"}, count=200)
    drawn = watch(actor)
    first, state = play(actor, STARTS, 2)
    actor.dial({"drift": "high"})
    rest, _ = play(actor, state, STEPS - 2)
    assert len(drawn) == 2
    whole = Trajectories(
        np.concatenate([first.states, rest.states[:, 1:]], axis=1), np.concatenate([first.actions, rest.actions], 1)
    )
    (style,) = trained().styles
    assert (style.label(whole) == 2).mean() > 0.8
    assert (np.asarray(first.actions)[..., 0].mean(axis=1) < 0).mean() > 0.8


def share(actor: Actor, label: int = 2) -> float:
    (style,) = trained().fit_later([climb])
    return float((style.label(play(actor, STARTS, STEPS)[0]) == label).mean())


def test_an_actor_that_looks_ahead_takes_an_accepted_plan_more_often():
    without, with_it = (
        share(trained().actor({"climb": "high"}, styles=[climb], count=200, sampling=PLAIN, lookahead=many))
        for many in (1, 8)
    )
    assert without < 0.5
    assert with_it > 0.85


def edge_shares(known_range: bool) -> tuple[float, float]:
    """Of plays from near the edge, how many are right, and how many of those stay in range."""
    run = trained()
    actor: Any = run.actor({"climb": "high"}, styles=[climb], count=200, sampling=PLAIN, lookahead=8)
    low, high = actor._range
    np.testing.assert_array_equal(actor._range, run.known.range)
    actor._range = actor._range if known_range else None
    made, _ = play(actor, np.tile([0.0, low[1] + 0.8 * (high[1] - low[1])], (200, 1)), STEPS)
    (style,) = run.fit_later([climb])
    right = style.label(made) == 2
    return float(right.mean()), float((~run.known.out_of_range(made))[right].mean())


def test_an_actor_that_looks_ahead_prefers_plans_in_range_among_those_that_are_right():
    (right, inside), (right_anywhere, inside_anywhere) = edge_shares(True), edge_shares(False)
    assert right == right_anywhere > 0.8
    assert inside > inside_anywhere + 0.1


def test_a_plan_that_is_right_is_worth_more_than_one_in_range_and_what_has_happened_does_not_count():
    actor: Any = trained().actor({"climb": "high"}, styles=[climb], count=1, sampling=PLAIN, lookahead=2)
    up, down = np.full((1, 5, 2), [0.0, 9.0], np.float32), np.full((1, 5, 2), [0.0, -0.1], np.float32)
    far = np.full((1, 2), 1e3, np.float32)
    past, here = [(far, -far)], np.zeros((1, 2), np.float32)
    for given, plan, value in (([], up, 1), ([], down, 0.5), (past, down, 0.5)):
        assert float(actor._value(given, *actor._leads_to(here, plan))[0]) == value


def test_what_was_left_free_does_not_count_when_looking_ahead():
    """The first plan is as good as any other, so it is taken."""
    one, other = (trained().actor({}, count=8, sampling=PLAIN, lookahead=many) for many in (1, 4))
    np.testing.assert_array_equal(play(one, STARTS[:8], 3)[0].actions, play(other, STARTS[:8], 3)[0].actions)


def test_no_frame_of_an_actor_that_looks_ahead_waits_for_a_compilation():
    actor = trained().actor({"drift": "high"}, count=3, lookahead=3)
    with count_compilations() as compiled:
        _, state = play(actor, STARTS[:3], STEPS)
        actor.dial({"drift": "low"})
        play(actor, state, STEPS, {2: 5.0})
    assert compiled == []


def test_in_the_second_trajectory_a_plan_is_imagined_from_its_own_beginning():
    actor: Any = trained().actor({"drift": "high"}, count=8, lookahead=2, sampling=PLAIN)
    _, state = play(actor, STARTS[:8], STEPS)
    seen = []
    value = actor._value
    actor._value = lambda past, state, plan: seen.append((len(past), plan.shape[1])) or value(past, state, plan)
    play(actor, state, 3, {2: 5.0})
    assert seen == [(0, STEPS)] * 2 + [(2, STEPS - 2)] * 2


def test_an_actor_of_shorter_trajectories_plans_another_after_each():
    actor = trained().actor({"drift": "high"}, count=64, steps=3)
    drawn = watch(actor)
    made, _ = play(actor, STARTS[:64], 6)
    assert len(drawn) == 2
    assert np.asarray(made.actions)[:, 3:].std() > 0.3


@pytest.mark.parametrize("lookahead", [1, 2])
def test_a_flow_that_plans_anew_at_every_step_begins_again_after_a_shorter_trajectory(lookahead):
    policy = rough_flow(drifting(50), (3,), replan=1)
    actor: Any = Actor(
        policy, trained().styles, np.zeros((1, 1), np.int32), 2, steps=3, dynamics=integrator, lookahead=lookahead
    )
    with count_compilations() as compiled:
        happened = []
        for _ in range(7):
            actor.step([0.0, 0.0])
            happened.append((int(actor._player.at.memory.steps), len(actor._past)))
    assert happened == [(1, 1), (2, 2), (3, 3), (1, 1), (2, 2), (3, 3), (1, 1)]
    assert compiled == []


@pytest.mark.parametrize("dynamics", [integrator, None])
def test_lookahead_is_refused_where_nothing_can_be_imagined(dynamics, walks):
    space = LabelSpace(())
    message = "lookahead needs a flow; sample with tries instead"
    policies: list[Any] = [
        RNN(Statistics.of(walks), space, Network(layers=(4,), decoder="markov"), key=jax.random.key(0)),
        rough_flow(walks, (), horizon=3),
        *([rough_flow(walks, ())] if dynamics is None else []),
    ]
    for policy in policies:
        with pytest.raises(PoiseError, match=f"^{message}$"):
            Actor(policy, (), np.zeros((1, 0), np.int32), 2, steps=6, dynamics=dynamics, lookahead=2)


def test_an_actor_imagines_at_least_one_plan():
    with pytest.raises(PoiseError, match="lookahead is a whole number, at least 1; got 0"):
        trained().actor({"drift": "high"}, lookahead=0)


def test_styles_that_are_not_named_are_left_free_by_a_flow():
    actor = trained().actor({"climb": "low"}, styles=[climb], count=2)
    assert actor.labels.tolist() == [[-1, 0]] * 2
    actor.dial({"drift": "high"})
    assert actor.labels.tolist() == [[2, 0]] * 2


class Planner:
    """Proposes three actions and has two of them taken: the number of the step, ten times over, and the one within."""

    noise, replan, open_labels = 1, 2, False

    def imitate(self, demonstrations, labels, key):
        raise NotImplementedError

    def begin(self, labels, lengths, key):
        return jnp.asarray(labels, jnp.float32), jnp.zeros(len(labels))

    def propose(self, context, memory, state, noise):
        return (10 * memory[:, None] + jnp.arange(3.0) + 0.01 * noise + 100 * context)[..., None]

    def remember(self, context, memory, state, action):
        return memory + 1


PLANNER = Planner()


def host(states, actions):
    return np.add(np.asarray(states), np.asarray(actions))


@pytest.mark.parametrize("steps", [1, 4, 5])
def test_every_loop_takes_the_first_actions_of_each_proposal(steps):
    assert isinstance(PLANNER, Policy)
    request = Request(np.zeros((4, 1), np.float32), np.full((4, 1), 7, np.int32), np.full(4, steps, np.int32), steps)
    made = [
        simulate(PLANNER, integrator, request, key=jax.random.key(0)),
        simulate(PLANNER, host, request, key=jax.random.key(0)),
        jax.jit(lambda key: imagine(PLANNER, KnownDynamics(integrator), request.rows(np.arange(4)), key=key))(
            jax.random.key(0)
        ),
    ]
    expected = [700 + 10 * (step - step % 2) + step % 2 for step in range(steps)]
    for one in made:
        actions = np.asarray(one.actions)[..., 0]
        assert actions.shape == (4, steps)
        np.testing.assert_allclose(actions, made[0].actions[..., 0], atol=1e-3)
        np.testing.assert_allclose(actions, np.tile(expected, (4, 1)), atol=0.05)
        np.testing.assert_allclose(np.asarray(one.states)[:, 1:, 0], actions.cumsum(axis=1), rtol=1e-5)
        noise = actions - expected
        assert np.abs(noise[:, 0] - noise[:, steps - 1]).min() > 1e-5 or steps == 1  # each proposal has its own
        for first in range(0, steps - 1, 2):
            np.testing.assert_allclose(noise[:, first], noise[:, first + 1], atol=1e-3)


def test_a_player_proposes_when_its_proposal_is_used_up_and_follows_one_that_it_is_given():
    player = Player(PLANNER, *PLANNER.begin(np.zeros((1, 1)), None, None))
    state, asked = np.zeros((1, 1), np.float32), []

    def noise():
        asked.append(1)
        return np.zeros((1, 1), np.float32)

    assert player.proposes
    assert [float(player.act(state, noise)[0, 0]) for _ in range(5)] == [0, 1, 20, 21, 40]
    assert len(asked) == 3
    player.propose_anew()
    assert [float(player.act(state, noise)[0, 0]) for _ in range(3)] == [50, 51, 70]
    assert len(asked) == 5
    given = player.propose(state, noise())
    assert np.asarray(given).ravel().tolist() == [80, 81, 82]
    assert player.at.taken == 1  # it is not followed yet
    player.follow(given + 1)
    assert [float(player.act(state, noise)[0, 0]) for _ in range(3)] == [81, 82, 100]
    player.turn(PLANNER, jnp.ones((1, 1)))
    assert float(player.act(state, noise)[0, 0]) == 210


def test_rollouts_of_a_flow_are_collected_plan_by_plan(walks):
    network = Network(flow=FlowNetwork(width=8, blocks=1, steps=2))
    problem = Problem(Statistics.of(walks), LabelSpace((Categories(2),)), network, plain_domain("x", 2, False))
    policies = start(find_algorithm("flow"), problem, np.arange(2)).parts["policy"]  # their velocity is zero
    keys, labels = jax.random.split(jax.random.key(1), 2), np.zeros((1, 60, 1), np.int32)
    made, _ = collect(policies, host, walks, labels, np.zeros(2, int), 5, keys)
    states, actions = np.asarray(made.states), np.asarray(made.actions)
    np.testing.assert_allclose(states[:, :, 1:], states[:, :, :-1] + actions, atol=1e-4)
    scale = problem.statistics.action
    drawn = (actions - np.asarray(scale.mean)) / np.asarray(scale.deviation)
    for run in range(2):
        noise = np.asarray(jax.random.normal(jax.random.split(keys[run])[1], (3, 5, 8))).reshape(3, 5, 4, 2)
        for step in range(6):
            np.testing.assert_allclose(drawn[run, :, step], noise[step // 2, :, step % 2], atol=1e-4)
