"""Your own algorithm: one more row of the table. Here ctvae-style with a term that makes imagined rollouts smooth.

    python examples/own_algorithm.py        (about two minutes on two cores)
    poise train --algorithm examples/own_algorithm.py:SMOOTH ...

A term takes (parts, batch, key) and returns named losses; each name needs a weight. An algorithm is parts and stages.
"""

from dataclasses import replace

import jax.numpy as jnp

import poise
from poise.rollouts.requests import Request
from poise.rollouts.simulate import imagine


def smoothness(parts, batch, key):
    """Mean squared change of action along imagined rollouts."""
    request = Request.like(batch.demonstrations, batch.labels)
    made = imagine(parts["policy"], parts["dynamics"], request, key=key)
    return {"smoothness": jnp.square(made.actions[:, 1:] - made.actions[:, :-1]).sum(axis=(1, 2)).mean()}


PARENT = poise.ALGORITHMS["ctvae-style"]
POLICY = PARENT.stage("policy")
SMOOTH = PARENT.with_stage(replace(POLICY, terms=(*POLICY.terms, smoothness)))

SETTINGS = poise.Settings(
    network=poise.Network(hidden=32, layers=(32, 32)),
    training=poise.Training(policy_steps=600, labeler_steps=600, batch=64, learning_rate=2e-3),
)
WEIGHTS = poise.Weights(extra={"smoothness": 0.05})


def main(settings=SETTINGS, count=10_000, rollouts=2000):
    """Trains the row and its parent on the same data, prints both reports, and returns how much actions change."""
    changes = {}
    for algorithm, weights in (("ctvae-style", settings.weights), (f"{__file__}:SMOOTH", WEIGHTS)):
        own = replace(settings, weights=weights)
        run = poise.train(algorithm, "basketball", ["speed"], settings=own, count=count)
        print(run.evaluate(rollouts=rollouts))
        actions = run.sample(200).actions
        changes[run.experiment.algorithm_name] = float(jnp.abs(actions[:, 1:] - actions[:, :-1]).mean())
        print(f"mean change of action: {changes[run.experiment.algorithm_name]:.3f} ft\n")
    return changes


if __name__ == "__main__":
    main()
