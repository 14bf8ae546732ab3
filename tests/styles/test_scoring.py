"""Scoring: traced functions and host functions score alike, piece by piece, and errors say what is wrong."""

import functools
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tqdm import tqdm

from poise import DOMAINS, PoiseError, Trajectories, labeling_function
from poise.styles import scoring, traced
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all, score_all
from poise.styles.traced import is_traced

STYLES = list(DOMAINS["basketball"].styles.values())


@labeling_function(classes=("short", "long"))
def path_in_jax(states, actions):
    return jnp.linalg.norm(actions, axis=-1).sum()


@labeling_function(classes=("short", "long"))
def path_in_numpy(states, actions):
    return np.linalg.norm(actions, axis=-1).sum()


@labeling_function(classes=("short", "long"))
def path_in_python(states, actions):
    return sum(float((a**2).sum()) ** 0.5 for a in actions)


def test_jax_numpy_and_python_functions_score_alike(walks, ragged):
    for data in (walks, ragged):
        one, two, three = score_all([path_in_jax, path_in_numpy, path_in_python], data)
        np.testing.assert_allclose(one, two, rtol=1e-5)
        np.testing.assert_allclose(one, three, rtol=1e-5)
    assert is_traced(path_in_jax.score, walks.states, walks.actions)
    assert not is_traced(path_in_numpy.score, walks.states, walks.actions)


@pytest.mark.parametrize("style", [*STYLES, path_in_numpy], ids=lambda s: s.name)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 6), min_size=1, max_size=5))
@settings(max_examples=12, deadline=None)
def test_a_batch_is_scored_as_one_by_one_padding_never_matters_and_inputs_are_unchanged(style, seed, lengths):
    random = np.random.default_rng(seed)
    states = random.normal(size=(len(lengths), 7, 2)).cumsum(axis=1).astype(np.float32)
    states[random.random(states.shape[:2]) < 0.2] = 0.0  # some do not move
    data = Trajectories(states, lengths=lengths)
    before = data.states.copy(), data.actions.copy()
    scores = style.scores(data)
    np.testing.assert_array_equal(data.states, before[0])
    np.testing.assert_array_equal(data.actions, before[1])
    for row, length in enumerate(lengths):
        one = style(states[row, : length + 1], np.diff(states[row, : length + 1], axis=0))
        np.testing.assert_allclose(scores[row], one, rtol=1e-4, atol=1e-5)


@pytest.fixture
def small_pieces(monkeypatch):
    """Sixteen short trajectories are a piece, and four pieces a block."""
    for name, value in (("PIECE", 2048), ("BLOCK", 8192), ("FEW", 4)):
        monkeypatch.setattr(traced, name, value)


def test_pieces_score_as_the_whole_and_the_bar_counts_every_score_once(walks, ragged, request, monkeypatch):
    styles = [*STYLES, path_in_numpy]
    whole = [score_all(styles, data) for data in (walks, ragged)]
    request.getfixturevalue("small_pieces")
    counts = []

    class CountingBar(tqdm):
        def update(self, n=1):
            counts[-1] += n

    monkeypatch.setattr(scoring, "tqdm", CountingBar)
    for data, expected in zip((walks, ragged), whole, strict=True):
        counts.append(0)
        np.testing.assert_allclose(score_all(styles, data), expected, rtol=1e-5, atol=1e-6)
        assert counts[-1] == expected.size


def test_one_program_per_length_serves_all_styles_and_pieces(walks, small_pieces):
    calls = []

    def counted(name):
        def score(states, actions):
            calls.append((name, len(actions)))
            return actions.sum()

        return labeling_function(score, name=name)

    styles = [counted("one"), counted("two")]
    lengths = np.repeat([6, 3], 30)
    for _ in range(2):
        score_all(styles, Trajectories(walks.states, lengths=lengths))
    # To see if it can be traced, to see if it reads in bounds, and for the program of all rows.
    expected = [(name, length) for length in (3, 6) for name in ("one", "two")] * 3
    assert sorted(calls) == sorted(expected)


def test_few_trajectories_are_not_padded_to_a_piece(walks, monkeypatch):
    shapes = []

    def program(states, actions):
        shapes.append((states.shape, actions.shape))
        return (states[:, 0, 0],)

    monkeypatch.setattr(traced, "vectorise", lambda *functions: program)
    np.testing.assert_array_equal(path_in_jax.scores(walks), walks.states[:, 0, 0])
    assert shapes == [((256, 7, 2), (256, 6, 2))]


def test_data_in_a_file_are_labelled_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(traced, "PIECE", 1 << 16)
    count, steps = 20_000, 12
    states, actions = (
        np.memmap(tmp_path / name, np.float32, "w+", shape=(count, length, 2))
        for name, length in (("states", steps + 1), ("actions", steps))
    )
    states[:] = np.random.default_rng(0).normal(size=states.shape)
    data = Trajectories.unchecked(states, actions, np.full(count, steps, np.int32))
    style = labeling_function(path_in_jax.score, thresholds=(1.0, 2.0))
    label_all([style], data[:1])
    tracemalloc.start()
    labels = label_all([style], data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (labels == 0).all()
    assert peak < (states.nbytes + actions.nbytes) / 4


def test_label_all_has_one_column_per_style(walks):
    styles = [style.fit(walks) for style in STYLES]
    labels = label_all(styles, walks)
    assert labels.shape == (60, 5)
    assert label_space(styles).width == 15
    for i, style in enumerate(styles):
        np.testing.assert_array_equal(labels[:, i], style.label(walks))


def test_styles_are_differentiable_where_a_player_does_not_move():
    def gradients(states):
        return {style.name: jax.grad(lambda s, f=style: f(s, s[1:] - s[:-1]))(states) for style in STYLES}

    for name, gradient in jax.jit(gradients)(jnp.ones((5, 2))).items():
        assert np.isfinite(gradient).all(), name


def test_an_error_on_data_of_different_lengths_names_the_trajectory(ragged):
    def fails_on_the_last(states, actions):
        if (states[0] == ragged.states[-1, 0]).all():
            raise ValueError("no good")
        return 1.0

    with pytest.raises(PoiseError, match="raised ValueError on trajectory 39: no good"):
        labeling_function(fails_on_the_last).scores(ragged)


def test_a_style_that_writes_into_its_input_changes_only_a_copy(walks):
    @labeling_function
    def rude(states, actions):
        states[:] = 0
        return float(actions[0, 0])

    before = walks.states.copy()
    rude.scores(walks)
    np.testing.assert_array_equal(walks.states, before)


def raises(states, actions):
    return {}["nothing"]


def returns_nan(states, actions):
    return float("nan")


def returns_steps(states, actions):
    return actions[:, 0]


def returns_word(states, actions):
    return "fast"


def returns_constant(states, actions):
    return 1.0


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, "style 'raises' raised KeyError on trajectory 0: 'nothing'"),
        (returns_nan, "style 'returns_nan' returned nan for trajectory 0"),
        (returns_steps, r"must return one number per trajectory; got an array of shape \[6\]"),
        (returns_word, "must return one number per trajectory"),
        (returns_constant, "scores all 60 demonstrations 1: one class only"),
    ],
)
def test_a_bad_style_is_named_with_what_it_did(function, message, walks):
    with pytest.raises(PoiseError, match=message):
        labeling_function(function).fit(walks)


def column_in_jax(states, actions):
    return jnp.sum(states[:, 5])


def column_in_numpy(states, actions):
    return float(states[-1, 5])


@pytest.mark.parametrize("function", [column_in_jax, column_in_numpy])
def test_a_style_that_reads_a_column_that_is_not_there_is_refused(function, walks):
    with pytest.raises(PoiseError) as raised:
        labeling_function(function).scores(walks)
    assert str(raised.value) == (
        f"style {function.__name__!r} raised IndexError on trajectory 0: index 5 is out of bounds for axis 1 with size "
        "2; its states are [7, 2] and its actions [6, 2]"
    )


@pytest.mark.parametrize("fourth", [lambda s, a: jnp.sum(s[4]), lambda s, a: float(s[4].sum())], ids=["traced", "host"])
def test_a_step_that_only_some_trajectories_have_is_no_score_of_the_others(fourth, ragged):
    scores = score_all([labeling_function(fourth, name="fourth")], ragged, strict=False)[0]
    np.testing.assert_array_equal(np.isnan(scores), ragged.lengths < 4)
    short = int(np.argmax(ragged.lengths < 4))
    with pytest.raises(PoiseError, match=f"raised IndexError on trajectory {short}: index 4 is out of bounds"):
        score_all([labeling_function(fourth, name="fourth")], ragged)


def test_a_style_that_needs_arrays_of_jax_is_accepted(walks):
    needs_jax = labeling_function(lambda states, actions: states.at[0].set(0.0).sum(), name="needs_jax")
    np.testing.assert_allclose(needs_jax.scores(walks), walks.states[:, 1:].sum(axis=(1, 2)), rtol=1e-4, atol=1e-5)


def test_a_host_style_that_finds_nothing_in_some_trajectories_has_no_score_there(walks):
    first_right = labeling_function(lambda s, a: float(np.flatnonzero(s[:, 0] > 0)[0]), name="first_right")
    scores = score_all([first_right], walks, strict=False)[0]
    np.testing.assert_array_equal(np.isnan(scores), (walks.states[..., 0] <= 0).all(axis=1))
    assert np.isnan(scores).any()


def test_what_cannot_be_scored_has_no_label_if_that_is_allowed(walks):
    @labeling_function(classes=("low", "high"), thresholds=(0.0,))
    def right_half(states, actions):
        if states[0, 0] < 0:
            raise ValueError("not here")
        return float(states[-1, 0])

    labels = label_all([right_half], walks, strict=False)[:, 0]
    np.testing.assert_array_equal(labels == -1, walks.states[:, 0, 0] < 0)


def test_objects_that_can_be_called_are_styles_too(walks):
    @dataclass
    class Scaled:  # which cannot be hashed
        factor: float

        def __call__(self, states, actions):
            return self.factor * states[-1, 0]

    for function in (
        Scaled(2.0),
        functools.partial(lambda k, s, a: k * s[-1, 0], 2),
        functools.partial(lambda k, s, a: k * float(s[-1, 0]), 2),
    ):
        np.testing.assert_allclose(labeling_function(function).scores(walks), 2 * walks.states[:, -1, 0], rtol=1e-6)


LABELS = """
import jax
import numpy as np
import poise
from poise.styles.scoring import label_all

walks = poise.Trajectories(np.arange(24.0).reshape(4, 3, 2))
styles = [
    poise.labeling_function(lambda s, a: s[-1, 0], name="traced", thresholds=(5.0, 9.0)),
    poise.labeling_function(lambda s, a: float(s[-1, 0]), name="host", thresholds=(5.0, 9.0)),
]
before = jax.config.values["jax_num_cpu_devices"]
labels = label_all(styles, walks)
assert (labels[:, 0] == labels[:, 1]).all()
assert jax.config.values["jax_num_cpu_devices"] == before, "labeling has changed the number of devices"
assert len(jax.devices()) == 1
"""


def test_labeling_leaves_the_devices_as_they_are(monkeypatch):
    monkeypatch.setenv("POISE_CORES", "2")
    ended = subprocess.run([sys.executable, "-c", LABELS], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
