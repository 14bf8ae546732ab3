from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

import poise
from poise import DOMAINS, Domain, Training, Trajectories
from poise.algorithms import Problem, find_algorithm
from poise.collecting import collect
from poise.domains import integrator
from poise.labeling import label_all, label_space
from poise.models import Statistics
from poise.training import start

BASKETBALL = DOMAINS["basketball"]


@pytest.fixture(scope="module")
def made(walks):
    """Policies of three seeds, and two sets of labels."""
    styles = [BASKETBALL.styles["speed"].fit(walks)]
    problem = Problem(Statistics.of(walks), label_space(styles), TINY.network, BASKETBALL)
    labels = label_all(styles, walks)
    policies = start(find_algorithm("ctvae", BASKETBALL), problem, np.arange(3)).parts["policy"]
    return policies, np.stack([labels, (labels + 1) % 3])


def rolled(made, walks, environment=integrator, runs=(0, 1, 2), sets=(0, 1, 1), count=5):
    policies, labels = made
    chosen = jax.tree.map(lambda x: x[np.asarray(runs)] if hasattr(x, "dtype") else x, policies)
    keys = jax.random.split(jax.random.key(7), 3)[np.asarray(runs)]
    return collect(chosen, environment, walks, labels, np.asarray(sets)[list(runs)], count, keys)


def test_rollouts_obey_the_environment_and_start_where_demonstrations_of_their_labels_do(made, walks):
    rollouts, wanted = rolled(made, walks)
    assert rollouts.states.shape == (3, 5, walks.steps + 1, 2)
    assert wanted.shape == (3, 5, 1)
    np.testing.assert_allclose(rollouts.states[:, :, 1:], rollouts.states[:, :, :-1] + rollouts.actions, atol=1e-5)
    assert (rollouts.lengths == walks.steps).all()
    for run, own in enumerate((0, 1, 1)):
        for start_, label in zip(rollouts.states[run, :, 0], wanted[run], strict=True):
            row = int(np.flatnonzero((np.asarray(walks.starts) == start_).all(axis=1))[0])
            np.testing.assert_array_equal(label, made[1][own, row])


def test_the_rollouts_of_a_run_do_not_depend_on_its_company(made, walks):
    together, alone = rolled(made, walks)[0], rolled(made, walks, runs=(1,))[0]
    np.testing.assert_allclose(together.states[1], alone.states[0], rtol=1e-5, atol=1e-5)


def test_a_rollout_that_leaves_the_finite_numbers_is_replaced_by_its_demonstration(made, walks):
    def breaks(states, actions):
        following = np.array(states + actions)
        following[::2] = np.nan
        return following

    rollouts, _ = rolled(made, walks, breaks, count=4)
    assert np.isfinite(rollouts.states).all()
    shown = {np.asarray(one).tobytes() for one in walks.states}
    assert [np.ascontiguousarray(one).tobytes() in shown for one in rollouts.states[0]] == [True, False, True, False]


def test_dynamics_err_less_where_the_policy_goes_once_they_have_seen_rollouts_of_it():
    """The same number of steps, with and without rollouts: demonstrations stay near zero, an early policy does not."""

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

    errors = []
    for dynamics, refine in ((400, 0), (100, 300)):
        steps = Training(policy_steps=3, labeler_steps=3, dynamics_steps=dynamics, refine_steps=refine, rounds=3)
        settings = replace(TINY, training=replace(steps, batch=32, rollouts=32, learning_rate=5e-3))
        run = poise.train("ctvae-style", demonstrations, [reach], domain=domain, settings=settings, progress=False)
        made = run.sample(200)
        learned = jax.tree.map(lambda x: x[0] if hasattr(x, "dtype") else x, run.parts["dynamics"])
        predicted = learned.step(made.states[:, :-1], made.actions, jnp.zeros((200, 12, 0)))
        errors.append(float(np.mean(np.square(predicted - made.states[:, 1:]))))
    assert errors[1] < 0.5 * errors[0], errors
