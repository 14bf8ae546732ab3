import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import PoiseError, Trajectories, split
from poise.data import trajectories
from poise.models import Statistics
from poise.runs.prepare import fingerprint

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 3))


def random_states(shape, seed=0):
    rows, steps, size = shape
    return np.random.default_rng(seed).normal(size=(rows, steps + 1, size)).astype(np.float32)


@given(SHAPES)
def test_actions_default_to_differences_of_states(shape):
    states = random_states(shape)
    np.testing.assert_array_equal(Trajectories(states).actions, states[:, 1:] - states[:, :-1])


@given(SHAPES, st.randoms())
def test_values_beyond_a_length_are_ignored(shape, random):
    states = random_states(shape)
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
def test_an_npz_is_read_as_it_was_written(tmp_path_factory, shape):
    path = tmp_path_factory.mktemp("npz") / "data.npz"
    metadata = {"game": np.arange(shape[0]), "hz": np.asarray(3.0), "file": np.asarray(["a"])}
    made = Trajectories(random_states(shape), metadata=metadata)
    made.save(path)
    back = Trajectories.load(path)
    for name in ("states", "actions", "lengths"):
        np.testing.assert_array_equal(getattr(back, name), getattr(made, name))
    assert back.metadata.keys() == metadata.keys()
    for name, values in metadata.items():
        np.testing.assert_array_equal(back.metadata[name], values)


def test_an_npz_that_cannot_be_written_leaves_the_old_one(tmp_path, walks, monkeypatch):
    path = tmp_path / "data.npz"
    walks[:5].save(path)

    def fsync(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(PoiseError, match=r"data.npz: No space left on device; the old file is still good"):
        walks.save(path)
    assert len(Trajectories.load(path)) == 5
    assert [file.name for file in tmp_path.iterdir()] == ["data.npz"]


def test_only_an_npz_or_a_folder_is_written():
    with pytest.raises(PoiseError, match=r"written as .npz, or without a suffix as a folder; got a.csv"):
        Trajectories(np.zeros((4, 3, 1))).save("a.csv")


def test_integers_are_scaled(tmp_path):
    np.savez(tmp_path / "a.npz", states=np.asarray([[[100, 200], [150, 250]]], np.int16), scale=np.float32(0.01))
    np.testing.assert_allclose(Trajectories.load(tmp_path / "a.npz").states, [[[1, 2], [1.5, 2.5]]], rtol=1e-6)


def test_differences_are_taken_before_rounding():
    far = 5e6 + np.cumsum(np.full((1, 50, 1), 0.1), axis=1)
    np.testing.assert_allclose(Trajectories(far).actions, 0.1, rtol=1e-5)


def test_jax_arrays_are_checked_as_well():
    with pytest.raises(PoiseError, match="must be finite"):
        Trajectories(jnp.full((1, 3, 1), jnp.nan))
    assert Trajectories(jnp.zeros((1, 3, 1), jnp.int32)).states.dtype == np.float32


def test_metadata_are_plain_arrays_with_names_of_their_own():
    assert Trajectories(np.zeros((2, 3, 1)), metadata={"game": ["a", "b"]}).metadata["game"].tolist() == ["a", "b"]
    with pytest.raises(PoiseError, match="'game' holds object"):
        Trajectories(np.zeros((2, 3, 1)), metadata={"game": [None, 1]})
    with pytest.raises(PoiseError, match="must not be named states, actions, lengths; got 'lengths'"):
        Trajectories(np.zeros((2, 3, 1)), metadata={"lengths": [1, 2]})


def test_the_callers_arrays_are_copied():
    states = random_states((2, 3, 2))
    made = Trajectories(states)
    states[:] = 0
    assert np.abs(made.states).sum() > 0


def test_selected_rows_keep_their_metadata():
    made = Trajectories(random_states((5, 3, 2)), metadata={"player": np.asarray(list("abcde")), "hz": np.asarray(3)})
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
        ({"states": np.zeros((2, 5, 1)), "actions": np.zeros((3, 4, 1))}, "one row per trajectory; got 2 and 3"),
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


def make_folder_with(folder, **arrays):
    """A folder of good trajectories except for these arrays; None for one that is missing."""
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
        ({"states": ONES[:3]}, "one row per trajectory; got 3 and 4"),
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
    make_folder_with(tmp_path / "data", **arrays)
    with pytest.raises(PoiseError, match=message):
        Trajectories.load(tmp_path / "data")


def test_a_folder_without_arrays_is_refused_and_a_file_in_it_is_suggested(tmp_path, walks):
    (tmp_path / "bare").mkdir()
    with pytest.raises(PoiseError, match=r"bare has no states.npy; it holds: no arrays"):
        Trajectories.load(tmp_path / "bare")
    walks.save(tmp_path / "bare" / "train.npz")
    with pytest.raises(PoiseError, match=r"it holds: train.npz; name a file in it, such as .*bare.train.npz"):
        Trajectories.load(tmp_path / "bare")


def test_an_error_far_down_a_folder_names_its_row(tmp_path, walks, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 1_000)  # a few rows per piece
    states = np.asarray(walks.states).copy()
    states[47, 3] = np.inf
    walks.save(tmp_path / "data")
    np.save(tmp_path / "data" / "states.npy", states)
    with pytest.raises(PoiseError, match=r"trajectory 47 has .* at step 3"):
        Trajectories.load(tmp_path / "data")


def test_statistics_and_fingerprint_do_not_depend_on_where_data_are(tmp_path, ragged, monkeypatch):
    monkeypatch.setattr(trajectories, "PIECE", 1_000)
    ragged.save(tmp_path / "data")
    train = split(Trajectories.load(tmp_path / "data")).train
    assert fingerprint(train) == fingerprint(train[:])
    for one, other in zip(jax.tree.leaves(Statistics.of(train)), by_hand(train[:]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def by_hand(data: Trajectories) -> list[np.ndarray]:
    """Means and deviations of next states, actions and changes, computed at once."""
    states, actions, real = (np.asarray(x, np.float64) for x in (data.states, data.actions, data.mask))
    taken = (states[:, 1:], actions, np.diff(states, axis=1))
    return [f(x[real > 0], axis=0) for x in taken for f in (np.mean, np.std)]
