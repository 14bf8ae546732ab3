"""Your own style, in five lines: how much a player hugs the sidelines.

python examples/own_style.py            (about two minutes on two cores)
poise train --styles examples/own_style.py:hugging speed --out runs/hugging
"""

import jax.numpy as jnp

import poise


@poise.labeling_function(classes=("central", "between", "wide"), unit="ft")
def hugging(states, actions):
    """Mean distance from the line between the two rims (y = 25 ft)."""
    return jnp.abs(states[:, 1] - 25.0).mean()


def main(settings=poise.PRESETS["small"], count=10_000, rollouts=2000):
    """Trains a policy for the new style and an old one, scores it, and asks it for something."""
    run = poise.train(data="basketball", styles=[hugging, "speed"], settings=settings, count=count)
    print(run.evaluate(rollouts=rollouts))
    wide = run.sample(50, {"hugging": "wide", "speed": "slow"})
    print(f"\n50 slow players asked to stay wide: mean distance {hugging.scores(wide).mean():.1f} ft from the middle")


if __name__ == "__main__":
    main()
