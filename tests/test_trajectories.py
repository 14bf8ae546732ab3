import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import PoiseError, Trajectories, split, trajectories
from poise.models import Statistics
from poise.tasks import fingerprint
from poise.trajectories import Writer, in_memory

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 3))


def states_of(shape, seed=0):
    rows, steps, size = shape
    return np.random.default_rng(seed).normal(size=(rows, steps + 1, size)).astype(np.float32)


@given(SHAPES)
def test_actions_default_to_differences_of_states(shape):
    states = states_of(shape)
    np.testing.assert_array_equal(Trajectories(states).actions, states[:, 1:] - states[:, :-1])


@given(SHAPES, st.randoms())
def test_what_lies_beyond_a_length_is_forgotten(shape, random):
    states = states_of(shape)
    lengths = np.asarray([random.randint(1, shape[1]) for _ in range(shape[0])])
    spoiled = states.copy()
    for row, length in enumerate(lengths):
        spoiled[row, length + 1 :] = np.nan
    one, other = (Trajectories(x, lengths=lengths) for x in (states, spoiled))
    np.testing.assert_array_equal(one.states, other.states)
    np.testing.assert_array_equal(one.actions, other.actions)
    assert one.mask.sum() == lengths.sum()


@given(SHAPES)
@settings(max_examples=20)
def test_npz_comes_back_equal(tmp_path_factory, shape):
    path = tmp_path_factory.mktemp("npz") / "data.npz"
    made = Trajectories(states_of(shape), metadata={"game": np.arange(shape[0]), "hz": np.asarray(3.0)})
    made.save(path)
    back = Trajectories.load(path)
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(getattr(back, name), getattr(made, name))
    np.testing.assert_array_equal(back.metadata["game"], np.arange(shape[0]))
    assert back.metadata["hz"] == 3.0


def test_integers_are_scaled(tmp_path):
    np.savez(tmp_path / "a.npz", states=np.asarray([[[100, 200], [150, 250]]], np.int16), scale=np.float32(0.01))
    np.testing.assert_allclose(Trajectories.load(tmp_path / "a.npz").states, [[[1, 2], [1.5, 2.5]]], rtol=1e-6)


def test_differences_are_taken_before_anything_is_rounded():
    far = 5e6 + np.cumsum(np.full((1, 50, 1), 0.1), axis=1)
    np.testing.assert_allclose(Trajectories(far).actions, 0.1, rtol=1e-5)


def test_arrays_of_jax_are_checked_as_well():
    with pytest.raises(PoiseError, match="must be finite"):
        Trajectories(jnp.full((1, 3, 1), jnp.nan))
    assert Trajectories(jnp.zeros((1, 3, 1), jnp.int32)).states.dtype == np.float32


def test_metadata_are_plain_arrays():
    assert Trajectories(np.zeros((2, 3, 1)), metadata={"game": ["a", "b"]}).metadata["game"].tolist() == ["a", "b"]
    with pytest.raises(PoiseError, match="'game' holds object"):
        Trajectories(np.zeros((2, 3, 1)), metadata={"game": [None, 1]})


def test_the_callers_arrays_are_copied_not_kept():
    states = states_of((2, 3, 2))
    made = Trajectories(states)
    states[:] = 0
    assert np.abs(made.states).sum() > 0


def test_rows_keep_their_metadata():
    made = Trajectories(states_of((5, 3, 2)), metadata={"player": np.asarray(list("abcde")), "hz": np.asarray(3)})
    assert made[[3, 1]].metadata["player"].tolist() == ["d", "b"]
    assert made[[3, 1]].metadata["hz"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": np.zeros((2, 5))}, r"states have the shape \[N, T\+1, S\]; got \[2, 5\]"),
        (
            {"states": np.zeros((2, 5, 1)), "actions": np.zeros((2, 5, 1))},
            "one more state than actions; got 5 states and 5",
        ),
        ({"states": np.zeros((2, 5, 1)), "actions": np.zeros((3, 4, 1))}, "one row a trajectory; got 2 and 3"),
        ({"states": np.zeros((2, 1, 1))}, "at least one step; got T = 0"),
        ({"states": np.zeros((0, 5, 1))}, "nothing to learn from"),
        ({"states": np.asarray([[[0.0], [np.nan]]])}, "trajectory 0 has .* at step 1: clean or drop it"),
        ({"states": np.zeros((1, 3, 1)), "lengths": [3]}, "between 1 and T = 2; got 3"),
        ({"states": np.zeros((1, 3, 1)), "lengths": [1, 1]}, "lengths have the shape"),
        ({"states": np.full((1, 3, 1), "a")}, "states are numbers"),
        ({"states": np.full((1, 3, 1), 1e300)}, "states must be finite"),
    ],
)
def test_bad_values_are_refused_with_the_rule_and_the_value(arguments, message):
    with pytest.raises(PoiseError, match=message):
        Trajectories(**arguments)


def test_files_that_are_no_npz_are_refused(tmp_path):
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


@given(st.integers(3, 40), st.integers(0, 5))
def test_a_split_uses_every_row_once(count, seed):
    made = Trajectories(np.arange(count, dtype=np.float32)[:, None, None] + np.zeros((1, 3, 1)))
    parts = split(made, seed=seed)
    assert min(map(len, parts)) >= 1
    assert sorted(np.concatenate([part.starts[:, 0] for part in parts]).tolist()) == list(range(count))


def test_a_split_by_column_never_tears_a_group():
    games = np.repeat(np.arange(10), 7)
    parts = split(Trajectories(np.zeros((70, 3, 1)), metadata={"game": games}), by="game")
    seen = [set(part.metadata["game"].tolist()) for part in parts]
    assert sorted(game for games in seen for game in games) == list(range(10))


def test_one_trajectory_cannot_be_split():
    with pytest.raises(PoiseError, match="at least 3 trajectories, one for each part; got 1"):
        split(Trajectories(np.zeros((1, 3, 1))))
    with pytest.raises(PoiseError, match="column 'game' has 3 entries for 4 trajectories"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": np.arange(3)}), by="game")
    with pytest.raises(PoiseError, match=r"written as .npz, or without a suffix as a folder; got a.csv"):
        Trajectories(np.zeros((4, 3, 1))).save("a.csv")
    with pytest.raises(PoiseError, match="did you mean 'game'"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": np.arange(4)}), by="gane")


def assert_same(one: Trajectories, other: Trajectories):
    """Both hold the same numbers, wherever they lie."""
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)))


@given(SHAPES)
@settings(max_examples=20)
def test_a_folder_comes_back_equal_and_stays_on_disk(tmp_path_factory, shape):
    folder = tmp_path_factory.mktemp("folder") / "data"
    made = Trajectories(states_of(shape), metadata={"game": np.arange(shape[0]), "hz": np.asarray(3.0)})
    made.save(folder)
    back = Trajectories.load(folder)
    assert back.on_disk()
    assert isinstance(back.states, np.memmap)
    assert_same(back, made)
    assert_same(back[:], made)
    np.testing.assert_array_equal(back.metadata["game"], np.arange(shape[0]))
    assert back.metadata["hz"] == 3.0


def test_a_folder_written_in_pieces_is_the_one_written_at_once(tmp_path, ragged):
    named = Trajectories(ragged.states, ragged.actions, ragged.lengths, {"game": np.asarray(["a"] * 30 + ["bcd"] * 10)})
    named.save(tmp_path / "once")
    with Writer(tmp_path / "pieces") as out:
        for rows in (slice(0, 30), slice(30, 31), slice(31, 40)):
            out.add(named[rows])
    for file in sorted((tmp_path / "once").iterdir()):
        assert file.read_bytes() == (tmp_path / "pieces" / file.name).read_bytes()
    assert_same(Trajectories.load(tmp_path / "pieces"), ragged)


def test_a_folder_is_whole_or_not_there(tmp_path, walks):
    def fail():
        with Writer(tmp_path / "data") as out:
            out.add(walks)
            assert not (tmp_path / "data").exists()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())
    walks.save(tmp_path / "data")
    with pytest.raises(PoiseError, match="data is there already and not an empty folder"):
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
def test_a_piece_that_is_unlike_the_others_is_refused_and_not_in_the_folder(tmp_path, walks, other, message):
    with Writer(tmp_path / "data") as out:
        out.add(walks)
        with pytest.raises(PoiseError, match=message):
            out.add(other)
    assert_same(Trajectories.load(tmp_path / "data"), walks)


def test_a_folder_without_trajectories_is_not_written(tmp_path):
    with pytest.raises(PoiseError, match="no trajectories were added"), Writer(tmp_path / "empty"):
        pass
    assert not list(tmp_path.iterdir())


def spoil(folder, **arrays):
    """A folder of good trajectories, but for these arrays; None for one that is missing."""
    Trajectories(np.zeros((4, 3, 1)), lengths=[2, 2, 1, 2]).save(folder)
    for name, values in arrays.items():
        (folder / f"{name}.npy").unlink(missing_ok=True)
        if values is not None:
            np.save(folder / f"{name}.npy", values)


ONES = np.ones((4, 3, 1), np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"states": None}, "has no states.npy; it holds: actions, lengths"),
        ({"actions": None}, "has no actions.npy; it holds: lengths, states"),
        ({"states": ONES.astype(np.int16)}, "states.npy holds int16, and a folder holds float32; write it with"),
        ({"states": ONES[:3]}, "one row a trajectory; got 3 and 4"),
        ({"states": ONES[:, :2]}, "one more state than actions; got 2 states and 2 actions"),
        ({"states": ONES[0]}, r"states have the shape \[N, T\+1, S\]; got \[3, 1\]"),
        ({"states": ONES * np.nan}, r"data: states must be finite; trajectory 0 has \[nan\] at step 0"),
        ({"lengths": np.asarray([2, 2, 3, 2])}, "between 1 and T = 2; got 3 for trajectory 2"),
        ({"lengths": np.asarray([2, 2])}, "lengths have the shape"),
        ({"states": ONES.cumsum(axis=1)}, r"states beyond a length repeat .* trajectory 2 \(length 1\) do not; write"),
        ({"actions": ONES[:, :2]}, "actions beyond a length are 0, and those of trajectory 2"),
        ({"game": np.asarray([None] * 4)}, "game.npy holds Python objects"),
    ],
)
def test_a_bad_folder_is_refused_with_the_rule_and_the_way_out(tmp_path, arrays, message):
    spoil(tmp_path / "data", **arrays)
    with pytest.raises(PoiseError, match=message):
        Trajectories.load(tmp_path / "data")


def test_a_folder_that_is_cut_short_is_refused(tmp_path, walks):
    walks.save(tmp_path / "data")
    (tmp_path / "data" / "states.npy").write_bytes((tmp_path / "data" / "states.npy").read_bytes()[:-5])
    with pytest.raises(PoiseError, match=r"states.npy is not a readable .npy, or cut short"):
        Trajectories.load(tmp_path / "data")
    (tmp_path / "bare").mkdir()
    with pytest.raises(PoiseError, match=r"bare has no states.npy; it holds: no arrays"):
        Trajectories.load(tmp_path / "bare")
    walks.save(tmp_path / "bare" / "train.npz")
    with pytest.raises(PoiseError, match=r"it holds: train.npz; name a file in it, as .*bare.train.npz"):
        Trajectories.load(tmp_path / "bare")


def test_a_mistake_far_down_a_folder_is_named_by_its_row(tmp_path, walks, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 1_000)  # a few rows a piece
    states = np.asarray(walks.states).copy()
    states[47, 3] = np.inf
    walks.save(tmp_path / "data")
    np.save(tmp_path / "data" / "states.npy", states)
    with pytest.raises(PoiseError, match=r"trajectory 47 has .* at step 3"):
        Trajectories.load(tmp_path / "data")


@pytest.fixture
def numbered(tmp_path) -> Trajectories:
    """A hundred trajectories on disk that carry their row; ten games."""
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


def test_what_held_out_parts_do_not_need_is_trained_on(numbered, monkeypatch):
    monkeypatch.setattr(trajectories, "HELD_OUT", 4)
    assert [len(part) for part in split(numbered)] == [92, 4, 4]
    assert [len(part) for part in split(numbered, by="game")] == [80, 4, 4]  # a game is not torn


def test_rows_on_disk_are_read_when_they_are_asked_for(numbered, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 100)
    train = split(split(numbered).train).train  # rows of rows
    whole, rows = train.whole()
    assert whole.states.base is not None
    assert_same(train, Trajectories(np.asarray(whole.states)[rows]))
    np.testing.assert_array_equal(train[[3, 1]].starts[:, 0], rows[[3, 1]])
    np.testing.assert_array_equal(train[[3, 1]].metadata["game"], rows[[3, 1]] // 10)
    np.testing.assert_array_equal(np.concatenate([piece.states for piece in train.pieces()]), train.arrays.states)
    assert train.mask.shape == (len(train), 2)
    assert train.nbytes == train[:].nbytes


def test_only_what_lies_on_disk_is_cut_to_a_sample(numbered, walks):
    assert in_memory(walks, 5) is walks
    assert len(in_memory(numbered, 5)) == 5
    assert not in_memory(numbered).on_disk()


def test_statistics_and_fingerprint_do_not_depend_on_where_data_lie(tmp_path, ragged, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 1_000)
    ragged.save(tmp_path / "data")
    train = split(Trajectories.load(tmp_path / "data")).train
    assert fingerprint(train) == fingerprint(train[:])
    for one, other in zip(jax.tree.leaves(Statistics.of(train)), jax.tree.leaves(by_hand(train[:])), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def by_hand(data: Trajectories) -> list[np.ndarray]:
    states, actions, real = (np.asarray(x, np.float64) for x in (data.states, data.actions, data.mask))
    taken = (states[:, 1:], actions, np.diff(states, axis=1))
    return [f(x[real > 0], axis=0) for x in taken for f in (np.mean, np.std)]


def test_a_writer_takes_trajectories(tmp_path):
    said = r"a writer takes poise.Trajectories\(states\); got a ndarray"
    with pytest.raises(PoiseError, match=said), Writer(tmp_path / "new") as out:
        out.add(np.zeros((3, 4, 2)))
