"""Figures of style-consistency."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from figure_helpers import pace, titles

from poise.evaluation.consistency import SeedScore
from poise.evaluation.report import Report
from poise.evaluation.shares import Share
from poise.figures import canvas, draw_classes, draw_consistency


def make_score(seed: int, joint: float, **more: Any) -> SeedScore:
    share = Share(joint, joint - 0.05, joint + 0.05, 100)
    by_class = {"pace": {"low": share, "middle": share, "high": Share.of(np.zeros(0, bool))}}
    each = {"pace": share, "place": share}
    return SeedScore(
        seed=seed,
        joint=share,
        joint_shuffled=share,
        by_style=each,
        by_class=by_class,
        by_style_shuffled=each,
        labeler_estimate=None,
        nld=0.5,
        kl=None,
        unscored={},
        **more,
    )


REPORT = Report(
    {"ctvae": [make_score(0, 0.4), make_score(1, 0.5)], "ctvae-style": [make_score(0, 0.9)]},
    {"base_rate": {"own": 0.2}},
    {},
)


def test_there_is_a_panel_for_all_styles_and_for_each_and_the_base_rate_in_the_first_alone():
    figure = draw_consistency(REPORT)
    joint = figure.axes[0]
    assert titles(figure) == ["all styles at once", "pace", "place"]
    assert [tick.get_text() for tick in joint.get_yticklabels()] == ["ctvae", "ctvae-style"]
    assert [text.get_text() for text in joint.texts] == ["45 %", "90 %"]
    vertical = [[line for line in axes.lines if np.array_equal(line.get_xdata(), [20, 20])] for axes in figure.axes]
    assert [len(found) for found in vertical] == [1, 0, 0]


def test_a_stopped_seed_is_a_hollow_dot():
    scores = [make_score(0, 0.4, stopped="policy step 3"), make_score(1, 0.5)]
    axes = draw_consistency(replace(REPORT, algorithms={"ctvae": scores})).axes[0]
    assert [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"] == ["white", canvas.BLUE]


def test_a_class_that_was_never_asked_for_says_so():
    axes = draw_classes(make_score(0, 0.4), [pace]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["40 %", "40 %", "no rollouts"]
