"""Learning curves."""

from __future__ import annotations

import numpy as np
import pytest
from figure_helpers import titles

from poise import PoiseError
from poise.figures import draw_curves

METRICS = [
    {"stage": "labeler", "turn": 0, "step": 1, "losses": {"label": [1.0]}, "validation": {"label": [1.0]}},
    {"stage": "policy", "turn": 1, "step": 1, "losses": {"nld": [1.0], "kl": [2]}, "validation": {"nld": [1.0]}},
    {"stage": "refine", "turn": 2, "step": 1, "losses": {"dynamics": [1.0]}, "validation": {"dynamics": [1.0]}},
    {"stage": "policy", "turn": 3, "step": 2, "losses": {"nld": [None], "kl": [1]}, "validation": {"nld": [1.0]}},
]


def test_there_is_one_panel_per_stage_and_loss_with_gaps_where_a_value_was_not_finite():
    figure = draw_curves(METRICS)
    assert titles(figure) == ["labeler: label", "policy: nld", "policy: kl", "refine: dynamics"]
    assert np.isnan(np.asarray(figure.axes[1].lines[0].get_ydata(), float)[1])
    with pytest.raises(PoiseError, match="no learning curves"):
        draw_curves([])


def test_the_axis_of_nld_says_that_it_is_not_the_nld_per_step_of_the_report():
    labels = [axes.get_ylabel().replace("\n", " ") for axes in draw_curves(METRICS).axes]
    assert labels == ["", "nld (sum over steps, in the data's units)", "", ""]


def test_training_is_thinner_than_validation():
    training, validation = draw_curves(METRICS).axes[0].lines
    assert training.get_linewidth() < validation.get_linewidth()
