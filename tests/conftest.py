"""Shared by all tests: shapes and types are checked at run time, and a few tiny runs are trained once."""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

SHARED = "POISE_TEST_FOLDER"
SIMPLE_CODE = "--xla_cpu_use_fusion_emitters=false"  # compiles in half the time, to slower code
ONE_PIECE = "--xla_cpu_parallel_codegen_split_count=1"  # or each of these small programs is compiled in 32 pieces


def share_folder() -> None:
    """Lets all test processes, and the programs that tests start, share what one of them compiles.

    Only the first process does it; it starts the others. Tests compile much and compute little.
    """
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    flags = f"{os.environ.get('XLA_FLAGS', '')} {SIMPLE_CODE} {ONE_PIECE}".strip()
    check = [sys.executable, "-c", "import jax; jax.devices()"]
    known = subprocess.run(check, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True).returncode == 0
    os.environ |= {
        SHARED: str(folder),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        **({"XLA_FLAGS": flags} if known else {}),
    }
    os.environ.setdefault("POISE_PROGRAM_CACHE", "")  # the cache of users, not of tests
    os.environ.setdefault("POISE_DEMONSTRATIONS", str(folder / "demonstrations"))
    os.environ.setdefault("POISE_TRUST", str(folder / "trust"))
    os.environ.setdefault("POISE_CORES", "1")  # pytest keeps the cores busy; tests of several devices set it


if SHARED not in os.environ:
    share_folder()

import jax  # noqa: E402  (after the variables that it reads)
import jaxtyping  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

jaxtyping.install_import_hook("poise", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import poise  # noqa: E402  (after the hook)
from poise.config import FlowNetwork, Network, Sampling, Settings, Training  # noqa: E402
from poise.evaluation import evaluate, realism  # noqa: E402
from poise.evaluation.two_sample import ClassifierSize  # noqa: E402
from poise.training import fit, state  # noqa: E402
from poise.training.stages import compile_stage, estimate  # noqa: E402

gc.freeze()
gc.set_threshold(100_000, 20, 100)  # tracing makes many objects, and collecting them often took a tenth of the time

kept: dict[Any, Any] = {}


def once(key: Any, make: Callable[[], Any]) -> Any:
    """Tests train the same tiny stages again and again: what was traced once in this process is used again."""
    if key not in kept:
        kept[key] = make()
    return kept[key]


def compile_stage_once(stage, optimisation, axis, static):
    leaves, tree = jax.tree.flatten(static)
    key = "stage", stage, optimisation, axis, tree, tuple(leaves)
    return once(key, lambda: compile_stage(stage, optimisation, axis, static))


def compile_build_once(algorithm, problem, compile_build=state.compile_build):
    """The problem is kept with its program, so that no other domain gets its number."""
    sizes = problem.statistics.limits, problem.statistics.steps
    key = "build", *algorithm.parts.items(), problem.space, problem.network, sizes, id(problem.domain)
    return once(key, lambda: (compile_build(algorithm, problem), problem))[0]


def estimate_once(stage, parts, data, settings):
    leaves, tree = jax.tree.flatten((parts, data))
    shapes = tuple((x.shape, x.dtype) if hasattr(x, "dtype") else x for x in leaves)
    key = "estimate", stage, settings.training.batch_of(stage.name), tree, shapes
    return once(key, lambda: estimate(stage, parts, data, settings))


setattr(fit, "compile_stage", compile_stage_once)  # noqa: B010
setattr(fit, "estimate", estimate_once)  # noqa: B010
setattr(state, "compile_build", compile_build_once)  # noqa: B010
tiny_classifier = ClassifierSize(rows=64, hidden=4, steps=4, batch=8, rate=1e-2, reads=5)
setattr(evaluate, "REPEATED", 8)  # noqa: B010  (64 rollouts: a program that is there already)
setattr(realism, "SMALL", tiny_classifier)  # noqa: B010  (its own tests take the real one)

TINY_FLOW = FlowNetwork(width=8, blocks=1, steps=2)
TINY = Settings(
    network=Network(hidden=8, layers=(8,), dynamics_layers=(8,), flow=TINY_FLOW),
    training=Training(
        policy_steps=4, flow_steps=4, style_steps=4, labeler_steps=4, dynamics_steps=4, batch=8, flow_batch=8, chunk=2
    ),
    sampling=Sampling(steps=2, tries=2),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: each file is run by one worker, and short ones fill up the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def tiny() -> Settings:
    """Settings that train in a moment."""
    return TINY


def wander(count: int, steps: int = 6, size: int = 2, seed: int = 0) -> poise.Trajectories:
    """Random walks."""
    random = np.random.default_rng(seed)
    states = random.normal(size=(count, steps + 1, size)).cumsum(axis=1)
    return poise.Trajectories(states)


@contextlib.contextmanager
def count_compilations():
    """What JAX compiles inside, by name: a list that is full at the end."""
    told, logger = [], logging.getLogger("jax._src.interpreters.pxla")
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logger.addHandler(handler)
    try:
        with jax.log_compiles():
            yield told
    finally:
        logger.removeHandler(handler)


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: whoever starts the tests in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def opengl() -> None:
    """Skips a test where MuJoCo cannot render."""
    from poise.domains import cheetah
    from poise.domains.mujoco import rendering

    try:
        rendering.Renderer(cheetah.model()).close()
    except poise.PoiseError as error:
        pytest.skip(str(error))


@pytest.fixture
def short_gaits(monkeypatch) -> None:
    """Demonstrations of the Cheetah have 20 steps, not 200."""
    from poise.domains import cheetah

    monkeypatch.setattr(cheetah, "RUNNING", replace(cheetah.RUNNING, steps=20))


@pytest.fixture
def no_classifier(monkeypatch) -> None:
    """Evaluations without a two-sample test, for other claims: each shape of it is a program of its own."""
    monkeypatch.setattr(realism, "LEAST_ROWS", 1_000_000)


@pytest.fixture(scope="session")
def walks() -> poise.Trajectories:
    """Sixty random walks in the plane."""
    return wander(60)


@pytest.fixture(scope="session")
def ragged() -> poise.Trajectories:
    """Random walks of different lengths, with nonsense beyond them."""
    made = wander(40, steps=7, seed=1)
    lengths = np.random.default_rng(2).integers(1, 8, size=40)
    states, actions = np.array(made.states), np.array(made.actions)
    for row, length in enumerate(lengths):
        states[row, length + 1 :] = np.nan
        actions[row, length:] = np.inf
    return poise.Trajectories(states, actions, lengths)


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> poise.Run:
    """A tiny ctvae-style run of two seeds on simulated basketball, in a folder."""
    folder = tmp_path_factory.mktemp("runs") / "style"
    return poise.train("ctvae-style", seeds=2, count=300, settings=TINY, out=folder, progress=False)
