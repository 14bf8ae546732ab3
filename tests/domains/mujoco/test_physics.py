"""Both drivers, on the Cheetah: against the Control Suite's own stepping, against each other, and on bad input."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from poise import PoiseError
from poise.domains import cheetah
from poise.domains.mujoco import physics

pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
mujoco = pytest.importorskip("mujoco", reason="the extra is missing: pip install 'poise[cheetah]'")


@pytest.fixture(scope="module")
def starts() -> np.ndarray:
    return cheetah.resets(4, seed=0)


def random_actions(steps: int, count: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, (steps, count, cheetah.ACTIONS))


def control_suite(seed: int):
    """The Control Suite's own environment, at our time steps."""
    from dm_control.rl import control
    from dm_control.suite import cheetah as suite

    body = suite.Physics.from_xml_string(*suite.get_model_and_assets())
    body.model.opt.timestep = cheetah.TIMESTEP
    return control.Environment(body, suite.Cheetah(random=seed), control_timestep=1 / cheetah.HZ)


def state_of(environment) -> np.ndarray:
    return np.concatenate([environment.physics.data.qpos, environment.physics.data.qvel])


@pytest.mark.filterwarnings("ignore:.*DISPLAY")  # its viewer looks for a screen
def test_resets_and_steps_are_those_of_the_control_suite():
    """They differ only in where the contact solver starts: below a micrometre after a whole trajectory."""
    environment, states = control_suite(seed=3), cheetah.resets(2, seed=3)
    for row in range(2):
        environment.reset()
        np.testing.assert_allclose(states[row], state_of(environment), atol=1e-9)
    state = states[1:]
    for action in random_actions(cheetah.STEPS, 1):
        environment.step(action[0])
        state = cheetah.in_threads().step(state, action)
        np.testing.assert_allclose(state[0], state_of(environment), atol=1e-6)


@pytest.mark.slow
def test_compiled_physics_agree_with_those_in_threads(starts):
    """For 20 control steps with random actions, from settled states; single precision loses little."""
    states, driver = [starts, starts], cheetah.compiled()
    for action in random_actions(20, len(starts)):
        states = [cheetah.in_threads().step(states[0], action), driver.step(states[1], action)]
    qpos, qvel = np.split(np.abs(states[0] - states[1]), 2, axis=1)
    assert qpos.max() < 1e-4  # metres and radians
    assert qvel.max() < 1e-2
    assert np.abs(states[0] - starts).max() > 1


def test_a_step_depends_only_on_state_and_action(starts):
    driver, action = cheetah.in_threads(), random_actions(1, len(starts))[0]
    together = driver.step(starts, action)
    driver.step(together, -action)
    np.testing.assert_array_equal(driver.step(starts, action), together)
    for row in reversed(range(len(starts))):
        np.testing.assert_array_equal(driver.step(starts[[row]], action[[row]]), together[[row]])
    one = physics.Threads(cheetah.model(), cheetah.SUBSTEPS, threads=1)
    np.testing.assert_array_equal(one.step(starts, action), together)


def test_an_empty_batch_has_no_next_states():
    assert cheetah.in_threads().step(np.zeros((0, 18)), np.zeros((0, 6))).shape == (0, 18)


SIZES = [
    (np.zeros((2, 17)), np.zeros((2, 6)), "a state is 18 numbers, and states are [N, 18]; got [2, 17]"),
    (np.zeros(18), np.zeros((1, 6)), "a state is 18 numbers, and states are [N, 18]; got [18]"),
    (np.zeros((2, 18)), np.zeros((2, 5)), "an action is 6 numbers, and actions are [N, 6]; got [2, 5]"),
    (np.zeros((1, 18)), np.zeros(6), "an action is 6 numbers, and actions are [N, 6]; got [6]"),
    (np.zeros((2, 18)), np.zeros((1, 6)), "every state has an action; got 2 states and 1 actions"),
]
VALUES = [
    (np.zeros((1, 18)), np.full((1, 6), 1.5), "number 0 of an action lies between -1 and 1; got 1.5 in row 0"),
    (np.zeros((1, 18)), np.full((1, 6), np.nan), "number 0 of an action lies between -1 and 1; got nan in row 0"),
    (np.full((1, 18), np.nan), np.zeros((1, 6)), "a state is finite; got nan as number 0 of row 0"),
    (np.full((1, 18), 1e12), np.zeros((1, 6)), "a state is below 1e+10; got 1e+12 as number 0 of row 0"),
]


@pytest.mark.parametrize(("states", "actions", "line"), SIZES + VALUES)
def test_bad_input_is_one_clear_line(states, actions, line):
    with pytest.raises(PoiseError) as error:
        cheetah.in_threads().step(states, actions)
    assert str(error.value) == line


@pytest.mark.parametrize(("states", "actions", "line"), SIZES)
def test_trying_a_step_refuses_other_sizes_too(states, actions, line):
    with pytest.raises(PoiseError) as error:
        cheetah.in_threads().try_step(states, actions)
    assert str(error.value) == line


def test_invalid_rows_do_not_change_the_size_of_a_compiled_step(monkeypatch):
    driver, sizes = physics.Compiled(cheetah.model(), cheetah.SUBSTEPS), []
    monkeypatch.setattr(driver, "_batch", lambda states, actions: sizes.append(len(states)) or states + 1)
    states, actions = np.zeros((4, 18)), np.zeros((4, 6))
    states[1, 3], actions[2, 0] = np.inf, np.nan
    made = driver.try_step(states, actions)
    assert np.isnan(made).all(axis=1).tolist() == [False, True, True, False]
    assert (made[[0, 3]] == 1).all()
    driver.try_step(np.zeros((4, 18)), np.zeros((4, 6)))
    assert sizes == [4, 4]


def test_a_simulation_that_mujoco_resets_is_refused_as_unstable():
    spun = np.zeros((2, 18))
    spun[1, 11:] = 1e9
    with pytest.raises(PoiseError, match=r"became unstable in state \[0.0,"):
        cheetah.in_threads().step(spun, np.zeros((2, 6)))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        PoiseError, match=r"^bodies in MuJoCo need mujoco and dm_control: pip install 'poise\[cheetah\]'"
    ):
        physics.suite_model.__wrapped__("cheetah", 0.005)


def test_missing_mjx_is_named(monkeypatch):
    monkeypatch.delattr(mujoco, "mjx", raising=False)
    monkeypatch.setitem(sys.modules, "mujoco.mjx", None)
    with pytest.raises(PoiseError, match=r"MJX is missing: pip install 'poise\[cheetah\]'"):
        physics.Compiled(cheetah.model(), cheetah.SUBSTEPS)


def test_importing_poise_imports_no_physics():
    program = "import poise, sys; print(sorted({'mujoco', 'dm_control', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unstable_simulation_leaves_no_log_and_no_warning(tmp_path, monkeypatch, capfd):
    driver = cheetah.in_threads()
    monkeypatch.chdir(tmp_path)  # where MuJoCo would write MUJOCO_LOG.TXT
    mujoco.set_mju_user_warning(None)  # the Control Suite, once imported, has one of its own
    assert np.isnan(driver.try_step(np.full((3, 18), 1e9), np.zeros((3, 6)))).all()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_trying_a_step_returns_nan_for_invalid_rows_and_continues_the_others():
    states, actions = np.zeros((4, 18)), np.zeros((4, 6))
    states[1, 11:], states[2, 3], actions[3, 0] = 1e9, np.nan, 7.0
    made = cheetah.in_threads().try_step(states, actions)
    assert np.isnan(made).any(axis=1).tolist() == [False, True, True, False]
    actions[3, 0] = 1.0
    np.testing.assert_array_equal(made[[0, 3]], cheetah.in_threads().step(states[[0, 3]], actions[[0, 3]]))
