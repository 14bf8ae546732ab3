"""The scene that figures share: its limits hold what is drawn, and a field is never stretched."""

from __future__ import annotations

import numpy as np
import pytest
from figure_helpers import POLE, SQUARE

from poise.domains.base import Scene
from poise.figures.scenes import equal_scales, find_limits, has_positions


@pytest.mark.parametrize(
    ("scene", "size", "places"),
    [(SQUARE, 2, True), (SQUARE, 1, False), (Scene(columns=(0, 0)), 2, False), (POLE, 2, False)],
)
def test_a_state_is_a_place_if_it_has_both_columns_and_is_no_body(scene, size, places):
    assert has_positions(scene, size) == places


def test_limits_show_a_little_around_a_scene_and_no_more():
    low, high = find_limits(np.array([[-100.0, 4.0], [4.0, 9.5]]), SQUARE, beyond=0.1)
    np.testing.assert_allclose(low, [-0.9, 0.0])
    np.testing.assert_allclose(high, [9.0, 9.68])


def test_limits_hold_every_point_where_the_scene_has_none():
    low, high = find_limits(np.array([[-100.0, 4.0], [4.0, 9.5]]), Scene())
    assert (low < [-100, 4]).all()
    assert (high > [4, 9.5]).all()
    assert np.isfinite(find_limits(np.zeros((0, 2)), Scene())).all()


def test_a_field_has_equal_scales_whatever_is_drawn_on_it_and_time_never_has():
    low, high = np.zeros(2), np.array([100.0, 1.0])
    assert equal_scales(SQUARE, low, high)
    assert not equal_scales(Scene(), low, high)
    assert equal_scales(Scene(), low, np.array([3.0, 1.0]))
    assert not equal_scales(Scene(columns=(0, 0)), low, np.array([1.0, 1.0]))
