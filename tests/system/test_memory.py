import jax
import pytest

from poise import PoiseError
from poise.system.memory import device_memory, fits_on_device


@pytest.mark.parametrize(("given", "size"), [("1000", 1000), ("2K", 2048), ("1.5g", 3 * 2**29), (" 1 MB", None)])
def test_the_environment_sets_how_much_memory_there_is(monkeypatch, given, size):
    monkeypatch.setenv("POISE_MEMORY", given)
    if size is None:
        with pytest.raises(PoiseError, match="POISE_MEMORY is a number of bytes, for example"):
            device_memory()
        return
    assert device_memory() == size
    assert fits_on_device(size // 4)
    assert not fits_on_device(size // 4 + 1)


def test_without_it_the_memory_is_that_of_the_device_or_the_host(monkeypatch):
    monkeypatch.delenv("POISE_MEMORY", raising=False)
    assert 2**20 < device_memory() < 2**50

    class Device:
        def memory_stats(self):
            return {"bytes_limit": 100, "bytes_in_use": 30}

    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert device_memory() == 70
