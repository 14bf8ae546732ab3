"""The demos: the figures that they draw, and the names that they refuse."""

from dataclasses import replace

import pytest
from conftest import TINY

import poise
from poise import PoiseError
from poise.reproduce import demo


@pytest.mark.slow
def test_the_demo_of_the_cheetah_draws_a_gait_of_every_combination(tmp_path, monkeypatch, short_gaits):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    monkeypatch.setattr(demo, "GAITS", 2)
    settings = replace(TINY, network=replace(TINY.network, decoder="markov", variance="global"))
    styles = demo.DEMOS["cheetah"].experiment.styles or ()
    run = poise.train("ctvae", "cheetah", styles, classes=2, count=20, settings=settings, progress=False)
    written = demo._draw_gaits(run, tmp_path)
    names = ["gaits.png", "slow-low.gif", "slow-high.gif", "fast-low.gif", "fast-high.gif"]
    assert [path.name for path in written] == names
    assert all(path.stat().st_size > 1_000 for path in written)


@pytest.mark.slow
def test_a_demo_trains_both_algorithms_and_writes_one_report(tmp_path, monkeypatch, capsys):
    small = replace(demo.DEMOS["basketball"].experiment, settings=TINY, count=300)
    monkeypatch.setitem(demo.DEMOS, "basketball", replace(demo.DEMOS["basketball"], experiment=small))
    report = demo.run_demo(tmp_path, seeds=2)  # the shapes of the fixture `run`
    assert list(report.algorithms) == ["ctvae", "ctvae-style"]
    assert {"ctvae", "ctvae-style", "report.html", "report.json"} <= {path.name for path in tmp_path.iterdir()}
    assert f"poise sample {tmp_path / 'ctvae-style'} --style speed=slow" in capsys.readouterr().out


def test_an_unknown_demo_is_refused(tmp_path):
    with pytest.raises(PoiseError, match="unknown demo 'chetah'; did you mean 'cheetah'"):
        demo.run_demo(tmp_path, 1, "chetah")
