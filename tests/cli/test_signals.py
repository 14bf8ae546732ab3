"""What a signal stops ends with its exit code, one line and no traceback."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from cli_helpers import say
from conftest import TINY

import poise
from poise.system import storage

SLOW = """
import time
from pathlib import Path

def slow(states, actions):
    Path(__file__).with_name("called").touch()
    time.sleep(float({seconds}))
    return float(states[-1, 0])
"""

WAITING = """
import os, sys, time
if '-P' in sys.orig_argv:
    own = f'begun-{os.getpid()}'
    with open(own, 'w') as file:
        file.write(f'{os.getpid()} {os.getpgrp()}')
    os.replace(own, 'begun')
    time.sleep(5)
"""


def stop(command, number, begun, folder):
    """Sends a signal to a command and all of its processes, as a terminal does, once it has begun."""
    environment = {**os.environ, "POISE_CORES": "2"}
    process = subprocess.Popen(
        [sys.executable, "-c", START, *map(str, command)],
        start_new_session=True,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not begun() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


# Whoever starts the tests in the background has them ignore Ctrl-C; a shell in a terminal does not.
START = "import signal, sys; signal.signal(2, signal.default_int_handler); from poise.cli import main; sys.exit(main())"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_labeling_ends_without_a_traceback(tmp_path, number, code):
    (tmp_path / "mine.py").write_text(SLOW.format(seconds=5))
    words = ["label", "--styles", "mine.py:slow", "--count", "9", "--json"]
    found, err = stop(words, number, (tmp_path / "called").exists, tmp_path)
    assert found == code, err
    assert err.splitlines() == ["poise: interrupted; start the same command again to continue"]


def test_ctrl_c_while_processes_start_ends_without_a_traceback(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(2):
        (logs / f"00215000{number:02}.json").write_text(json.dumps({"gameid": f"00215000{number:02}", "events": []}))
    waiting = tmp_path / "sitecustomize.py"  # read by every new interpreter, before anything of Poise is
    waiting.write_text(WAITING)
    start = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{start}"
    try:
        words = ["import", "sportvu", logs, "--out", "demos.npz", "--jobs", "2", "--json"]
        found, err = stop(words, signal.SIGINT, (tmp_path / "begun").exists, tmp_path)
    finally:
        os.environ["PYTHONPATH"] = start
    assert found == 130, err
    worker, group = (tmp_path / "begun").read_text().split()
    assert worker == group  # a terminal sends Ctrl-C to the group of the command, which this process is not in
    assert err.splitlines() == ["poise: interrupted; start the same command again to continue"]


def test_a_finished_run_where_nobody_may_write_is_said_to_be_finished(tmp_path, monkeypatch, capsys):
    experiment = {"styles": ["speed"], "count": 40, "settings": TINY}
    poise.train("rnn", **experiment, out=tmp_path, progress=False)

    def read_only(path, *_):
        raise poise.PoiseError(f"cannot write {path}: Read-only file system")

    def no_file(path, _):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(storage, "_open_itself", no_file)
    for name in ("writing", "write_bytes", "append_line"):
        monkeypatch.setattr(storage, name, read_only)
    assert poise.train("rnn", **experiment, out=tmp_path, progress=False).folder == tmp_path
    sizes = ["hidden", 8, "layers", 8, "dynamics-layers", 8, "flow.width", 8, "flow.blocks", 1, "flow.steps", 2]
    steps = dict.fromkeys(("policy", "flow", "style", "labeler", "dynamics"), 4)
    words = [f"--settings.network.{name}={value}" for name, value in zip(sizes[::2], sizes[1::2], strict=True)]
    words += [f"--settings.training.{name}-steps={count}" for name, count in steps.items()]
    words += ["--settings.training.batch=8", "--settings.training.flow-batch=8", "--settings.training.chunk=2"]
    words += ["--settings.sampling.steps=2", "--settings.sampling.tries=2"]
    code, out, err = say(
        capsys, "train", "--algorithm", "rnn", "--styles", "speed", "--count", 40, "--out", tmp_path, *words
    )
    assert code == 0, err
    assert f"{tmp_path} was trained already" in out
