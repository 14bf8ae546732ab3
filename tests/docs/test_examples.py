"""The examples run, in small."""

import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY

import poise
from poise import Trajectories
from poise.evaluation import evaluate, scored

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_has_under_sixty_lines(path):
    assert len(path.read_text().splitlines()) < 60


UNTRAINED = replace(TINY, training=replace(TINY.training, policy_steps=0, flow_steps=0, labeler_steps=0))
"""Other examples train their stages; here it would take most of the time to compile them."""


def test_own_style(capsys):
    load("own_style").main(UNTRAINED, count=200, rollouts=64)
    told = capsys.readouterr().out
    assert "hugging" in told
    assert "50 slow players asked to stay wide" in told


def test_own_data(tmp_path, monkeypatch):
    monkeypatch.setattr(scored, "MOST_LENGTHS", 1)  # each length that is steered is a program of its own
    monkeypatch.setattr(evaluate, "REPEATED", 16)  # and so is each power of two of rollouts; it samples 100
    load("own_data").main(tmp_path, UNTRAINED, count=200, rollouts=128)
    assert len(Trajectories.load(tmp_path / "calm.npz")) == 100
    run = poise.load_run(tmp_path / "run", [load("own_data").haste])
    animals = [set(part.metadata["animal"].tolist()) for part in (run.splits().train, run.splits().test)]
    assert not animals[0] & animals[1]


@pytest.mark.slow
def test_own_algorithm_trains_its_term(tmp_path, capsys):
    """Its loss is in the metrics, and its effect in the result: two weights, trained as one program."""
    example = load("own_algorithm")
    example.main(UNTRAINED, 200, 64)
    assert "SMOOTH" in capsys.readouterr().out
    longer = replace(TINY.training, policy_steps=60, labeler_steps=2, chunk=30, learning_rate=1e-2)
    both = [
        poise.Experiment(
            f"{example.__file__}:SMOOTH",
            styles=["speed"],
            count=200,
            settings=replace(TINY, training=longer, weights=poise.Weights(extra={"smoothness": weight})),
        )
        for weight in (0.0, 20.0)
    ]
    runs = poise.train_many(both, out=tmp_path, progress=False)
    free, smooth = (np.abs(np.diff(run.sample(200).actions, axis=1)).mean() for run in runs)
    assert smooth < 0.7 * free
    lines = [json.loads(line) for line in (tmp_path / "001" / "metrics.jsonl").read_text().splitlines()]
    assert [set(line["losses"]) for line in lines if line["stage"] == "policy"] == [
        {"nld", "kl", "style", "smoothness"}
    ] * 2


def test_own_loop(capsys):
    load("own_loop").main(TINY, count=200)
    assert "a fast team" in capsys.readouterr().out


def program() -> str:
    """The README's program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "poise.train" in block)


def test_the_readmes_program_has_twelve_lines():
    assert len([line for line in program().splitlines() if line.strip()]) <= 12


@pytest.mark.slow
def test_the_readmes_program_runs(tmp_path, monkeypatch, capsys):
    """As printed, but on few demonstrations, for few steps and with few rollouts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(poise.DOMAINS, "basketball", replace(poise.DOMAINS["basketball"], rollouts=64))
    code = program().replace('preset="small"', "settings=tiny, count=200")
    assert "settings=tiny" in code
    exec(compile(code, "README.md", "exec"), {"tiny": TINY})
    assert "shuffled" in capsys.readouterr().out
    assert (tmp_path / "slow.npz").exists()
