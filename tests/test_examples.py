"""The examples run, in small."""

import importlib.util
import re
from pathlib import Path

import pytest
from conftest import TINY

import poise
from poise import Trajectories

ROOT = Path(__file__).parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_an_example_has_under_sixty_lines(path):
    assert len(path.read_text().splitlines()) < 60


def test_own_style(capsys):
    load("own_style").main(TINY, count=200, rollouts=32)
    told = capsys.readouterr().out
    assert "hugging" in told
    assert "50 slow players asked to stay wide" in told


def test_own_data(tmp_path):
    load("own_data").main(tmp_path, TINY, count=200, rollouts=32)
    assert len(Trajectories.load(tmp_path / "calm.npz")) == 100
    run = poise.load_run(tmp_path / "run", [load("own_data").haste])
    animals = [set(part.metadata["animal"].tolist()) for part in (run.splits().train, run.splits().test)]
    assert not animals[0] & animals[1]


def test_own_algorithm(capsys):
    example = load("own_algorithm")
    settings = poise.Settings(TINY.network, TINY.training, example.SETTINGS.weights)
    example.main(settings, count=200, rollouts=32)
    assert "ctvae-smooth" in capsys.readouterr().out


def test_own_loop(capsys):
    load("own_loop").main(TINY, count=200)
    assert "a fast team" in capsys.readouterr().out


def program() -> str:
    """The README's program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return next(block for block in blocks if "poise.train" in block)


def test_the_readmes_program_has_twelve_lines():
    assert len([line for line in program().splitlines() if line.strip()]) <= 12


def test_the_readmes_program_runs(tmp_path, monkeypatch, capsys):
    """As printed, but on few demonstrations and for few steps."""
    monkeypatch.chdir(tmp_path)
    code = program().replace('"ctvae-style", "basketball"', '"ctvae-style", "basketball", settings=tiny, count=200')
    assert "settings=tiny" in code
    exec(compile(code, "README.md", "exec"), {"tiny": TINY})
    assert "independent" in capsys.readouterr().out
    assert (tmp_path / "slow.npz").exists()


def test_every_picture_and_page_that_the_readme_names_is_there():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "design.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert any((base / target).exists() for base in (ROOT, ROOT / "docs")), target
