"""Figures of feasibility and of the front: nothing is hidden, nothing relies on colour, and every label is readable."""

from __future__ import annotations

import numpy as np
import pytest
from figure_helpers import POLE, SQUARE, pace, titles
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from poise import PoiseError
from poise.domains.base import Scene
from poise.evaluation.feasibility import Feasibility
from poise.figures import encode
from poise.figures import feasibility as reach
from poise.figures.feasibility import draw_reach, draw_reach_bars, find_levels, level_names
from poise.figures.front import draw_front, draw_guidance
from poise.rollouts.requests import FREE, Request

POINTS = [
    ("ctvae", "one try", 0.79, 0.10),
    ("ctvae", "verified", 0.80, 0.58),
    ("ctvae-style", "one try", 0.96, 0.74),
    ("ctvae-style", "verified", 0.96, 0.93),
    ("flow", "unsteered", 0.52, 0.63),
    ("flow", "unsteered, verified", 0.54, 0.993),
    ("flow", "steered", 0.575, 0.957),
    ("flow", "steered, verified", 0.58, 0.997),
    ("flow-style", "steered", 0.60, 0.968),
    ("flow-style", "steered, verified", 0.605, 0.998),
]


def feasibility(labels, tries, allowed: int = 16, size: int = 2) -> Feasibility:
    """Requests that were reached in fewer tries than allowed; style by style, all from other starts in the square."""
    labels, tries = np.asarray(labels, np.int32), np.asarray(tries, np.int32)
    labels = labels[:, None] if labels.ndim == 1 else labels
    starts = np.random.default_rng(0).uniform(1, 8, (len(labels), size)).astype(np.float32)
    styles = (pace, pace.__class__("other", pace.score, ("no", "yes")))[: labels.shape[1]]
    request = Request(starts, labels, np.full(len(labels), 10, np.int32), 10)
    return Feasibility(styles, request, tries < allowed, tries, allowed)


EVERY = feasibility([0, 0, 0, 0, 0, 2, 2], [1, 2, 4, 5, 16, 1, 1])


def drawn(axes) -> list[int]:
    """How many starts are drawn at each level of tries."""
    return [len(one.get_offsets()) for one in axes.collections]


def test_starts_are_sorted_by_one_try_few_many_and_never():
    assert find_levels(EVERY).tolist() == [0, 1, 1, 2, 3, 0, 0]
    assert drawn(draw_reach(EVERY, "pace", SQUARE).axes[0]) == [1, 2, 1, 1]


def test_there_is_one_panel_per_class_with_the_share_that_was_reached():
    assert titles(draw_reach(EVERY, "pace", SQUARE)) == [
        "pace=low: 80 %",
        "pace=middle: not asked for",
        "pace=high: 100 %",
    ]


def test_a_start_is_drawn_where_it_is_in_the_columns_of_the_scene():
    wide = feasibility([0, 1, 2], [1, 1, 1], size=4)
    axes = draw_reach(wide, "pace", Scene(columns=(3, 1))).axes[1]
    np.testing.assert_allclose(np.asarray(axes.collections[0].get_offsets()), wide.starts[[1]][:, [3, 1]])


def test_levels_of_tries_differ_in_marker_or_filling_not_in_colour_alone():
    one = draw_reach(EVERY, "pace", SQUARE).axes[0].collections
    shapes = [(len(np.asarray(c.get_paths()[0].vertices)), np.asarray(c.get_facecolor()).tobytes()) for c in one]
    assert len(set(shapes)) == 4
    patches = {(bar.get_hatch(), to_hex(bar.get_facecolor())) for bar in draw_reach_bars(EVERY).axes[0].patches}
    assert len(patches) == 4


def test_what_was_never_reached_lies_on_top():
    orders = [one.get_zorder() for one in draw_reach(EVERY, "pace", SQUARE).axes[0].collections]
    assert orders == sorted(orders)


def test_all_starts_are_counted_but_only_some_are_drawn():
    many = feasibility(np.zeros(3 * reach.DRAWN), np.where(np.arange(3 * reach.DRAWN) % 4, 1, 16))
    figure = draw_reach(many, "pace", SQUARE)
    assert sum(drawn(figure.axes[0])) == reach.DRAWN
    assert titles(figure)[0] == "pace=low: 75 %"
    assert f"{reach.DRAWN} of {3 * reach.DRAWN}" in figure.legends[0].get_title().get_text()


@pytest.mark.parametrize("scene", [Scene(columns=(0, 0)), POLE, Scene(columns=(0, 5))])
def test_a_scene_without_places_in_the_plane_is_drawn_as_bars(scene):
    axes = draw_reach(EVERY, "pace", scene).axes[0]
    assert not axes.collections
    scale = np.ptp(axes.bbox.intervalx) / 100
    widths = np.reshape([np.ptp(bar.get_extents().intervalx) for bar in axes.patches], (2, 4))
    np.testing.assert_allclose(widths / scale, [[20, 40, 20, 20], [100, 0, 0, 0]], atol=0.01)
    assert [text.get_text() for text in axes.texts] == ["80 %", "not asked for", "100 %"]


def test_bars_have_one_panel_per_style_and_leave_out_what_was_left_free():
    both = feasibility([[0, 1], [1, FREE], [2, 1]], [1, 16, 16])
    figure = draw_reach_bars(both)
    assert titles(figure) == ["pace", "other"]
    assert [text.get_text() for text in figure.axes[1].texts] == ["not asked for", "50 %"]


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (1, ["in 1 try", "not in 1 try"]),
        (2, ["in 1 try", "in 2 tries", "not in 2 tries"]),
        (4, ["in 1 try", "in 2–4 tries", "not in 4 tries"]),
        (5, ["in 1 try", "in 2–4 tries", "in 5 tries", "not in 5 tries"]),
        (16, ["in 1 try", "in 2–4 tries", "in 5–16 tries", "not in 16 tries"]),
    ],
)
def test_the_legend_names_only_what_so_many_tries_can_show(allowed, words):
    assert [*level_names(feasibility([0], [1], allowed)).values()] == words


def test_a_style_that_is_not_known_or_not_asked_for_raises_one_clear_line():
    with pytest.raises(PoiseError, match="unknown style 'pase'"):
        draw_reach(EVERY, "pase", SQUARE)
    with pytest.raises(PoiseError, match="no request asks for a class of pace"):
        draw_reach(feasibility([FREE, FREE], [1, 1]), "pace", SQUARE)


@pytest.fixture(scope="module")
def front():
    figure = draw_front(POINTS, 0.507, "right and in range")
    figure.draw_without_rendering()
    return figure


def labels(figure) -> list[Annotation]:
    return [text for text in figure.axes[0].texts if "against" not in text.get_text()]


def test_the_front_names_every_point_at_its_place(front):
    named = {label.get_text(): label.xy for label in labels(front)}
    assert named == {f"{name}, {way}": (c2st, pytest.approx(100 * right)) for name, way, c2st, right in POINTS}


def test_no_label_of_the_front_covers_another_or_a_marker_or_leaves_the_axes(front):
    axes, boxes = front.axes[0], [label.get_window_extent() for label in front.axes[0].texts]
    points = axes.transData.transform([(c2st, 100 * right) for _, _, c2st, right in POINTS])
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :]), front.axes[0].texts[i].get_text()
        assert not any(box.contains(*point) for point in points)
        assert axes.bbox.x0 <= box.x0
        assert box.x1 <= axes.bbox.x1
        assert axes.bbox.y0 <= box.y0
        assert box.y1 <= axes.bbox.y1


def test_a_label_that_is_not_beside_its_point_is_joined_to_it(front):
    axes = front.axes[0]
    starts = [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_zorder() == 1.5]
    for label in labels(front):
        far = np.hypot(*label.get_position()) > 9.5
        assert any(np.allclose(start, label.xy) for start in starts) == far, label.get_text()


def test_algorithms_differ_in_marker_and_the_best_realism_is_at_the_left(front):
    axes = front.axes[0]
    markers = {line.get_marker() for line in axes.lines if line.get_linestyle() == "None"}
    assert len(markers) == 4
    left, right = axes.get_xlim()
    assert left < 0.5 < 0.52 < right
    assert left > 0.48


def test_a_point_without_a_c2st_is_left_out_and_none_at_all_raises_one_clear_line():
    figure = draw_front([("flow", "", 0.52, 0.9), ("rnn", "", None, 0.1), ("old", "", float("nan"), 0.1)])
    assert [label.get_text() for label in labels(figure)] == ["flow"]
    with pytest.raises(PoiseError, match="no point has a C2ST"):
        draw_front([("rnn", "", None, 0.1)])


def test_guidance_is_drawn_in_order_on_two_panels_that_share_it():
    figure = draw_guidance([(2.0, 0.9, 0.6), (0.0, 0.5, 0.52), (1.0, 0.8, 0.54)], floor=0.5, chosen=1.0)
    upper, lower = figure.axes
    np.testing.assert_allclose(np.asarray(upper.lines[0].get_xydata()), [(0, 50), (1, 80), (2, 90)])
    np.testing.assert_allclose(np.asarray(lower.lines[0].get_ydata()), [0.52, 0.54, 0.6])
    lower.set_xlim(-3, 3)
    assert upper.get_xlim() == (-3, 3)
    assert encode(figure, "svg").startswith(b"<?xml")
    with pytest.raises(PoiseError, match="no guidance was tried"):
        draw_guidance([])
