"""Commands as a user types them; bad input gets one line on standard error and exit code 2."""

import errno
import importlib.util
import json
import os
import re
import shutil

import numpy as np
import pytest
from cli_helpers import refused, say

from poise import PRESETS
from poise.cli import main, parse
from poise.data.trajectories import Trajectories
from poise.system import storage

SIZES = {
    "network.flow.width": 8,
    "network.flow.blocks": 1,
    "network.flow.steps": 2,
    "training.flow-steps": 4,
    "training.flow-batch": 8,
    "sampling.steps": 2,
    "sampling.tries": 2,
    "network.hidden": 8,
    "network.layers": 8,
    "network.dynamics-layers": 8,
    "training.policy-steps": 4,
    "training.labeler-steps": 4,
    "training.dynamics-steps": 4,
    "training.batch": 8,
    "training.chunk": 2,
}
SMALL = [word for name, value in SIZES.items() for word in (f"--settings.{name}", str(value))]


@pytest.fixture
def data(tmp_path):
    """A user's own .npz: random walks with a column of games."""
    states = np.random.default_rng(0).normal(size=(90, 7, 2)).cumsum(axis=1)
    np.savez(tmp_path / "walks.npz", states=states, game=np.repeat(np.arange(30), 3))
    return tmp_path / "walks.npz"


@pytest.fixture
def style(tmp_path):
    """A user's own file of styles, in plain Python."""
    file = tmp_path / "mine.py"
    file.write_text(
        "def reach(states, actions):\n    return max(abs(x) for x in states[:, 0])\n\n"
        "def broken(states, actions):\n    return 1 / 0\n\n"
        "def nan(states, actions):\n    return float('nan')\n\n"
        "def steps(states, actions):\n    return actions[:, 0]\n\n"
        "def constant(states, actions):\n    return 1.0\n\n"
        "def forgetful(states, actions):\n    states.sum()\n\n"
        "def coin(states, actions):\n    return float(states[0, 0] > 0)\n"
    )
    return file


@pytest.mark.parametrize(
    "command", ["", "demo", "import", "label", "train", "evaluate", "sample", "reproduce", "demonstrators", "demos"]
)
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert "usage: poise" in capsys.readouterr().out


def test_own_data_and_own_style_are_trained_evaluated_and_sampled(capsys, data, style, tmp_path, no_classifier):
    out = tmp_path / "run"
    code, told, _ = say(
        capsys,
        "train",
        "--algorithm",
        "ctvae",
        "--data",
        data,
        "--styles",
        f"{style}:reach",
        "--classes",
        2,
        "--split-by",
        "game",
        "--out",
        out,
        *SMALL,
    )
    assert code == 0
    assert "next: poise evaluate" in told
    code, told, _ = say(capsys, "evaluate", out, "--rollouts", 64)
    assert code == 0
    assert "next state = state + action" in told
    assert (out / "report.html").exists()
    code, told, _ = say(
        capsys, "evaluate", out, "--rollouts", 64, "--data", data, "--json", "--out", tmp_path / "other"
    )
    assert json.loads(told)["test"] == 90
    assert json.loads(told)["data"] == "walks.npz"
    picture, npz = tmp_path / "a.png", tmp_path / "a.npz"
    code, told, _ = say(
        capsys, "sample", out, "--style", "reach=high", "--count", 5, "--picture", picture, "--out", npz
    )
    assert code == 0
    assert Trajectories.load(npz).metadata["labels"].tolist() == [[1]] * 5
    assert picture.read_bytes()[:4] == b"\x89PNG"
    code, told, _ = say(capsys, "sample", out, "--style", "reach=low", "--count", 5, "--json")
    assert json.loads(told)["rollouts"] == 5


def test_label_shows_balance_correlation_and_support(capsys, tmp_path):
    code, told, _ = say(capsys, "label", "--count", 500, "--picture", tmp_path / "scores.png")
    assert code == 0
    for word in ("speed", "slow", "rank correlation", "joint styles", "warning"):
        assert word in told
    code, told, _ = say(capsys, "label", "--count", 500, "--styles", "speed", "--json")
    assert json.loads(told)["styles"][0]["counts"] == [167, 166, 167]


def test_bad_data_is_refused_in_one_line(capsys, tmp_path):
    bad = {
        "gone.npz": (None, "no such file"),
        "text.npz": (b"hello", "is not an .npz"),
        "shape.npz": ({"states": np.zeros((5, 4))}, "states have the shape"),
        "nan.npz": ({"states": np.full((5, 4, 2), np.nan)}, "must be finite"),
        "one.npz": ({"states": np.zeros((1, 4, 2))}, "at least 3 trajectories"),
        "still.npz": ({"states": np.zeros((5, 1, 2))}, "got T = 0"),
        "odd.npz": ({"states": np.zeros((5, 4, 2)), "actions": np.zeros((5, 4, 2))}, "one more state than actions"),
    }
    for name, (content, message) in bad.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        elif content is not None:
            np.savez(tmp_path / name, **content)
        assert message in refused(
            capsys, "train", "--data", tmp_path / name, "--domain", "basketball", "--out", tmp_path / "r"
        )
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("words", [("label",), ("train", "--styles", "speed")])
def test_data_of_another_domain_are_refused_in_one_line(capsys, tmp_path, words):
    sizes = {
        "states": ((3, 5, 4), (3, 4, 6), "a state of cheetah is 18 numbers; got 4"),
        "actions": ((3, 5, 18), (3, 4, 2), "an action of cheetah is 6 numbers; got 2"),
        "range": ((3, 5, 18), (3, 4, 6), "lies between -1 and 1; got 2 in row 0, step 0"),
    }
    for name, (states, actions, message) in sizes.items():
        np.savez(tmp_path / f"{name}.npz", states=np.zeros(states), actions=np.full(actions, 2.0))
        given = ("--data", tmp_path / f"{name}.npz", "--domain", "cheetah")
        assert message in refused(capsys, *words, *given)
    np.savez(tmp_path / "alone.npz", states=np.zeros((3, 5, 18)))
    told = refused(capsys, *words, "--data", tmp_path / "alone.npz", "--domain", "cheetah")
    assert "got 18 (a file without 'actions' has the differences of its states for actions)" in told


def test_a_test_file_of_another_domain_is_refused_in_one_line(capsys, tmp_path):
    np.savez(tmp_path / "deep.npz", states=np.zeros((3, 5, 4)))
    words = ("train", "--count", 100, "--test", tmp_path / "deep.npz", "--out", tmp_path / "r")
    assert "a state of basketball is 2 numbers; got 4" in refused(capsys, *words)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", "raised ZeroDivisionError on trajectory 0"),
        ("nan", "returned nan"),
        ("steps", "must return one number per trajectory"),
        ("forgetful", "got None: is a return missing?"),
        ("constant", "one class only"),
        ("coin", "2 distinct scores, too few for 3 classes"),
        ("reech", "did you mean 'reach'"),
    ],
)
def test_a_bad_style_is_refused_in_one_line(capsys, data, style, function, message):
    assert message in refused(capsys, "label", "--data", data, "--styles", f"{style}:{function}")


def test_unknown_names_get_a_suggestion(capsys, run, tmp_path):
    out = ("--out", tmp_path / "r")
    cases = [
        (("train", "--algorithm", "ctvae-sytle", *out), "did you mean 'ctvae-style'"),
        (("train", "--data", "basketbal", *out), "did you mean 'basketball'"),
        (("train", "--domain", "basketbal", "--data", "x.npz", *out), "did you mean 'basketball'"),
        (("train", "--styles", "sped", *out), "did you mean 'speed'"),
        (("train", "--styles", "speed", "speed", *out), "given twice"),
        (("train", "--seeds", 0, *out), "at least one seed"),
        (("train", "--classes", 1, *out), "at least 2 classes"),
        (("train", "--settings.training.batch", 0, *out), "training.batch must be above 0"),
        (("train", "--settings.network.latent", -1, *out), "network.latent must be a finite number, not negative"),
        (("train", "--preset", "smal", *out), "did you mean 'small'"),
        (
            ("train", "--data", "cheetah", "--preset", "small", *out),
            "preset 'small' was not made for cheetah and does badly there; take cheetah or",
        ),
        (("train", "--first-seed", -5, *out), "seeds lie between 0"),
        (("train", "--sedes", 3), "did you mean --seeds"),
        (("train", "--seeds", "two"), "Error parsing --seeds"),
        (("train", "--data=mine.npz", "--count", 3, *out), "count is for domains"),
        (("trian",), "unknown command 'trian'; did you mean 'train'"),
        (("evaluate", run.folder, "--draw", -1), "a draw is a whole number between"),
        (("sample", run.folder, "--count", 10**13), "ten million rollouts at a time"),
        (("sample", run.folder, "--style", "speed=slow", "--style", "speed=fast"), "asked for twice"),
        (("sample", run.folder, "--style", "speed=slwo"), "did you mean 'slow'"),
        (("sample", run.folder, "--style", "speed"), "name=class"),
        (("sample", run.folder, "--picture", tmp_path / "a.xyz"), "a.xyz"),
        (("sample", run.folder, "--animation", tmp_path / "a.gif"), "basketball has none; try --picture"),
        (("sample", run.folder, "--animation", tmp_path / "a.mp4"), "an animation is a .gif"),
        (("sample", run.folder, "--render"), "say where with --picture or --animation"),
        (("sample", run.folder, "--render", "--picture", tmp_path / "a.png"), "leave it out"),
        (("sample", tmp_path / "none"), "no such run folder"),
        (("evaluate", tmp_path), "not a run folder"),
        (("evaluate", run.folder, "--rollouts", 0), "at least 1"),
        (("label", "--count", 0), "at least 1"),
        (("label", "--styles", "mine.py"), "name a function in it, as mine.py:function"),
        (("sample", run.folder, "--styles", "speed=slow"), "which is --style"),
        (("sample", run.folder, "--steps", 0), "steps is a whole number, at least 1; got 0"),
        (("sample", run.folder, "--out", tmp_path / "a.csv"), "written as .npz"),
    ]
    for words, message in cases:
        assert message in refused(capsys, *words)


def test_presets_are_the_start_and_options_change_them():
    assert parse(["train"]).settings == PRESETS["basketball"]
    small = parse(["train", "--preset=small", "--settings.network.hidden", "5"]).settings
    assert small.training == PRESETS["small"].training
    assert small.network.hidden == 5
    assert parse(["train", "--data=mine.npz"]).experiment().styles is None


def test_training_says_what_it_will_do_and_what_was_done_already(capsys, tmp_path):
    words = ("train", "--algorithm", "rnn", "--count", 100, "--out", tmp_path / "r", *SMALL)
    _, told, err = say(capsys, *words)
    assert "80 train, 10 validation, 10 test demonstrations (few: metrics will be noisy)" in err
    assert "next state = state + action; 1 seed, steps: policy 4" in err
    assert "is trained, in" in told
    assert "was trained already" in say(capsys, *words)[1]


def test_the_version_is_printed(capsys):
    assert say(capsys, "--version")[1].startswith("poise 0.")


def test_a_folder_that_cannot_be_used_ends_with_code_2(capsys, run, tmp_path):
    """Another version, a damaged file, a held folder, a full disk."""
    folder = shutil.copytree(run.folder, tmp_path / "run")
    with storage.lock(folder):
        same = ["--seeds", 2, "--count", 300, "--out", folder]
        assert "another process is training" in refused(capsys, "train", *same)
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-4])
    assert "damaged or cut short" in refused(capsys, "evaluate", folder)
    (folder / "weights.safetensors").write_bytes(weights)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "format": 0}))
    assert "another version of Poise" in refused(capsys, "sample", folder)


def test_a_full_disk_ends_with_code_2_and_one_line(capsys, monkeypatch, tmp_path):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in refused(capsys, "train", "--count", 100, "--out", tmp_path / "run", *SMALL)


def test_json_has_standard_output_to_itself(capsys, tmp_path):
    code, told, _ = say(
        capsys, "train", "--algorithm", "rnn", "--count", 100, "--out", tmp_path / "r", "--json", *SMALL
    )
    assert code == 0
    assert json.loads(told)["seeds"] == [0]


def test_the_tables_of_the_paper_are_named(capsys):
    code, out, _ = say(capsys, "reproduce", "--list")
    assert code == 0
    assert {"single-styles", "displacement", "destination", "joint", "tradeoff", "rnn", "noise", "all"} <= {
        line.split()[0] for line in out.splitlines()
    }


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "which table\\? name one, or `all`"),
        (["jont"], "unknown table 'jont'; did you mean 'joint'"),
        (["joint", "--algorithms", "ctvea"], "unknown algorithm 'ctvea'; did you mean 'ctvae'"),
        (["rnn", "--algorithms", "ctvae-mi"], "rnn has no row 'ctvae-mi'; its rows are rnn, rnn-style"),
        (["joint", "--seeds", "0"], "at least one seed; got 0"),
        (["joint", "--test", "other.npz"], "--test goes with --data"),
        (["joint", "--data", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_what_cannot_be_reproduced_is_refused(capsys, tmp_path, words, line):
    assert re.search(line, refused(capsys, "reproduce", *words, "--out", tmp_path / "study"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("demonstrators chetah", "unknown domain 'chetah'; did you mean 'cheetah'?"),
        ("demonstrators basketball", "no policies make the demonstrations of 'basketball'"),
        ("demonstrators cheetah --policies 0", "--policies is at least 1; got 0"),
        ("demonstrators cheetah --steps -5", "--steps is at least 1; got -5"),
        ("demonstrators cheetah --seed -1", "--seed lies between 0 and 2^31; got -1"),
        ("demonstrators cheetah --seconds 0", "--seconds is above 0; got 0"),
        ("demonstrators cheetah --driver cuda", "(see poise demonstrators --help)"),
        ("demos basketball", "no policies make the demonstrations of 'basketball'"),
        ("demos cheetah --count 0", "--count is at least 1; got 0"),
        ("demos cheetah --seed -1", "--seed lies between 0 and 2^31; got -1"),
    ],
)
def test_demonstrators_and_demos_refuse_what_makes_no_sense(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, *words.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["demonstrators", "demos"])
def test_the_extra_is_named_where_it_is_missing(capsys, tmp_path, monkeypatch, command):
    from poise.domains import cheetah
    from poise.domains.mujoco import physics

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for cached in (physics.suite_model, cheetah.model, cheetah.in_threads):
        cached.cache_clear()
    assert "pip install 'poise[cheetah]'" in refused(capsys, command, "cheetah")


def test_demos_are_written(capsys, tmp_path):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    code, told, _ = say(capsys, "demos", "cheetah", "--count", 40, "--out", tmp_path / "runs")
    assert code == 0
    assert "40 demonstrations to train with and 10 to test with, 200 steps each" in told
    train, test = (Trajectories.load(tmp_path / "runs" / f"{name}.npz") for name in ("train", "test"))
    assert (len(train), len(test)) == (40, 10)
    assert set(train.metadata) == {"policy", "target"}
    code, told, _ = say(capsys, "demos", "cheetah", "--count", 40, "--json")
    assert json.loads(told) == {"train": 40, "test": 10, "steps": 200, "files": {}}


@pytest.mark.slow
def test_the_cheetah_is_trained_evaluated_and_drawn_by_name(capsys, tmp_path, monkeypatch, short_gaits):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    words = ("--algorithm", "ctvae-style", "--data", "cheetah", "--count", 40, "--styles", "speed", *SMALL)
    words = (*words, "--out", tmp_path / "run")
    refine = {"training.refine-steps": 2, "training.rounds": 1, "training.rollouts": 2}
    more = [word for name, value in refine.items() for word in (f"--settings.{name}", value)]
    code, _, err = say(capsys, "train", *words, *more)
    assert code == 0
    assert "the environment of cheetah; 1 seed, steps: dynamics 4, labeler 4, policy 4, refine 2" in err
    code, told, _ = say(capsys, "evaluate", tmp_path / "run", "--rollouts", 10)
    assert code == 0
    assert "the environment of cheetah" in told
    assert json.loads((tmp_path / "run" / "report.json").read_text())["test"] == 10
    assert "Dynamics were learned; squared error per step and dimension of the state" in told
    strip, moving = tmp_path / "new" / "gait.png", tmp_path / "other" / "gait.gif"
    words = ("sample", tmp_path / "run", "--style", "speed=fast", "--count", 3, "--picture", strip)
    code, told, _ = say(capsys, *words, "--animation", moving)
    assert code == 0
    assert f"wrote {strip}\nwrote {moving}" in told
    assert (strip.read_bytes()[:4], moving.read_bytes()[:4]) == (b"\x89PNG", b"GIF8")
    monkeypatch.setenv("MUJOCO_GL", "off")
    assert "stick figures need no OpenGL" in refused(capsys, *words, "--render")


def test_demonstrators_are_trained_on_this_machine(capsys, tmp_path, monkeypatch):
    pytest.importorskip("dm_control", reason="the extra is missing: pip install 'poise[cheetah]'")
    monkeypatch.setattr("poise.domains.demonstrators.training.POOL", 16)
    words = ("demonstrators", "cheetah", "--policies", 2, "--environments", 4, "--steps", 80, "--out", tmp_path)
    code, told, _ = say(capsys, *words)
    assert code == 0
    assert "2 policies, 80 steps each" in told
    code, told, _ = say(capsys, *words, "--json")
    assert json.loads(told)["config"]["driver"] == "threads"
    assert "holds other demonstrators" in refused(capsys, *words[:-2], "--seed", 1, "--out", tmp_path)
