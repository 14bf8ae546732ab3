import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import PoiseError, Trajectories, split

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
    with pytest.raises(PoiseError, match=r"written as .npz; got a.csv"):
        Trajectories(np.zeros((4, 3, 1))).save("a.csv")
    with pytest.raises(PoiseError, match="did you mean 'game'"):
        split(Trajectories(np.zeros((4, 3, 1)), metadata={"game": np.arange(4)}), by="gane")
