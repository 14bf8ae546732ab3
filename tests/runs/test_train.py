import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from conftest import ONE_PIECE, TINY, wander

import poise
from poise import PoiseError
from poise.algorithms import ALGORITHMS, DYNAMICS, IMITATE, REFINE, Algorithm, dynamics, rnn
from poise.runs import train as training
from poise.runs import training_data
from poise.runs.folder import digest
from poise.runs.in_training import RunInTraining
from poise.runs.prepare import prepare_all
from poise.system import interrupts, storage
from poise.training.fit import fit

FLOWS = "flow", "flow-style"

JOB = """
import os, signal, sys
from poise import Network, Settings, Training, train
from poise.system import interrupts, storage

def append_and_stop(path, text, append=storage.append_line):
    append(path, text)
    if len(sys.argv) > 2 and path.read_text().count("\\n") == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGSTOP)  # stands still here until it is killed

storage.append_line = append_and_stop
interrupts.SECONDS_BETWEEN_CHECKPOINTS = 0.0
settings = Settings(
    network=Network(hidden=8, layers=(8,)),
    training=Training(policy_steps=90, batch=8, chunk=3),
)
train("rnn", seeds=2, count=300, settings=settings, out=sys.argv[1], progress=False)
"""


def job(folder: Path, *arguments: object) -> subprocess.Popen:
    ours = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")  # users compile with all optimisations
    environment = {name: value for name, value in os.environ.items() if name not in ours} | {"XLA_FLAGS": ONE_PIECE}
    command = [sys.executable, "-c", JOB, str(folder), *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)


def wait_for(path: Path, lines: int, process: subprocess.Popen) -> None:
    """Waits until a job has logged that many lines."""
    for _ in range(4800):
        if path.exists() and path.read_text().count("\n") >= lines:
            return
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError(f"{path} never had {lines} lines")


@pytest.mark.slow
def test_a_killed_run_ends_with_the_very_weights_of_an_uninterrupted_one_and_its_folder_is_held_meanwhile(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert job(whole).wait() == 0
    for lines in (3, 15):
        killed = job(cut, lines)
        wait_for(cut / "metrics.jsonl", lines, killed)
        with pytest.raises(PoiseError, match="another process is training in"), storage.lock(cut):
            pass
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert not (cut / "weights.safetensors").exists()
    assert job(cut).wait() == 0
    assert (cut / "weights.safetensors").read_bytes() == (whole / "weights.safetensors").read_bytes()
    steps = [
        [(e["stage"], e["step"], e["losses"]) for e in map(json.loads, (f / "metrics.jsonl").read_text().splitlines())]
        for f in (cut, whole)
    ]
    assert steps[0] == steps[1]
    assert not (cut / "checkpoint.safetensors").exists()


def test_a_finished_run_is_not_trained_again(run):
    before = (run.folder / "weights.safetensors").stat().st_mtime_ns
    again = poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=run.folder, progress=False)
    assert (run.folder / "weights.safetensors").stat().st_mtime_ns == before
    np.testing.assert_array_equal(again.sample(3).states, run.sample(3).states)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "ctvae"}, r"another experiment \(algorithm: ctvae-style, not ctvae\); choose another --out"),
        ({"seeds": 3}, r"another experiment \(seeds: 2, not 3\)"),
        ({"count": 301}, "another experiment"),
    ],
)
def test_a_folder_keeps_one_experiment(run, change, message):
    asked = {"algorithm": "ctvae-style", "seeds": 2, "count": 300, "settings": TINY, **change}
    with pytest.raises(PoiseError, match=message):
        poise.train(out=run.folder, progress=False, **asked)


def test_a_damaged_checkpoint_is_reported_and_left_alone(run, tmp_path):
    import shutil

    folder = shutil.copytree(run.folder, tmp_path / "run")
    (folder / "weights.safetensors").rename(folder / "checkpoint.safetensors")
    cut = (folder / "checkpoint.safetensors").read_bytes()[:-9]
    (folder / "checkpoint.safetensors").write_bytes(cut)
    with pytest.raises(PoiseError, match=r"checkpoint.safetensors is damaged or cut short"):
        poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=folder, progress=False)
    assert (folder / "checkpoint.safetensors").read_bytes() == cut


def test_metrics_have_one_line_per_chunk_and_one_value_per_seed(run):
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["step"]) for line in lines] == [(s, n) for s in ("labeler", "policy") for n in (2, 4)]
    assert all(len(values) == 2 for line in lines for values in line["losses"].values())
    assert set(lines[-1]["losses"]) == set(lines[-1]["validation"]) == {"nld", "kl", "style"}


def test_a_run_folder_says_where_it_comes_from(run):
    written = storage.read_json(run.folder / "config.json")
    assert written["format"] == 3
    assert written["versions"]["jax"]
    assert [style["name"] for style in written["styles"]] == ["speed", "destination"]
    assert all(len(style["thresholds"]) == 2 for style in written["styles"])


def test_progress_is_shown_with_the_losses(capsys):
    poise.train("rnn", seeds=1, count=100, settings=TINY)
    shown = capsys.readouterr().err
    assert "rnn policy" in shown
    assert "nld/step=" in shown


def test_a_run_without_a_finite_loss_ends_with_one_line(tmp_path):
    wild = replace(TINY, training=replace(TINY.training, learning_rate=1e30, policy_steps=40))
    with pytest.raises(PoiseError, match=r"no seed has a finite loss any more .* try a smaller"):
        poise.train("rnn", seeds=2, count=100, settings=wild, out=tmp_path, progress=False)


def test_starts_to_sample_from_were_neither_trained_nor_tested_on(run):
    assert len(run.starts) == 30  # a tenth of 300: validation, not test
    used = {row.tobytes() for part in (run.splits().train, run.splits().test) for row in np.asarray(part.states)}
    assert not any(row.tobytes() in used for row in np.asarray(run.starts.states))


def test_the_seed_to_sample_from_is_the_best_on_validation_data(run, monkeypatch):
    for joint in ([0.2, 0.7], [0.7, 0.2]):
        monkeypatch.setattr(RunInTraining, "joint_consistency", lambda *_, joint=joint: np.asarray(joint))
        assert poise.train("rnn", seeds=2, count=100, settings=TINY, progress=False).best == int(np.argmax(joint))


MANY = [
    poise.Experiment("rnn", styles=("speed",), count=300, settings=TINY),
    poise.Experiment("rnn", styles=("destination",), count=300, settings=TINY, seeds=2),
    poise.Experiment("rnn", styles=("speed",), count=300, settings=replace(TINY, weights=poise.Weights(nld=0.0))),
    poise.Experiment("rnn", styles=("speed", "destination"), count=300, settings=TINY),
    poise.Experiment(
        "rnn", styles=("speed",), count=300, settings=replace(TINY, network=replace(TINY.network, hidden=4))
    ),
]


def weights(run):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.parts) if hasattr(x, "dtype")])


def test_runs_of_one_shape_are_one_program_and_end_as_if_each_were_alone(monkeypatch, tmp_path):
    sizes = []
    monkeypatch.setattr(
        training,
        "fit",
        lambda algorithm, state, *a, **k: sizes.append(len(state.step)) or fit(algorithm, state, *a, **k),
    )
    together = poise.train_many(MANY, out=tmp_path, progress=False)
    assert sizes == [5, 1]  # seeds, styles, their number and weights differ; another network does not fit
    for number in (1, 2, 3):
        alone = poise.train_many([MANY[number]], progress=False)[0]
        np.testing.assert_allclose(weights(together[number]), weights(alone), rtol=1e-3, atol=1e-4)
    assert not np.allclose(weights(together[0]), weights(together[2]), atol=1e-5)
    loaded = poise.load_run(tmp_path / "001")
    np.testing.assert_array_equal(weights(loaded), weights(together[1]))
    sizes.clear()
    poise.train_many(MANY, out=tmp_path, progress=False)
    assert not sizes  # all were done


def test_runs_that_were_interrupted_together_resume_together(monkeypatch, tmp_path):
    experiments = [
        replace(one, settings=replace(TINY, training=replace(TINY.training, policy_steps=6))) for one in MANY[:2]
    ]
    whole = poise.train_many(experiments, progress=False)
    monkeypatch.setattr(interrupts, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(interrupts, "WRITING_SHARE", 0)

    def cut_short(*given, **more):
        for count, now in enumerate(fit(*given, **more)):
            yield now
            if count == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", cut_short)
    with pytest.raises(KeyboardInterrupt):
        poise.train_many(experiments, out=tmp_path, progress=False)
    assert (tmp_path / "000" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(training, "fit", fit)
    for one, other in zip(poise.train_many(experiments, out=tmp_path, progress=False), whole, strict=True):
        np.testing.assert_array_equal(weights(one), weights(other))


def test_a_run_that_was_cut_while_its_dynamics_were_refined_ends_as_if_it_were_not(monkeypatch, tmp_path):
    row = Algorithm({"policy": rnn, "dynamics": dynamics}, (DYNAMICS, IMITATE, REFINE))
    monkeypatch.setitem(ALGORITHMS, "rnn-refined", row)
    domain = poise.Domain("bent", environment=lambda states, actions: states + 0.9 * actions)
    given = {"styles": [lambda states, actions: states[-1, 0]], "domain": domain, "progress": False}
    given["settings"] = replace(TINY, training=replace(TINY.training, refine_steps=4, rounds=2, rollouts=3))
    whole = poise.train("rnn-refined", wander(60), **given)

    def cut_short(*all_given, **more):
        for now in fit(*all_given, **more):
            yield now
            if (now.stage, now.step) == ("refine", 3):
                raise KeyboardInterrupt

    monkeypatch.setattr(interrupts, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    monkeypatch.setattr(interrupts, "WRITING_SHARE", 0)
    monkeypatch.setattr(training, "fit", cut_short)
    given["settings"] = replace(given["settings"], training=replace(given["settings"].training, chunk=1))
    with pytest.raises(KeyboardInterrupt):
        poise.train("rnn-refined", wander(60), out=tmp_path, **given)
    monkeypatch.setattr(training, "fit", fit)
    again = poise.train("rnn-refined", wander(60), out=tmp_path, **given)
    np.testing.assert_array_equal(weights(again), weights(whole))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines if line["stage"] in ("policy", "refine")] == [
        *(["policy"] * 2 + ["refine"] * 2) * 2
    ]


def test_what_is_trained_is_not_lost_when_the_environment_fails(tmp_path, capsys):
    def fails(states, actions):
        raise RuntimeError("the simulator is gone")

    domain, style = poise.Domain("broken", environment=fails), lambda states, actions: states[-1, 0]
    run = poise.train("rnn", wander(60), [style], domain=domain, seeds=2, settings=TINY, out=tmp_path, progress=False)
    assert (tmp_path / "weights.safetensors").exists()
    assert run.best == 0
    assert "could not be compared" in capsys.readouterr().err


def test_a_folder_of_a_version_with_fewer_settings_is_still_known(run, tmp_path):
    import shutil

    folder = shutil.copytree(run.folder, tmp_path / "run")
    written = storage.read_json(folder / "config.json")
    del written["experiment"]["settings"]["training"]["refine_steps"]
    storage.write_json(folder / "config.json", written)
    storage.write_tree(folder / "weights.safetensors", run.parts, {"run": digest(written)})
    before = (folder / "weights.safetensors").stat().st_mtime_ns
    poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=folder, progress=False)
    assert (folder / "weights.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_signal_stops_is_saved_first(interruptible, monkeypatch, tmp_path, number):
    monkeypatch.setattr(interrupts, "SECONDS_BETWEEN_CHECKPOINTS", 1e9)
    chunks = []

    def interrupted(*given, **more):
        for now in fit(*given, **more):
            chunks.append((now.stage, now.step))
            if now.stage == "policy" and now.step == 2:
                signal.raise_signal(number)
            yield now

    monkeypatch.setattr(training, "fit", interrupted)
    given = {"seeds": 2, "count": 300, "settings": TINY, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        poise.train("ctvae-style", out=tmp_path, **given)
    assert storage.read_notes(tmp_path / "checkpoint.safetensors")["step"] == 2
    monkeypatch.setattr(training, "fit", fit)
    np.testing.assert_array_equal(
        weights(poise.train("ctvae-style", out=tmp_path, **given)), weights(poise.train("ctvae-style", **given))
    )


def test_data_that_do_not_fit_are_streamed_and_where_one_window_holds_all_train_the_same(monkeypatch):
    whole = poise.train("rnn", styles=["speed"], count=900, settings=TINY, progress=False)
    monkeypatch.setenv("POISE_MEMORY", "1M")
    seen = []
    monkeypatch.setattr(
        training,
        "fit",
        lambda a, s, given, *r, **k: seen.append(type(given.train).__name__) or fit(a, s, given, *r, **k),
    )
    monkeypatch.setattr(training_data, "WINDOWS_IN_MEMORY", 1)
    streamed = poise.train("rnn", styles=["speed"], count=900, settings=TINY, progress=False)
    assert seen == ["Stream"]
    np.testing.assert_allclose(weights(streamed), weights(whole), rtol=1e-4, atol=1e-5)


def test_data_in_memory_bring_their_own_dynamics_to_many_experiments():
    walks = wander(60)
    odd = poise.Trajectories(walks.states, 3 * np.asarray(walks.actions))  # next state is not state + action
    with pytest.raises(PoiseError, match="unknown style 'speed'"):  # a name is a name of the domain, and there is none
        poise.train_many([poise.Experiment("rnn", data=odd, styles=("speed",), settings=TINY)], progress=False)
    (run,) = poise.train_many(
        [poise.Experiment("rnn", data=walks, styles=("speed",), domain="basketball", settings=TINY)], progress=False
    )
    assert run.experiment.to_json()["data"] is None


def test_resuming_at_the_end_of_a_stage_repeats_nothing(monkeypatch, tmp_path):

    def cut_short(*given, **more):
        for now in fit(*given, **more):
            yield now
            if now.stage == "labeler" and now.step == now.steps:
                raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", cut_short)
    with pytest.raises(KeyboardInterrupt):
        poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=tmp_path, progress=False)
    monkeypatch.setattr(training, "fit", fit)
    poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=tmp_path, progress=False)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["step"]) for line in lines] == [(s, n) for s in ("labeler", "policy") for n in (2, 4)]
    assert all(value is not None for line in lines for values in line["losses"].values() for value in values)


def test_settings_that_differ_are_named_one_by_one(tmp_path):
    given = {"seeds": 2, "count": 100, "out": tmp_path, "progress": False}
    poise.train("rnn", settings=TINY, **given)
    other = replace(TINY, training=replace(TINY.training, policy_steps=9, batch=4))
    said = r"\(settings.training.policy_steps: 4, not 9; settings.training.batch: 8, not 4\)"
    with pytest.raises(PoiseError, match=said):
        poise.train("rnn", settings=other, **given)


def test_a_run_that_begins_with_a_trained_one_ends_as_if_it_had_trained_all_stages_itself(monkeypatch):
    flow = replace(TINY.network.flow, width=8, blocks=1, steps=2)
    steps = replace(TINY.training, flow_steps=2, style_steps=2, labeler_steps=2, flow_batch=4)
    settings = replace(TINY, network=replace(TINY.network, flow=flow), training=steps)
    data = wander(40)
    both = [poise.Experiment(name, data, ["speed"], domain="basketball", settings=settings) for name in FLOWS]
    first, second = prepare_all(both)
    earlier, alone = training.train_prepared([first, second], progress=False)
    trained = []
    monkeypatch.setattr(training, "fit", lambda *given, **more: map(note, fit(*given, **more)))

    def note(progress):
        trained.append(progress.stage)
        return progress

    begun = training.train_prepared([second], begun=[earlier], progress=False)[0]
    assert set(trained) == {"labeler", "style"}
    np.testing.assert_array_equal(weights(begun), weights(alone))
    other = prepare_all([replace(both[1], first_seed=1)])
    with pytest.raises(PoiseError, match="is not the beginning of this 'flow-style'"):
        training.train_prepared(other, begun=[earlier], progress=False)
