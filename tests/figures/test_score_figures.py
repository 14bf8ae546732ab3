"""Histograms of scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from figure_helpers import pace, scored_walks

from poise.figures import draw_scores
from poise.styles.inspection import Inspection


def test_histograms_show_thresholds_classes_and_unit():
    seen = Inspection.of([pace], scored_walks(90).rollouts)
    axes: Any = draw_scores(seen).axes[0]
    drawn = sorted(line.get_xdata()[0] for line in axes.lines)
    assert drawn == pytest.approx(seen.styles[0].thresholds)
    assert [text.get_text() for text in axes.texts] == ["low\n33 %", "middle\n33 %", "high\n33 %"]
    assert axes.get_xlabel() == "pace (m/s)"
    assert sum(bar.get_height() for bar in axes.patches) == 90


def test_names_of_classes_never_overlap_however_close_the_thresholds():
    close = replace(pace, classes=tuple("abcd"), thresholds=(0.0001, 0.0002, 0.0003))
    axes = draw_scores(Inspection.of([close], scored_walks(90).rollouts)).axes[0]
    places = [text.get_position()[0] for text in axes.texts]
    assert np.diff(places).min() > 0.15
    assert max(places) < 1
