"""Loading a folder never imports a file because the folder names it."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, wander
from safetensors import safe_open
from safetensors.numpy import save

import poise
from poise import PoiseError, load_run
from poise.cli import main
from poise.rollouts.steer import Steered
from poise.system import trust
from poise.training.checkpoints import TrainingLog

CODE = """
from pathlib import Path
Path(__file__).with_name("ran").touch()

import poise
from poise.domains import integrator

def reach(states, actions):
    return states[-1, 0]

FIELD = poise.Domain("field", dynamics=integrator, units=(2.0, 2.0))
ROW = poise.ALGORITHMS["rnn"]
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A folder that somebody else trained, with code beside it that leaves a mark when it runs."""
    code = tmp_path / "theirs.py"
    code.write_text(CODE)
    wander(60).save(tmp_path / "walks.npz")
    poise.train("rnn", tmp_path / "walks.npz", [f"{code}:reach"], settings=TINY, out=tmp_path / "here", progress=False)
    folder = (tmp_path / "here").rename(tmp_path / "run")  # another place: this user did not train there
    (tmp_path / "ran").unlink()
    code.write_text(CODE + "\n\n")  # changed, so that importing it would run it again
    return tmp_path, folder, code


def ran(tmp_path):
    return (tmp_path / "ran").exists()


def without_digest(path: Path) -> None:
    """Weights as an earlier version wrote them, which say nothing of their run."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["poise"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
    header["notes"].pop("run")
    path.write_bytes(save(arrays, {"poise": json.dumps(header)}))


def test_somebody_elses_folder_runs_no_code(theirs, capsys):
    tmp_path, folder, _code = theirs
    back = load_run(folder)
    assert len(back.sample(3, {"reach": "high"}, tries=1)) == 3  # one try asks no λ
    assert back.experiment.seeds == 1
    for act in (lambda: back.sample_scored(3), lambda: back.evaluate(rollouts=64)):
        with pytest.raises(PoiseError, match=r"a file that a run folder names is not imported; .* --styles .*--trust"):
            act()
    for command in ("sample", "evaluate"):
        assert main([command, str(folder)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not ran(tmp_path)


def test_the_user_names_the_file_or_trusts_the_folder(theirs, capsys):
    tmp_path, folder, code = theirs
    assert load_run(folder, [f"{code}:reach"]).sample_scored(3).right.shape == (3, 1)
    (tmp_path / "ran").unlink()
    code.write_text(CODE + "\n")  # a file that did not change is not run again
    assert load_run(folder, trust=True).sample_scored(3).right.shape == (3, 1)
    assert ran(tmp_path)
    assert main(["sample", str(folder), "--trust", "--count", "3"]) == 0
    assert main(["sample", str(folder), "--styles", f"{code}:reach", "--count", "3"]) == 0


def test_a_folder_trained_here_is_trusted_until_its_config_changes(theirs):
    tmp_path, folder, code = theirs
    back = folder.rename(tmp_path / "here")
    assert load_run(back).sample_scored(3).right.shape == (3, 1)
    config = json.loads((back / "config.json").read_text())
    (back / "config.json").write_text(json.dumps({**config, "command": "another"}))
    (tmp_path / "ran").unlink(missing_ok=True)
    code.write_text(CODE + "\n")
    with pytest.raises(PoiseError, match="is not imported"):
        load_run(back).sample_scored(3)
    assert not ran(tmp_path)


def test_without_a_list_of_trusted_folders_nothing_is_trusted(theirs, monkeypatch):
    tmp_path, folder, _code = theirs
    back = folder.rename(tmp_path / "here")
    monkeypatch.setenv(trust.VARIABLE, "")
    trust.remember(back)
    with pytest.raises(PoiseError, match="is not imported"):
        load_run(back).sample_scored(3)


def test_domains_and_algorithms_of_a_folder_run_no_code_either(theirs):
    tmp_path, _, code = theirs
    given = {"styles": [f"{code}:reach"], "domain": f"{code}:FIELD", "settings": TINY, "progress": False}
    poise.train(f"{code}:ROW", tmp_path / "walks.npz", out=tmp_path / "other", **given)
    folder = (tmp_path / "other").rename(tmp_path / "moved")
    (tmp_path / "ran").unlink(missing_ok=True)
    code.write_text(CODE + "\n")
    with pytest.raises(PoiseError, match=r"a domain of its user's own, 'field' .* pass it: load_run\(folder, domain="):
        load_run(folder)
    domain = poise.Domain("field", units=(2.0, 2.0), dynamics=poise.DOMAINS["basketball"].dynamics)
    with pytest.raises(PoiseError, match="an algorithm of its user's own"):
        load_run(folder, domain=domain)
    assert not ran(tmp_path)
    assert len(load_run(folder, domain=domain, algorithm=poise.ALGORITHMS["rnn"]).sample(2, tries=1)) == 2
    assert not ran(tmp_path)
    assert len(load_run(folder, trust=True).sample_scored(2).right) == 2
    assert main(["sample", str(folder), "--trust", "--count", "2"]) == 0
    names = ["--domain", f"{code}:FIELD", "--algorithm", f"{code}:ROW", "--styles", f"{code}:reach"]
    assert main(["sample", str(folder), "--count", "2", *names]) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"domain": {"name": "{code}:FIELD", "kind": "built-in", "source": None, "adds_up": True}},
        {"domain": {"name": "field", "kind": "own", "source": "{code}:FIELD", "adds_up": True}},
        {"domain": {"name": "{code}:FIELD", "kind": "plain", "source": "{code}:FIELD", "adds_up": True}},
        {"algorithm": "{code}:ROW"},
        {"source": "{code}:reach"},
        {"source": "../{code}:reach"},
    ],
)
def test_no_word_of_a_hostile_config_is_imported(theirs, change):
    tmp_path, folder, code = theirs
    config = json.loads((folder / "config.json").read_text())
    said = json.loads(json.dumps(change).replace("{code}", str(code)))
    config["domain"] = said.get("domain", config["domain"])
    config["experiment"]["algorithm"] = said.get("algorithm", config["experiment"]["algorithm"])
    config["styles"][0]["source"] = said.get("source", config["styles"][0]["source"])
    del config["bound"]
    without_digest(folder / "weights.safetensors")  # a digest would not stop who can compute it
    (folder / "config.json").write_text(json.dumps(config))
    with contextlib.suppress(PoiseError):
        load_run(folder).sample_scored(3)
    assert not ran(tmp_path)


def test_saving_somebody_elses_run_does_not_make_it_trusted(theirs):
    tmp_path, folder, _ = theirs
    load_run(folder).save(tmp_path / "mine")
    with pytest.raises(PoiseError, match="is not imported"):
        load_run(tmp_path / "mine").sample_scored(3)
    assert not ran(tmp_path)


def test_a_file_of_the_same_name_in_the_current_folder_is_not_the_runs(tmp_path, monkeypatch):
    for name, value in (("project", "states[-1, 0]"), ("elsewhere", "1 / 0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "styles.py").write_text(f"def reach(states, actions):\n    return {value}\n")
    monkeypatch.chdir(tmp_path / "project")
    wander(60).save("walks.npz")
    poise.train("rnn", "walks.npz", ["styles.py:reach"], settings=TINY, out="run", progress=False)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_run(tmp_path / "project" / "run").sample_scored(3).scored.all()


def test_a_link_in_a_folder_does_not_lead_a_report_elsewhere(theirs):
    tmp_path, folder, code = theirs
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (folder / "report.html").symlink_to(victim)
    assert main(["evaluate", str(folder), "--rollouts", "8", "--styles", f"{code}:reach"]) == 0
    assert victim.read_text() == "mine"
    assert not (folder / "report.html").is_symlink()


def test_a_flow_in_styles_with_and_without_a_gradient_comes_back_with_its_labeler(tmp_path, walks):
    def turns(states, actions):
        return int((np.diff(np.sign(np.asarray(actions)[:, 0])) != 0).sum())

    def east(states, actions):
        return actions[:, 0].mean()

    ice = poise.Domain("ice", dynamics=lambda states, actions: states + actions)  # recognised as the integrator
    run = poise.train("flow", walks, [turns, east], domain=ice, settings=TINY, out=tmp_path, progress=False)
    back = load_run(tmp_path, [turns, east], ice)
    assert [style.gradient for style in back.styles] == [False, True]
    assert sorted(back.parts) == ["labeler", "policy"]
    asked = {"turns": "high", "east": "low"}
    np.testing.assert_array_equal(back.sample(4, asked, tries=1).states, run.sample(4, asked, tries=1).states)
    policy, followed = back.trained(None)(0).policy(back.sampling(), walks.steps)
    assert isinstance(policy, Steered)
    assert (followed, policy.learned) == ([1, 0], (0,))  # the other one is steered by the labeler
    assert policy.labeler is not None


def test_a_domain_of_ones_own_is_never_taken_for_one_of_the_data(tmp_path):
    scene = poise.Scene(unit="m")
    arena = poise.Domain("arena", dynamics=poise.DOMAINS["basketball"].dynamics, scene=scene)
    poise.train("rnn", wander(60), [lambda s, a: s[-1, 0]], domain=arena, settings=TINY, out=tmp_path, progress=False)
    with pytest.raises(PoiseError, match="a domain of its user's own, 'arena'"):
        load_run(tmp_path)
    assert load_run(tmp_path, domain=arena).domain.scene == scene


def test_an_experiment_on_data_in_memory_does_not_come_back_as_another(tmp_path):
    style = poise.labeling_function(lambda s, a: s[-1, 0], name="reach")
    poise.train("rnn", wander(60), [style], settings=TINY, out=tmp_path, progress=False)
    with pytest.raises(PoiseError, match="trained on demonstrations in memory; pass the ones to use"):
        poise.train_many([load_run(tmp_path).experiment], progress=False)


@pytest.mark.parametrize(
    "other", [{"seeds": 1, "first_seed": 7}, {"noise": 0.5}, {"styles": ["curvature"]}, {"count": 44}]
)
def test_weights_of_another_run_of_the_same_shapes_are_refused(tmp_path, other):
    given = {"styles": ["speed"], "count": 40, "settings": TINY, "progress": False}
    for name, more in (("one", {}), ("other", other)):
        poise.train("rnn", out=tmp_path / name, **{**given, **more})
    shutil.copy(tmp_path / "other" / "weights.safetensors", tmp_path / "one")
    with pytest.raises(PoiseError, match=r"weights.safetensors belongs to another run, .* put back the files of one"):
        load_run(tmp_path / "one")
    with pytest.raises(PoiseError, match="belongs to another run"):
        poise.train("rnn", out=tmp_path / "one", **given)


def test_weights_without_a_digest_are_read_only_in_a_folder_of_a_version_that_wrote_none(run, tmp_path):
    folder = shutil.copytree(run.folder, tmp_path / "run")
    without_digest(folder / "weights.safetensors")
    with pytest.raises(PoiseError, match=r"weights.safetensors does not say whose it is"):
        load_run(folder)
    written = json.loads((folder / "config.json").read_text())
    del written["bound"]
    (folder / "config.json").write_text(json.dumps(written))
    back = load_run(folder)
    back.save(tmp_path / "again")
    load_run(tmp_path / "again")  # saved again, its weights say whose they are
    without_digest(tmp_path / "again" / "weights.safetensors")
    with pytest.raises(PoiseError, match="does not say whose it is"):
        load_run(tmp_path / "again")


def test_a_run_is_known_wherever_its_demonstrations_lie(tmp_path):
    wander(60).save(tmp_path / "walks.npz")
    style = poise.labeling_function(lambda s, a: s[-1, 0], name="reach")
    poise.train("rnn", tmp_path / "walks.npz", [style], settings=TINY, out=tmp_path / "run", progress=False)
    moved = (tmp_path / "walks.npz").rename(tmp_path / "moved.npz")
    written = json.loads((tmp_path / "run" / "config.json").read_text())
    written["experiment"]["data"] = str(moved)
    (tmp_path / "run" / "config.json").write_text(json.dumps(written))
    assert load_run(tmp_path / "run", [style]).splits().train.steps == 6


def test_a_checkpoint_of_another_run_is_not_resumed(tmp_path, monkeypatch):
    given = {"styles": ["speed"], "count": 40, "settings": TINY, "progress": False}
    for name, seed in (("one", 0), ("other", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(TrainingLog, "save", stop_after(TrainingLog.save))
            with pytest.raises(KeyboardInterrupt):
                poise.train("rnn", first_seed=seed, out=tmp_path / name, **given)
    shutil.copy(tmp_path / "other" / "checkpoint.safetensors", tmp_path / "one")
    with pytest.raises(PoiseError, match=r"checkpoint.safetensors belongs to another run"):
        poise.train("rnn", out=tmp_path / "one", **given)
    assert poise.train("rnn", first_seed=3, out=tmp_path / "other", **given).seeds == [3]


def stop_after(save_checkpoint):
    """Writes a checkpoint, and is interrupted."""

    def stopping(log, progress, state):
        save_checkpoint(log, progress, state)
        raise KeyboardInterrupt

    return stopping
