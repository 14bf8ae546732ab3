"""Rollouts that are collected while runs are trained: where they start, and what refined dynamics gain by them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import poise
from poise import DOMAINS, Domain, Network, PoiseError, Settings, Training, Trajectories
from poise.algorithms import ALGORITHMS, DYNAMICS, IMITATE, REFINE, Algorithm, Problem, find_algorithm, rnn
from poise.algorithms import dynamics as learned_dynamics
from poise.models import Statistics
from poise.rollouts.simulate import collect
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.training.state import one_run, start

BASKETBALL = DOMAINS["basketball"]


def on_the_host(states, actions):
    return np.add(np.asarray(states), np.asarray(actions))


@pytest.fixture(scope="module")
def given(walks) -> tuple[Any, np.ndarray]:
    """Policies of three seeds, and two sets of labels."""
    styles = [BASKETBALL.styles["speed"].fit(walks)]
    problem = Problem(Statistics.of(walks), label_space(styles), Network(hidden=4, layers=(4,)), BASKETBALL)
    labels = label_all(styles, walks)
    policies = start(find_algorithm("ctvae"), problem, np.arange(3)).parts["policy"]
    return policies, np.stack([labels, (labels + 1) % 3])


def collected(
    given: tuple[Any, np.ndarray],
    walks: Trajectories,
    environment: Any = on_the_host,
    runs: tuple[int, ...] = (0, 1, 2),
    sets: tuple[int, ...] = (0, 1, 1),
    count: int = 5,
) -> tuple[Trajectories, np.ndarray]:
    policies, labels = given
    chosen = jax.tree.map(lambda x: x[np.asarray(runs)] if hasattr(x, "dtype") else x, policies)
    keys = jax.random.split(jax.random.key(7), 3)[np.asarray(runs)]
    return collect(chosen, environment, walks, labels, np.asarray(sets)[list(runs)], count, keys)


def test_rollouts_obey_the_environment_and_start_where_demonstrations_with_their_labels_start(given, walks):
    rollouts, wanted = collected(given, walks)
    states, actions = np.asarray(rollouts.states), np.asarray(rollouts.actions)
    assert states.shape == (3, 5, walks.steps + 1, 2)
    assert wanted.shape == (3, 5, 1)
    np.testing.assert_allclose(states[:, :, 1:], states[:, :, :-1] + actions, atol=1e-5)
    assert np.equal(rollouts.lengths, walks.steps).all()
    for run, label_set in enumerate((0, 1, 1)):
        for first, label in zip(states[run, :, 0], wanted[run], strict=True):
            row = int(np.flatnonzero((np.asarray(walks.starts) == first).all(axis=1))[0])
            np.testing.assert_array_equal(label, given[1][label_set, row])


def test_the_rollouts_of_a_run_do_not_depend_on_the_other_runs(given, walks):
    together, alone = collected(given, walks)[0], collected(given, walks, runs=(1,))[0]
    np.testing.assert_allclose(together.states[1], alone.states[0], rtol=1e-5, atol=1e-5)


def test_a_rollout_that_becomes_nan_is_replaced_by_its_demonstration(given, walks):
    def breaks(states, actions):
        following = on_the_host(states, actions)
        following[::2] = np.nan
        return following

    rollouts, _ = collected(given, walks, breaks, count=4)
    assert np.isfinite(rollouts.states).all()
    shown = {np.asarray(one).tobytes() for one in walks.states}
    assert [np.ascontiguousarray(one).tobytes() in shown for one in rollouts.states[0]] == [True, False, True, False]


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        (lambda s, a: np.asarray(s)[:, 0], r"^the environment must return states of shape \[15, 2\]; got \[15\]$"),
        (lambda s, a: np.full_like(s, np.nan), r"^all 15 rollouts are NaN or infinite after their first step; check"),
    ],
    ids=["another shape", "NaN for all rollouts"],
)
def test_an_environment_that_is_not_one_is_one_clear_line(given, walks, environment, line):
    with pytest.raises(PoiseError, match=line) as error:
        collected(given, walks, environment)
    assert "\n" not in str(error.value)


def test_refined_dynamics_err_less_on_the_rollouts_of_the_policy(monkeypatch):
    """With as many steps in all. Demonstrations stay near zero, and an early policy does not."""
    row = Algorithm({"policy": rnn, "dynamics": learned_dynamics}, (DYNAMICS, IMITATE, REFINE))
    monkeypatch.setitem(ALGORITHMS, "rnn-refined", row)

    def environment(states, actions):
        return states + actions * (1 + jnp.tanh(jnp.square(states) / 4))

    random = np.random.default_rng(0)
    states, actions = [random.normal(0, 0.3, (400, 2))], []
    for _ in range(12):
        actions.append(random.normal(0, 0.3, (400, 2)) - states[-1])  # always back to zero
        states.append(np.asarray(environment(states[-1], actions[-1])))
    demonstrations = Trajectories(np.stack(states, axis=1), np.stack(actions, axis=1))
    domain = Domain("bent", environment=environment)

    def reach(states, actions):
        return states[-1, 0]

    network = Network(hidden=4, layers=(4,), dynamics_layers=(8,), decoder="markov", variance="global")
    errors = []
    for dynamics, refine in ((400, 0), (100, 300)):
        steps = Training(policy_steps=3, dynamics_steps=dynamics, refine_steps=refine, rounds=3)
        settings = Settings(network, replace(steps, batch=32, rollouts=32, learning_rate=5e-3))
        run = poise.train("rnn-refined", demonstrations, [reach], domain=domain, settings=settings, progress=False)
        made = run.sample(200)
        predicted = one_run(run.parts, 0)["dynamics"].step(made.states[:, :-1], made.actions, jnp.zeros((200, 12, 0)))
        errors.append(float(np.mean(np.square(predicted - made.states[:, 1:]))))
    assert errors[1] < 0.5 * errors[0], errors
