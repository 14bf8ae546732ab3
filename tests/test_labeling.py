import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander
from hypothesis import given, settings
from hypothesis import strategies as st

from poise import DOMAINS, LabelingFunction, PoiseError, Trajectories, labeling, labeling_function, parallel
from poise.labeling import Categories, LabelSpace, label_all, label_space, load_style, parse_words, score_all, traced

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
    assert traced(path_in_jax.score, walks.states, walks.actions)
    assert not traced(path_in_numpy.score, walks.states, walks.actions)


@pytest.mark.parametrize("style", [*STYLES, path_in_numpy], ids=lambda s: s.name)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 6), min_size=1, max_size=5))
@settings(max_examples=12, deadline=None)
def test_a_batch_is_scored_as_one_by_one_padding_never_matters_and_inputs_are_unchanged(style, seed, lengths):
    random = np.random.default_rng(seed)
    states = random.normal(size=(len(lengths), 7, 2)).cumsum(axis=1).astype(np.float32)
    states[random.random(states.shape[:2]) < 0.2] = 0.0  # some stand still
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
    """Sixteen short trajectories fill a piece, and four pieces a block."""
    for name, value in (("PIECE", 2048), ("BLOCK", 8192), ("FEW", 4)):
        monkeypatch.setattr(parallel, name, value)


def test_pieces_score_as_the_whole_and_the_bar_counts_every_score_once(walks, ragged, request, monkeypatch):
    styles = [*STYLES, path_in_numpy]
    whole = [score_all(styles, data) for data in (walks, ragged)]
    request.getfixturevalue("small_pieces")
    bars = []

    class Bar(labeling.tqdm):
        def update(self, n=1):
            bars[-1] += n

    monkeypatch.setattr(labeling, "tqdm", Bar)
    for data, expected in zip((walks, ragged), whole, strict=True):
        bars.append(0)
        np.testing.assert_allclose(score_all(styles, data), expected, rtol=1e-5, atol=1e-6)
        assert bars[-1] == expected.size


def test_one_program_a_length_serves_all_styles_and_pieces(walks, small_pieces):
    seen = []

    def counted(name):
        def score(states, actions):
            seen.append((name, len(actions)))
            return actions.sum()

        return labeling_function(score, name=name)

    styles = [counted("one"), counted("two")]
    lengths = np.repeat([6, 3], 30)
    for _ in range(2):
        score_all(styles, Trajectories(walks.states, lengths=lengths))
    asked = [("one", 3), ("two", 3)] * 2 + [("one", 6), ("two", 6)] * 2  # first if it can be traced, then for all rows
    assert sorted(seen, key=lambda item: item[1]) == asked


def test_few_trajectories_are_not_padded_to_a_piece(walks, monkeypatch):
    shapes = []

    def program(states, actions):
        shapes.append((states.shape, actions.shape))
        return (states[:, 0, 0],)

    monkeypatch.setattr(parallel, "vectorise", lambda *functions: program)
    np.testing.assert_array_equal(path_in_jax.scores(walks), walks.states[:, 0, 0])
    assert shapes == [((256, 7, 2), (256, 6, 2))]


def test_data_in_a_file_are_labelled_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "PIECE", 1 << 16)
    count, steps = 20_000, 12
    arrays = [
        np.memmap(tmp_path / name, np.float32, "w+", shape=(count, length, 2))
        for name, length in (("states", steps + 1), ("actions", steps))
    ]
    arrays[0][:] = np.random.default_rng(0).normal(size=arrays[0].shape)
    data = Trajectories.trusted(*arrays, np.full(count, steps, np.int32))
    style = labeling_function(path_in_jax.score, thresholds=(1.0, 2.0))
    label_all([style], data[:1])
    tracemalloc.start()
    labels = label_all([style], data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (labels == 0).all()
    assert peak < sum(array.nbytes for array in arrays) / 4


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


@given(st.integers(2, 6), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_quantile_classes_are_balanced_on_distinct_scores(count, seed):
    scores = np.random.default_rng(seed).normal(size=240).astype(np.float32)
    style = path_in_jax.with_classes(count).fit_scores(scores)
    shares = np.bincount(style.classify(scores), minlength=count) / 240
    assert np.abs(shares - 1 / count).max() <= 1 / 240 + 1e-9


@given(st.lists(st.integers(0, 4), min_size=20, max_size=60), st.integers(2, 5))
def test_ties_never_leave_a_class_empty(values, count):
    scores = np.asarray(values, np.float32)
    style = path_in_jax.with_classes(count)
    if len(set(values)) < count:
        with pytest.raises(PoiseError, match=r"distinct scores|one class only"):
            style.fit_scores(scores)
    else:
        assert (np.bincount(style.fit_scores(scores).classify(scores), minlength=count) > 0).all()


def test_given_thresholds_are_kept_and_a_score_on_one_belongs_above():
    style = labeling_function(path_in_jax.score, thresholds=(1.0, 2.0))
    assert style.fit_scores(np.zeros(3, np.float32)).thresholds == (1.0, 2.0)
    assert style.classify(np.asarray([0.5, 1.0, 1.5, 2.0, 9.0], np.float32)).tolist() == [0, 1, 1, 2, 2]


def test_a_yes_or_no_function_needs_no_thresholds(walks):
    @labeling_function(classes=("no", "yes"))
    def ends_right(states, actions):
        return states[-1, 0] > 0

    assert ends_right.label(walks).tolist() == (walks.states[:, -1, 0] > 0).astype(int).tolist()


def test_a_class_is_asked_for_by_word_or_number():
    speed = DOMAINS["basketball"].styles["speed"]
    assert (speed.index("fast"), speed.index("2")) == (2, 2)
    with pytest.raises(PoiseError, match="unknown class of style 'speed' 'fats'; did you mean 'fast'"):
        speed.index("fats")
    assert parse_words(["speed=slow"], [speed]) == {"speed": 0}
    for words, message in (
        (["speed"], "name=class, for example speed=slow"),
        (["sped=slow"], "did you mean 'speed'"),
        (["speed=slow", "speed=fast"], "asked for twice"),
        (["speed=²"], "unknown class"),
    ):
        with pytest.raises(PoiseError, match=message):
            parse_words(words, [speed])


def test_a_number_is_the_class_itself_and_a_word_comes_first():
    level = labeling_function(lambda s, a: 0.0, name="level", classes=("1", "2", "3"))
    assert (level.index("2"), level.index(2), level.index("0")) == (1, 2, 0)


def test_other_numbers_of_classes_keep_the_outer_names():
    speed = DOMAINS["basketball"].styles["speed"]
    assert speed.with_classes(2).classes == ("slow", "fast")
    assert speed.with_classes(4).classes == ("slow", "class-2", "class-3", "fast")
    assert speed.with_classes(3) is speed


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
        (returns_steps, r"must return one number a trajectory; got an array of shape \[6\]"),
        (returns_word, "must return one number a trajectory"),
        (returns_constant, "scores all 60 demonstrations 1: one class only"),
    ],
)
def test_a_bad_style_is_named_with_what_it_did(function, message, walks):
    with pytest.raises(PoiseError, match=message):
        labeling_function(function).fit(walks)


def test_what_cannot_be_scored_has_no_label_if_that_is_allowed(walks):
    @labeling_function(classes=("low", "high"), thresholds=(0.0,))
    def right_half(states, actions):
        if states[0, 0] < 0:
            raise ValueError("not here")
        return float(states[-1, 0])

    labels = label_all([right_half], walks, strict=False)[:, 0]
    np.testing.assert_array_equal(labels == -1, walks.states[:, 0, 0] < 0)


def test_objects_that_can_be_called_are_styles_too(walks):
    class Scaled:
        __hash__ = None

        def __call__(self, states, actions):
            return 2 * states[-1, 0]

    import functools

    for function in (
        Scaled(),
        functools.partial(lambda k, s, a: k * s[-1, 0], 2),
        functools.partial(lambda k, s, a: k * float(s[-1, 0]), 2),
    ):
        np.testing.assert_allclose(labeling_function(function).scores(walks), 2 * walks.states[:, -1, 0], rtol=1e-6)


def test_more_classes_than_distinct_values_are_refused():
    style = LabelingFunction("coin", lambda s, a: jnp.sign(s[0, 0]))
    with pytest.raises(PoiseError, match="2 distinct scores, too few for 3 classes; ask for --classes 2 at most"):
        style.fit(wander(30))


def test_a_style_is_found_by_name_or_in_a_file(tmp_path):
    known = DOMAINS["basketball"].styles
    file = tmp_path / "mine.py"
    file.write_text("def wiggle(states, actions):\n    return abs(actions).sum()\n\nfactor = 3\n")
    assert load_style("speed", known).name == "speed"
    assert load_style(f"{file}:wiggle", known).classes == ("low", "medium", "high")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "neighbour.py").write_text("from mine import wiggle as jiggle\n")
    assert load_style(f"{tmp_path / 'neighbour.py'}:jiggle", known).name == "wiggle"
    for spec, message in (
        ("spped", "did you mean 'speed'"),
        (f"{file}:wigle", "did you mean 'wiggle'"),
        (f"{file}:factor", "is not a function but a int"),
        (f"{tmp_path / 'gone.py'}:wiggle", "no such file"),
        (f"{tmp_path / 'leaves.py'}:x", "cannot be imported: SystemExit"),
        (f"{tmp_path / 'broken.py'}:x", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(PoiseError, match=message):
            load_style(spec, known)


def test_labels_are_encoded_side_by_side_and_told_back():
    space = LabelSpace((Categories(2), Categories(3)))
    labels = np.asarray([[1, 2], [0, 0]])
    encoded = space.encode(labels)
    assert encoded.tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]]
    assert space.decide(encoded).tolist() == labels.tolist()
    np.testing.assert_allclose(space.loss(jnp.zeros((2, 5)), labels), np.log(2) + np.log(3), rtol=1e-6)


def test_label_all_has_one_column_a_style(walks):
    styles = [style.fit(walks) for style in STYLES]
    labels = label_all(styles, walks)
    assert labels.shape == (60, 5)
    assert label_space(styles).width == 15
    for i, style in enumerate(styles):
        np.testing.assert_array_equal(labels[:, i], style.label(walks))


def test_styles_are_differentiable_where_a_player_stands_still():
    import jax

    still = Trajectories(np.ones((1, 5, 2)))
    for style in STYLES:
        gradient = jax.grad(lambda s, style=style: style(s, s[1:] - s[:-1]))(jnp.asarray(still.states[0]))
        assert np.isfinite(gradient).all(), style.name
