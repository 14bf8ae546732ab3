"""Errors: one line with the rule and the value, and the checks of what many functions take."""

import numpy as np
import pytest

from poise.errors import PoiseError, check_list, check_whole, unknown


@pytest.mark.parametrize("value", [2.5, 2.0, "3", None, True, 0, -1, [2]])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(PoiseError) as error:
        check_whole("steps", value)
    assert str(error.value) == f"steps is a whole number, at least 1; got {value!r}"


def test_whole_numbers_of_any_kind_are_plain_ones():
    assert [check_whole("n", value, 0) for value in (0, 3, np.int64(4))] == [0, 3, 4]
    assert type(check_whole("n", np.int64(4))) is int


@pytest.mark.parametrize(
    ("values", "got"),
    [("speed", "'speed'"), (len, "a builtin_function_or_method"), (5, "a int"), ({"a": 1}, "a dict"), ([5], "[5]")],
)
def test_what_is_no_list_is_refused(values, got):
    with pytest.raises(PoiseError) as error:
        check_list("styles", values, "['speed']")
    assert str(error.value) == f"styles is a list, as in styles=['speed']; got {got}"


def test_any_values_in_an_order_are_a_list():
    for values in (["a", "b"], ("a", "b"), iter("ab"), {"a": 1, "b": 2}.keys(), np.asarray(["a", "b"])):
        assert check_list("names", values, "[]") == ["a", "b"]
    assert check_list("styles", [len], "[]", callable) == [len]


def test_a_name_that_is_no_text_is_unknown_too():
    assert str(unknown("style", 5, ["speed"])) == "unknown style 5; known: speed"
