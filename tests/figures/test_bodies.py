"""Gaits: strips and animations of stick figures and of rendered pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from figure_helpers import POLE, SQUARE, hopping, line_collections, scored_walks
from PIL import Image

from poise import PoiseError
from poise.figures import animate, bodies, draw_strips, first_gait, save_animation


def grey(states):
    """Pictures whose shade of grey is the position of the pole."""
    return np.tile((10 * states[:, :1, None, None]).astype(np.uint8), (1, 6, 8, 3))


RENDERED = replace(POLE, render=grey)


def tick_labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_xticklabels()]


def seconds_of(image) -> float:
    """How long an animation takes."""
    seconds = 0
    for frame in range(image.n_frames):
        image.seek(frame)
        seconds += image.info["duration"] / 1000
    return seconds


def test_a_strip_gives_the_time_and_the_distance_of_each_figure():
    figure = draw_strips([("hops", hopping()), ("short", hopping(4))], POLE)
    long, short = figure.axes
    assert [len(line_collections(ax)[0].get_segments()) for ax in (long, short)] == [bodies.FIGURES, 4]
    words = tick_labels(long)
    assert (words[0], words[-1]) == ("0.0 s\n0.0 m", "4.0 s\n4.0 m")
    for ax in figure.axes:
        points = np.concatenate(line_collections(ax)[0].get_segments())
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        assert ((left < points[:, 0]) & (points[:, 0] < right)).all()
        assert ((bottom < points[:, 1]) & (points[:, 1] < top)).all()


def test_an_animation_takes_as_long_as_the_trajectory(tmp_path):
    save_animation(hopping(21), POLE, tmp_path / "hops.gif")
    with Image.open(tmp_path / "hops.gif") as made:
        assert made.format == "GIF"
        assert seconds_of(made) == pytest.approx(2.0, abs=0.1)


def test_rendered_strips_hold_the_pictures_of_their_own_row_in_the_same_places():
    rows = [("hops", hopping()), ("late", hopping()[20:])]
    sticks, rendered = (draw_strips(rows, RENDERED, kind) for kind in (False, True))
    for (_, states), one, other in zip(rows, sticks.axes, rendered.axes, strict=True):
        assert tick_labels(one) == tick_labels(other)
        shown = [int(np.asarray(image.get_array())[0, 0, 0]) for image in other.images]
        assert len(shown) == bodies.FIGURES
        assert (shown[0], shown[-1]) == (int(10 * states[0, 0]), int(10 * states[-1, 0]))
        assert other.get_xlim() == one.get_xlim()


def test_a_rendered_animation_takes_as_long_as_the_trajectory(tmp_path):
    save_animation(hopping(21), RENDERED, tmp_path / "hops.gif", rendered=True)
    with Image.open(tmp_path / "hops.gif") as made:
        assert made.size == (8, 6)
        assert seconds_of(made) == pytest.approx(2.0, abs=0.1)
    with pytest.raises(PoiseError, match="no simulator that makes pictures"):
        animate(hopping(), POLE, rendered=True)


def test_a_gait_is_the_first_finite_rollout_right_or_wrong():
    made = scored_walks(4, right=2, lengths=[10, 4, 10, 6])
    for first, (length, is_right) in {0: (10, True), 1: (4, True), 3: (6, False)}.items():
        states, right = first_gait(replace(made, finite=np.arange(4) >= first))
        assert (len(states), right) == (length + 1, is_right)
        np.testing.assert_array_equal(states, np.asarray(made.rollouts.states)[first, : length + 1])
    with pytest.raises(PoiseError, match="none of 4 rollouts stayed finite"):
        first_gait(replace(made, finite=np.zeros(4, bool)))


def test_stick_figures_that_cannot_be_drawn_raise_one_clear_line(tmp_path):
    with pytest.raises(PoiseError, match="no trajectories were given"):
        draw_strips([], POLE)
    with pytest.raises(PoiseError, match="this domain's scene has no body"):
        draw_strips([("walk", hopping())], SQUARE)
    with pytest.raises(PoiseError, match="not finite"):
        animate(hopping() * np.nan, POLE)
    with pytest.raises(PoiseError, match=r"an animation is a \.gif; got 'a.mp4'"):
        save_animation(hopping(), POLE, tmp_path / "a.mp4")
