"""A running average of the parameters, which takes their place at the last step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from training_helpers import ONE, POLICY, chunks, flat, with_training

from poise.training.stages import averaged


def run(optimiser: optax.GradientTransformation, steps: int) -> list[np.ndarray]:
    """The parameters after each step on gradients that are given."""
    gradients = np.random.default_rng(0).normal(size=(steps, 3)).astype(np.float32)
    parameters: Any = {"x": jnp.asarray([1.0, -2.0, 3.0])}
    state, found = optimiser.init(parameters), [np.asarray(parameters["x"])]
    for gradient in gradients:
        updates, state = optimiser.update({"x": jnp.asarray(gradient)}, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        found.append(np.asarray(parameters["x"]))
    return found


@pytest.mark.parametrize("decay", [0.3, 0.999])
def test_the_last_step_goes_to_the_running_average_and_those_before_it_are_the_optimisers(decay):
    plain, made = run(optax.adam(0.1), 12), run(averaged(optax.adam(0.1), decay, 12), 12)
    for one, other in zip(plain[:-1], made[:-1], strict=True):
        np.testing.assert_array_equal(one, other)
    average = plain[0]
    for step, parameters in enumerate(plain[1:]):
        now = min(decay, (1 + step) / (10 + step))
        average = now * average + (1 - now) * parameters
    np.testing.assert_allclose(made[-1], average, rtol=1e-5)
    assert np.abs(made[-1] - plain[-1]).max() > 1e-3


def test_an_average_does_not_depend_on_how_training_is_divided():
    algorithm = replace(ONE, stages=(replace(POLICY, average=0.9),))
    one, many = (chunks(with_training(policy_steps=6, chunk=chunk), algorithm=algorithm)[-1].state for chunk in (6, 2))
    plain = chunks(with_training(policy_steps=6, chunk=6))[-1].state
    np.testing.assert_array_equal(flat(one), flat(many))
    assert np.abs(flat(one) - flat(plain)).max() > 1e-5
