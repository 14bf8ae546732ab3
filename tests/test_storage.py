import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise import PoiseError, storage


@pytest.fixture
def tree():
    return {
        "weights": jnp.arange(6.0).reshape(2, 3).T,  # not contiguous
        "keys": jax.random.split(jax.random.key(0), 3),
        "steps": jnp.asarray(7),
        "half": jnp.ones(3, jnp.bfloat16),
    }


def test_a_tree_comes_back_equal(tree, tmp_path):
    storage.write_tree(tmp_path / "a.safetensors", tree, {"stage": 2})
    back = storage.read_tree(tmp_path / "a.safetensors", tree)
    assert storage.read_notes(tmp_path / "a.safetensors") == {"stage": 2}
    for name in ("weights", "steps", "half"):
        np.testing.assert_array_equal(back[name], tree[name])
        assert back[name].dtype == tree[name].dtype
    np.testing.assert_array_equal(jax.random.key_data(back["keys"]), jax.random.key_data(tree["keys"]))


def test_a_damaged_or_cut_file_is_refused(tree, tmp_path):
    path = tmp_path / "a.safetensors"
    storage.write_tree(path, tree, {})
    good = path.read_bytes()
    flipped = bytearray(good)
    flipped[-3] ^= 1
    for content in (good[:-5], good[:4], b"", bytes(flipped), b"\x00" * 100):
        path.write_bytes(content)
        with pytest.raises(PoiseError, match="damaged"):
            storage.read_tree(path, tree)


def test_a_file_of_another_shape_is_refused(tree, tmp_path):
    storage.write_tree(tmp_path / "a.safetensors", tree, {})
    with pytest.raises(PoiseError, match=r"does not fit its config.json"):
        storage.read_tree(tmp_path / "a.safetensors", {**tree, "steps": jnp.zeros(4)})


def test_a_full_disk_leaves_the_old_file_good(tree, tmp_path):
    path = tmp_path / "a.safetensors"
    storage.write_tree(path, tree, {"stage": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(PoiseError, match=r"cannot write .*; the old file is still good"):
            storage.write_tree(path, {"big": jnp.zeros(100_000)}, {"stage": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert storage.read_notes(path) == {"stage": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_folder_is_held_by_one_at_a_time(tmp_path):
    with storage.lock(tmp_path), pytest.raises(PoiseError, match="another process is training in"):  # noqa: SIM117
        with storage.lock(tmp_path):
            pass
    with storage.lock(tmp_path):
        pass


def test_json_that_is_damaged_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"format": 1')
    with pytest.raises(PoiseError, match=r"config.json is damaged"):
        storage.read_json(tmp_path / "config.json")
