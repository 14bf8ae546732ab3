import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise import PoiseError, Trajectories, split
from poise.data import splits, trajectories
from poise.data.splits import in_memory


@given(st.integers(3, 40), st.integers(0, 5))
def test_a_split_uses_every_row_once(count, seed):
    made = Trajectories(np.arange(count, dtype=np.float32)[:, None, None] + np.zeros((1, 3, 1)))
    parts = split(made, seed=seed)
    assert min(map(len, parts)) >= 1
    assert sorted(np.concatenate([part.starts[:, 0] for part in parts]).tolist()) == list(range(count))


def test_a_split_by_a_column_never_divides_a_group():
    games = np.repeat(np.arange(10), 7)
    parts = split(Trajectories(np.zeros((70, 3, 1)), metadata={"game": games}), by="game")
    seen = [set(part.metadata["game"].tolist()) for part in parts]
    assert sorted(game for games in seen for game in games) == list(range(10))


def test_a_group_may_be_named_by_several_columns():
    match, half = np.arange(60) // 6, np.arange(60) // 3 % 2
    walks = Trajectories(np.zeros((60, 3, 2)), metadata={"play": np.stack([match, half], axis=1)})
    parts = [{tuple(row) for row in part.metadata["play"].tolist()} for part in split(walks, by="play")]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert len(set.union(*parts)) == 20


def test_a_split_needs_three_trajectories_or_groups():
    with pytest.raises(PoiseError, match="at least 3 trajectories, one for each part; got 1"):
        split(Trajectories(np.zeros((1, 3, 1))))
    with pytest.raises(PoiseError, match="at least 3 groups of 'game', one for each part; got 2"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": [0, 0, 1, 1]}), by="game")


def test_a_column_to_split_by_has_one_entry_for_each_trajectory():
    with pytest.raises(PoiseError, match="column 'game' has 3 entries for 4 trajectories"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": np.arange(3)}), by="game")
    with pytest.raises(PoiseError, match="did you mean 'game'"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": np.arange(4)}), by="gane")


@pytest.fixture
def numbered(tmp_path) -> Trajectories:
    """A hundred trajectories on disk whose states are the number of their row; ten games."""
    rows = np.arange(100, dtype=np.float32)
    made = Trajectories(rows[:, None, None] + np.zeros((1, 3, 1)), metadata={"game": np.arange(100) // 10})
    made.save(tmp_path / "numbered")
    return Trajectories.load(tmp_path / "numbered")


@pytest.mark.parametrize("by", [None, "game"])
def test_a_split_leaves_the_training_part_on_disk(numbered, by):
    parts = split(numbered, by=by)
    assert [part.on_disk() for part in parts] == [True, False, False]
    assert [len(part) for part in parts] == [80, 10, 10]
    assert sorted(np.concatenate([part.starts[:, 0] for part in parts]).tolist()) == list(range(100))
    games = [set(part.metadata["game"].tolist()) for part in parts]
    assert by is None or sum(map(len, games)) == 10


def test_held_out_parts_are_limited_and_the_rest_is_trained_on(numbered, monkeypatch):
    monkeypatch.setattr(splits, "HELD_OUT", 4)
    assert [len(part) for part in split(numbered)] == [92, 4, 4]
    assert [len(part) for part in split(numbered, by="game")] == [80, 4, 4]  # a game is not divided


def test_rows_on_disk_are_read_when_they_are_used(numbered, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 100)
    train = split(split(numbered).train).train  # rows of rows
    source, rows = train.source_and_rows()
    assert isinstance(rows, np.ndarray)
    assert isinstance(source.states, np.ndarray)
    assert source.states.base is not None  # a view of the mapped file
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(np.asarray(getattr(train, name)), np.asarray(getattr(source, name))[rows])
    np.testing.assert_array_equal(train[[3, 1]].starts[:, 0], rows[[3, 1]])
    np.testing.assert_array_equal(train[[3, 1]].metadata["game"], rows[[3, 1]] // 10)
    np.testing.assert_array_equal(np.concatenate([piece.states for piece in train.pieces()]), train.arrays.states)
    assert train.mask.shape == (len(train), 2)
    assert train.nbytes == train[:].nbytes


def test_only_trajectories_on_disk_are_sampled_into_memory(numbered, walks):
    assert in_memory(walks, 5) is walks
    assert len(in_memory(numbered, 5)) == 5
    assert not in_memory(numbered).on_disk()
