"""The docs' pictures of gaits: for each class of each run's style, the first rollout from one start, right or wrong.

python experiments/gaits.py docs/images/cheetah-speed.png RUN [RUN ...]
"""

from __future__ import annotations

import sys

from PIL import Image

from poise import load_run
from poise.plots import save
from poise.reproduce.figures import draw_gaits

SCALE, COLOURS = 0.75, 256  # lighter, and no worse to look at


def main(path: str, folders: list[str]) -> None:
    """Draws them, and makes the file small."""
    save(draw_gaits([load_run(folder) for folder in folders]), path)
    picture = Image.open(path).convert("RGB")
    smaller = picture.resize((round(SCALE * picture.width), round(SCALE * picture.height)), Image.Resampling.LANCZOS)
    smaller.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
