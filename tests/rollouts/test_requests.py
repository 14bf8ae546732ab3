"""Requests: where rollouts start, and how the words of a user become labels."""

from __future__ import annotations

import numpy as np
import pytest

from poise import PoiseError, labeling_function
from poise.rollouts.requests import Request, check_draw, draw_labels, find_classes, parse_words, with_classes


@labeling_function(classes=("slow", "fast"), thresholds=(1.0,))
def speed(states, actions):
    return abs(actions).mean()


@labeling_function(classes=("near", "middle", "far"), thresholds=(1.0, 2.0))
def distance(states, actions):
    return abs(states[-1] - states[0]).sum()


STYLES = (speed, distance)
KNOWN = np.asarray([[0, 0], [0, 2], [1, 1], [1, 2]], np.int32)


def test_words_of_a_command_and_of_python_name_the_same_classes():
    words = parse_words([" distance = far ", "speed=0"], STYLES)
    assert words == {"distance": 2, "speed": 0}
    assert find_classes(STYLES, words) == find_classes(STYLES, {"distance": "far", "speed": "slow"}) == {1: 2, 0: 0}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["speed"], "a style is asked for as name=class, for example speed=slow; got 'speed'"),
        (["sped=slow"], "unknown style 'sped'; did you mean 'speed'?"),
        (["speed=fsat"], "unknown class of style 'speed' 'fsat'; did you mean 'fast'?"),
        (["speed=slow", "speed=fast"], "style 'speed' is asked for twice; ask once"),
    ],
)
def test_words_that_ask_for_nothing_that_there_is_are_refused(words, line):
    with pytest.raises(PoiseError) as error:
        parse_words(words, STYLES)
    assert str(error.value) == line


def test_an_unknown_style_is_refused_in_python_too():
    with pytest.raises(PoiseError, match="unknown style 'sped'; did you mean 'speed'"):
        find_classes(STYLES, {"sped": "slow"})


def test_rows_are_drawn_among_those_with_the_wanted_classes():
    rows, labels = draw_labels(KNOWN, {1: 2}, 50, np.random.default_rng(0))
    assert set(rows.tolist()) == {1, 3}
    np.testing.assert_array_equal(labels, KNOWN[rows])


def test_where_no_row_has_the_wanted_classes_the_labels_of_other_styles_are_those_of_any_row():
    wanted = {0: 0, 1: 1}
    rows, labels = draw_labels(KNOWN[:, :2], wanted, 50, np.random.default_rng(0))
    assert set(rows.tolist()) == {0, 1, 2, 3}
    assert {tuple(label) for label in labels.tolist()} == {(0, 1)}


def test_wanted_classes_change_a_copy():
    assert with_classes(KNOWN, {0: 1})[:, 0].tolist() == [1, 1, 1, 1]
    assert KNOWN[:, 0].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("draw", [-1, 2**31])
def test_a_draw_that_is_no_seed_is_refused(draw):
    with pytest.raises(PoiseError, match="a draw is a whole number between 0 and"):
        check_draw(draw)


def test_a_request_like_demonstrations_starts_where_they_start_and_is_as_long(ragged):
    labels = np.arange(len(ragged), dtype=np.int32)[:, None]
    request = Request.like(ragged, labels)
    assert (len(request), request.steps) == (len(ragged), ragged.steps)
    np.testing.assert_array_equal(request.starts, ragged.starts)
    np.testing.assert_array_equal(request.lengths, ragged.lengths)
    chosen = request.rows(np.asarray([3, 3, 1]))
    assert chosen.steps == request.steps
    np.testing.assert_array_equal(chosen.labels, [[3], [3], [1]])
    np.testing.assert_array_equal(chosen.starts, np.asarray(ragged.starts)[[3, 3, 1]])
    np.testing.assert_array_equal(chosen.lengths, np.asarray(ragged.lengths)[[3, 3, 1]])
    other = request.with_labels(labels + 1)
    np.testing.assert_array_equal(other.labels, labels + 1)
    np.testing.assert_array_equal(other.starts, request.starts)
