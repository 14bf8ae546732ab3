"""Your own loop: a game that asks a trained policy for an action every frame, and turns the dial while it runs.

python examples/own_loop.py             (about two minutes on two cores, almost all of it training)
"""

import time

import numpy as np

import poise

COURT = np.asarray([47.0, 50.0])


def play(actor, position, frames):
    """Where the player is in each frame; the game has its own rules: nobody leaves the court."""
    positions = [position]
    for _ in range(frames):
        action = actor.step(positions[-1])
        positions.append(np.clip(positions[-1] + action, 0.0, COURT))
    return np.stack(positions)


def feet_per_second(positions):
    """The mean speed; there are three frames per second."""
    return 3.0 * np.linalg.norm(np.diff(positions, axis=0), axis=-1).mean()


def main(settings=poise.PRESETS["small"], count=10_000, frames=24):
    """Trains a policy, then plays: a slow player, whose dial is turned to fast on the way."""
    run = poise.train(data="basketball", styles=["speed", "destination"], settings=settings, count=count)
    actor = run.actor({"speed": "slow", "destination": "near"})
    began = time.perf_counter()
    slow = play(actor, np.asarray([30.0, 25.0]), frames // 2)
    actor.dial({"speed": "fast"})  # a new plan, which knows what the player has done so far
    fast = play(actor, slow[-1], frames // 2)
    each = (time.perf_counter() - began) / frames
    print(f"slow: {feet_per_second(slow):.1f} ft/s, then fast: {feet_per_second(fast):.1f} ft/s")
    print(f"{1e3 * each:.2f} ms per frame")

    team = run.actor({"speed": "fast"}, count=5)  # five players in one call per frame
    print(f"a fast team: {feet_per_second(play(team, np.tile([30.0, 25.0], (5, 1)), frames)):.1f} ft/s")


if __name__ == "__main__":
    main()
