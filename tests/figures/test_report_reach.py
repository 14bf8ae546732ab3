"""What is within reach, on the page: a table by style and class, what a second pass confirms, and maps."""

from __future__ import annotations

import re
from html import unescape

from page_helpers import make_report, make_run, within_reach
from test_report_scores import rows

from poise.figures import page, sample_panels

TITLE = "What is within reach?"


def test_the_table_has_every_class_and_what_the_second_pass_confirms():
    run = make_run()
    html = page(make_report([run], shuffled_verified=within_reach(run)), [run])
    found = rows(html)
    assert ["all requests", "", "73.2 70.0–76.0; 5.2 tries"] in found
    assert ["pace", "low", "73.2 70.0–76.0; 5.2 tries"] in found
    assert ["", "high", "0.0 0.0–10.0; 16.0 tries"] in found
    assert ["called feasible", "reached again", "98.7 97.0–99.0"] in found
    assert ["called infeasible", "reached after all", "no such request"] in found
    assert "in 16 tries" in html


def test_each_algorithm_is_shown_by_its_best_seed():
    runs = [make_run(algorithm="ctvae"), make_run()]
    report = make_report(list(runs))
    for name, scores in report.algorithms.items():
        report.algorithms[name] = [
            type(score)(**{**vars(score), "shuffled_verified": within_reach(runs[0])}) for score in scores
        ]
    assert {"ctvae, seed 1", "ctvae-style, seed 1"} <= set(re.findall(r"<th[^>]*>(.*?)</th>", page(report, runs)))
    assert "ctvae, seed 0" in page(report)


def test_maps_are_drawn_where_panels_have_them_and_the_page_asks_for_none():
    run = make_run()
    report = make_report([run])
    with_maps = page(report, [run], [sample_panels(run, count=5, starts=7)])
    assert re.findall(r'alt="Where (\w+) is within reach of ctvae-style"', with_maps) == ["pace", "place"]
    assert "from 7 starts of demonstrations" in with_maps
    assert "Other styles are left free." in with_maps
    assert TITLE in with_maps
    without = page(report, [run], [sample_panels(run, count=5, starts=0)])
    assert TITLE not in unescape(without)
