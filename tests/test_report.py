"""The report: one file that opens offline, says what report.json says, and trusts no name."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from html import unescape

import numpy as np
import pytest

from poise import Experiment, PoiseError, Run, Trajectories, labeling_function
from poise.config import to_json
from poise.domains.base import Domain, plain
from poise.evaluation import Checked, Report, SeedScore, Share
from poise.report import page, write_report
from poise.runs import describe

NASTY = '<b>&"$pace'
METRICS = {"stage": "policy", "number": 0, "step": 1, "seconds": 1.0, "losses": {"nld": [1.5, 2.5]}, "validation": {}}


@dataclass(frozen=True)
class Drawn(Run):
    """A run that walks at random instead of asking a network, and remembers what it was asked for."""

    def sample_checked(self, count=1, words=None, *, start=None, steps=None, seed=None, draw=0):
        self.starts.metadata["asked"].append(words)
        all_right = np.ones((count, len(self.styles)), bool)
        return Checked(walks(count), all_right, np.ones(count, bool), all_right)


def walks(count: int) -> Trajectories:
    return Trajectories(np.random.default_rng(0).normal(size=(count, 6, 2)).cumsum(axis=1))


def make_style(name: str, classes: tuple[str, ...] = ("low", "middle", "high")):
    def score(states, actions):
        """Mean size of an action & more."""
        return abs(actions).mean()

    return labeling_function(score, name=name, classes=classes, unit="m/s").fit(walks(60))


def make_run(names=("pace", "place"), algorithm="ctvae-style", folder=None) -> Drawn:
    starts, styles = walks(60), tuple(make_style(name) for name in names)
    starts.metadata["asked"] = []  # pyright: ignore[reportArgumentType]
    experiment = Experiment(algorithm, "(in memory)", styles=tuple(names), seeds=2)
    return Drawn(experiment, plain(starts), styles, {}, starts, (None, None), 1, 1.0, folder=folder)


def make_score(run: Run, seed: int, joint: float, **more) -> SeedScore:
    names = [style.name for style in run.styles]
    share = Share(joint, joint - 0.012, joint + 0.012, 4000)
    by_class = {style.name: {name: share for name in style.classes} for style in run.styles}  # noqa: C420
    believed = dict.fromkeys(names, joint + 0.011) if run.experiment.algorithm.endswith("style") else None
    each = dict.fromkeys(names, share)
    unscored = dict.fromkeys(names, 0)
    return SeedScore(seed, share, share, each, by_class, each, believed, -7.123, 0.0456, unscored, **more)


def make_report(runs, domain: Domain | None = None, **more) -> Report:
    joints = {"ctvae": (0.523, 0.518), "ctvae-style": (0.934, 0.951)}
    scores = {
        run.experiment.algorithm: [
            make_score(run, seed, joint, **more) for seed, joint in enumerate(joints[run.experiment.algorithm])
        ]
        for run in runs
    }
    about = {
        "styles": [describe(style) for style in runs[-1].styles],
        "environment": (domain or runs[-1].domain).environment_text,
        "units": "x over 94 ft",
        "data": "basketball",
        "rollouts": 4000,
        "test": 2000,
        "base_rate": {"own": 0.2, "independent": 0.11},
        "change": 4.881,
        "experiment": to_json(runs[-1].experiment),
    }
    origin = {"command": "poise evaluate <run>", "commit": "abc1234+", "hardware": "2 CPU cores", "seconds": 200.0}
    return Report(scores, about, {**origin, "versions": {"poise": "0.1.0", "jax": "0.10"}})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "metrics.jsonl").write_text(json.dumps(METRICS) + "\n")
    return [make_run(algorithm="ctvae"), make_run(folder=folder)]


@pytest.fixture(scope="module")
def written(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "made" / "if missing"
    write_report(folder, make_report(runs), runs)
    return folder


@pytest.fixture(scope="module")
def html(written):
    return (written / "report.html").read_text(encoding="utf-8")


def test_the_page_needs_nothing_from_the_net(html):
    sources = re.findall(r"""(?:src|href|srcset|action|data)\s*=\s*["']?([^"'\s>]+)""", html)
    assert sources
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r"<script|<link|<iframe|@import|url\(|https?://", html)


def test_the_page_has_the_figures_of_the_json(written, html):
    said = json.loads((written / "report.json").read_text())
    for algorithm in said["algorithms"].values():
        for seed in algorithm["seeds"]:
            low, high = (100 * value for value in seed["joint_interval"])
            assert f"{100 * seed['joint']:.1f} <small>{low:.1f}–{high:.1f}</small>" in html
            assert f"{seed['nld']:.2f}" in html
            assert f"{seed['kl']:.3f}" in html
            assert all(f"{100 * value:.1f} <small>λ" in html for value in (seed["believed"] or {}).values())
    for style in said["styles"]:
        assert all(f"{cut:.4g}" in html for cut in style["thresholds"])
    assert all(word in unescape(html) for word in (said["command"], said["commit"], said["hardware"], "3.3 min"))


def test_the_answer_comes_first_in_plain_words(html):
    answer = re.sub(r"\s", " ", html.split('<div class="answer">')[1])
    assert answer.startswith(
        "<p>Asked for pace and place, ctvae-style rollouts show both in 94 % of cases (seeds 93–95 %), "
        "against 52 % for ctvae and 20 % for a policy that ignores labels.</p>"
    )


def test_an_answer_no_better_than_chance_says_so(runs):
    report = make_report(runs)
    report.about["base_rate"]["own"] = 0.99
    assert "no better than ignoring the labels" in page(report, [])


def test_two_styles_are_drawn_as_all_their_combinations(runs, html):
    asked = [tuple(words.items()) for words in runs[0].starts.metadata["asked"]]
    assert len(set(asked)) == 9
    assert asked[0] == (("pace", "low"), ("place", "low"))


def test_other_numbers_of_styles_are_drawn_class_by_class():
    names = ("a", "b", "c")
    run = make_run(names)
    page(make_report([run]), [run])
    assert run.starts.metadata["asked"] == [{name: word} for name in names for word in ("low", "middle", "high")]


def test_learning_curves_come_with_the_runs_that_kept_them(runs, html):
    assert html.count('alt="Learning curves of ctvae-style"') == 1
    assert 'alt="Learning curves of ctvae"' not in html


def test_names_are_escaped_wherever_they_stand():
    run = make_run((NASTY,))
    report = make_report([run], stopped="<i>policy</i> step 3")
    html = page(report, [run])
    assert "<b>&" not in html
    assert "<i>policy" not in html
    assert "<run>" not in html
    assert NASTY in unescape(html)
    assert "was stopped at <i>policy</i> step 3" in unescape(html)


def test_learned_dynamics_are_told(runs):
    html = page(make_report(runs, Domain("data")), [])
    assert "imagined rollouts" in html
    known = make_report(runs)
    assert "imagined rollouts" not in page(known, [])
    assert "Dynamics were learned" not in str(known) + page(known, [])
    scores = {name: [replace(s, dynamics_error=0.0223) for s in seeds] for name, seeds in known.algorithms.items()}
    learned = replace(known, algorithms=scores)
    for told in (str(learned), page(learned, [])):
        assert "Dynamics were learned" in told
        assert "ctvae-style 2.23e-02 (4.88 if nothing moved)" in told


def test_numbers_survive_when_the_page_cannot_be_made(tmp_path, runs):
    class Broken(Drawn):
        def sample_checked(self, *_, **__):
            raise PoiseError("no rollouts today")

    run = runs[1]
    broken = Broken(**{name: getattr(run, name) for name in run.__dataclass_fields__})
    with pytest.raises(PoiseError, match="no rollouts"):
        write_report(tmp_path, make_report([run]), [broken])
    assert (tmp_path / "report.json").exists()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path, runs):
    (tmp_path / "file").write_text("")
    with pytest.raises(PoiseError, match="cannot write"):
        write_report(tmp_path / "file" / "report", replace(make_report(runs)), [])
