"""Commands hold code of the user's own: one line, exit code 2, and standard output that is JSON."""

import json
import os
import subprocess
import sys

import pytest
from cli_helpers import refused, say

CODE = """
import os
import sys
from poise import labeling_function

{top}

def good(states, actions):
    print("a style may print")
    os.write(1, b"and write")
    return float(states[-1, 0])

def leaves(states, actions):
    sys.exit(0)

def presses(states, actions):
    raise KeyboardInterrupt

def says_much(states, actions):
    raise ValueError("first\\nsecond\\nthird")
"""


@pytest.fixture
def code(tmp_path):
    (tmp_path / "mine.py").write_text(CODE.format(top=""))
    return tmp_path / "mine.py"


@pytest.mark.parametrize("name", ["leaves", "presses", "says_much"])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_style_that_misbehaves_is_one_line_that_names_it(capsys, code, name, more):
    assert f"style '{name}'" in refused(capsys, "label", "--styles", f"{code}:{name}", "--count", 9, *more)


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("sys.exit(0)", "cannot be imported: it called sys.exit"),
        ("raise KeyboardInterrupt", "cannot be imported: it raised KeyboardInterrupt"),
        ("raise ValueError('one\\ntwo')", "cannot be imported: ValueError: one two"),
    ],
)
def test_a_file_that_misbehaves_is_one_line(capsys, tmp_path, top, message):
    (tmp_path / "mine.py").write_text(CODE.format(top=top))
    assert message in refused(capsys, "label", "--styles", f"{tmp_path / 'mine.py'}:good", "--count", 9)


def test_what_a_style_prints_is_not_among_the_json(capsys, code):
    status, out, err = say(capsys, "label", "--styles", f"{code}:good", "--count", 9, "--json")
    assert status == 0
    assert json.loads(out)
    assert "a style may print" in err


def test_what_a_style_writes_below_python_is_not_among_the_json_either(code):
    words = ["label", "--styles", f"{code}:good", "--count", "9"]
    command = [sys.executable, "-m", "poise.cli", *words, "--json"]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout)
    assert "and write" in done.stderr
