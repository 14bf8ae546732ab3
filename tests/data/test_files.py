import numpy as np
import pytest

from poise import PoiseError, Trajectories
from poise.data.files import Rows, read_arrays, read_npz, write_npz


def test_files_that_are_not_an_npz_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "objects.npz", states=np.asarray([None, 1], object))
    np.savez(tmp_path / "other.npz", positions=np.zeros(3))
    good = tmp_path / "cut.npz"
    Trajectories(np.zeros((50, 9, 2))).save(good)
    good.write_bytes(good.read_bytes()[:-100])
    expected = {
        "gone.npz": "no such file",
        "text.npz": "is not an .npz, or cut short",
        "one.npy": "a single array",
        "objects.npz": "'states' holds Python objects; save it as numbers or with .astype",
        "other.npz": "no array 'states'; it holds: positions",
        "cut.npz": "is not an .npz, or cut short",
    }
    for name, message in expected.items():
        with pytest.raises(PoiseError, match=message):
            Trajectories.load(tmp_path / name)


def test_an_npz_holds_arrays_of_any_name_and_is_the_one_that_numpy_writes(tmp_path):
    arrays = {"states": np.arange(6.0).reshape(2, 3), "words": np.asarray(["a", "bc"]), "scale": np.asarray(0.5)}
    write_npz(tmp_path / "ours.npz", arrays)
    np.savez_compressed(tmp_path / "theirs.npz", **arrays)
    assert (tmp_path / "ours.npz").read_bytes() == (tmp_path / "theirs.npz").read_bytes()
    write_npz(tmp_path / "named.npz", {"file": np.ones(2), "allow_pickle": np.zeros(3)})
    assert {name: len(values) for name, values in read_npz(tmp_path / "named.npz").items()} == {
        "file": 2,
        "allow_pickle": 3,
    }


def test_an_array_in_a_folder_that_is_cut_short_is_refused(tmp_path, walks):
    walks.save(tmp_path / "data")
    states = tmp_path / "data" / "states.npy"
    states.write_bytes(states.read_bytes()[:-5])
    with pytest.raises(PoiseError, match=r"states.npy is not a readable .npy, or cut short"):
        Trajectories.load(tmp_path / "data")


def test_only_the_mapped_arrays_of_a_folder_stay_on_disk(tmp_path):
    for name in ("large", "small"):
        np.save(tmp_path / f"{name}.npy", np.arange(4))
    arrays = read_arrays(tmp_path, mapped=("large",))
    assert [isinstance(arrays[name], np.memmap) for name in ("large", "small")] == [True, False]


def test_rows_behave_as_the_array_of_the_selected_rows(tmp_path):
    whole = np.random.default_rng(0).normal(size=(7, 4, 3)).astype(np.float32)
    np.save(tmp_path / "whole.npy", whole)
    chosen = np.asarray([5, 0, 2])
    rows, expected = Rows(read_arrays(tmp_path, mapped=("whole",))["whole"], chosen), whole[chosen]
    assert (len(rows), rows.shape, rows.ndim, rows.dtype) == (3, expected.shape, 3, expected.dtype)
    assert rows.nbytes == expected.nbytes
    for index in (1, slice(0, 2), np.asarray([2, 1]), np.asarray([True, False, True])):
        np.testing.assert_array_equal(rows[index], expected[index])
    np.testing.assert_array_equal(rows[:, 0], expected[:, 0])
    np.testing.assert_array_equal(np.asarray(rows), expected)
