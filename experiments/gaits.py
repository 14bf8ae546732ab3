"""The gaits in the docs: for each class of each run's style, the first rollout from one start, right or wrong.

python experiments/gaits.py docs/images/cheetah-speed.png RUN [RUN ...]
"""

from __future__ import annotations

import sys

from PIL import Image

from poise import load_run
from poise.figures.canvas import save
from poise.reproduce.figures import draw_run_gaits

SCALE, COLOURS = 0.75, 256  # a smaller file that looks the same


def main(path: str, folders: list[str]) -> None:
    """Draws the gaits into a small file."""
    save(draw_run_gaits([load_run(folder) for folder in folders]), path)
    picture = Image.open(path).convert("RGB")
    smaller = picture.resize((round(SCALE * picture.width), round(SCALE * picture.height)), Image.Resampling.LANCZOS)
    smaller.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
