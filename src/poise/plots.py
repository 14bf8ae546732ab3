"""Pictures: rollouts on their scene, gaits, scores, learning curves, style-consistency, the cost of noise.

The only importer of matplotlib, and only of its objects (`Figure`, never pyplot): no display, no state shared between
figures, so it is safe in threads. Colours are Okabe and Ito's, and nothing is told by colour alone.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Wedge
from matplotlib.ticker import MaxNLocator, MultipleLocator
from PIL import Image

from . import storage
from .domains.base import Scene
from .errors import PoiseError
from .evaluation import Checked, Report, SeedScore, Share
from .files import make_folder
from .inspection import Inspection
from .labeling import LabelingFunction

SUFFIXES = (".png", ".svg", ".pdf")
PAGE = 9.0  # inches: the width of a page
DPI = 200
DRAWN = 60  # rollouts drawn in one panel; all are counted
BEYOND = 0.12  # of a scene, shown around it at most for rollouts that leave it

INK, MUTED, FAINT = "#1f2933", "#667085", "#c9ced6"
OBEYS, FAILS, BARS, REGION = "#0072B2", "#D55E00", "#9cc4de", "#009E73"
SERIES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"))  # of lines
SMALL, TEXT, TITLE = 8.0, 8.5, 9.5  # points


def save(figure: Figure, path: str | Path) -> None:
    """Writes a figure as .png, .svg or .pdf."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise PoiseError(f"a picture is one of {', '.join(SUFFIXES)}; got {path.name!r}: end its name in one of them")
    make_folder(path.parent)
    storage.write_bytes(path, encode(figure, path.suffix.lower()[1:]))


def encode(figure: Figure, kind: str = "png") -> bytes:
    """The figure as the content of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DPI, bbox_inches="tight", pad_inches=0.08)
    return buffer.getvalue()


# Rollouts


@dataclass(frozen=True)
class Rings:
    """The classes of a style that measures a distance, as rings around a centre."""

    centre: Sequence[float]
    thresholds: Sequence[float]
    asked: int
    """The class that is asked for: its ring is filled."""


def draw_rollouts(
    panels: Sequence[tuple[str, Checked]],
    scene: Scene,
    starts: bool = True,
    columns: int = 3,
    rings: Sequence[Rings] = (),
    drawn: int = DRAWN,
    beyond: float = BEYOND,
) -> Figure:
    """One panel a title: rollouts from a diamond to a dot, those that fail a style dashed and ending in a cross.

    All are counted, `drawn` of them are drawn. `rings`, one a panel, show where a rollout that obeys must end. Where
    rollouts leave the scene, up to `beyond` of its size is shown on each side.
    """
    if not panels:
        raise PoiseError("there is nothing to draw: no rollouts were given")
    paths = [_paths(checked, scene, drawn) for _, checked in panels]
    low, high = _limits(paths, scene, beyond)
    equal = bool(scene.outlines) or (not _is_flat(scene) and _similar(high - low))
    columns = min(columns, len(panels))
    width = min(PAGE, 4.2 * columns)
    spans = high - low
    tall = float(np.clip(spans[1] / spans[0], 0.4, 1.8)) if equal else 0.7
    figure, axes = _grid(len(panels), columns, width / columns * tall + 0.3, width, "compressed" if equal else None)
    for ax, (title, checked), lines in zip(axes, panels, paths, strict=True):
        _draw_scene(ax, scene, low, high, equal)
        _draw_paths(ax, lines, starts)
        share = _percent(checked.right.all(axis=1).mean()).replace(" ", "\u00a0")  # never alone on a line
        words = textwrap.fill(f"{title}:\u00a0{share}", max(20, int(width / columns * 12.5)))
        _title(ax, words.replace("\u00a0", " "))
    for ax, ring in zip(axes, rings, strict=bool(rings)):
        _draw_rings(ax, ring)
    if scene.outlines:
        _draw_scale(axes[(len(panels) - 1) // columns * columns], scene, low, high)
    keys = [*_keys(starts), *([Patch(**_RING, label="where it should end")] if rings else [])]
    legend = figure.legend(
        handles=keys, loc="outside lower center", ncols=4, frameon=False, fontsize=TEXT, labelcolor=INK
    )
    most = max(len(checked.finite) for _, checked in panels)
    if most > drawn:
        legend.set_title(f"In each panel {drawn} of {most} rollouts are drawn, all are counted")
        legend.get_title().set(fontsize=SMALL, color=MUTED)
    return figure


Paths = list[tuple[np.ndarray, bool]]


def _paths(checked: Checked, scene: Scene, most: int) -> Paths:
    """Points [length + 1, 2] of the rollouts to draw, each with whether it obeys; a lone state goes against time."""
    finite = np.flatnonzero(checked.finite)
    rows = finite if len(finite) <= most else finite[np.linspace(0, len(finite) - 1, most).astype(int)]
    states, lengths = np.asarray(checked.rollouts.states), np.asarray(checked.rollouts.lengths)
    obeys, found = np.asarray(checked.right.all(axis=1)), []
    for row in rows:
        points = states[row, : lengths[row] + 1][:, list(scene.columns)].astype(float)
        if _is_flat(scene):
            points[:, 0] = np.arange(len(points))
        found.append((points, bool(obeys[row])))
    return found


def _is_flat(scene: Scene) -> bool:
    return scene.columns[0] == scene.columns[1]


def _limits(panels: Sequence[Paths], scene: Scene, beyond: float) -> tuple[np.ndarray, np.ndarray]:
    """The corners that all panels show: those of the scene and a little around it, or what holds every rollout."""
    points = np.concatenate([np.zeros((1, 2)), *(points for paths in panels for points, _ in paths)])
    points = points[1:] if len(points) > 1 else points  # where no rollout is finite there is still a panel
    low, high = points.min(axis=0), points.max(axis=0)
    if scene.limits is not None and not _is_flat(scene):
        left, right, bottom, top = scene.limits
        corner, other = np.array([left, bottom], float), np.array([right, top], float)
        around, margin = beyond * (other - corner), 0.02 * (other - corner)
        return np.clip(low - margin, corner - around, corner), np.clip(high + margin, other, other + around)
    for outline in scene.outlines:
        low, high = np.minimum(low, np.min(outline, axis=0)), np.maximum(high, np.max(outline, axis=0))
    margin = 0.05 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin


def _similar(spans: np.ndarray) -> bool:
    return bool(spans.max() <= 3 * spans.min())


def _draw_scene(ax: Axes, scene: Scene, low: np.ndarray, high: np.ndarray, equal: bool) -> None:
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    if equal:
        ax.set_aspect("equal")
    for outline in scene.outlines:
        ax.plot(*np.asarray(outline, float).T, color=FAINT, linewidth=0.9, zorder=1)
    if scene.outlines:
        ax.set_axis_off()
        return
    unit = f" ({scene.unit})" if scene.unit else ""
    across, up = scene.columns
    ax.set_xlabel("step" if _is_flat(scene) else _plain(f"state {across}{unit}"), fontsize=SMALL, color=MUTED)
    ax.set_ylabel(_plain(f"state {up}{unit}"), fontsize=SMALL, color=MUTED)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=_is_flat(scene)))


def _draw_paths(ax: Axes, paths: Paths, starts: bool) -> None:
    for obeys in (True, False):
        lines = [points for points, right in paths if right == obeys]
        if not lines:
            continue
        ends = np.array([points[-1] for points in lines])
        firsts = np.array([points[0] for points in lines])
        look: dict[str, Any] = _look(obeys)
        drawn = LineCollection(lines, linewidths=0.8, linestyles=look["linestyle"], colors=look["color"], alpha=0.6)
        drawn.set_zorder(2 if obeys else 3)
        ax.add_collection(drawn, autolim=False)
        if starts:
            ax.scatter(*firsts.T, s=9, marker="D", facecolors="white", edgecolors=MUTED, linewidths=0.6, zorder=4)
        ax.scatter(*ends.T, s=11, marker=look["marker"], color=look["color"], linewidths=0.9, zorder=5)


def _look(obeys: bool) -> dict[str, Any]:
    """How a rollout is drawn: told apart by line and marker as well as by colour."""
    return (
        {"color": OBEYS, "linestyle": "-", "marker": "o"}
        if obeys
        else {"color": FAILS, "linestyle": (0, (4, 2)), "marker": "x"}
    )


def _keys(starts: bool) -> list[Line2D]:
    diamond = Line2D([], [], linestyle="", marker="D", markersize=4, markerfacecolor="white", markeredgecolor=MUTED)
    keys = [(diamond, "start")] if starts else []
    for obeys, words in ((True, "shows what was asked for"), (False, "does not")):
        keys.append((Line2D([], [], linewidth=1.2, markersize=4.5, **_look(obeys)), words))
    for key, words in keys:
        key.set_label(words)
    return [key for key, _ in keys]


_RING: dict[str, Any] = {"facecolor": (REGION, 0.16), "edgecolor": REGION, "linewidth": 0.8}


def _draw_rings(ax: Axes, rings: Rings) -> None:
    """Every threshold as a circle, and the ring of the class that is asked for filled; the last has no outer end."""
    (x, y), cuts = rings.centre, [0.0, *rings.thresholds, float(np.ptp([*ax.get_xlim(), *ax.get_ylim()])) * 2]
    inner, outer = cuts[rings.asked], cuts[rings.asked + 1]
    ax.add_patch(Wedge((x, y), outer, 0, 360, width=outer - inner, color=_RING["facecolor"], linewidth=0, zorder=0))
    for cut in rings.thresholds:
        ax.add_patch(Circle((x, y), cut, fill=False, edgecolor=REGION, linewidth=_RING["linewidth"], zorder=1.5))


def _draw_scale(ax: Axes, scene: Scene, low: np.ndarray, high: np.ndarray) -> None:
    """A bar of a round length under a panel without axes."""
    span = float(high[0] - low[0])
    power = 10.0 ** np.floor(np.log10(span / 4))
    length = power * max(step for step in (1, 2, 5) if step * power <= span / 4)
    left, below = low[0] + 0.02 * span, low[1] - 0.03 * float(high[1] - low[1])
    ax.plot([left, left + length], [below, below], color=MUTED, linewidth=1.2, clip_on=False)
    words = _plain(f"{length:g} {scene.unit}".strip())
    ax.text(left + length + 0.015 * span, below, words, fontsize=SMALL, color=MUTED, va="center")


# Stick figures

FIGURES = 8  # in a strip
FRAMES = 20  # a second of an animation, or one a step where the time of a step is not known
COLOURS = 64  # of an animation
STICK = 3.0  # points: the width of a line of a body


def draw_gaits(panels: Sequence[tuple[str, Checked]], scene: Scene) -> Figure:
    """One strip a title, which also says how many rollouts are right; the first of them is drawn, right or wrong."""
    rows = []
    for title, checked in panels:
        share = _percent(float(checked.right.all(axis=1).mean()))
        rows.append((f"{title}: {share} of {len(checked.right)} right", first_gait(checked)[0]))
    return draw_strips(rows, scene)


def draw_strips(rows: Sequence[tuple[str, Float[np.ndarray, "_ S"]]], scene: Scene, rendered: bool = False) -> Figure:
    """One strip a title: a trajectory as stick figures side by side, each with its time and the way it has come.

    With `rendered`, the simulator's own pictures stand there instead.
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
    figure, axes = _grid(len(rows), 1, PAGE * tall / (pitch * count) + 0.7, PAGE)
    for ax, (title, _), lines, steps in zip(axes, rows, bodies, moments, strict=True):
        places, ways = pitch * np.arange(len(steps)), _middle(lines) - _middle(lines)[0]
        if pictures is None:
            lines[..., 0] += (places - _middle(lines))[:, None, None]
            ax.add_collection(_sticks(lines.reshape(-1, 2, 2)), autolim=False)
            _draw_ground(ax, -pitch / 2, pitch * (count - 0.5), top)
        else:
            shown, pictures = np.split(pictures, [len(steps)])
            _draw_pictures(ax, shown, places, pitch, count)
        told = zip(steps, ways.round(1) + 0.0, strict=True)  # never -0.0
        ax.set_xticks(
            places, [_plain(f"{_moment(int(step), scene)}\n{way:.1f} {scene.unit}".strip()) for step, way in told]
        )
        ax.tick_params(axis="x", length=0)
        _title(ax, title)
    return figure


def animate(states: Float[np.ndarray, "_ S"], scene: Scene, rendered: bool = False) -> bytes:
    """A trajectory as a GIF in its own time, seen by a camera that goes along: stick figures, or rendered."""
    steps = np.arange(0, len(states) - 1 + 1e-6, (scene.hertz or FRAMES) / FRAMES).round().astype(int)
    shown = np.asarray(states)[steps]
    frames = list(_render(shown, scene)) if rendered else _stick_frames(shown, steps, scene)
    first = Image.fromarray(frames[0]).quantize(COLOURS)
    images = [Image.fromarray(frame).quantize(palette=first, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=1000 // FRAMES, loop=0)
    return buffer.getvalue()


def save_animation(states: Float[np.ndarray, "_ S"], scene: Scene, path: str | Path, rendered: bool = False) -> None:
    """Writes a trajectory's stick figure, or with `rendered` the simulator's own pictures of it, as a .gif."""
    check_animation(path)
    make_folder(Path(path).parent)
    storage.write_bytes(Path(path), animate(states, scene, rendered))


def check_animation(path: str | Path) -> None:
    """Refuses a name that is not an animation's."""
    if Path(path).suffix.lower() != ".gif":
        raise PoiseError(f"an animation is a .gif; got {Path(path).name!r}: end its name in .gif")


def first_gait(checked: Checked) -> tuple[Float[np.ndarray, "_ S"], bool]:
    """The states of the first rollout that stayed finite, and whether it obeys."""
    rows = np.flatnonzero(checked.finite)
    if not len(rows):
        raise PoiseError(f"there is no gait to draw: none of {len(checked.finite)} rollouts stayed finite")
    states, length = np.asarray(checked.rollouts.states)[rows[0]], int(np.asarray(checked.rollouts.lengths)[rows[0]])
    return states[: length + 1], bool(checked.right[rows[0]].all())


def _stick_frames(states: np.ndarray, steps: np.ndarray, scene: Scene) -> list[np.ndarray]:
    """Pictures [height, width, 3] of the stick figures of states, each with the time of its step."""
    lines = _bodies(states, scene)
    wide, top = 1.5 * _reach(lines), float(lines[..., 1].max())
    figure = Figure(figsize=(4.2, 4.2 * 1.1 * top / (2 * wide) + 0.5), facecolor="white")
    ax = figure.add_axes((0, 0.5 / figure.get_figheight(), 1, 1 - 0.5 / figure.get_figheight()))
    ax.spines[["top", "right"]].set_visible(False)
    ax.xaxis.set_major_locator(MultipleLocator(1.0))
    ax.tick_params(labelsize=SMALL, labelcolor=MUTED, color=FAINT, length=3)
    ax.set_xlabel(_plain(scene.unit), fontsize=SMALL, color=MUTED, labelpad=0)
    clock = ax.text(0.02, 0.97, "", transform=ax.transAxes, va="top", fontsize=SMALL, color=MUTED)
    body, canvas, frames = _sticks(lines[0]), FigureCanvasAgg(figure), []
    ax.add_collection(body, autolim=False)
    _draw_ground(ax, -wide, wide, top)
    for step, now, x in zip(steps, lines, _middle(lines), strict=True):
        body.set_segments(list(now))
        ax.set_xlim(x - wide, x + wide)
        clock.set_text(_plain(_moment(int(step), scene)))
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return frames


def _render(states: np.ndarray, scene: Scene) -> np.ndarray:
    """The simulator's own pictures [N, height, width, 3]."""
    if scene.render is None:
        raise PoiseError("there is nothing to render: this domain has no simulator that makes pictures")
    return np.asarray(scene.render(states))


def _draw_pictures(ax: Axes, pictures: np.ndarray, places: np.ndarray, pitch: float, count: int) -> None:
    """Pictures side by side, where their places are."""
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
    """Where each of the bodies [time, K, 2, 2] is, across."""
    return lines[..., 0].mean(axis=(1, 2))


def _reach(lines: np.ndarray) -> float:
    """How far the widest of the bodies goes from its middle."""
    return float(np.abs(lines[..., 0] - _middle(lines)[:, None, None]).max())


def _sticks(lines: np.ndarray) -> LineCollection:
    return LineCollection(list(lines), linewidths=STICK, colors=OBEYS, capstyle="round", zorder=3)


def _draw_ground(ax: Axes, left: float, right: float, top: float) -> None:
    ax.set_xlim(left, right)
    ax.set_ylim(-0.03 * top, 1.07 * top)
    ax.set_aspect("equal")
    ax.axhline(0, color=FAINT, linewidth=1.0, zorder=1)
    ax.set_yticks([])
    ax.spines[["left", "bottom"]].set_visible(False)


def _moment(step: int, scene: Scene) -> str:
    return f"{step / scene.hertz:.1f} s" if scene.hertz else f"step {step}"


# Scores


def draw_scores(inspection: Inspection) -> Figure:
    """One histogram a style, cut at its thresholds, with the name and the share of each class."""
    styles = inspection.styles
    columns = min(3, len(styles))
    figure, axes = _grid(len(styles), columns, 2.5, min(PAGE, 4.2 * columns))
    for i, (ax, style) in enumerate(zip(axes, styles, strict=True)):
        scores, cuts = np.asarray(inspection.scores[i], float), np.asarray(style.thresholds or (), float)
        edges = _edges(scores, cuts)
        ax.hist(np.clip(scores, edges[0], edges[-1]), bins=edges.tolist(), color=BARS, edgecolor="white", linewidth=0.4)
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0, ax.get_ylim()[1] * 1.38)
        for cut in cuts:
            ax.axvline(cut, ymax=0.8, color=INK, linewidth=1.0, linestyle=(0, (4, 2)))
        counts = np.asarray(inspection.counts(i))
        _name_classes(ax, style.classes, [edges[0], *cuts, edges[-1]], (counts / counts.sum()).tolist())
        ax.set_xlabel(_plain(f"{style.name} ({style.unit})" if style.unit else style.name), fontsize=TEXT, color=INK)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.set_ylabel("demonstrations", fontsize=SMALL, color=MUTED)
    return figure


def _edges(scores: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Edges of bins over all but the last half percent of each tail, which is counted in the outer bins."""
    low, high = np.quantile(scores, [0.005, 0.995])
    low, high = min([low, *cuts]), max([high, *cuts])
    margin = 0.04 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, int(np.clip(1.5 * np.sqrt(len(scores)), 12, 40)) + 1)


def _name_classes(ax: Axes, classes: Sequence[str], ends: Sequence[float], shares: Sequence[float]) -> None:
    """Writes each class above its part of the axis, moved aside where its neighbour needs the room."""
    count, parts = len(classes), (np.asarray(ends) - ends[0]) / (ends[-1] - ends[0])
    places, room = (parts[:-1] + parts[1:]) / 2, min(0.22, 1 / count)
    places[0] = max(places[0], room / 2)
    for k in range(1, count):
        places[k] = max(places[k], places[k - 1] + room)
    places = np.minimum(places, 1 - room / 2 - room * np.arange(count)[::-1])
    for place, name, share in zip(places, classes, shares, strict=True):
        words = _plain(f"{name}\n{_percent(share)}")
        ax.text(place, 1.0, words, transform=ax.transAxes, ha="center", va="top", fontsize=SMALL, color=INK)


# Learning curves


def draw_curves(metrics: Sequence[dict[str, Any]]) -> Figure:
    """One panel a stage and loss, from the lines of metrics.jsonl: training thin, validation thick, a line a seed.

    The turns of a stage are one curve.
    """
    names = list(dict.fromkeys((line["stage"], name) for line in metrics for name in line["losses"]))
    if not names:
        raise PoiseError("there are no learning curves to draw: metrics.jsonl has no losses yet")
    columns = min(4, len(names))
    figure, axes = _grid(len(names), columns, 1.9, min(PAGE, 3.4 * columns))
    for ax, (stage, name) in zip(axes, names, strict=True):
        lines = [line for line in metrics if line["stage"] == stage and name in line["losses"]]
        steps = np.array([line["step"] for line in lines])
        training, validation = _values(lines, "losses", name), _values(lines, "validation", name)
        ax.plot(steps, training, color=FAILS, linewidth=0.7, alpha=0.7)
        ax.plot(steps, validation, color=OBEYS, linewidth=1.8, alpha=0.55)
        _fit_height(ax, np.concatenate([training, validation], axis=1))
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
        ax.set_xlabel("step", fontsize=SMALL, color=MUTED)
        _title(ax, f"{stage}: {name}")
    keys = [
        Line2D([], [], color=FAILS, linewidth=0.8, label="training"),
        Line2D([], [], color=OBEYS, linewidth=2.2, alpha=0.7, label="validation"),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=2, frameon=False, fontsize=TEXT, labelcolor=INK)
    return figure


def _values(lines: Sequence[dict[str, Any]], part: str, name: str) -> np.ndarray:
    """Values [steps, seeds] of a loss; a gap where a value was not finite or not measured."""
    seeds = len(lines[0]["losses"][name])
    rows = [line.get(part, {}).get(name) or [None] * seeds for line in lines]
    return np.array([[np.nan if value is None else value for value in row] for row in rows], float)


def _fit_height(ax: Axes, values: np.ndarray) -> None:
    """Limits that hold all but the first twentieth of the curves, which often starts far above the rest."""
    later = values[len(values) // 20 :]
    if not np.isfinite(later).any():
        return
    low, high = np.nanmin(later), np.nanmax(later)
    margin = 0.06 * (high - low) or 0.5
    ax.set_ylim(low - margin, high + margin)


# Style-consistency


def draw_consistency(report: Report) -> Figure:
    """Joint style-consistency of each algorithm, then each style's: a dot a seed with its interval, and the median."""
    algorithms = report.algorithms
    names = list(next(iter(algorithms.values()))[0].by_style)
    titles = ["all styles at once", *names] if len(names) > 1 else names
    base = report.about["base_rate"]["own"]
    columns = min(3, len(titles))
    seeds = max(len(scores) for scores in algorithms.values())
    row = 0.3 + 0.1 * min(seeds, 8)
    figure, axes = _grid(len(titles), columns, 0.75 + row * len(algorithms), min(PAGE, 3 + 3 * columns))
    for i, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        joint = i == 0
        rows = {
            algorithm: [(score.joint if joint else score.by_style[title], not score.stopped) for score in scores]
            for algorithm, scores in algorithms.items()
        }
        _draw_shares(ax, rows, names_shown=i % columns == 0)
        if joint:
            ax.axvline(100 * base, color=INK, linewidth=1.1, linestyle=(0, (1, 1.5)), zorder=1)
        _title(ax, title)
    keys = [
        _dot_key("one seed, with its 95 % interval", OBEYS),
        Line2D([], [], color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), label=f"ignores labels: {_percent(base)}"),
    ]
    if any(score.stopped for scores in algorithms.values() for score in scores):
        keys.insert(1, _dot_key("stopped early", "white"))
    figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False, fontsize=TEXT, labelcolor=INK)
    return figure


def draw_classes(scores: SeedScore, styles: Sequence[LabelingFunction]) -> Figure:
    """One panel a style: the consistency of rollouts asked for each of its classes, with intervals."""
    columns = min(3, len(styles))
    most = max(len(style.classes) for style in styles)
    figure, axes = _grid(len(styles), columns, 0.7 + 0.26 * most, min(PAGE, 4.2 * columns))
    for ax, style in zip(axes, styles, strict=True):
        by_class = scores.by_class[style.name]
        _draw_shares(ax, {name: [(by_class[name], not scores.stopped)] for name in style.classes})
        _title(ax, style.name)
    return figure


def _draw_shares(ax: Axes, rows: dict[str, list[tuple[Share, bool]]], names_shown: bool = True) -> None:
    """Named rows of shares in percent; the median stands at the right."""
    for y, shares in enumerate(rows.values()):
        offsets = (np.arange(len(shares)) - (len(shares) - 1) / 2) * min(0.2, 0.7 / len(shares))
        seen = [(share, fine, y + shift) for (share, fine), shift in zip(shares, offsets, strict=True) if share.count]
        for share, fine, place in seen:
            ax.plot([100 * share.low, 100 * share.high], [place, place], color=OBEYS, linewidth=1.3, alpha=0.55)
            filled = OBEYS if fine else "white"
            ax.plot(100 * share.value, place, "o", markersize=4.5, markerfacecolor=filled, markeredgecolor=OBEYS)
        words = _percent(float(np.median([share.value for share, _, _ in seen]))) if seen else "no rollouts"
        ax.text(1.02, y, words, transform=ax.get_yaxis_transform(), va="center", fontsize=TEXT, color=INK)
    ax.set_xlim(-2, 102)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    ax.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6)
    ax.set_axisbelow(True)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_yticks(range(len(rows)), [_plain(name) for name in rows] if names_shown else [""] * len(rows))
    ax.tick_params(axis="y", labelsize=TEXT, labelcolor=INK)


def _dot_key(words: str, inside: str) -> Line2D:
    return Line2D(
        [],
        [],
        color=OBEYS,
        marker="o",
        markersize=4.5,
        markerfacecolor=inside,
        markeredgecolor=OBEYS,
        linewidth=1.3,
        label=words,
    )


# Noisy labels

Points = Sequence[tuple[float, float]]


def draw_noise(measured: Mapping[str, Points], printed: Mapping[str, Points]) -> Figure:
    """What noise costs: a line a style of (label disagreement, relative change of style-consistency), as shares.

    The paper's points are hollow and faint; a style on the diagonal loses as much as its labels disagree.
    """
    figure, (ax,) = _grid(1, 1, 4.0, 0.75 * PAGE)
    keys = []
    for (name, points), (color, marker) in zip(measured.items(), SERIES, strict=False):
        look: dict[str, Any] = {"color": color, "marker": marker, "markersize": 5}
        if name in printed:
            faint = {**look, "linestyle": (0, (1, 2)), "linewidth": 0.9, "alpha": 0.5, "markerfacecolor": "white"}
            ax.plot(*(100 * np.asarray(printed[name])).T, **faint, zorder=2)
        keys += ax.plot(*(100 * np.asarray(points)).T, **look, linewidth=1.4, label=_plain(name), zorder=3)
    for line in ax.lines:
        line.set_markevery(slice(1, None))  # all lines start without noise, where nothing changes
    far = max(ax.get_xlim()[1], 1.0)
    keys += ax.plot([0, far], [0, -far], color=INK, linewidth=1.1, label="one to one", zorder=1)
    hollow: dict[str, Any] = {"marker": "o", "markersize": 5, "markerfacecolor": "white", "linestyle": (0, (1, 2))}
    keys.append(Line2D([], [], color=MUTED, linewidth=0.9, **hollow, label="in the paper"))
    ax.axhline(0, color=FAINT, linewidth=0.8, zorder=0)
    ax.set_xlim(0, far)
    ax.set_xlabel("label disagreement (%)", fontsize=TEXT, color=INK)
    ax.set_ylabel("relative change of style-consistency (%)", fontsize=TEXT, color=INK)
    figure.legend(handles=keys, loc="outside right center", frameon=False, fontsize=TEXT, labelcolor=INK)
    return figure


# What all figures share


def _grid(count: int, columns: int, height: float, width: float, layout: Any = None) -> tuple[Figure, list[Axes]]:
    """A white figure with `count` clean panels, row by row; `height` in inches is a row's."""
    rows = -(-count // columns)
    figure = Figure(figsize=(width, rows * height + 0.3), layout=layout or "constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.06, h_pad=0.06, wspace=0.04 if columns > 1 else 0)
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(FAINT)
        ax.tick_params(labelsize=SMALL, labelcolor=MUTED, color=FAINT, length=3)
    return figure, axes


def _title(ax: Axes, words: str) -> None:
    ax.set_title(_plain(words), fontsize=TITLE, color=INK, loc="left")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _plain(words: str) -> str:
    """Words as they are: a dollar sign starts no formula."""
    return words.replace("$", r"\$")
