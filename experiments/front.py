"""The front of the flow's page: yield against realism, for algorithms, ways of sampling, weights and guidance.

Above, five styles of four classes on test games, from results/basketball/paper.json and verified.json. Below, once
results/basketball/ablations.json is there, what weights, steering and guidance change on validation games, one panel
each with the same axes. All numbers are medians over seeds; what was not measured is left out.

    python experiments/front.py docs/images/flow-front.png
"""

from __future__ import annotations

import io
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from results_blocks import ablations, flow
from results_blocks.text import field, find_cells, read_if_there, way_of

from poise.figures import draw_front, encode
from poise.figures.canvas import FAINT, INK, PAGE, TEXT, Figure, make_axes, set_title
from poise.figures.front import LOOKS, FrontPoint, _place_labels, place
from poise.system import storage

PANELS = {
    "ctvae-style": ("ctvae-style: weight", "ctvae-style"),
    "flow-style": ("flow-style: weight", "flow-style"),
    "strength": ("flow: strength", "flow"),
    "guidance": ("flow: guidance", "flow"),
}
"""The groups of ablations that are drawn, each with the title of its panel and its algorithm."""

WIDTH = 0.78 * PAGE
"""That of `draw_front`, so that both parts are as wide."""

LOOK_OF = dict(zip(flow.ALGORITHMS, LOOKS, strict=False))
"""The colour and the marker of each algorithm, in both parts of the picture."""


def point(name: str, way: str, seeds: Sequence[dict[str, Any]]) -> FrontPoint:
    """The medians of seeds as a point of the front."""
    c2st, right = ([value for seed in seeds if (value := field(seed, key)) is not None] for key in ("c2st", "yield"))
    return FrontPoint(name, way, statistics.median(c2st) if c2st else None, statistics.median(right or [math.nan]))


def algorithms() -> list[FrontPoint]:
    """The algorithms in all of their ways of sampling."""
    measured, points = find_cells("basketball/paper"), []
    for algorithm in flow.ALGORITHMS:
        cell = measured.get(replace(flow.JOINT, algorithm=algorithm).name, {"seeds": []})
        for key, way in (("unsteered", "unsteered"), ("", "one try"), ("verified", "verified")):
            points.append(point(algorithm, way, way_of(cell["seeds"], key)))
            if algorithm == "flow" and key == "unsteered":
                points.append(point(algorithm, "unsteered, verified", flow.unsteered_verified()[0]))
    return points


def floor() -> float | None:
    """The C2ST of demonstrations against demonstrations."""
    measured = find_cells("basketball/paper")
    cells = [measured.get(replace(flow.JOINT, algorithm=algorithm).name, {}) for algorithm in flow.ALGORITHMS]
    found = [value for cell in cells if (value := flow.floor_of(cell)) is not None]
    return statistics.median(found) if found else None


def draw_algorithms() -> Figure:
    """The front over all algorithms and ways of sampling, each label in the colour of its point."""
    figure = draw_front(algorithms(), floor())
    (axes,) = figure.axes
    for text in axes.texts:
        name = text.get_text().split(", ")[0]
        if name in LOOK_OF:
            text.set_color(LOOK_OF[name][0])
        else:  # the floor, in fewer words than fit beside other figures
            text.set_text(f"floor: {floor():.2f}")
    set_title(axes, "Five styles of four classes, test games. Better: up and to the left")
    return figure


def varied() -> dict[str, list[FrontPoint]]:
    """The points of each panel, from the smallest to the largest value; strength 0 is the unsteered default."""
    result = read_if_there("basketball/ablations") or {"measured": []}
    found = {
        group: [point(one.value, "", one.seeds) for one in ablations.variations(result, group)] for group in PANELS
    }
    for one in result["measured"]:
        if one["group"] == "default" and not any(float(each.name) == 0 for each in found["strength"]):
            found["strength"].insert(0, point("0", "", way_of(one["seeds"], "unsteered")))
    return found


def draw_varied(points: dict[str, list[FrontPoint]]) -> Figure:
    """One small front per dial, all with the same axes; labels are values."""
    shown = {group: found for group, found in points.items() if found}
    figure, panels = make_axes(len(shown), len(shown), 2.3, WIDTH)
    bottom = min(100 * one.right for found in shown.values() for one in found) - 8
    for ax, (group, found) in zip(panels, shown.items(), strict=True):
        title, algorithm = PANELS[group]
        color, marker = LOOK_OF[algorithm]
        places = np.reshape([place(one) for one in found], (-1, 2))
        ax.plot(*places.T, color=color, linewidth=1.1, alpha=0.5, zorder=2)
        ax.plot(*places.T, color=color, linestyle="", marker=marker, markersize=5, zorder=3)
        ax.set_xlim(0.47, 1.03)
        ax.set_ylim(max(0.0, bottom), 108)
        ax.set_xticks([0.5, 0.75, 1.0])
        ax.tick_params(labelleft=ax is panels[0])
        ax.set_xlabel("C2ST", fontsize=TEXT, color=INK)
        ax.grid(color=FAINT, linewidth=0.5, alpha=0.5)
        set_title(ax, title)
    panels[0].set_ylabel("yield (%), validation games", fontsize=TEXT, color=INK)
    for ax, found in zip(panels, shown.values(), strict=True):
        _place_labels(figure, ax, found)
    return figure


def stack(figures: Sequence[Figure]) -> bytes:
    """One picture of all figures, one below the other."""
    pictures = [Image.open(io.BytesIO(encode(figure))).convert("RGB") for figure in figures]
    size = max(picture.width for picture in pictures), sum(picture.height for picture in pictures)
    whole, top, buffer = Image.new("RGB", size, "white"), 0, io.BytesIO()
    for picture in pictures:
        whole.paste(picture, (0, top))
        top += picture.height
    whole.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def main(path: str) -> None:
    """Draws the front."""
    figures, points = [draw_algorithms()], varied()
    if any(points.values()):
        figures.append(draw_varied(points))
    storage.write_bytes(Path(path), stack(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
