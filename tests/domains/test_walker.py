"""The walker's geometry against MuJoCo's own, its resets, its reward, and the demonstrators that come with it."""

from __future__ import annotations

import numpy as np
import pytest

from poise import DOMAINS, Trajectories
from poise.domains import walker
from poise.domains.demonstrators.demonstrations import demonstrate
from poise.domains.demonstrators.policies import Demonstrators
from poise.styles.traced import is_traced as traced

WALKER = DOMAINS["walker"]


@pytest.fixture(scope="module")
def mujoco():
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    return pytest.importorskip("mujoco", reason="the extra is missing: pip install 'poise[cheetah]'")


def random_states(count: int) -> np.ndarray:
    """Poses far from those of demonstrations, upside down and beyond the limits of joints."""
    return np.random.default_rng(0).normal(size=(count, walker.STATES)).astype(np.float32)


def standing(count: int = 1) -> np.ndarray:
    return np.zeros((count, walker.STATES), np.float32)


def test_the_numbers_of_the_domain_are_those_of_the_model(mujoco):
    model = walker.model()
    names = [model.joint(i).name for i in range(model.njnt)]
    assert names[:3] == ["rootz", "rootx", "rooty"]
    assert (names[walker.X], names[walker.PITCH]) == ("rootx", "rooty")
    assert model.nq + walker.X == walker.VELOCITY
    assert WALKER.sizes == (model.nq + model.nv, model.nu)
    assert WALKER.position == (walker.X,)
    np.testing.assert_array_equal(model.actuator_ctrlrange, [WALKER.actions] * walker.ACTIONS)
    assert walker.WALKING.reward.actions == WALKER.actions
    assert model.opt.timestep * walker.SUBSTEPS == pytest.approx(1 / walker.HZ)


def test_the_ends_of_the_stick_figure_are_those_of_mujocos_capsules(mujoco):
    states, model = random_states(20), walker.model()
    drawn, data = np.asarray(walker.stick_figure(states)), mujoco.MjData(model)
    names = ["torso", *walker.LIMBS]
    assert {model.geom(i).name for i in range(model.ngeom)} == {"floor", *names}
    np.testing.assert_allclose([model.geom(name).size[0] for name in names], walker.RADII)
    for state, lines in zip(states, drawn, strict=True):
        data.qpos[:] = state[: model.nq]
        mujoco.mj_forward(model, data)
        for name, (one, two) in zip(names, lines, strict=True):
            geom = data.geom(name)
            along = geom.xmat.reshape(3, 3)[:, 2] * model.geom(name).size[1]
            np.testing.assert_allclose(one, (geom.xpos - along)[[0, 2]], atol=1e-4)
            np.testing.assert_allclose(two, (geom.xpos + along)[[0, 2]], atol=1e-4)


def test_styles_are_traced_and_are_means_over_all_states():
    states, actions = random_states(30), np.zeros((29, walker.ACTIONS), np.float32)
    assert all(traced(style.score, states[None], actions[None]) for style in WALKER.styles.values())
    scores = {
        name: float(style.scores(Trajectories(states[None], actions[None]))[0]) for name, style in WALKER.styles.items()
    }
    assert scores["speed"] == pytest.approx(states[:, walker.VELOCITY].mean(), abs=1e-5)
    assert scores["lean"] == pytest.approx(states[:, walker.PITCH].mean(), abs=1e-5)
    forward = standing(1)
    forward[:, walker.PITCH] = 0.3
    hips, neck = np.asarray(walker.stick_figure(forward))[0, 0]
    assert neck[0] > hips[0]  # the top of the torso is ahead


def test_resets_follow_the_seed_and_stand_on_the_ground(mujoco):
    states, model = walker.resets(50, seed=1), walker.model()
    np.testing.assert_array_equal(walker.resets(3, seed=1), states[:3])
    assert not np.array_equal(walker.resets(50, seed=2), states)
    assert not np.asarray(walker.fallen(states)).any()
    low, high = model.jnt_range[3:].T
    assert ((low <= states[:, 3:9]) & (states[:, 3:9] <= high)).all()
    lowest = (np.asarray(walker.stick_figure(states))[..., 1].min(axis=-1) - walker.RADII).min(axis=-1)
    np.testing.assert_allclose(lowest, 0, atol=1e-6)


def test_the_environment_clips_actions_and_what_is_unstable_is_nan(mujoco):
    states, actions = walker.resets(2, seed=0), np.full((2, walker.ACTIONS), 7.0)
    following = walker.environment(states, actions)
    np.testing.assert_array_equal(following, walker.in_threads().step(states, actions / 7))
    actions[0, 3] = np.nan
    assert np.isnan(walker.environment(states, actions)).all(axis=1).tolist() == [True, False]


def test_the_reward_peaks_at_the_target_and_falls_with_tilt_and_effort():
    states, still = standing(9), np.zeros((9, walker.ACTIONS), np.float32)
    states[:, walker.VELOCITY] = np.linspace(0, 2, 9)
    target = np.asarray(1.5, np.float32)
    rewards = np.asarray(walker.reward(states, still, target))
    assert rewards.argmax() == 6
    assert (np.diff(rewards[:7]) > 0).all()
    assert (np.diff(rewards[6:]) < 0).all()
    tilted = states.copy()
    tilted[:, walker.PITCH] = 1
    assert (walker.reward(tilted, still, target) < rewards).all()
    assert (walker.reward(states, still + 1, target) < rewards).all()


def test_legs_that_swing_against_each_other_are_rewarded_where_the_walker_is_to_walk(mujoco):
    states, still = standing(3), np.zeros((3, walker.ACTIONS), np.float32)
    right, left = walker.HIP_RATES
    states[1, [right, left]], states[2, [right, left]] = (1, -1), (1, 1)
    names = [walker.model().joint(int(walker.model().dof_jntid[rate - 9])).name for rate in walker.HIP_RATES]
    assert names == ["right_hip", "left_hip"]
    still_standing, against, together = walker.reward(states, still, np.asarray(1, np.float32))
    assert together < still_standing < against
    assert len(np.unique(walker.reward(states, still, np.asarray(0, np.float32)))) == 1


def test_fallen_is_a_low_or_a_tilted_torso():
    states = standing(4)
    states[1, walker.HEIGHT], states[2:, walker.PITCH] = -0.6, (0.9, -1.2)
    assert np.asarray(walker.fallen(states)).tolist() == [False, True, False, True]
    measured = WALKER.measures["fallen"](states[None], np.zeros((1, 3, walker.ACTIONS)))
    assert np.asarray(measured).tolist() == [[True, False, True]]


def test_a_demonstrator_does_not_observe_its_position_along_the_track():
    states = random_states(3)
    moved = states + 10 * (np.arange(walker.STATES) == walker.X)
    np.testing.assert_array_equal(walker.observe(states), walker.observe(moved.astype(np.float32)))
    assert walker.observe(states).shape == (3, walker.STATES - 1)


def test_the_shipped_policies_reach_their_targets_on_their_feet(mujoco):
    policies = Demonstrators.load(walker.POLICIES)
    assert walker.POLICIES.stat().st_size < 1e6
    np.testing.assert_allclose(policies.targets, np.linspace(*walker.WALKING.targets, len(policies)), atol=1e-6)
    made = demonstrate(walker.WALKING, policies, 4 * len(policies), seed=3)
    WALKER.check(made)
    speeds = WALKER.styles["speed"].scores(made)
    assert np.abs(speeds - made.metadata["target"]).mean() < 0.25
    assert np.asarray(walker.fallen(made.states)).mean() < 0.02
