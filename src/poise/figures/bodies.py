"""Gaits: trajectories of a body as strips of stick figures or rendered pictures, and as animations."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from PIL import Image

from ..domains.base import Scene
from ..errors import PoiseError
from ..evaluation.scored import ScoredRollouts
from ..system import storage
from .canvas import BLUE, FAINT, MUTED, PAGE, SMALL, make_axes, percent, plain_text, set_title

FIGURES = 8  # stick figures in a strip
FRAMES = 20  # frames per second of an animation; one frame per step if the scene does not say how long a step takes
COLOURS = 64  # colours of an animation
STICK = 3.0  # the width in points of a line of a body


def draw_gaits(panels: Sequence[tuple[str, ScoredRollouts]], scene: Scene) -> Figure:
    """One strip per title: the first finite rollout, right or wrong; the title says how many rollouts are right."""
    rows = []
    for title, scored in panels:
        share = percent(float(scored.joint.mean()))
        rows.append((f"{title}: {share} of {len(scored.right)} right", first_gait(scored)[0]))
    return draw_strips(rows, scene)


def draw_strips(rows: Sequence[tuple[str, Float[np.ndarray, "_ S"]]], scene: Scene, rendered: bool = False) -> Figure:
    """One strip per title: a trajectory as stick figures side by side, each with its time and the distance covered.

    Args:
        rows: Titles with the states of one trajectory each.
        scene: Draws a state as a stick figure (`scene.body`) or as a picture (`scene.render`).
        rendered: Whether to show the simulator's own pictures instead of stick figures.

    Raises:
        PoiseError: If there are no trajectories, if a state is not finite, or if the scene has no body or no renderer.
    """
    if not rows:
        raise PoiseError("there is nothing to draw: no trajectories were given")
    moments = [np.linspace(0, len(x) - 1, min(FIGURES, len(x))).round().astype(int) for _, x in rows]
    seen = [np.asarray(states)[steps] for (_, states), steps in zip(rows, moments, strict=True)]
    bodies = [_bodies(states, scene) for states in seen]
    pictures = _render(np.concatenate(seen), scene) if rendered else None
    reach, top = max(_reach(lines) for lines in bodies), max(float(lines[..., 1].max()) for lines in bodies)
    pitch, count = 2.15 * reach, max(len(steps) for steps in moments)
    tall = 1.1 * top if pictures is None else pitch * pictures.shape[1] / pictures.shape[2]
    figure, axes = make_axes(len(rows), 1, PAGE * tall / (pitch * count) + 0.7, PAGE)
    for ax, (title, _), lines, steps in zip(axes, rows, bodies, moments, strict=True):
        places, distances = pitch * np.arange(len(steps)), _middle(lines) - _middle(lines)[0]
        if pictures is None:
            lines[..., 0] += (places - _middle(lines))[:, None, None]
            ax.add_collection(_sticks(lines.reshape(-1, 2, 2)), autolim=False)
            _draw_ground(ax, -pitch / 2, pitch * (count - 0.5), top)
        else:
            shown, pictures = np.split(pictures, [len(steps)])
            _draw_pictures(ax, shown, places, pitch, count)
        ax.set_xticks(places, _tick_labels(steps, distances, scene))
        ax.tick_params(axis="x", length=0)
        set_title(ax, title)
    return figure


def animate(states: Float[np.ndarray, "_ S"], scene: Scene, rendered: bool = False) -> bytes:
    """A GIF of a trajectory in real time, with a camera that follows the body.

    Args:
        states: The states of one trajectory.
        scene: Draws a state as a stick figure (`scene.body`) or as a picture (`scene.render`).
        rendered: Whether to show the simulator's own pictures instead of stick figures.
    """
    steps = np.arange(0, len(states) - 1 + 1e-6, (scene.hertz or FRAMES) / FRAMES).round().astype(int)
    shown = np.asarray(states)[steps]
    frames = list(_render(shown, scene)) if rendered else _stick_frames(shown, steps, scene)
    first = Image.fromarray(frames[0]).quantize(COLOURS)
    images = [Image.fromarray(frame).quantize(palette=first, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=1000 // FRAMES, loop=0)
    return buffer.getvalue()


def save_animation(states: Float[np.ndarray, "_ S"], scene: Scene, path: str | Path, rendered: bool = False) -> None:
    """Writes the animation of a trajectory (see `animate`) as a .gif; missing folders are made."""
    check_animation(path)
    storage.write_bytes(Path(path), animate(states, scene, rendered))


def check_animation(path: str | Path) -> None:
    """Raises `PoiseError` if a file's name does not end in .gif."""
    if Path(path).suffix.lower() != ".gif":
        raise PoiseError(f"an animation is a .gif; got {Path(path).name!r}: end its name in .gif")


def first_gait(scored: ScoredRollouts) -> tuple[Float[np.ndarray, "_ S"], bool]:
    """The states of the first finite rollout, and whether it shows every style that it was asked for."""
    rows = np.flatnonzero(scored.finite)
    if not len(rows):
        raise PoiseError(f"there is no gait to draw: none of {len(scored.finite)} rollouts stayed finite")
    states, length = np.asarray(scored.rollouts.states)[rows[0]], int(np.asarray(scored.rollouts.lengths)[rows[0]])
    return states[: length + 1], bool(scored.right[rows[0]].all())


def _stick_frames(states: np.ndarray, steps: np.ndarray, scene: Scene) -> list[np.ndarray]:
    """Pictures [height, width, 3] of the stick figures of states, each with the time of its step."""
    lines = _bodies(states, scene)
    wide, top = 1.5 * _reach(lines), float(lines[..., 1].max())
    figure = Figure(figsize=(4.2, 4.2 * 1.1 * top / (2 * wide) + 0.5), facecolor="white")
    ax = figure.add_axes((0, 0.5 / figure.get_figheight(), 1, 1 - 0.5 / figure.get_figheight()))
    ax.spines[["top", "right"]].set_visible(False)
    ax.xaxis.set_major_locator(MultipleLocator(1.0))
    ax.tick_params(labelsize=SMALL, labelcolor=MUTED, color=FAINT, length=3)
    ax.set_xlabel(plain_text(scene.unit), fontsize=SMALL, color=MUTED, labelpad=0)
    clock = ax.text(0.02, 0.97, "", transform=ax.transAxes, va="top", fontsize=SMALL, color=MUTED)
    body, canvas, frames = _sticks(lines[0]), FigureCanvasAgg(figure), []
    ax.add_collection(body, autolim=False)
    _draw_ground(ax, -wide, wide, top)
    for step, now, x in zip(steps, lines, _middle(lines), strict=True):
        body.set_segments(list(now))
        ax.set_xlim(x - wide, x + wide)
        clock.set_text(plain_text(_time(int(step), scene)))
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return frames


def _render(states: np.ndarray, scene: Scene) -> np.ndarray:
    """The simulator's own pictures [N, height, width, 3]."""
    if scene.render is None:
        raise PoiseError("there is nothing to render: this domain has no simulator that makes pictures")
    return np.asarray(scene.render(states))


def _draw_pictures(ax: Axes, pictures: np.ndarray, places: np.ndarray, pitch: float, count: int) -> None:
    """Pictures side by side, each centred on its place."""
    tall, half = pitch * pictures.shape[1] / pictures.shape[2], 0.495 * pitch
    for picture, place in zip(pictures, places, strict=True):
        ax.imshow(picture, extent=(place - half, place + half, 0, tall), aspect="equal")
    ax.set_xlim(-pitch / 2, pitch * (count - 0.5))
    ax.set_ylim(0, tall)
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)


def _bodies(states: np.ndarray, scene: Scene) -> np.ndarray:
    """The lines [time, K, 2, 2] of a trajectory's stick figures."""
    if scene.body is None:
        raise PoiseError("there are no stick figures to draw: this domain's scene has no body")
    lines = np.array(scene.body(np.asarray(states)))
    if not np.isfinite(lines).all():
        raise PoiseError("a trajectory with states that are not finite cannot be drawn")
    return lines


def _middle(lines: np.ndarray) -> np.ndarray:
    """The horizontal position of each of the bodies [time, K, 2, 2]."""
    return lines[..., 0].mean(axis=(1, 2))


def _reach(lines: np.ndarray) -> float:
    """The largest horizontal distance of a point of a body from the body's middle."""
    return float(np.abs(lines[..., 0] - _middle(lines)[:, None, None]).max())


def _sticks(lines: np.ndarray) -> LineCollection:
    return LineCollection(list(lines), linewidths=STICK, colors=BLUE, capstyle="round", zorder=3)


def _draw_ground(ax: Axes, left: float, right: float, top: float) -> None:
    """Limits that hold bodies up to `top`, and a line at height zero."""
    ax.set_xlim(left, right)
    ax.set_ylim(-0.03 * top, 1.07 * top)
    ax.set_aspect("equal")
    ax.axhline(0, color=FAINT, linewidth=1.0, zorder=1)
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)


def _tick_labels(steps: np.ndarray, distances: np.ndarray, scene: Scene) -> list[str]:
    """The time and the distance covered at each step, one below the other."""
    rounded = distances.round(1) + 0.0  # adding zero turns -0.0 into 0.0
    return [
        plain_text(f"{_time(int(step), scene)}\n{distance:.1f} {scene.unit}".strip())
        for step, distance in zip(steps, rounded, strict=True)
    ]


def _time(step: int, scene: Scene) -> str:
    return f"{step / scene.hertz:.1f} s" if scene.hertz else f"step {step}"
