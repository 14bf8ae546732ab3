"""Labeling functions: thresholds, classes by name, and where styles are found."""

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import DOMAINS, LabelingFunction, PoiseError, labeling_function
from poise.styles.labeling_functions import load_style

SPEED = DOMAINS["basketball"].styles["speed"]


@given(st.integers(2, 6), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_quantile_classes_are_balanced_on_distinct_scores(count, seed):
    scores = np.random.default_rng(seed).normal(size=240).astype(np.float32)
    style = SPEED.with_classes(count).fit_scores(scores)
    shares = np.bincount(style.classify(scores), minlength=count) / 240
    assert np.abs(shares - 1 / count).max() <= 1 / 240 + 1e-9


@given(st.lists(st.integers(0, 4), min_size=20, max_size=60), st.integers(2, 5))
def test_ties_never_leave_a_class_empty(values, count):
    scores = np.asarray(values, np.float32)
    style = SPEED.with_classes(count)
    if len(set(values)) < count:
        with pytest.raises(PoiseError, match=r"distinct scores|one class only"):
            style.fit_scores(scores)
    else:
        assert (np.bincount(style.fit_scores(scores).classify(scores), minlength=count) > 0).all()


def test_given_thresholds_are_kept_and_a_score_on_one_belongs_above():
    style = labeling_function(SPEED.score, thresholds=(1.0, 2.0))
    assert style.fit_scores(np.zeros(3, np.float32)).thresholds == (1.0, 2.0)
    assert style.classify(np.asarray([0.5, 1.0, 1.5, 2.0, 9.0], np.float32)).tolist() == [0, 1, 1, 2, 2]


def test_a_yes_or_no_function_needs_no_thresholds(walks):
    @labeling_function(classes=("no", "yes"))
    def ends_right(states, actions):
        return states[-1, 0] > 0

    assert ends_right.label(walks).tolist() == (walks.states[:, -1, 0] > 0).astype(int).tolist()


@pytest.mark.parametrize(
    ("classes", "thresholds", "message"),
    [
        (("all",), None, r"style 'mine' needs at least 2 classes; got \['all'\]"),
        (("low", "low"), None, "the classes of style 'mine' need different names"),
        (("low", "high"), (1.0, 2.0), "has 2 classes and so 1 thresholds; got 2"),
        (("low", "middle", "high"), (2.0, 1.0), r"the thresholds of style 'mine' must rise; got \[2.0, 1.0\]"),
    ],
)
def test_classes_and_thresholds_that_do_not_fit_are_refused(classes, thresholds, message):
    with pytest.raises(PoiseError, match=message):
        labeling_function(SPEED.score, name="mine", classes=classes, thresholds=thresholds)


def test_a_style_without_thresholds_has_no_classes_yet():
    with pytest.raises(PoiseError, match="has no thresholds yet; fit it on training demonstrations first"):
        SPEED.classify(np.zeros(3, np.float32))


def test_a_class_is_asked_for_by_word_or_number():
    assert (SPEED.index("fast"), SPEED.index(" Fast "), SPEED.index("2")) == (2, 2, 2)
    with pytest.raises(PoiseError, match="unknown class of style 'speed' 'fats'; did you mean 'fast'"):
        SPEED.index("fats")
    for number in ("3", "-1", "²"):
        with pytest.raises(PoiseError, match="unknown class"):
            SPEED.index(number)


def test_a_number_is_the_class_itself_and_a_word_comes_first():
    level = labeling_function(lambda s, a: 0.0, name="level", classes=("1", "2", "3"))
    assert (level.index("2"), level.index(2), level.index("0")) == (1, 2, 0)


def test_other_numbers_of_classes_keep_the_outer_names():
    assert SPEED.with_classes(2).classes == ("slow", "fast")
    assert SPEED.with_classes(4).classes == ("slow", "class-2", "class-3", "fast")
    assert SPEED.with_classes(3) is SPEED


def test_more_classes_than_distinct_values_are_refused():
    style = LabelingFunction("coin", lambda s, a: jnp.sign(s[0, 0]))
    with pytest.raises(PoiseError, match="2 distinct scores, too few for 3 classes; ask for --classes 2 at most"):
        style.fit(wander(30))


def test_a_style_is_found_by_name_or_in_a_file(tmp_path):
    known = DOMAINS["basketball"].styles
    file = tmp_path / "mine.py"
    file.write_text("def wiggle(states, actions):\n    return abs(actions).sum()\n\nfactor = 3\n")
    assert load_style("speed", known).name == "speed"
    assert load_style(f"{file}:wiggle", known).classes == ("low", "medium", "high")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "neighbour.py").write_text("from mine import wiggle as jiggle\n")
    assert load_style(f"{tmp_path / 'neighbour.py'}:jiggle", known).name == "wiggle"
    for spec, message in (
        ("spped", "did you mean 'speed'"),
        ("speed=slow", "asks for a class, which is --style"),
        (str(file), "is a file; name a function in it"),
        (f"{file}:wigle", "did you mean 'wiggle'"),
        (f"{file}:factor", "is not a function but a int"),
        (f"{tmp_path / 'gone.py'}:wiggle", "no such file"),
        (f"{tmp_path / 'leaves.py'}:x", "cannot be imported: it called sys.exit"),
        (f"{tmp_path / 'broken.py'}:x", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(PoiseError, match=message):
            load_style(spec, known)
