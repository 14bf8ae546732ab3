"""The Cheetah as an environment of Gymnasium."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from poise import PoiseError
from poise.domains import cheetah

for name in ("gymnasium", "mujoco", "dm_control"):
    pytest.importorskip(name, reason="the extra is missing: pip install 'poise[cheetah]'")
gymnasium, gym = importlib.import_module("gymnasium"), importlib.import_module("poise.domains.mujoco.gym")


@pytest.mark.filterwarnings("ignore:.*A Box observation space")  # positions and velocities have no bounds
def test_gymnasiums_checker_finds_nothing_wrong():
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(gym.NAME).unwrapped, skip_render_check=True)


@pytest.mark.filterwarnings("ignore:.*A Box observation space")
def test_pictures_pass_gymnasiums_checker_and_follow_the_state(opengl):
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(gym.NAME, render_mode="rgb_array").unwrapped)
    with gymnasium.make(gym.NAME, render_mode="rgb_array") as environment:
        environment.reset(seed=0)
        before = environment.render()
        np.testing.assert_array_equal(before, environment.render())
        state = np.empty(0)
        for _ in range(20):
            state, *_ = environment.step(np.ones(6, np.float32))
        np.testing.assert_array_equal(environment.render(), cheetah.render(state[None])[0])
        assert not np.array_equal(before, environment.render())


def test_missing_opengl_and_unknown_render_modes_are_one_clear_line(monkeypatch):
    environment = gymnasium.make(gym.NAME, render_mode="rgb_array", disable_env_checker=True)
    environment.reset(seed=0)
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(PoiseError, match="MuJoCo cannot render here"):
        environment.render()
    with pytest.raises(PoiseError, match="a render_mode is 'rgb_array' or None; got 'ascii'"):
        gym.CheetahEnvironment(render_mode="ascii")


def test_an_episode_is_truncated_after_200_steps_and_rewards_forward_velocity():
    environment = gymnasium.make(gym.NAME)
    environment.reset(seed=0)
    environment.action_space.seed(0)
    for step in range(200):
        state, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
        assert reward == state[cheetah.VELOCITY]
        assert (terminated, truncated) == (False, step == 199)


def test_the_seed_determines_this_reset_and_the_next():
    one, two = (gymnasium.make(gym.NAME) for _ in range(2))
    first = [environment.reset(seed=5)[0] for environment in (one, two)]
    second = [environment.reset()[0] for environment in (one, two)]
    np.testing.assert_array_equal(*first)
    np.testing.assert_array_equal(*second)
    assert not np.array_equal(first[0], second[0])


def test_an_action_out_of_range_is_one_clear_line():
    environment = gymnasium.make(gym.NAME, disable_env_checker=True)
    environment.reset(seed=0)
    with pytest.raises(PoiseError, match="lies between -1 and 1; got 2 in row 0"):
        environment.step(np.full(6, 2.0, np.float32))


def test_actions_are_those_of_the_domain():
    space = gym.CheetahEnvironment.action_space
    ranges = set(zip(space.low.tolist(), space.high.tolist(), strict=True))
    assert ranges == {cheetah.CHEETAH.actions}


def test_an_episode_must_begin_with_a_reset():
    environment = gym.CheetahEnvironment(render_mode="rgb_array")
    for act in (lambda: environment.step(np.zeros(6, np.float32)), environment.render):
        with pytest.raises(PoiseError, match="an episode begins with a reset"):
            act()
        assert environment._renderer is None  # no worker process was started


def test_a_missing_extra_is_named_on_import(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, gym.__name__)
    with pytest.raises(PoiseError, match=r"^bodies in MuJoCo need gymnasium: pip install 'poise\[cheetah\]'"):
        importlib.import_module(gym.__name__)
