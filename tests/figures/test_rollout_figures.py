"""Figures of rollouts: all are counted, right and wrong differ without colour, and everything fits in the panel."""

from __future__ import annotations

import numpy as np
import pytest
from figure_helpers import SQUARE, line_collections, scored_walks, titles

from poise import PoiseError, Trajectories
from poise.domains.base import Scene
from poise.evaluation.scored import ScoredRollouts
from poise.figures import draw_rollouts, rollouts


def test_there_is_one_panel_per_title_with_the_share_of_right_rollouts():
    figure = draw_rollouts([("pace=low", scored_walks(4, 1)), ("pace=high", scored_walks(4, 4))], SQUARE)
    assert titles(figure) == ["pace=low: 25 %", "pace=high: 100 %"]


def test_wrong_rollouts_differ_in_line_and_marker_not_in_colour_alone():
    axes = draw_rollouts([("pace=low", scored_walks())], SQUARE).axes[0]
    right, wrong = line_collections(axes)
    assert right.get_linestyle() != wrong.get_linestyle()
    ends = [one for one in axes.collections if one.get_zorder() == 5]
    assert not np.array_equal(ends[0].get_paths()[0].vertices, ends[1].get_paths()[0].vertices)


def test_a_line_stops_at_the_length_of_its_rollout():
    axes = draw_rollouts([("pace=low", scored_walks(3, 3, lengths=[2, 10, 5]))], SQUARE).axes[0]
    assert [len(line) for line in line_collections(axes)[0].get_segments()] == [3, 11, 6]


def test_all_rollouts_are_counted_but_only_some_are_drawn():
    axes = draw_rollouts([("pace=low", scored_walks(1000, 250))], SQUARE).axes[0]
    assert sum(len(one.get_segments()) for one in line_collections(axes)) == rollouts.DRAWN
    assert axes.get_title(loc="left").endswith("25 %")


def test_a_single_state_is_drawn_against_time():
    axes = draw_rollouts([("pace=low", scored_walks(2, 2, size=1))], Scene(columns=(0, 0))).axes[0]
    assert line_collections(axes)[0].get_segments()[0][:, 0].tolist() == list(range(11))
    assert axes.get_xlabel() == "step"


def test_columns_of_similar_scale_have_equal_aspect_and_others_do_not():
    narrow = scored_walks()
    stretched = ScoredRollouts(
        Trajectories(np.asarray(narrow.rollouts.states) * [1, 100]), narrow.right, narrow.finite, narrow.scored
    )
    aspects = [draw_rollouts([("", one)], Scene()).axes[0].get_aspect() for one in (narrow, stretched)]
    assert aspects == [1.0, "auto"]


def test_every_panel_shows_every_rollout_where_the_scene_has_no_limits():
    figure = draw_rollouts([("a", scored_walks()), ("b", scored_walks(8))], Scene())
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}) == 1
    (left, right), points = (
        figure.axes[0].get_xlim(),
        np.concatenate(line_collections(figure.axes[1])[1].get_segments()),
    )
    assert left < points[:, 0].min()
    assert points[:, 0].max() < right


def test_no_panels_raise_one_clear_line():
    with pytest.raises(PoiseError, match="no rollouts were given"):
        draw_rollouts([], SQUARE)
