import contextlib
import errno
import os
import resource
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise import PoiseError
from poise.system import storage


@pytest.fixture
def tree():
    return {
        "weights": jnp.arange(6.0).reshape(2, 3).T,  # not contiguous
        "keys": jax.random.split(jax.random.key(0), 3),
        "steps": jnp.asarray(7),
        "half": jnp.ones(3, jnp.bfloat16),
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_tree_is_read_as_it_was_written(tree, tmp_path):
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


def test_extra_arrays_and_numbers_of_another_type_are_refused(tree, tmp_path):
    path = tmp_path / "a.safetensors"
    storage.write_tree(path, tree, {})
    fewer = {name: leaf for name, leaf in tree.items() if name != "half"}
    with pytest.raises(PoiseError, match=r"does not fit its config.json, which knows no .*half"):
        storage.read_tree(path, fewer)
    with pytest.raises(PoiseError, match=r"half'\] has numbers of float32 there, bfloat16 here"):
        storage.read_tree(path, {**tree, "half": jnp.ones(3)})
    with pytest.raises(PoiseError, match=r"does not fit its config.json: .* nothing here"):
        storage.read_tree(path, {**tree, "more": jnp.ones(3)})


def test_a_file_of_another_run_is_refused_and_one_that_does_not_say_only_if_it_must(tree, tmp_path):
    for run, refused in (("mine", (False, False)), ("yours", (True, True)), (None, (False, True))):
        storage.write_tree(tmp_path / "a.safetensors", tree, {"run": run})
        for always, refuses in zip((False, True), refused, strict=True):
            with pytest.raises(PoiseError, match="put back") if refuses else contextlib.nullcontext():
                storage.refuse_foreign(tmp_path / "a.safetensors", "mine", always)


def test_a_file_over_the_systems_limit_leaves_the_old_file_good(tree, tmp_path):
    path = tmp_path / "a.safetensors"
    storage.write_tree(path, tree, {"stage": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(PoiseError, match=r"cannot write .*; the old file is still good"):
            storage.write_tree(path, {"big": jnp.zeros(100_000)}, {"stage": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert storage.read_notes(path) == {"stage": 1}
    assert names(tmp_path) == ["a.safetensors"]


def fail(error: BaseException):
    def raise_error(*_):
        raise error

    return raise_error


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_one_line_and_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "a.json"
    storage.write_json(path, 1)
    monkeypatch.setattr(os, call, fail(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(PoiseError) as raised:
        storage.write_json(path, 2)
    assert str(raised.value) == f"cannot write {path}: No space left on device; the old file is still good"
    assert storage.read_json(path) == 1
    with pytest.raises(PoiseError, match=r"b.json: No space left on device$"):
        storage.write_json(tmp_path / "b.json", 2)
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_ctrl_c_while_a_file_is_written_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "a.json"
    storage.write_json(path, 1)
    monkeypatch.setattr(os, call, fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        storage.write_json(path, 2)
    assert storage.read_json(path) == 1
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_in_the_middle_of_writing_keeps_the_old_file(tmp_path, error):
    path = tmp_path / "a.txt"
    storage.write_bytes(path, b"old")

    def interrupted():
        with storage.writing(path) as file:
            file.write(b"half of the new")
            assert path.read_bytes() == b"old"
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_two_writers_of_one_file_do_not_share_a_temporary_file(tmp_path):
    path = tmp_path / "a.txt"
    with storage.writing(path) as one, storage.writing(path) as other:
        one.write(b"the first to open")
        other.write(b"the second")
        assert len(names(tmp_path)) == 2
        assert all(name.startswith(".a.txt.") for name in names(tmp_path))
    assert path.read_bytes() == b"the first to open"  # the last to finish
    assert names(tmp_path) == ["a.txt"]


def test_parent_folders_are_created_and_links_are_replaced_not_followed(tmp_path):
    storage.write_bytes(tmp_path / "new" / "folder" / "a.txt", b"1")
    for name in ("link.txt", "lines.txt", ".lock"):
        (tmp_path / name).symlink_to(tmp_path / "new" / "folder" / "a.txt")
    storage.write_bytes(tmp_path / "link.txt", b"2")
    assert not (tmp_path / "link.txt").is_symlink()
    with pytest.raises(PoiseError, match="cannot write"):
        storage.append_line(tmp_path / "lines.txt", "3")
    with pytest.raises(PoiseError, match="cannot write"), storage.lock(tmp_path):
        pass
    assert (tmp_path / "new" / "folder" / "a.txt").read_bytes() == b"1"


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(PoiseError, match=r"cannot write .*a: Is a directory$"):
        storage.write_bytes(tmp_path / "a", b"1")
    assert names(tmp_path) == ["a"]


def test_lines_are_appended(tmp_path):
    for line in ("one", "zwei ü"):
        storage.append_line(tmp_path / "log", line)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "one\nzwei ü\n"
    with pytest.raises(PoiseError, match=r"cannot write .*none/log: No such file or directory"):
        storage.append_line(tmp_path / "none" / "log", "one")


def test_a_folder_is_locked_by_one_process_at_a_time(tmp_path):
    with storage.lock(tmp_path), pytest.raises(PoiseError, match="another process is training in"):  # noqa: SIM117
        with storage.lock(tmp_path):
            pass
    with storage.lock(tmp_path):
        pass


def test_damaged_json_is_refused_with_its_name(tmp_path):
    (tmp_path / "config.json").write_text('{"format": 1')
    with pytest.raises(PoiseError, match=r"config.json is damaged"):
        storage.read_json(tmp_path / "config.json")
