import os
import subprocess
import sys

import pytest

from poise import PoiseError
from poise.cores import count_cores, use_cores

COUNT = "from poise.cores import use_cores; import jax; {before}; use_cores(); print(len(jax.devices('cpu')))"


def devices(before: str = "0", **environment: str) -> int:
    words = [sys.executable, "-c", COUNT.format(before=before)]
    clean = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "POISE_CORES")}
    done = subprocess.run(words, env={**clean, **environment}, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_each_core_is_a_device_unless_said_otherwise():
    assert devices() == count_cores()
    assert devices(POISE_CORES="3") == 3


def test_what_was_there_before_is_left_alone():
    assert devices("jax.devices()", POISE_CORES="3") == 1
    assert devices("jax.config.update('jax_num_cpu_devices', 2)", POISE_CORES="3") == 2
    assert devices(XLA_FLAGS="--xla_force_host_platform_device_count=2", POISE_CORES="3") == 2


@pytest.mark.parametrize("told", ["0", "two", "-1", ""])
def test_a_number_of_cores_is_a_number(monkeypatch, told):
    monkeypatch.setenv("POISE_CORES", told)
    with pytest.raises(PoiseError, match="POISE_CORES is a number of cores"):
        use_cores()


def test_a_process_that_only_loads_a_run_has_one_device(run):
    code = "import sys, jax, poise; poise.load_run(sys.argv[1]).sample(1); print(len(jax.devices()))"
    environment = {name: value for name, value in os.environ.items() if name != "POISE_CORES"}
    words = [sys.executable, "-c", code, str(run.folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
