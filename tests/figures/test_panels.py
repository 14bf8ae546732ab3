"""Sampled rollouts: which panels there are, and how they are drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from figure_helpers import POLE, titles
from page_helpers import asked_of, make_run

from poise.domains.base import Scene
from poise.figures import Panel, PanelGroup, draw_panels, sample_panels


def test_two_styles_are_one_grid_of_all_their_combinations():
    run = make_run()
    panels = sample_panels(run, count=5)
    asked = [tuple(words.items()) for words in asked_of(run)]
    assert len(set(asked)) == len(asked) == 9
    assert asked[0] == (("pace", "low"), ("place", "low"))
    (group,) = panels.groups
    assert (group.styles, group.columns) == (("pace", "place"), 3)
    assert [panel.title for panel in group.panels[:2]] == ["pace=low, place=low", "pace=low, place=middle"]


def test_other_numbers_of_styles_have_one_panel_per_class():
    names = ("a", "b", "c")
    run = make_run(names)
    panels = sample_panels(run, count=5)
    assert asked_of(run) == [{name: word} for name in names for word in ("low", "middle", "high")]
    assert [group.styles for group in panels.groups] == [("a",), ("b",), ("c",)]
    assert [panel.title for panel in panels.groups[1].panels] == ["b=low", "b=middle", "b=high"]


def test_a_panel_is_scored_by_the_styles_that_its_title_names():
    panels = sample_panels(make_run(("a", "b", "c")), count=5)
    assert {panel.scored.right.shape for group in panels.groups for panel in group.panels} == {(5, 1)}


def test_panels_say_which_algorithm_seed_and_count_they_are_of():
    run = make_run()
    panels = sample_panels(run, count=5)
    assert (panels.algorithm, panels.seed, panels.count) == ("ctvae-style", 1, 5)
    assert panels.scene == run.domain.scene


@pytest.mark.parametrize("body", [False, True])
def test_a_scene_with_a_body_is_drawn_as_gaits_and_another_as_lines(body):
    run = make_run(("pace",))
    (group,) = sample_panels(run, count=5).groups
    figure = draw_panels(group, POLE if body else run.domain.scene)
    assert titles(figure)[0] == ("pace=low: 100 % of 5 right" if body else "pace=low: 100 %")


def test_panels_stand_in_the_columns_of_their_group():
    scored = sample_panels(make_run(("pace",)), count=5).groups[0].panels[0].scored
    group = PanelGroup(("pace",), tuple(Panel(name, scored) for name in "abcd"), columns=2)
    figures = [draw_panels(one, make_run().domain.scene) for one in (group, replace(group, columns=4))]
    rows = [{round(ax.get_position().y0, 3) for ax in figure.axes} for figure in figures]
    assert [len(places) for places in rows] == [2, 1]


def test_there_is_a_map_of_reach_per_style_where_it_is_cheap_and_can_be_drawn():
    run = make_run()
    maps = sample_panels(run, count=5, starts=4).reach
    assert [one.style for one in maps] == ["pace", "place"]
    assert [len(one.feasibility.labels) for one in maps] == [12, 12]
    assert sample_panels(run, count=5, starts=0).reach == ()
    costly = {"environment": lambda states, actions: states}
    for more in (costly, {"dynamics": None}, {"scene": POLE}, {"scene": Scene(columns=(0, 0))}):
        assert sample_panels(replace(run, domain=replace(run.domain, **more)), count=5).reach == ()


def test_panels_say_how_often_rollouts_were_tried():
    run = make_run()
    assert sample_panels(run, count=5).tries == run.sampling().tries > 1
