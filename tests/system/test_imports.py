import sys
from pathlib import Path

import pytest

from poise import PoiseError
from poise.system.imports import import_file, import_value, is_file_spec, split_file_spec


@pytest.fixture(autouse=True)
def forget_modules():
    """Removes the modules that a test imports from its files."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_name_with_a_colon_names_a_value_in_a_file():
    assert is_file_spec("my.py:SPEED")
    assert not is_file_spec("speed")
    assert split_file_spec("folder/my.py:SPEED") == (Path("folder/my.py"), "SPEED")
    assert split_file_spec("C:/my.py:SPEED") == (Path("C:/my.py"), "SPEED")


def test_a_value_of_a_file_is_imported(tmp_path):
    (tmp_path / "my.py").write_text("SPEED = 3")
    assert import_value(f"{tmp_path}/my.py:SPEED", lambda value: True) == 3


def test_a_missing_name_is_refused_with_the_nearest_candidate(tmp_path):
    (tmp_path / "my.py").write_text("SPEED = 3\nSPEER = 'text'")
    with pytest.raises(PoiseError, match=r"unknown name in .*my.py 'SPEEE'; did you mean 'SPEED'\?"):
        import_value(f"{tmp_path}/my.py:SPEEE", lambda value: isinstance(value, int))


def test_a_file_may_import_its_neighbours_and_leaves_the_search_path_as_it_was(tmp_path):
    (tmp_path / "neighbour_of_test_imports.py").write_text("SPEED = 4")
    (tmp_path / "my.py").write_text("from neighbour_of_test_imports import SPEED")
    before = list(sys.path)
    assert import_file(tmp_path / "my.py").SPEED == 4
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.py", None, "^no such file: .*gone.py$"),
        ("data.csv", "1,2", "data.csv is not a Python file"),
        ("syntax.py", "def", "syntax.py cannot be imported: SyntaxError"),
        ("raises.py", "1 / 0", "raises.py cannot be imported: ZeroDivisionError: division by zero"),
        ("exits.py", "raise SystemExit(3)", "exits.py cannot be imported: it called sys.exit"),
        ("ours.py", "from poise import PoiseError\nraise PoiseError('a rule')", "^a rule$"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused_with_the_reason(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(PoiseError, match=message):
        import_file(tmp_path / name)
