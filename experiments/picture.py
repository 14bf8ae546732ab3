"""The README's picture: one start, four requests, from the demo's run.

poise demo --out demo && python experiments/picture.py demo/flow docs/images/dial.png
"""

import sys
from itertools import product
from pathlib import Path

import poise
from poise.figures.canvas import save
from poise.figures.rollouts import draw_rollouts

START = (29.0, 25.0)  # the top of the three-point arc


def main(folder: str, path: str) -> None:
    """Draws rollouts for slow and fast, near and far, from the same start."""
    run = poise.load_run(folder)
    panels = [
        (f"{speed}, {destination}", run.sample_scored(40, {"speed": speed, "destination": destination}, start=START))
        for destination, speed in product(("near", "far"), ("slow", "fast"))
    ]
    save(draw_rollouts(panels, run.domain.scene, columns=4), Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
