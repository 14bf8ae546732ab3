"""The report says how real rollouts look: every measure beside that of demonstrations."""

from __future__ import annotations

import re

from page_helpers import make_report, make_run, measured

from poise.figures.report_realism import realism_section


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]


def test_each_measure_stands_beside_that_of_demonstrations():
    report = make_report([make_run(algorithm="ctvae"), make_run()], realism=measured())
    report.about["realism"] = {"off_support_floor": 0.0123}
    html = realism_section(report)
    head, *rows = cells(html)
    assert head == ["", "demonstrations", "ctvae", "ctvae-style"]
    found = {row[0]: row[1:] for row in rows}
    assert found["off support, %"] == ["1.2", "3.1", "3.1"]
    assert found["out of range, %"] == ["–", "–", "–"]
    assert found["novelty"] == ["3.15", "3.17", "3.17"]
    assert found["upside down"] == ["0", "0.25", "0.25"]
    assert found["jerk"] == ["4801", "5022", "5022"]


def test_of_many_distances_the_largest_are_shown():
    html = realism_section(make_report([make_run()], realism=measured()))
    shown = [row[0] for row in cells(html) if row[0].startswith("distance")]
    assert shown == [f"distance: state {i}" for i in range(11, 3, -1)]
    assert "The 8 largest of 12 distances" in html


def test_a_report_without_realism_has_no_such_section():
    assert realism_section(make_report([make_run()])) == ""
