import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from conftest import TINY, count_compilations, wander

import poise
from poise import Domain, PoiseError, Splits, Trajectories, labeling_function, load_run
from poise.domains import integrator
from poise.runs.asking import starts_outside
from poise.runs.experiment import check_data


def flat(run):
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.parts) if hasattr(x, "dtype")])


# a lambda has no name by which a file could give it back
path = labeling_function(lambda states, actions: float(np.abs(actions).sum()), name="path", classes=("short", "long"))


@pytest.fixture
def copy(run, tmp_path):
    """The run's folder, to be spoiled."""
    return shutil.copytree(run.folder, tmp_path / "copy")


@pytest.mark.slow
def test_a_run_comes_back_equal_from_its_folder(run):
    back = load_run(run.folder)
    np.testing.assert_array_equal(flat(back), flat(run))
    assert back.styles == run.styles
    assert back.best == run.best
    np.testing.assert_array_equal(back.sample(5, {"speed": "slow"}).states, run.sample(5, {"speed": "slow"}).states)


def test_a_run_in_memory_can_be_saved_later(run, tmp_path):
    saved = run.save(tmp_path / "later")
    np.testing.assert_array_equal(flat(load_run(saved.folder)), flat(run))


def test_sampling_is_repeatable_and_a_draw_makes_others(run):
    one, same, other = (run.sample(4, {"speed": "slow"}, draw=draw).states for draw in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_words_become_the_labels_asked_for(run):
    made = run.sample(6, {"speed": "fast", "destination": "near"})
    assert made.metadata["labels"].tolist() == [[2, 0]] * 6
    free = run.sample(50, {"destination": "far"}).metadata["labels"]
    assert set(free[:, 1].tolist()) == {2}
    assert len(set(free[:, 0].tolist())) > 1  # speed takes what the start's demonstration had


def test_a_start_and_a_number_of_steps_can_be_given(run):
    made = run.sample(3, {"speed": 0}, start=(10, 20), steps=7)
    np.testing.assert_array_equal(made.starts, [[10, 20]] * 3)
    assert made.steps == 7


def test_counts_up_to_a_power_of_two_need_no_other_program_and_a_warm_sample_compiles_nothing(run):
    run.sample(5, {"speed": "slow"})
    with count_compilations() as compiled:
        for count, words in ((5, {"speed": "slow"}), (6, {"speed": "fast"}), (7, {}), (8, {"destination": "far"})):
            assert len(run.sample(count, words, draw=count)) == count
    assert not [name for name in compiled if "imagine" in name]


def test_a_run_with_other_parts_samples_from_those(run):
    """What a run keeps at hand of its parts is its own."""
    before = run.sample(3, seed=0).states
    swapped = replace(run, parts=jax.tree.map(lambda x: x[::-1] if hasattr(x, "dtype") else x, run.parts))
    assert not np.array_equal(swapped.sample(3, seed=0).states, before)
    np.testing.assert_array_equal(swapped.sample(3, seed=1).states, before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": {"sped": "slow"}}, "unknown style 'sped'; did you mean 'speed'"),
        ({"words": {"speed": "slwo"}}, "did you mean 'slow'"),
        ({"seed": 7}, "this run has the seeds 0, 1; got 7"),
        ({"count": 0}, "count is a whole number, at least 1; got 0"),
        ({"count": 10_000_001}, "between one and ten million rollouts at a time; got 10000001"),
        ({"draw": -1}, "a draw is a whole number between"),
        ({"start": (1, 2, 3)}, "one state of 2 numbers; got 3"),
        ({"start": (1, float("nan"))}, r"a start is one state of 2 numbers, all finite; got \[1.0, nan\]"),
        ({"steps": -2}, "steps is a whole number, at least 1; got -2"),
    ],
)
def test_what_cannot_be_sampled_is_refused_in_one_line(run, arguments, message):
    with pytest.raises(PoiseError, match=message):
        run.sample(**arguments)


def test_other_demonstrations_are_scored_and_other_sizes_refused(run, no_classifier):
    report = run.evaluate(wander(40, steps=9), rollouts=40)
    assert report.about["test"] == 40
    with pytest.raises(PoiseError, match="a state of basketball is 2 numbers; got 3"):
        run.evaluate(wander(40, size=3))
    elsewhere = replace(run, domain=replace(run.domain, sizes=None, actions=(-50.0, 50.0)))
    with pytest.raises(PoiseError, match="this run knows states of 2 numbers; got 3"):
        elsewhere.evaluate(wander(40, size=3))
    with pytest.raises(PoiseError, match="lies between -50 and 50; got 99 in row 0, step 0"):
        elsewhere.evaluate(Trajectories(np.zeros((3, 5, 2)), np.full((3, 4, 2), 99.0)))


def test_a_folder_that_is_no_run_is_refused(tmp_path, copy):
    cases = {tmp_path / "gone": "no such run folder", tmp_path: "is not a run folder: it has no config.json"}
    for folder, message in cases.items():
        with pytest.raises(PoiseError, match=message):
            load_run(folder)
    (copy / "weights.safetensors").unlink()
    with pytest.raises(PoiseError, match="not trained to its end yet"):
        load_run(copy)


def test_a_run_of_another_version_is_refused(copy):
    written = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**written, "format": 99}))
    with pytest.raises(PoiseError, match=r"another version of Poise \(format 99; this one reads 3\)"):
        load_run(copy)


def test_files_that_do_not_fit_together_are_refused(copy):
    (copy / "summary.json").write_text("{}")
    with pytest.raises(PoiseError, match="its files do not fit together"):
        load_run(copy)


def test_damaged_weights_are_refused(copy):
    weights = copy / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    with pytest.raises(PoiseError, match=r"weights.safetensors is damaged or cut short"):
        load_run(copy)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A run on data in memory that do not add up, with a style of the user's own, in plain NumPy."""
    walks = wander(80)
    data = Trajectories(walks.states, 2 * walks.actions)
    return poise.train("ctvae", data, [path], settings=TINY, out=tmp_path_factory.mktemp("own"), progress=False)


def test_data_without_an_environment_are_rolled_out_in_learned_dynamics_and_the_report_says_so(own):
    report = own.evaluate(rollouts=64)
    assert "dynamics" in own.parts
    assert report.to_json()["environment"] == "learned dynamics (no environment was given)"


def test_a_run_on_data_in_memory_asks_for_data_to_test_on(own):
    back = load_run(own.folder, [path])
    with pytest.raises(PoiseError, match="trained on demonstrations in memory; pass the ones to use"):
        back.evaluate()
    assert back.evaluate(wander(20), rollouts=64).about["test"] == 20


def test_a_style_whose_function_is_gone_can_be_sampled_but_not_checked(own):
    back = load_run(own.folder)
    assert len(back.sample(3, {"path": "long"}, tries=1)) == 3
    with pytest.raises(PoiseError, match="unknown style of this run 'other'"):
        load_run(own.folder, [labeling_function(lambda s, a: 0.0, name="other")])
    with pytest.raises(
        PoiseError, match=r"the function of style 'path' .* is not here; name it with --styles file.py:path"
    ):
        back.sample_scored(3)


def test_a_style_that_has_changed_since_training_is_refused(own):
    changed = labeling_function(lambda s, a: -float(np.abs(a).sum()), name="path", classes=("short", "long"))
    with pytest.raises(PoiseError, match=r"style 'path' has changed since training: \d+ of \d+ kept demonstrations"):
        load_run(own.folder, [changed]).evaluate(wander(20), rollouts=64)


def test_a_style_of_ones_own_is_never_taken_for_a_built_in_one(tmp_path):
    speed = labeling_function(lambda s, a: float(s[-1, 0]), name="speed")
    poise.train("rnn", styles=[speed], count=100, settings=TINY, out=tmp_path, progress=False)
    with pytest.raises(PoiseError, match=r"the function of style 'speed' .* is not here"):
        load_run(tmp_path).evaluate(rollouts=64)
    assert load_run(tmp_path, [speed]).evaluate(rollouts=64).about["data"] == "basketball"


def test_data_that_changed_since_training_are_refused(tmp_path):
    wander(60).save(tmp_path / "data.npz")
    run = poise.train("rnn", tmp_path / "data.npz", [path], settings=TINY, out=tmp_path / "run", progress=False)
    assert run.evaluate(rollouts=64).about["test"] == 6
    wander(67).save(tmp_path / "data.npz")
    with pytest.raises(PoiseError, match="has changed since this run was trained on it"):
        load_run(tmp_path / "run", [path]).evaluate(rollouts=64)


def test_a_file_that_changed_is_refused_also_where_the_domain_makes_tests_of_its_own(tmp_path):
    """What the domain makes to test with was never trained on; what is set aside of a changed file may have been."""
    make, test = (lambda count, seed: wander(count, seed=seed)), (lambda count, seed: wander(7, seed=seed + 1))
    domain = Domain("own", make, 60, test, dynamics=integrator)
    wander(60).save(tmp_path / "data.npz")
    given = {"styles": [path], "domain": domain, "settings": TINY, "progress": False}
    poise.train("rnn", tmp_path / "data.npz", out=tmp_path / "file", **given)
    made = poise.train("rnn", "own", out=tmp_path / "made", **given)
    wander(67).save(tmp_path / "data.npz")
    with pytest.raises(PoiseError, match="has changed since this run was trained on it"):
        load_run(tmp_path / "file", [path], domain).evaluate(rollouts=64)
    other = replace(domain, demonstrations=lambda count, seed: wander(count, seed=5))  # as another processor rounds
    assert load_run(tmp_path / "made", [path], other).evaluate(rollouts=64).about["test"] == 7
    assert made.evaluate(rollouts=64).about["test"] == 7


def test_a_domain_of_ones_own_makes_the_demonstrations_and_is_asked_for_again(tmp_path):
    mine = Domain(
        "mine",
        demonstrations=lambda count, seed: wander(count, seed=seed),
        count=60,
        dynamics=integrator,
        units=(2.0, 2.0),
    )
    run = poise.train("rnn", styles=[path], domain=mine, settings=TINY, out=tmp_path, progress=False)
    assert len(run.splits().train) == 48
    with pytest.raises(PoiseError, match="a domain of its user's own, 'mine'; pass it"):
        load_run(tmp_path)
    back = load_run(tmp_path, [path], domain=mine)
    assert back.evaluate(rollouts=64).to_json()["algorithms"] == run.evaluate(rollouts=64).to_json()["algorithms"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"data": wander(30), "count": 5}, "count is for domains"),
        ({"data": wander(30), "test": "gone.npz"}, "no such file: gone.npz"),
        ({"data": Splits(wander(9), wander(9), wander(9)), "split_by": "game"}, "split_by does not go with"),
        ({"first_seed": -5}, "seeds lie between 0"),
        ({"first_seed": 2**33}, "seeds lie between 0"),
    ],
)
def test_what_does_not_apply_is_refused_not_ignored(more, message):
    with pytest.raises(PoiseError, match=message):
        poise.train("rnn", styles=[path], settings=TINY, progress=False, **more)


def test_relative_paths_are_found_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def reach(states, actions):\n    return float(abs(states[:, 0]).max())\n")
    wander(60).save(tmp_path / "data.npz")
    monkeypatch.chdir(tmp_path)
    poise.train("rnn", "data.npz", ["mine.py:reach"], settings=TINY, out="run", progress=False)
    monkeypatch.chdir("/")
    assert load_run(tmp_path / "run").evaluate(rollouts=64).about["test"] == 6


def test_a_plain_function_is_a_style_and_an_array_is_not_data(tmp_path):
    def reach(states, actions):
        return float(np.abs(states).max())

    run = poise.train("rnn", wander(60), [reach], settings=TINY, progress=False)
    assert run.styles[0].classes == ("low", "medium", "high")
    assert repr(run) == "Run('rnn', styles: reach, seeds: [0], folder: None)"
    with pytest.raises(PoiseError, match=r"poise.Trajectories\(states\) or poise.Splits; got a ndarray"):
        check_data(np.zeros((10, 5, 2)))


def test_a_range_of_actions_comes_back_from_disk(tmp_path):
    actions = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 6, 2))
    shown = Trajectories(np.concatenate([np.zeros((60, 1, 2)), actions.cumsum(axis=1)], axis=1), actions)
    domain = Domain("narrow", dynamics=integrator, actions=(-0.5, 0.5))
    given = {"domain": domain, "settings": TINY, "out": tmp_path, "progress": False}
    made = poise.train("ctvae", shown, [lambda states, actions: states[-1, 0]], **given)
    for run in (made, load_run(tmp_path, made.styles, domain=domain)):
        assert run.parts["policy"].decoder.statistics.limits == (-0.5, 0.5)
        assert np.abs(run.sample(50).actions).max() == pytest.approx(0.5)


def test_testing_on_what_was_trained_on_is_warned_about(tmp_path, no_classifier):
    wander(60).save(tmp_path / "data.npz")
    wander(60, seed=9).save(tmp_path / "other.npz")
    run = poise.train("rnn", tmp_path / "data.npz", [path], settings=TINY, out=tmp_path / "run", progress=False)
    back = load_run(tmp_path / "run", [path])
    for test, shared in ((Trajectories.load(tmp_path / "data.npz"), 54), (run.splits().train, 48)):
        (warned,) = [line for line in back.evaluate(test, rollouts=64).warnings() if "used in training" in line]
        assert warned == f"at least {shared} of the {len(test)} test demonstrations were used in training this run"
    for test in (None, Trajectories.load(tmp_path / "other.npz")):
        assert not any("used in training" in line for line in back.evaluate(test, rollouts=64).warnings())


@pytest.mark.parametrize(
    ("dynamics", "message"),
    [
        (lambda s, a: (s + a)[..., :1], r"the environment must return states of shape \[N, 2\]"),
        (lambda s, a: s / 0.0 * 0.0, "the dynamics of odd return NaN or infinite states"),
        (lambda s, a: np.asarray(s) + np.asarray(a), "JAX cannot trace the dynamics of odd"),
    ],
)
def test_known_dynamics_that_make_no_next_states_are_refused_in_one_line(dynamics, message):
    with pytest.raises(PoiseError, match=message):
        poise.train("rnn", wander(40), [path], domain=Domain("odd", dynamics=dynamics), settings=TINY, progress=False)


@pytest.fixture(scope="module")
def straight():
    """A run of walks that all go right, in one style of the way across; it has learned to go right."""

    def across(states, actions):
        return states[-1, 0] - states[0, 0]

    random = np.random.default_rng(0)
    actions = random.uniform(0.9, 1.1, size=(200, 4, 1)) * [[1.0, 0.0]] + 0.01 * random.normal(size=(200, 4, 2))
    states = np.concatenate([np.zeros((200, 1, 2)), actions.cumsum(axis=1)], axis=1)
    style = labeling_function(across, name="across", classes=("left", "back", "on"), thresholds=(-5.0, 0.0))
    training = replace(TINY.training, policy_steps=60, learning_rate=1e-2, chunk=60)
    settings = replace(TINY, training=training, sampling=replace(TINY.sampling, tries=8))
    return poise.train("rnn", Trajectories(states), [style], settings=settings, progress=False)


def test_the_nearest_possible_request_is_named(straight):
    start, near = [0.0, 0.0], {"across": "on"}
    marked = straight.sample(4, {"across": "left"}, start=start)
    assert not marked.metadata["accepted"].any()
    found = straight.nearest({"across": "left"}, start=start, in_range=False)
    assert (found.asked, found.possible) == ({"across": "left"}, near)
    assert str(found) == "across=left is out of reach from there; across=on is possible"
    nothing = straight.nearest({"across": "left"}, start=[900.0, 900.0])
    assert nothing.possible is None
    assert "every request near it" in str(nothing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": {}}, "name the styles whose nearest possible classes"),
        ({"words": {"across": "left"}, "change": ["acros"]}, "unknown style 'acros'; did you mean 'across'"),
        ({"words": {"across": "left"}, "start": [1.0]}, "one state of 2 numbers"),
    ],
)
def test_what_has_no_nearest_request_is_refused_in_one_line(straight, arguments, message):
    with pytest.raises(PoiseError, match=message):
        straight.nearest(**{"start": [0.0, 0.0], **arguments})


def test_a_style_is_asked_for_in_every_class_from_the_same_starts(run):
    found = run.reach("destination", 5)
    assert found.labels[:, 1].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    np.testing.assert_array_equal(found.starts[:5], found.starts[10:])
    np.testing.assert_array_equal(found.labels[:5, 0], found.labels[10:, 0])  # of the start's demonstration
    assert found.allowed == 2
    with pytest.raises(PoiseError, match="unknown style 'destnation'"):
        run.reach("destnation", 5)


def test_a_start_is_outside_only_beyond_all_starts_and_states_of_demonstrations():
    known, nowhere = wander(20), np.zeros((2, 2))
    last = np.asarray(known.starts).max(axis=0)
    assert not starts_outside(last.tolist(), known, nowhere)
    beyond = (last + np.array([0.0, 0.1])).tolist()
    assert starts_outside(beyond, known, nowhere)
    assert not starts_outside(beyond, known, np.stack([last, last + 1]))


@pytest.mark.parametrize("tries", [1, 3])
def test_a_rollout_that_becomes_nan_is_marked_and_loses_no_other(tries):
    def cliff(states, actions):
        return np.where(np.asarray(states)[:, :1] > 1, np.nan, np.asarray(states) + np.asarray(actions))

    domain = Domain("cliff", environment=cliff)
    run = poise.train("rnn", wander(200), [path], domain=domain, settings=TINY, progress=False)
    made = run.sample(60, {"path": "long"}, tries=tries)
    finite = made.metadata["finite"]
    assert 0 < finite.sum() < 60
    assert not np.asarray(made.states)[~finite].any()
    assert np.isfinite(np.asarray(made.states)).all()
    assert np.asarray(made.states)[finite].any(axis=(1, 2)).all()


@pytest.mark.parametrize("name", ["steps", "tries", "typical"])
def test_numbers_of_rollouts_and_steps_are_whole(straight, name):
    sampling = poise.Sampling(tries=4)
    object.__setattr__(sampling, name, 2.5)  # types are checked in tests, not where users are
    with pytest.raises(PoiseError, match=rf"^sampling.{name} is a whole number; got 2.5$"):
        straight.sample(2, sampling=sampling)
