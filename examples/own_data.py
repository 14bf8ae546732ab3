"""Your own data: an .npz of trajectories, here of a made-up animal that forages, rests and flees.

    python examples/own_data.py             (about two minutes on two cores)

What goes in: `states` [N, T+1, S]; optional `actions` (default: differences), `lengths` for trajectories of different
length, and columns such as `animal`, by which train, validation and test can be kept apart.
"""

import tempfile
from pathlib import Path

import numpy as np

import poise


@poise.labeling_function(classes=("calm", "alert", "fleeing"))
def haste(states, actions):
    """The longest step; plain NumPy works as well as jax.numpy."""
    return np.sqrt((actions**2).sum(axis=1)).max()


def make_data(path: Path, count: int = 4000) -> None:
    """Writes trajectories of 10 to 20 steps in a pen of 10 m, from 40 animals."""
    random = np.random.default_rng(0)
    heading = random.uniform(0, 2 * np.pi, (count, 1)) + random.normal(0, 0.4, (count, 20)).cumsum(axis=1)
    pace = random.gamma(2.0, 0.1, (count, 1)) * random.uniform(0.5, 1.5, (count, 20))
    steps = pace[..., None] * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    starts = random.uniform(-5, 5, (count, 1, 2))
    states = np.concatenate([starts, starts + steps.cumsum(axis=1)], axis=1)
    np.savez(path, states=states, lengths=random.integers(10, 21, count), animal=random.integers(0, 40, count))


def main(folder: Path, settings=poise.PRESETS["small"], count=4000, rollouts=2000):
    """Trains on the file, keeps animals apart, evaluates, and saves rollouts as another .npz."""
    make_data(folder / "animals.npz", count)
    run = poise.train(
        data=folder / "animals.npz", styles=[haste], split_by="animal", settings=settings, out=folder / "run"
    )
    print(run.evaluate(rollouts=rollouts))
    run.sample(100, {"haste": "calm"}).save(folder / "calm.npz")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
