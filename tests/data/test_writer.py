import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import PoiseError, Trajectories, Writer


def assert_same(one: Trajectories, other: Trajectories):
    """Both hold the same numbers, in memory or on disk."""
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))


@given(st.tuples(st.integers(1, 6), st.integers(2, 6), st.integers(1, 3)))
@settings(max_examples=20)
def test_a_folder_is_read_as_it_was_written_and_stays_on_disk(tmp_path_factory, shape):
    folder = tmp_path_factory.mktemp("folder") / "data"
    states = np.random.default_rng(0).normal(size=shape)
    made = Trajectories(states, metadata={"game": np.arange(shape[0]), "hz": np.asarray(3.0)})
    made.save(folder)
    back = Trajectories.load(folder)
    assert back.on_disk()
    assert isinstance(back.states, np.memmap)
    assert_same(back, made)
    assert_same(back[:], made)
    np.testing.assert_array_equal(back.metadata["game"], np.arange(shape[0]))
    assert back.metadata["hz"] == 3.0


def test_a_folder_written_in_pieces_equals_the_one_written_at_once(tmp_path, ragged):
    named = Trajectories(ragged.states, ragged.actions, ragged.lengths, {"game": np.asarray(["a"] * 30 + ["bcd"] * 10)})
    named.save(tmp_path / "once")
    with Writer(tmp_path / "pieces") as out:
        for rows in (slice(0, 30), slice(30, 31), slice(31, 40)):
            out.add(named[rows])
    for file in sorted((tmp_path / "once").iterdir()):
        assert file.read_bytes() == (tmp_path / "pieces" / file.name).read_bytes()
    assert_same(Trajectories.load(tmp_path / "pieces"), ragged)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_folder_is_complete_or_not_there(tmp_path, walks, error):
    def fail():
        with Writer(tmp_path / "data") as out:
            out.add(walks)
            assert not (tmp_path / "data").exists()
            raise error

    with pytest.raises(error):
        fail()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(tmp_path, walks, monkeypatch):
    def fsync(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(PoiseError, match=r"cannot write .*data: No space left on device$"):
        walks.save(tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_a_piece_that_was_written_in_part_is_not_kept(tmp_path, walks, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    def fail_once():
        with Writer(tmp_path / "data") as out:
            out.add(walks)
            with monkeypatch.context() as patch:
                patch.setattr(out._arrays["actions"], "add", full)
                with pytest.raises(PoiseError, match="No space left on device"):
                    out.add(walks)
            out.add(walks)

    with pytest.raises(PoiseError, match="data is not written, because a piece of it could not be"):
        fail_once()
    assert not list(tmp_path.iterdir())


def test_what_exists_is_not_overwritten(tmp_path, walks):
    walks.save(tmp_path / "data")
    with pytest.raises(PoiseError, match="data exists and is not an empty folder"):
        walks.save(tmp_path / "data")
    (tmp_path / "file").touch()
    with pytest.raises(PoiseError, match=r"cannot write .*file: "):
        walks.save(tmp_path / "file" / "data")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Trajectories(np.zeros((2, 9, 2))), r"all states of a folder have one shape; got \[9, 2\] after \[7, 2\]"),
        (Trajectories(np.zeros((2, 7, 2)), metadata={"game": [1, 2]}), "same metadata; got game after none"),
    ],
)
def test_a_piece_that_does_not_fit_is_refused_and_the_others_are_written(tmp_path, walks, other, message):
    with Writer(tmp_path / "data") as out:
        out.add(walks)
        with pytest.raises(PoiseError, match=message):
            out.add(other)
    assert_same(Trajectories.load(tmp_path / "data"), walks)


def test_a_folder_without_trajectories_is_not_written(tmp_path):
    with pytest.raises(PoiseError, match="no trajectories were added"), Writer(tmp_path / "empty"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_writer_takes_trajectories(tmp_path):
    message = r"a writer takes poise.Trajectories\(states\); got a ndarray"
    with pytest.raises(PoiseError, match=message), Writer(tmp_path / "new") as out:
        out.add(np.zeros((3, 4, 2)))
