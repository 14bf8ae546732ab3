"""The report: one file that opens offline, gives the numbers of report.json, and escapes every name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest
from page_helpers import asked_of, make_report, make_run

from poise import PoiseError
from poise.domains.base import Simulation
from poise.figures import RolloutPanels, page, sample_panels, write_report

NASTY = '<b>&"$pace'
METRICS = {"stage": "policy", "turn": 0, "step": 1, "seconds": 1.0, "losses": {"nld": [1.5, 2.5]}, "validation": {}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "metrics.jsonl").write_text(json.dumps(METRICS) + "\n")
    return [make_run(algorithm="ctvae"), make_run(folder=folder)]


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "made" / "if missing"
    write_report(folder, make_report(runs), runs, [sample_panels(run, count=20) for run in runs])
    return folder


@pytest.fixture(scope="module")
def html(written):
    return (written / "report.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_from_the_net(html):
    sources = re.findall(r"""(?:src|href|srcset|action|data)\s*=\s*["']?([^"'\s>]+)""", html)
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"<script|<link|<iframe|@import|url\(|https?://", html)


def test_the_page_has_the_numbers_of_the_json(written, html):
    said = json.loads((written / "report.json").read_text())
    for algorithm in said["algorithms"].values():
        for seed in algorithm["seeds"]:
            low, high = (100 * value for value in seed["joint_interval"])
            assert f"{100 * seed['joint']:.1f} <small>{low:.1f}–{high:.1f}</small>" in html
            assert f">{100 * seed['joint_in_range']:.1f}<" in html
            assert f"{seed['nld']:.2f}" in html
            assert f"{seed['kl']:.3f}" in html
            for name, estimate in (seed["labeler_estimate"] or {}).items():
                truth = seed["by_style"][name]
                words = f"λ {100 * truth:.1f}, overestimate {100 * (estimate - truth):.1f}"
                assert f"{100 * estimate:.1f} <small>{words}</small>" in html
    for style in said["styles"]:
        assert all(f"{cut:.4g}" in html for cut in style["thresholds"])
    assert all(word in unescape(html) for word in (said["command"], said["commit"], said["hardware"], "3.3 min"))


def test_the_answer_comes_first_in_plain_words(html):
    answer = re.sub(r"\s", " ", html.split('<div class="answer">')[1])
    assert answer.startswith(
        "<p>Asked for pace and place, ctvae-style rollouts show both in 94 % of cases (seeds 93–95 %), "
        "against 52 % for ctvae and 20 % for a policy that ignores labels.</p>"
    )


def test_an_estimate_of_the_labeler_below_the_truth_is_no_overestimate(runs):
    report = make_report(runs, labeler_estimate={"pace": 0.25, "place": 0.25})
    html = page(report)
    assert "25.0 <small>λ 93.4</small>" in html
    assert ", overestimate" not in html


def test_an_answer_no_better_than_chance_says_so(runs):
    report = make_report(runs)
    report.about["base_rate"]["own"] = 0.99
    assert "no better than ignoring the labels" in page(report)


def test_writing_a_report_samples_nothing(runs, tmp_path):
    run = make_run()
    write_report(tmp_path, make_report([run]), [run])
    assert asked_of(run) == []
    assert "Rollouts of" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_every_group_of_panels_is_drawn_once(html):
    assert html.count('alt="Rollouts of ctvae by pace and place"') == 1
    assert html.count('alt="Rollouts of ctvae-style by pace and place"') == 1
    run = make_run(("a", "b", "c"))
    made = page(make_report([run]), panels=[sample_panels(run, count=5)])
    assert re.findall(r'alt="Rollouts of ctvae-style by (\w)"', made) == ["a", "b", "c"]
    assert "share of 5 rollouts that show the classes it names; 5 of them are drawn" in made


def test_demonstrations_given_as_values_have_no_name(runs):
    report = make_report(runs)
    report.about["data"] = None
    html = page(report)
    assert "<h1>pace × place on own data</h1>" in html
    assert "<dt>Trained on</dt><dd>demonstrations in memory</dd>" in html


def test_learning_curves_come_with_the_runs_that_kept_them(html):
    assert html.count('alt="Learning curves of ctvae-style"') == 1
    assert 'alt="Learning curves of ctvae"' not in html


def test_names_are_escaped_wherever_they_stand():
    run = make_run((NASTY,))
    report = make_report([run], stopped="<i>policy</i> step 3")
    html = page(report, [run], [sample_panels(run, count=5)])
    assert "<b>&" not in html
    assert "<i>policy" not in html
    assert "<run>" not in html
    assert NASTY in unescape(html)
    assert "was stopped at <i>policy</i> step 3" in unescape(html)


def test_a_stopped_seed_is_reported_and_explained(runs):
    html = page(make_report(runs, stopped="policy step 3"))
    assert html.count("was stopped at policy step 3") == 4
    assert "last finite weights" in html
    assert "last finite weights" not in page(make_report(runs))


def test_learned_dynamics_are_reported(runs):
    assert "imagined rollouts" in page(make_report(runs, Simulation.LEARNED_DYNAMICS))
    for simulation in (Simulation.KNOWN_DYNAMICS, Simulation.ENVIRONMENT):
        assert "imagined rollouts" not in page(make_report(runs, simulation))


def test_the_error_of_learned_dynamics_is_reported(runs):
    known = make_report(runs)
    assert "Dynamics were learned" not in str(known) + page(known)
    scores = {name: [replace(s, dynamics_error=0.0223) for s in seeds] for name, seeds in known.algorithms.items()}
    learned = replace(known, algorithms=scores)
    for words in (str(learned), page(learned)):
        assert "Dynamics were learned" in words
        assert "ctvae-style 2.23e-02 (4.88 if nothing moved)" in words


def test_numbers_survive_when_the_page_cannot_be_made(tmp_path, runs):
    def broken() -> Iterator[RolloutPanels]:
        raise PoiseError("no rollouts today")
        yield

    with pytest.raises(PoiseError, match="no rollouts"):
        write_report(tmp_path, make_report(runs), runs, broken())
    assert (tmp_path / "report.json").exists()


def test_a_folder_that_cannot_be_made_raises_one_clear_line(tmp_path, runs):
    (tmp_path / "file").write_text("")
    with pytest.raises(PoiseError, match="cannot write"):
        write_report(tmp_path / "file" / "report", make_report(runs))
