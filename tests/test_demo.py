"""What the demos draw, and what they refuse."""

from dataclasses import replace

import pytest
from conftest import TINY

import poise
from poise import PoiseError, demo


@pytest.mark.slow
def test_the_demo_of_the_cheetah_draws_a_gait_of_every_combination(tmp_path, monkeypatch):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    monkeypatch.setattr(demo, "GAITS", 2)
    settings = replace(TINY, network=replace(TINY.network, decoder="markov", variance="global"))
    asked = demo.SHOWS["cheetah"].experiment
    run = poise.train("ctvae", "cheetah", asked.styles, classes=2, count=20, settings=settings, progress=False)
    written = demo._draw_gaits(run, tmp_path)
    names = ["gaits.png", "slow-low.gif", "slow-high.gif", "fast-low.gif", "fast-high.gif"]
    assert [path.name for path in written] == names
    assert all(path.stat().st_size > 1_000 for path in written)


def test_an_unknown_demo_is_refused(tmp_path):
    with pytest.raises(PoiseError, match="unknown demo 'chetah'; did you mean 'cheetah'"):
        demo.run_demo(tmp_path, 1, "chetah")
