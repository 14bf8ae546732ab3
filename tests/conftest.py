"""Shared by all tests: shapes and types are checked at run time, and a few tiny runs are trained once."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shutil
import signal
import tempfile

import jax
import jaxtyping
import numpy as np
import pytest

SHARED = "POISE_TEST_PROGRAMS"
os.environ.setdefault("POISE_PROGRAM_CACHE", "")  # the cache of users, not of tests
os.environ.setdefault("POISE_DEMONSTRATIONS", "")
os.environ.setdefault("POISE_CORES", "1")  # pytest keeps the cores busy; tests of several devices say so
jax.config.update("jax_disable_most_optimizations", True)  # tests compile much and compute little
if SHARED not in os.environ:  # the first process, which starts the others: what one compiles all of them have
    os.environ[SHARED] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ[SHARED], ignore_errors=True)
jax.config.update("jax_compilation_cache_dir", os.environ[SHARED])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jaxtyping.install_import_hook("poise", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import poise  # noqa: E402  (after the hook)
from poise.config import Network, Settings, Training  # noqa: E402

TINY = Settings(
    network=Network(hidden=8, layers=(8,), dynamics_layers=(8,)),
    training=Training(policy_steps=4, labeler_steps=4, dynamics_steps=4, batch=8, chunk=2),
)


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
    from poise import rendering
    from poise.domains import cheetah

    try:
        rendering.Renderer(cheetah.model()).close()
    except poise.PoiseError as error:
        pytest.skip(str(error))


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
