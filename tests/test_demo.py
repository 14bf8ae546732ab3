"""The demos, as small as they can be."""

from dataclasses import replace

import pytest
from conftest import TINY

from poise import PoiseError, demo


@pytest.mark.slow
def test_the_demo_of_the_cheetah_draws_a_gait_of_every_combination(tmp_path, monkeypatch, capsys):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    show = demo.SHOWS["cheetah"]
    network = replace(TINY.network, decoder="markov", variance="global", fading=0.9)
    small = replace(show.experiment, count=20, settings=replace(TINY, network=network))
    monkeypatch.setitem(demo.SHOWS, "cheetah", show._replace(experiment=small))
    report = demo.run_demo(tmp_path, 1, "cheetah")
    assert set(report.algorithms) == {"ctvae", "ctvae-style"}
    names = {path.name for path in tmp_path.glob("*.*")}
    assert names >= {"report.html", "report.json", "gaits.png", "slow-low.gif", "slow-high.gif", "fast-high.gif"}
    assert "--style speed=fast --style front_foot_height=high" in capsys.readouterr().out


def test_an_unknown_demo_is_refused(tmp_path):
    with pytest.raises(PoiseError, match="unknown demo 'chetah'; did you mean 'cheetah'"):
        demo.run_demo(tmp_path, 1, "chetah")
