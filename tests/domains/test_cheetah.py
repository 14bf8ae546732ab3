"""The Cheetah's geometry and styles against MuJoCo's own kinematics, its resets, and rollouts in it."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from conftest import TINY

from poise import DOMAINS, PRESETS, Experiment, PoiseError, Trajectories
from poise.domains import cheetah
from poise.domains.demonstrators.demonstrations import demonstrate
from poise.domains.demonstrators.policies import Demonstrators
from poise.domains.demonstrators.training import TrainConfig, train
from poise.models import TVAE, Statistics
from poise.rollouts.requests import Request
from poise.rollouts.simulate import simulate
from poise.runs.prepare import load_splits
from poise.styles.label_spaces import Categories, LabelSpace
from poise.styles.traced import is_traced as traced

CHEETAH = DOMAINS["cheetah"]


@pytest.fixture(scope="module")
def mujoco():
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    return pytest.importorskip("mujoco", reason="the extra is missing: pip install 'poise[cheetah]'")


def random_states(count: int) -> np.ndarray:
    """Poses far from those of demonstrations, upside down and beyond the limits of joints."""
    return np.random.default_rng(0).normal(size=(count, cheetah.STATES)).astype(np.float32)


def heights(mujoco, states: np.ndarray) -> dict[str, list[float]]:
    """MuJoCo's own heights of torso and feet."""
    model, found = cheetah.model(), {"torso": [], "bfoot": [], "ffoot": []}
    data = mujoco.MjData(model)
    for state in states:
        data.qpos[:], data.qvel[:] = np.split(state, 2)
        mujoco.mj_forward(model, data)
        for name, values in found.items():
            values.append(data.geom(name).xpos[2])
    return found


def score(name: str, states: np.ndarray) -> float:
    trajectory = Trajectories(states[None], np.zeros((1, len(states) - 1, cheetah.ACTIONS)))
    return float(CHEETAH.styles[name].scores(trajectory)[0])


def test_the_domain_has_the_papers_styles_and_settings():
    assert list(CHEETAH.styles) == ["speed", "torso_height", "back_foot_height", "front_foot_height"]
    assert CHEETAH.settings == PRESETS["cheetah"]
    assert CHEETAH.environment is cheetah.environment
    assert CHEETAH.describe_simulation() == "the environment of cheetah"


def test_every_style_is_traced():
    states, actions = np.zeros((2, 5, 18), np.float32), np.zeros((2, 4, 6), np.float32)
    assert all(traced(style.score, states, actions) for style in CHEETAH.styles.values())


def test_speed_is_the_mean_forward_velocity():
    states = np.zeros((3, 18), np.float32)
    states[:, cheetah.VELOCITY] = 1, 2, 6
    assert score("speed", states) == pytest.approx(3)


def test_heights_are_those_of_mujoco(mujoco):
    states = random_states(40)
    found = heights(mujoco, states)
    for style, name in {"torso_height": "torso", "back_foot_height": "bfoot", "front_foot_height": "ffoot"}.items():
        assert score(style, states) == pytest.approx(np.mean(found[name]), abs=1e-4)
        for i in range(0, 40, 2):
            assert score(style, states[i : i + 2]) == pytest.approx(np.mean(found[name][i : i + 2]), abs=1e-4)


def test_the_geometry_is_that_of_the_xml(mujoco):
    model = cheetah.model()
    np.testing.assert_allclose(model.body("torso").pos, [0, 0, cheetah.STANDING])
    assert {model.body(i).name for i in range(1, model.nbody)} == {"torso", *cheetah.BODIES}
    for name, (parent, x, z, column) in cheetah.BODIES.items():
        body = model.body(name)
        assert model.body(body.parentid[0]).name == parent
        np.testing.assert_allclose(body.pos, [x, 0, z])
        assert model.jnt_qposadr[model.joint(name).id] == column
    assert {model.geom(i).name for i in range(model.ngeom)} == {"ground", *cheetah.CAPSULES}
    for name, (body, x, z, degrees, half) in cheetah.CAPSULES.items():
        geom = model.geom(name)
        assert model.body(geom.bodyid[0]).name == body
        np.testing.assert_allclose(geom.pos, [x, 0, z])
        np.testing.assert_allclose(geom.size[:2], [cheetah.RADIUS, half])
        turn = np.array([np.cos(np.deg2rad(degrees / 2)), 0, np.sin(np.deg2rad(degrees / 2)), 0])
        assert abs(turn @ geom.quat) == pytest.approx(1)  # a quaternion and its negative are the same rotation
    assert (model.nq, model.nv, model.nu) == (9, 9, cheetah.ACTIONS)
    np.testing.assert_array_equal(model.actuator_ctrlrange, [CHEETAH.actions] * cheetah.ACTIONS)
    assert cheetah.RUNNING.reward.actions == CHEETAH.actions
    assert CHEETAH.sizes == (model.nq + model.nv, model.nu)
    assert model.opt.timestep * cheetah.SUBSTEPS == pytest.approx(1 / cheetah.HZ)


def test_the_ends_of_the_stick_figure_are_those_of_mujocos_capsules(mujoco):
    states, model = random_states(20), cheetah.model()
    drawn, data = np.asarray(cheetah.stick_figure(states)), mujoco.MjData(model)
    for state, lines in zip(states, drawn, strict=True):
        data.qpos[:] = state[: cheetah.VELOCITY]
        mujoco.mj_forward(model, data)
        for name, (one, two) in zip(cheetah.CAPSULES, lines, strict=True):
            geom = data.geom(name)
            along = geom.xmat.reshape(3, 3)[:, 2] * cheetah.CAPSULES[name][4]
            np.testing.assert_allclose(one, (geom.xpos - along)[[0, 2]], atol=1e-4)
            np.testing.assert_allclose(two, (geom.xpos + along)[[0, 2]], atol=1e-4)


def test_resets_follow_the_seed_and_not_the_count(mujoco):
    states = cheetah.resets(20, seed=1)
    np.testing.assert_array_equal(cheetah.resets(3, seed=1), states[:3])
    assert not np.array_equal(cheetah.resets(20, seed=2), states)


def test_resets_lie_within_the_joints_limits_and_on_the_ground(mujoco):
    states, model = cheetah.resets(50, seed=0), cheetah.model()
    low, high = model.jnt_range[3:].T
    angles = states[:, 3:9]
    assert ((low - 0.1 < angles) & (angles < high + 0.1)).all()  # limits are soft
    assert all(0 < z < 0.4 for name in ("bfoot", "ffoot") for z in heights(mujoco, states)[name])


def test_the_environment_clips_actions_to_the_range_of_the_motors(mujoco):
    states, actions = cheetah.resets(2, seed=0), np.full((2, 6), 7.0)
    np.testing.assert_array_equal(cheetah.environment(states, actions), cheetah.in_threads().step(states, actions / 7))


def test_a_rollout_that_becomes_unstable_is_nan_and_the_others_continue(mujoco):
    states, actions = cheetah.resets(2, seed=0), np.zeros((2, 6))
    actions[0, 3] = np.nan
    following = cheetah.environment(states, actions)
    assert np.isnan(following[0]).all()
    np.testing.assert_array_equal(following[1:], cheetah.in_threads().step(states[1:], actions[1:]))
    with pytest.raises(PoiseError, match="got nan in row 0"):
        cheetah.in_threads().step(states, actions)


def test_a_policy_is_rolled_out_in_the_real_physics(mujoco):
    random = np.random.default_rng(0)
    starts = cheetah.resets(3, seed=0).astype(np.float32)
    seen = Trajectories(random_states(12).reshape(3, 4, 18), random.uniform(-1, 1, (3, 3, 6)))
    policy = TVAE(Statistics.of(seen), LabelSpace((Categories(2),)), TINY.network, key=jax.random.key(0))
    request = Request(starts, np.zeros((3, 1), np.int32), np.full(3, 4), steps=4)
    made = simulate(policy, cheetah.environment, request, key=jax.random.key(1))
    state = starts
    for step in range(4):
        state = cheetah.environment(state, made.actions[:, step]).astype(np.float32)
        np.testing.assert_array_equal(made.states[:, step + 1], state)


def test_the_reward_grows_towards_the_target_speed():
    states = np.zeros((9, cheetah.STATES), np.float32)
    states[:, cheetah.VELOCITY] = np.linspace(0, 4, 9)
    rewards = np.asarray(cheetah.reward(states, np.zeros((9, 6), np.float32), np.asarray(3, np.float32)))
    assert rewards.argmax() == 6
    assert (np.diff(rewards[:7]) > 0).all()
    assert (np.diff(rewards[6:]) < 0).all()


def test_a_level_torso_and_low_effort_are_rewarded():
    level, still = np.zeros((1, cheetah.STATES), np.float32), np.zeros((1, 6), np.float32)
    tilted = level.copy()
    tilted[:, cheetah.PITCH] = 1
    best = cheetah.reward(level, still, np.asarray(0, np.float32))
    assert cheetah.reward(tilted, still, np.asarray(0, np.float32)) < best
    assert cheetah.reward(level, still + 1, np.asarray(0, np.float32)) < best


def test_upside_down_is_a_torso_turned_by_more_than_a_right_angle():
    states = np.zeros((4, cheetah.STATES), np.float32)
    states[:, cheetah.PITCH] = 0, 1.5, -1.6, np.pi
    assert np.asarray(cheetah.upside_down(states)).tolist() == [False, False, True, True]
    assert np.asarray(cheetah.fallen(states)).tolist() == [False, True, True, True]


def test_a_demonstrator_does_not_observe_its_position_along_the_track():
    states = random_states(3)
    moved = states.copy()
    moved[:, 0] += 10
    np.testing.assert_array_equal(cheetah.observe(states), cheetah.observe(moved))
    assert cheetah.observe(states).shape == (3, 17)


def test_the_shipped_policies_reach_their_targets(mujoco):
    policies = Demonstrators.load(cheetah.POLICIES)
    assert cheetah.POLICIES.stat().st_size < 4e6
    np.testing.assert_allclose(policies.targets, np.linspace(0, 4, len(policies)), atol=1e-6)
    made = demonstrate(cheetah.RUNNING, policies, 125, seed=3)
    speeds = CHEETAH.styles["speed"].scores(made)
    assert np.abs(speeds - made.metadata["target"]).mean() < 0.25
    assert np.asarray(cheetah.upside_down(made.states)).mean() < 0.02


def test_test_demonstrations_have_first_states_of_their_own(mujoco):
    splits = load_splits(Experiment(data="cheetah", styles=("speed",), count=40), CHEETAH)
    assert [len(part) for part in splits] == [36, 4, 10]
    assert splits.train.states.shape[1:] == (cheetah.STEPS + 1, cheetah.STATES)
    starts = np.concatenate([part.starts for part in splits])
    assert len(np.unique(starts, axis=0)) == 50
    assert set(splits.train.metadata) == {"policy", "target"}


@pytest.mark.slow
def test_demonstrators_are_trained_by_mjx_in_one_program(mujoco, tmp_path, monkeypatch):
    monkeypatch.setattr("poise.domains.demonstrators.training.POOL", 16)
    config = TrainConfig(policies=2, steps=160, environments=4, driver="mjx", solver="cg", iterations=2)
    result = train(cheetah.RUNNING, config, tmp_path, progress=False)
    assert result["steps"] == 160
    first, second = (Demonstrators.load(tmp_path / "policies.safetensors").actor.log_deviation[p] for p in (0, 1))
    assert np.isfinite(first).all()
    assert not np.array_equal(first, second)  # each policy learns by itself
