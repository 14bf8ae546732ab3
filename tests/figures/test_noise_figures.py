"""The figure of noisy labels; tests/reproduce/test_paper_figures.py draws it from a study."""

from __future__ import annotations

import pytest

from poise import PoiseError
from poise.figures import draw_noise
from poise.figures.noise import SERIES


def test_more_styles_than_lines_that_can_be_told_apart_raise_an_error():
    points = [(0.0, 0.0), (0.1, -0.1)]
    styles = [f"style {i}" for i in range(len(SERIES) + 1)]
    assert len(draw_noise(dict.fromkeys(styles[:-1], points), {}).axes[0].lines) == len(SERIES) + 2
    with pytest.raises(PoiseError, match="at most 5 styles; got 6"):
        draw_noise(dict.fromkeys(styles, points), {})
