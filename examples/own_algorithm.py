"""Your own algorithm: one more row of the table. Here ctvae-style with a term that makes imagined rollouts smooth.

    python examples/own_algorithm.py        (about two minutes on two cores)

A term takes (parts, batch, key) and returns named losses; each name needs a weight. An algorithm is parts and stages.
"""

import jax.numpy as jnp

import poise
from poise import ALGORITHMS, Algorithm, Stage, Weights
from poise.rollout import imagine


def smoothness(parts, batch, key):
    """Mean squared change of action along imagined rollouts."""
    real = batch.demonstrations
    made = imagine(parts["policy"], parts["dynamics"], real.starts, batch.labels, real.lengths, real.steps, key=key)
    return {"smoothness": jnp.square(made.actions[:, 1:] - made.actions[:, :-1]).sum(axis=(1, 2)).mean()}


*earlier, policy = ALGORITHMS["ctvae-style"].stages
SMOOTH = Stage("policy", trains=("policy",), terms=(*policy.terms, smoothness))
if "ctvae-smooth" not in ALGORITHMS:
    poise.register("ctvae-smooth", Algorithm(ALGORITHMS["ctvae-style"].parts, (*earlier, SMOOTH)))

SETTINGS = poise.Settings(
    network=poise.Network(hidden=32, layers=(32, 32)),
    training=poise.Training(policy_steps=600, labeler_steps=600, batch=64, learning_rate=2e-3),
    weights=Weights(extra={"smoothness": 0.05}),
)


def main(settings=SETTINGS, count=10_000, rollouts=2000):
    """Trains the row and its parent on the same data and prints both reports."""
    for name in ("ctvae-style", "ctvae-smooth"):
        run = poise.train(name, "basketball", ["speed"], settings=settings, count=count)
        print(run.evaluate(rollouts=rollouts))
        actions = run.sample(200).actions
        print(f"mean change of action: {jnp.abs(actions[:, 1:] - actions[:, :-1]).mean():.3f} ft\n")


if __name__ == "__main__":
    main()
