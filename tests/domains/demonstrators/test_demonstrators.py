"""Demonstrators of a point on a line: trained, interrupted, resumed, measured and cached; no MuJoCo needed."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise import PoiseError
from poise.domains.demonstrators import training
from poise.domains.demonstrators.demonstrations import ROLLOUTS, cached_demonstrations, demonstrate, measure
from poise.domains.demonstrators.policies import Demonstrators, TaskSpec
from poise.domains.demonstrators.ppo import PPOConfig, RewardSpec
from poise.domains.demonstrators.training import TrainConfig, train

CONFIG = TrainConfig(policies=3, steps=24 * 80, environments=8)


class Line:
    """A point that is moved by its action, on the host."""

    model: Any = SimpleNamespace(nu=1)

    def __init__(self):
        self.sizes = []

    def step(self, states, actions):
        self.sizes.append(len(states))
        return np.asarray(states, np.float64) + actions

    def try_step(self, states, actions):
        return self.step(states, actions)


class Interrupting(Line):
    """Presses Ctrl-C in the middle of the first chunk."""

    def step(self, states, actions):
        if len(self.sizes) == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return super().step(states, actions)


def resets(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 1))


def make_task(driver=None) -> TaskSpec:
    reward = RewardSpec(
        observe=lambda states: states,
        reward=lambda after, actions, target: -jnp.abs(after[:, 0] - target),
        fallen=lambda states: jnp.abs(states[..., 0]) > 5,
        reached=lambda states: states[..., 0],
        actions=(-1.0, 1.0),
    )
    compiled: Any = lambda *solver: SimpleNamespace(transition=lambda state, action: state + action)  # noqa: E731
    return TaskSpec(
        reward,
        targets=(-1.0, 1.0),
        unit="m",
        hertz=2,
        steps=10,
        resets=resets,
        threads=lambda: driver or Line(),
        compiled=compiled,
        ppo=PPOConfig(hidden=8, unroll=10, episode=10, epochs=4, minibatches=2, learning_rate=1e-2, discount=0.5),
        measures={"position": lambda states: states[..., 0]},
        shares={"right of zero": lambda states: states[..., 0] > 0},
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of three demonstrators, and what training returned."""
    folder = tmp_path_factory.mktemp("demonstrators")
    return folder, train(make_task(), CONFIG, folder, progress=False)


def same(one: Demonstrators, two: Demonstrators) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


def test_demonstrators_reach_their_targets(trained):
    folder, result = trained
    assert result == json.loads((folder / "demonstrators.json").read_text())
    assert [policy["target"] for policy in result["policies"]] == [-1, 0, 1]
    assert result["mean_error_after_first_second"] < 0.3
    assert result["steps"] == CONFIG.steps
    assert {"command", "commit", "hardware", "versions", "seconds"} <= result.keys()


def test_an_interrupted_training_resumes_exactly(trained, tmp_path, interruptible):
    stopped = train(make_task(), CONFIG, tmp_path, seconds=1e-9, progress=False)
    assert stopped["steps"] == 0  # stopped at once, but measured
    with pytest.raises(KeyboardInterrupt):
        train(make_task(Interrupting()), CONFIG, tmp_path, progress=False)
    trainer = training._Trainer(make_task(), CONFIG, tmp_path / "checkpoint.safetensors")
    assert trainer.steps == training.CHUNK * 80  # the chunk was completed and saved
    result = train(make_task(), CONFIG, tmp_path, progress=False)
    assert result["steps"] == CONFIG.steps
    assert result["policies"] == trained[1]["policies"]
    assert same(*(Demonstrators.load(folder / "policies.safetensors") for folder in (tmp_path, trained[0])))


def test_a_finished_training_is_only_measured_again(trained):
    folder, result = trained
    driver = Line()
    again = train(make_task(driver), CONFIG, folder, progress=False)
    assert again["policies"] == result["policies"]
    assert len(driver.sizes) == 10


def test_both_drivers_train_alike(trained, tmp_path):
    result = train(make_task(), TrainConfig(3, CONFIG.steps, 8, driver="mjx"), tmp_path, progress=False)
    for one, two in zip(result["policies"], trained[1]["policies"], strict=True):
        assert one["reached"] == pytest.approx(two["reached"], abs=0.05)


def test_a_driver_steps_all_environments_of_all_policies_at_once(tmp_path):
    driver = Line()
    train(make_task(driver), TrainConfig(3, 80, 8), tmp_path, progress=False)
    assert driver.sizes == [3 * 8] * 10 + [3 * ROLLOUTS] * 10


def test_a_folder_with_other_demonstrators_is_refused(trained):
    with pytest.raises(PoiseError, match=r"holds other demonstrators \(seed: 0, not 1\); choose another --out"):
        train(make_task(), TrainConfig(3, CONFIG.steps, 8, seed=1), trained[0], progress=False)


@pytest.mark.parametrize("name", ["policies", "steps", "environments", "iterations", "line_search_iterations"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(PoiseError, match=f"--{name.replace('_', '-')} is at least 1; got 0"):
        replace(CONFIG, **{name: 0})


def test_seeds_are_not_negative():
    with pytest.raises(PoiseError, match="--seed lies between 0 and"):
        TrainConfig(3, seed=-1)


@pytest.mark.parametrize(
    ("choice", "line"),
    [
        ({"driver": "mjxx"}, "unknown driver 'mjxx'; did you mean 'mjx'?"),
        ({"driver": "cuda"}, "unknown driver 'cuda'; known: threads, mjx"),
        ({"solver": "newtn"}, "unknown solver 'newtn'; did you mean 'newton'?"),
    ],
)
def test_unknown_drivers_and_solvers_are_refused(choice, line):
    with pytest.raises(PoiseError) as error:
        replace(CONFIG, **choice)
    assert str(error.value) == line


def test_demonstrations_are_made_by_all_policies_in_turn(trained):
    made = demonstrate(make_task(), Demonstrators.load(str(trained[0] / "policies.safetensors")), 7, seed=0)
    assert made.metadata["policy"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert made.metadata["target"].tolist() == [-1, 0, 1, -1, 0, 1, -1]
    last = np.asarray(made.states)[:, -1, 0]
    assert np.abs(last - made.metadata["target"]).max() < 0.6
    assert np.abs(made.actions).max() <= 1
    np.testing.assert_allclose(np.diff(made.states, axis=1), made.actions, atol=1e-5)
    np.testing.assert_allclose(np.asarray(made.starts), resets(9, 0)[:7], atol=1e-6)


def test_demonstrations_stay_within_the_range_of_actions(trained):
    task, policies = make_task(), Demonstrators.load(trained[0] / "policies.safetensors")
    narrow = replace(task, reward=task.reward._replace(actions=(-0.1, 0.2)))
    actions = np.asarray(demonstrate(narrow, policies, 6, seed=0).actions)
    assert (actions.min(), actions.max()) == (np.float32(-0.1), np.float32(0.2))


def test_the_seed_determines_the_demonstrations(trained):
    policies = Demonstrators.load(trained[0] / "policies.safetensors")
    one, two, other = (demonstrate(make_task(), policies, 6, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.states, two.states)
    assert not np.array_equal(one.states, other.states)
    assert not np.array_equal(one.states[:3], one.states[3:])


def test_errors_are_those_of_the_mean_of_each_policy(trained):
    policies = Demonstrators.load(trained[0] / "policies.safetensors")
    result, seed = measure(make_task(), policies, seed=5), 5
    made = demonstrate(make_task(), policies, 3 * ROLLOUTS, seed)
    position = np.asarray(made.states)[:, :, 0]
    reached = [position[made.metadata["policy"] == p].mean() for p in range(3)]
    late = [position[made.metadata["policy"] == p, 2:].mean() for p in range(3)]
    assert [policy["reached"] for policy in result["policies"]] == pytest.approx(reached, abs=1e-4)
    assert [policy["reached_after_first_second"] for policy in result["policies"]] == pytest.approx(late, abs=1e-4)
    assert result["mean_error"] == pytest.approx(np.abs(np.subtract(reached, [-1, 0, 1])).mean(), abs=1e-4)
    assert result["quantiles"]["position"]["0.5"] == pytest.approx(np.median(position), abs=1e-4)
    assert result["shares"]["right of zero"] == pytest.approx((position > 0).mean(), abs=1e-4)


class TestCache:
    """Demonstrations in the user's cache."""

    @pytest.fixture(autouse=True)
    def _cache(self, monkeypatch, tmp_path):
        monkeypatch.setenv("POISE_DEMONSTRATIONS", str(tmp_path))

    @pytest.fixture
    def make(self, trained):
        """A function that returns demonstrations, and whether anything was simulated."""

        def made(seed=0, part="train", count=6):
            driver, policies = Line(), trained[0] / "policies.safetensors"
            found = cached_demonstrations(make_task(driver), policies, count, seed, part)
            return found, bool(driver.sizes)

        return made

    def test_demonstrations_are_simulated_once(self, make):
        first, new = make()
        again, newer = make()
        assert (new, newer) == (True, False)
        np.testing.assert_array_equal(first.states, again.states)
        np.testing.assert_array_equal(first.metadata["target"], again.metadata["target"])

    @pytest.mark.parametrize("other", [{"seed": 1}, {"part": "test"}, {"count": 7}])
    def test_other_demonstrations_are_simulated(self, make, other):
        first, _ = make()
        second, new = make(**other)
        assert new
        if "count" not in other:
            assert not np.array_equal(first.starts, second.starts)

    def test_a_damaged_file_is_replaced(self, make, tmp_path):
        first, _ = make()
        for path in tmp_path.glob("*.npz"):
            path.write_bytes(path.read_bytes()[:100])
        again, new = make()
        assert new
        np.testing.assert_array_equal(first.states, again.states)

    @pytest.mark.parametrize("call", ["fsync", "replace"])
    def test_a_full_disk_is_ignored(self, make, monkeypatch, tmp_path, call):
        first, _ = make()
        for path in tmp_path.glob("*.npz"):
            path.unlink()

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, call, full)
        again, new = make()
        assert new
        np.testing.assert_array_equal(first.states, again.states)
        assert not list(tmp_path.iterdir())

    def test_an_empty_variable_switches_the_cache_off(self, make, monkeypatch, tmp_path):
        monkeypatch.setenv("POISE_DEMONSTRATIONS", "")
        make()
        assert make()[1]
        assert not list(tmp_path.glob("*.npz"))

    def test_seeds_are_not_negative(self, make):
        with pytest.raises(PoiseError, match="--seed lies between 0 and"):
            make(seed=-1)
