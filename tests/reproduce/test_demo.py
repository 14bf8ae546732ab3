"""The demos: the figures that they draw, and the names that they refuse."""

import contextlib
import io
import re
from dataclasses import replace

import pytest
from conftest import TINY

import poise
from poise import ALGORITHMS, PoiseError
from poise.reproduce import demo


@pytest.mark.slow
def test_the_demo_of_the_cheetah_draws_a_gait_of_every_extreme(tmp_path, monkeypatch, short_gaits):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    monkeypatch.setattr(demo, "GAITS", 2)
    styles = demo.DEMOS["cheetah"].experiment.styles or ()
    run = poise.train("flow", "cheetah", styles, classes=2, count=20, settings=TINY, progress=False)
    written = demo._draw_gaits(run, tmp_path)
    extremes = [*((style, end) for style in styles[1:] for end in ("low", "high"))]
    names = ["gaits.png", "speed-slow.gif", "speed-fast.gif", *(f"{style}-{end}.gif" for style, end in extremes)]
    assert [path.name for path in written] == names
    assert all(path.stat().st_size > 1_000 for path in written)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A tiny demo, and what it printed."""
    out, printed = tmp_path_factory.mktemp("demo"), io.StringIO()
    small = replace(demo.DEMOS["basketball"].experiment, settings=TINY, count=200)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setitem(demo.DEMOS, "basketball", replace(demo.DEMOS["basketball"], experiment=small))
        patch.setattr(demo, "ROLLOUTS", 64)
        report = demo.run_demo(out, seeds=1)
    return report, out, printed.getvalue()


@pytest.mark.slow
def test_a_demo_trains_all_algorithms_and_writes_one_report(shown):
    report, out, _ = shown
    assert list(report.algorithms) == ["ctvae", "ctvae-style", "flow"]
    assert {"ctvae", "ctvae-style", "flow", "report.html", "report.json"} <= {path.name for path in out.iterdir()}


@pytest.mark.slow
def test_a_demo_names_its_algorithms_in_words_and_requests_a_style_of_the_flow(shown):
    _, out, printed = shown
    about = printed.splitlines()[1]
    assert about.startswith("Training ctvae (conditioned on labels), ctvae-style (with the style loss) and flow (which")
    assert f"Request a style: poise sample {out / 'flow'} --style speed=slow" in printed


@pytest.mark.slow
def test_a_demo_prints_a_table_that_fits_a_wide_terminal_and_maps_the_reach_of_the_flow_alone(shown):
    _, out, printed = shown
    table = printed[printed.index("algorithm  ") :].partition("\n\n")[0]
    assert {line.split()[0] for line in table.splitlines()} >= {"ctvae", "ctvae-style", "flow", "verified", "unsteered"}
    assert max(map(len, table.splitlines())) <= 200
    maps = re.findall(r"is within reach of ([\w-]+)\"", (out / "report.html").read_text())
    assert maps == ["flow", "flow"]


def test_every_demo_says_in_words_what_it_compares():
    for one in demo.DEMOS.values():
        assert set(one.algorithms) <= set(demo.IN_WORDS) & set(ALGORITHMS)
    assert demo.DEMOS["cheetah"].algorithms == ("ctvae", "flow")


def test_an_unknown_demo_is_refused(tmp_path):
    with pytest.raises(PoiseError, match="unknown demo 'chetah'; did you mean 'cheetah'"):
        demo.run_demo(tmp_path, 1, "chetah")
