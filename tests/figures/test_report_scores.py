"""The answer and the tables of the report: every way of sampling has a row, and the floor stands beside the C2ST."""

from __future__ import annotations

import re
from html import unescape

import pytest
from page_helpers import in_every_way, make_report, make_run, real

from poise.figures import page


def rows(html: str) -> list[list[str]]:
    """The cells of every row of every table, without marks."""
    return [
        [unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", html)
    ]


def answer(html: str) -> str:
    return re.sub(r"\s", " ", unescape(html.split('<div class="answer">')[1].split("</div>")[0]))


def make_page(**more) -> str:
    report = make_report([make_run(algorithm="ctvae"), make_run()], **more)
    report.about["realism"] = {"c2st_floor": 0.507, "c2st_floor_interval": [0.49, 0.52]}
    return page(report)


@pytest.fixture(scope="module")
def html():
    return make_page(**in_every_way())


def test_every_way_of_sampling_has_a_row_with_all_that_it_is_scored_by(html):
    found = rows(html)
    for joint in ("93.4 92.2–94.6", "95.1 93.9–96.3"):
        place = next(i for i, row in enumerate(found) if joint in row)
        in_range = f"{float(joint[:4]) - 20:.1f}"
        assert found[place][2:] == ["one try", joint, in_range, "91.3", "58.1 56.1–60.1", "1", "–"]
        assert found[place + 1][2:5] == ["unsteered", "61.3 60.0–63.0", "60.1"]
        assert found[place + 1][5:] == ["59.7", "52.3 50.3–54.3", "1", "–"]
        assert found[place + 2][2:5] == ["verified", "99.8 99.0–100.0", "99.6"]
        assert found[place + 2][5:] == ["97.7", "58.2 56.2–60.2", "1.16", "0.4"]


def test_the_floor_of_the_c2st_stands_in_its_column(html):
    (row,) = [row for row in rows(html) if row and row[0] == "demonstrations"]
    assert row[6] == "50.7 49.0–52.0"
    assert "demonstrations" not in [row[0] for row in rows(page(make_report([make_run()]))) if row]


def test_verified_is_said_to_be_another_question_than_the_papers_once(html):
    words = unescape(html)
    assert words.count("asks the labeling functions while sampling, and so is another question") == 1
    assert "another question" not in unescape(page(make_report([make_run()])))


def test_the_answer_says_whether_rollouts_look_real_and_what_verifying_gives(html):
    assert "74 % are right and in range, 91 % are right and on the support of the demonstrations." in answer(html)
    assert "in 58 % of cases, and demonstrations from each other in 51 %." in answer(html)
    assert "99.6 % are right and in range, with 1.16 tries per request; 0.4 % of requests were never" in answer(html)
    assert "1.16 tries per request; every request was reached." in answer(make_page(**in_every_way(never=0.0)))


def test_an_answer_leaves_out_what_was_not_measured():
    words = answer(page(make_report([make_run()], joint_in_range=None)))
    assert words.count("<p>") == 2
    assert not re.search("classifier|tries|support|in range", words)


def test_the_best_algorithm_is_that_of_the_highest_yield_not_of_the_highest_consistency():
    report = make_report([make_run(algorithm="ctvae"), make_run()])
    for name, value in (("ctvae", 0.5), ("ctvae-style", 0.4)):
        report.algorithms[name] = [
            type(score)(**{**vars(score), "realism": real(0.6, value)}) for score in report.algorithms[name]
        ]
    assert "ctvae rollouts show both in 52 % of cases" in answer(page(report))
    assert "against 94 % for ctvae-style and 20 %" in answer(page(report))


def test_an_interval_that_rounds_to_one_number_is_given_in_tenths():
    report = make_report([make_run()])
    (first, _) = report.algorithms["ctvae-style"]
    share = type(first.joint)(0.9995, 0.998, 1.0, 4000)
    report.algorithms["ctvae-style"] = [type(first)(**{**vars(first), "joint": share})]
    assert "(95 % interval 99.8–100.0 %)" in answer(page(report))
