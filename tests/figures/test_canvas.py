"""Writing figures: formats, clear errors, and no matplotlib where nothing is drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from figure_helpers import SQUARE, scored_walks

from poise import PoiseError
from poise.figures import draw_rollouts, encode, save


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.pdf", "A.PNG"])
def test_a_figure_is_written_in_the_format_of_its_suffix(tmp_path, name):
    save(draw_rollouts([("pace=low", scored_walks())], SQUARE), tmp_path / name)
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[-3:].lower()]
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["a.jpg", "picture", "file/a.png"])
def test_a_figure_that_cannot_be_written_raises_one_clear_line(tmp_path, name):
    figure = draw_rollouts([("pace=low", scored_walks())], SQUARE)
    (tmp_path / "file").touch()
    with pytest.raises(PoiseError) as error:
        save(figure, tmp_path / name)
    assert "\n" not in str(error.value)
    assert Path(name).parts[0] in str(error.value)


def test_a_formula_in_a_name_stays_text():
    encode(draw_rollouts([(r"$\frac{=<b>$", scored_walks())], SQUARE))


def test_importing_poise_imports_no_matplotlib():
    code = "import sys, poise; sys.exit(any(name.startswith('matplotlib') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
