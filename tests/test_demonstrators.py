"""Demonstrators of a point on a line: trained, interrupted, resumed, measured and kept; no MuJoCo needed."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise import PoiseError, demonstrators
from poise.demonstrators import Demonstrators, Plan, Skill, demonstrate, kept_demonstrations, measure, train
from poise.ppo import Course, Recipe

PLAN = Plan(policies=3, steps=24 * 80, environments=8)


class Line:
    """A point that an action moves, on the host."""

    model = SimpleNamespace(nu=1)

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


def make_skill(driver=None) -> Skill:
    course = Course(
        observe=lambda states: states,
        reward=lambda after, actions, target: -jnp.abs(after[:, 0] - target),
        fallen=lambda states: jnp.abs(states[..., 0]) > 5,
        reached=lambda states: states[..., 0],
        actions=(-1.0, 1.0),
    )
    return Skill(
        course,
        targets=(-1.0, 1.0),
        unit="m",
        hertz=2,
        steps=10,
        resets=resets,
        threads=lambda: driver or Line(),
        compiled=lambda *solver: SimpleNamespace(transition=lambda state, action: state + action),
        recipe=Recipe(hidden=8, unroll=10, episode=10, epochs=4, minibatches=2, learning_rate=1e-2, discount=0.5),
        measures={"place": lambda states: states[..., 0]},
        shares={"right of zero": lambda states: states[..., 0] > 0},
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of three demonstrators and what was said of them."""
    folder = tmp_path_factory.mktemp("demonstrators")
    return folder, train(make_skill(), PLAN, folder, progress=False)


def same(one: Demonstrators, two: Demonstrators) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True))


def test_demonstrators_reach_their_targets(trained):
    folder, told = trained
    assert told == json.loads((folder / "demonstrators.json").read_text())
    assert [policy["target"] for policy in told["policies"]] == [-1, 0, 1]
    assert told["mean_error_after_first_second"] < 0.3
    assert told["steps"] == PLAN.steps
    assert {"command", "commit", "hardware", "versions", "seconds"} <= told.keys()


def test_an_interrupted_training_ends_as_if_it_had_not_been(trained, tmp_path, interruptible):
    said = train(make_skill(), PLAN, tmp_path, seconds=1e-9, progress=False)
    assert said["steps"] == 0  # stopped at once, and measured all the same
    with pytest.raises(KeyboardInterrupt):
        train(make_skill(Interrupting()), PLAN, tmp_path, progress=False)
    chunk = demonstrators._Learning(make_skill(), PLAN, tmp_path / "checkpoint.safetensors")
    assert chunk.steps == demonstrators.CHUNK * 80  # it was finished, and saved
    told = train(make_skill(), PLAN, tmp_path, progress=False)
    assert told["steps"] == PLAN.steps
    assert told["policies"] == trained[1]["policies"]
    assert same(*(Demonstrators.load(folder / "policies.safetensors") for folder in (tmp_path, trained[0])))


def test_what_is_trained_is_not_trained_again(trained):
    folder, told = trained
    driver = Line()
    again = train(make_skill(driver), PLAN, folder, progress=False)
    assert again["policies"] == told["policies"]
    assert len(driver.sizes) == 10  # only measured


def test_both_drivers_train_the_same(trained, tmp_path):
    told = train(make_skill(), Plan(3, PLAN.steps, 8, driver="mjx"), tmp_path, progress=False)
    for one, two in zip(told["policies"], trained[1]["policies"], strict=True):
        assert one["reached"] == pytest.approx(two["reached"], abs=0.05)


def test_a_driver_steps_all_environments_of_all_policies_at_once(tmp_path):
    driver = Line()
    train(make_skill(driver), Plan(3, 80, 8), tmp_path, progress=False)
    assert driver.sizes == [3 * 8] * 10 + [3 * demonstrators.ROLLOUTS] * 10


def test_a_folder_with_other_demonstrators_is_refused(trained):
    with pytest.raises(PoiseError, match=r"holds other demonstrators \(seed: 0, not 1\); choose another --out"):
        train(make_skill(), Plan(3, PLAN.steps, 8, seed=1), trained[0], progress=False)


@pytest.mark.parametrize("name", ["policies", "steps", "environments", "iterations", "line_search_iterations"])
def test_numbers_below_one_are_refused(name):
    with pytest.raises(PoiseError, match=f"--{name.replace('_', '-')} is at least 1; got 0"):
        Plan(**{"policies": 3, name: 0})


def test_seeds_are_not_negative():
    with pytest.raises(PoiseError, match="--seed lies between 0 and"):
        Plan(3, seed=-1)


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
        Plan(3, **choice)
    assert str(error.value) == line


def test_demonstrations_are_those_of_all_policies_in_turn(trained):
    made = demonstrate(make_skill(), Demonstrators.load(str(trained[0] / "policies.safetensors")), 7, seed=0)
    assert made.metadata["policy"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert made.metadata["target"].tolist() == [-1, 0, 1, -1, 0, 1, -1]
    last = np.asarray(made.states)[:, -1, 0]
    assert np.abs(last - made.metadata["target"]).max() < 0.6
    assert np.abs(made.actions).max() <= 1
    np.testing.assert_allclose(np.diff(made.states, axis=1), made.actions, atol=1e-5)
    np.testing.assert_allclose(np.asarray(made.starts), resets(9, 0)[:7], atol=1e-6)


def test_demonstrations_stay_within_the_range_of_actions(trained):
    skill, policies = make_skill(), Demonstrators.load(trained[0] / "policies.safetensors")
    narrow = replace(skill, course=skill.course._replace(actions=(-0.1, 0.2)))
    actions = np.asarray(demonstrate(narrow, policies, 6, seed=0).actions)
    assert (actions.min(), actions.max()) == (np.float32(-0.1), np.float32(0.2))


def test_demonstrations_follow_the_seed(trained):
    policies = Demonstrators.load(trained[0] / "policies.safetensors")
    one, two, other = (demonstrate(make_skill(), policies, 6, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.states, two.states)
    assert not np.array_equal(one.states, other.states)
    assert not np.array_equal(one.states[:3], one.states[3:])


def test_errors_are_those_of_each_policys_mean(trained):
    policies = Demonstrators.load(trained[0] / "policies.safetensors")
    told, seed = measure(make_skill(), policies, seed=5), 5
    made = demonstrate(make_skill(), policies, 3 * demonstrators.ROLLOUTS, seed)
    place = np.asarray(made.states)[:, :, 0]
    reached = [place[made.metadata["policy"] == p].mean() for p in range(3)]
    late = [place[made.metadata["policy"] == p, 2:].mean() for p in range(3)]
    assert [policy["reached"] for policy in told["policies"]] == pytest.approx(reached, abs=1e-4)
    assert [policy["reached_after_first_second"] for policy in told["policies"]] == pytest.approx(late, abs=1e-4)
    assert told["mean_error"] == pytest.approx(np.abs(np.subtract(reached, [-1, 0, 1])).mean(), abs=1e-4)
    assert told["quantiles"]["place"]["0.5"] == pytest.approx(np.median(place), abs=1e-4)
    assert told["shares"]["right of zero"] == pytest.approx((place > 0).mean(), abs=1e-4)


class TestKept:
    """Demonstrations in the user's cache."""

    @pytest.fixture(autouse=True)
    def _cache(self, monkeypatch, tmp_path):
        monkeypatch.setenv("POISE_DEMONSTRATIONS", str(tmp_path))

    @pytest.fixture
    def make(self, trained):
        """Makes them, and says whether anything had to be simulated."""

        def made(seed=0, part="train", count=6):
            driver, policies = Line(), trained[0] / "policies.safetensors"
            found = kept_demonstrations(make_skill(driver), policies, count, seed, part)
            return found, bool(driver.sizes)

        return made

    def test_they_are_made_once(self, make):
        first, new = make()
        again, newer = make()
        assert (new, newer) == (True, False)
        np.testing.assert_array_equal(first.states, again.states)
        np.testing.assert_array_equal(first.metadata["target"], again.metadata["target"])

    @pytest.mark.parametrize("other", [{"seed": 1}, {"part": "test"}, {"count": 7}])
    def test_others_are_made_anew(self, make, other):
        first, _ = make()
        second, new = make(**other)
        assert new
        if "count" not in other:
            assert not np.array_equal(first.starts, second.starts)

    def test_a_damaged_file_is_made_anew(self, make, tmp_path):
        first, _ = make()
        for path in tmp_path.glob("*.npz"):
            path.write_bytes(path.read_bytes()[:100])
        again, new = make()
        assert new
        np.testing.assert_array_equal(first.states, again.states)

    @pytest.mark.parametrize("fails", ["savez_compressed", "replace"])
    def test_a_disk_that_is_full_costs_no_demonstrations(self, make, monkeypatch, tmp_path, fails):
        first, _ = make()
        for path in tmp_path.glob("*.npz"):
            path.unlink()

        def full(file, *_, **arrays):
            if arrays:
                file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(np if fails == "savez_compressed" else os, fails, full)
        again, new = make()
        assert new
        np.testing.assert_array_equal(first.states, again.states)
        assert not list(tmp_path.iterdir())

    def test_an_empty_variable_keeps_nothing(self, make, monkeypatch, tmp_path):
        monkeypatch.setenv("POISE_DEMONSTRATIONS", "")
        make()
        assert make()[1]
        assert not list(tmp_path.glob("*.npz"))

    def test_seeds_are_not_negative(self, make):
        with pytest.raises(PoiseError, match="--seed lies between 0 and"):
            make(seed=-1)
