import os
import subprocess
import sys

import pytest

from poise import PoiseError
from poise.system.devices import count_cores, use_cpu_devices

COUNT = """
import jax
from poise.system.devices import use_cpu_devices
{before}
use_cpu_devices()
print(len(jax.devices("cpu")))
"""


def devices(before: str = "", **environment: str) -> int:
    """The number of devices in a new process that runs this code before `use_cpu_devices`."""
    words = [sys.executable, "-c", COUNT.format(before=before)]
    clean = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "POISE_CORES")}
    done = subprocess.run(words, env={**clean, **environment}, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_each_core_is_a_device_unless_the_environment_names_a_number():
    assert devices() == count_cores()
    assert devices(POISE_CORES="3") == 3


def test_devices_that_were_initialised_or_chosen_before_are_not_changed():
    assert devices("jax.devices()", POISE_CORES="3") == 1
    assert devices("jax.config.update('jax_num_cpu_devices', 2)", POISE_CORES="3") == 2
    assert devices(XLA_FLAGS="--xla_force_host_platform_device_count=2", POISE_CORES="3") == 2


@pytest.mark.parametrize("given", ["0", "two", "-1", ""])
def test_a_number_of_cores_that_is_not_positive_is_refused(monkeypatch, given):
    monkeypatch.setenv("POISE_CORES", given)
    with pytest.raises(PoiseError, match="POISE_CORES is a number of cores"):
        use_cpu_devices()


def test_a_process_that_only_loads_a_run_has_one_device(run):
    code = "import sys, jax, poise; poise.load_run(sys.argv[1]).sample(1); print(len(jax.devices()))"
    environment = {name: value for name, value in os.environ.items() if name != "POISE_CORES"}
    words = [sys.executable, "-c", code, str(run.folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
