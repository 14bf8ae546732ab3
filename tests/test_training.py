from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

from poise import DOMAINS, PoiseError, Stage, Training, losses
from poise.algorithms import Algorithm, Problem, ctvae
from poise.labeling import label_all, label_space
from poise.models import Statistics
from poise.training import MEMORY_MARGIN, Data, Each, bytes_of_a_run, fit, one_run, running, start, turns, weighted

BASKETBALL = DOMAINS["basketball"]
TRACES = []


def counted(parts, batch, key):
    TRACES.append(1)
    return losses.imitation(parts, batch, key)


COUNTED = Algorithm({"policy": ctvae}, (Stage("policy", ("policy",), (counted,)),))


@pytest.fixture(scope="module")
def given(walks):
    styles = [BASKETBALL.styles["speed"].fit(walks)]
    problem = Problem(Statistics.of(walks), label_space(styles), TINY.network, BASKETBALL)
    return problem, Data.of(walks, label_all(styles, walks))


def trained(given, settings=TINY, seeds=(0, 1), algorithm=COUNTED, data=None, **more):
    problem, same = given
    *_, last = fit(algorithm, start(algorithm, problem, np.asarray(seeds)), data or same, same, settings, **more)
    return last.state


@pytest.fixture(scope="module")
def base(given):
    """Two seeds, trained once for all tests."""
    return trained(given)


def flat(state, run=None):
    parts = state.parts if run is None else one_run(state.parts, run)
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(parts) if hasattr(x, "dtype")])


def with_training(**more):
    return replace(TINY, training=replace(TINY.training, **more))


def test_a_stage_is_traced_no_more_often_for_more_chunks(given):
    counts = []
    for steps in (2, 9):  # one chunk, then four whole ones and a rest
        TRACES.clear()
        trained(given, with_training(policy_steps=steps))
        counts.append(len(TRACES))
    assert counts[0] == counts[1]


def test_same_seed_same_weights_and_another_seed_other_weights(given, base):
    np.testing.assert_array_equal(flat(base), flat(trained(given)))
    assert not np.array_equal(flat(base, 0), flat(base, 1))


def test_chunks_do_not_change_the_result(given, base):
    np.testing.assert_array_equal(flat(base), flat(trained(given, with_training(chunk=3))))


def test_a_seed_trains_the_same_alone_as_among_others(given, base):
    alone = trained(given, seeds=(1,))
    np.testing.assert_allclose(flat(base, 1), flat(alone, 0), rtol=1e-4, atol=1e-5)


def test_labels_may_differ_from_run_to_run(given, base):
    problem, data = given
    stacked = jnp.stack([data.labels, (data.labels + 1) % 3])
    each = Each.alike(2, TINY)._replace(labels=jnp.arange(2))
    per_run = Data(data.demonstrations, stacked)
    *_, last = fit(COUNTED, start(COUNTED, problem, np.asarray([0, 0])), per_run, per_run, TINY, each=each)
    np.testing.assert_allclose(flat(last.state, 0), flat(base, 0), rtol=1e-4, atol=1e-5)
    assert not np.allclose(flat(last.state, 0), flat(last.state, 1), atol=1e-5)


def test_weights_may_differ_from_run_to_run(given, base):
    problem, data = given
    each = Each.alike(2, TINY)
    each.weights["nld"] = jnp.asarray([1.0, 0.0])
    *_, last = fit(COUNTED, start(COUNTED, problem, np.asarray([0, 0])), data, data, TINY, each=each)
    np.testing.assert_allclose(flat(last.state, 0), flat(base, 0), rtol=1e-4, atol=1e-5)
    assert not np.allclose(flat(last.state, 0), flat(last.state, 1), atol=1e-5)


def test_where_memory_is_short_the_runs_are_cut_into_pieces_and_end_the_same(given, base, monkeypatch):
    problem, data = given
    need = bytes_of_a_run(COUNTED.stages[0], start(COUNTED, problem, np.arange(1)), data, TINY)
    assert need > 10_000
    monkeypatch.setenv("POISE_MEMORY", str(int(1.5 * MEMORY_MARGIN * need)))
    *_, last = fit(COUNTED, start(COUNTED, problem, np.arange(2)), data, data, TINY)
    assert (last.axis.pieces, last.axis.piece) == (2, 1)
    np.testing.assert_allclose(flat(last.state), flat(base), rtol=1e-4, atol=1e-5)


class Windows:
    """A source of which every window lasts three steps."""

    lasts = 3

    def __init__(self, data):
        self.data, self.asked = data, []

    def windows(self, first=0):
        for number in range(first, 99):
            self.asked.append(number)
            yield self.data.rows(np.arange(number, number + 20))


def test_windows_follow_steps_and_not_chunks(given):
    problem, data = given
    ends = []
    for chunk in (2, 5):
        source = Windows(data)
        settings = with_training(policy_steps=7, chunk=chunk)
        *_, last = fit(COUNTED, start(COUNTED, problem, np.arange(1)), source, data, settings)
        ends.append(flat(last.state))
        assert source.asked == [0, 1, 2]
    np.testing.assert_array_equal(*ends)


def test_a_chunk_takes_the_place_of_the_one_before_it_in_memory(given):
    problem, data = given
    chunks = fit(COUNTED, start(COUNTED, problem, np.arange(2)), data, data, with_training(policy_steps=6))
    states = [next(chunks).state, next(chunks).state]
    next(chunks)
    assert all(x.is_deleted() for x in jax.tree.leaves(states[1].parts) if isinstance(x, jax.Array))


def test_training_lowers_the_loss(given):
    problem, data = given
    settings = with_training(policy_steps=200, chunk=100, batch=32, learning_rate=1e-2)
    means = [
        now.losses["nld"].mean()
        for now in fit(COUNTED, start(COUNTED, problem, np.arange(1)), data, data, settings)
        if now.losses
    ]
    assert means[-1] < means[0] - 0.5


def explode(parts, batch, key):
    """A loss that turns non-finite at once in one run: the one whose weights are the larger."""
    named = losses.imitation(parts, batch, key)
    first = parts["policy"].decoder.body.layers[0].weight[0, 0]
    return {**named, "nld": jnp.where(first > THRESHOLD[0], jnp.nan, named["nld"])}


THRESHOLD = [0.0]


def test_a_seed_whose_loss_is_not_finite_is_stopped_and_the_others_go_on(given, base):
    problem, _ = given
    algorithm = Algorithm({"policy": ctvae}, (Stage("policy", ("policy",), (explode,)),))
    first = np.asarray(start(algorithm, problem, np.arange(2)).parts["policy"].decoder.body.layers[0].weight[:, 0, 0])
    THRESHOLD[0] = float(first.mean())
    untouched = flat(start(algorithm, problem, np.arange(2)), int(first.argmax()))
    state = trained(given, algorithm=algorithm)
    assert running(state).tolist() == (first < first.mean()).tolist()
    assert np.isfinite(flat(state)).all()
    np.testing.assert_array_equal(flat(state, int(first.argmax())), untouched)
    assert np.asarray(state.stopped)[first.argmax()] == 0
    np.testing.assert_allclose(flat(state, int(first.argmin())), flat(base, int(first.argmin())), rtol=1e-4, atol=1e-5)


def test_a_loss_without_a_weight_is_refused():
    with pytest.raises(PoiseError, match="a loss 'novel' without a weight; known: nld"):
        weighted(COUNTED.stages[0], {"novel": jnp.ones(())}, {"nld": jnp.ones(())})


def test_two_terms_may_not_share_a_name(given):
    twice = Algorithm({"policy": ctvae}, (Stage("policy", ("policy",), (losses.imitation, losses.imitation)),))
    with pytest.raises(PoiseError, match="two terms of stage 'policy' return a loss named 'nld'"):
        trained(given, algorithm=twice)


def test_wide_stages_draw_from_the_wide_data(given, base):
    _, data = given
    wide = Algorithm({"policy": ctvae}, (replace(COUNTED.stages[0], wide=True),))
    far = Data(jax.tree.map(lambda x: x * 3 if x.dtype == jnp.float32 else x, data.demonstrations), data.labels)
    widely = flat(trained(given, algorithm=wide, wide=far))
    np.testing.assert_array_equal(widely, flat(trained(given, data=far)))
    assert not np.array_equal(widely, flat(base))


def test_settings_of_training_name_every_stage():
    assert Training(policy_steps=3).steps("policy") == 3


REFINE = replace(COUNTED.stages[0], name="refine", collects=True)


def test_a_stage_that_collects_takes_turns_with_the_one_before_it():
    training = Training(labeler_steps=3, policy_steps=10, refine_steps=5, rounds=3)
    labeler = replace(COUNTED.stages[0], name="labeler")
    order = turns(Algorithm({}, (labeler, *COUNTED.stages, REFINE)), training)
    assert [(turn.stage.name, turn.first, turn.last) for turn in order] == [
        ("labeler", 0, 3),
        *(("policy", 0, 3), ("refine", 0, 1)),
        *(("policy", 3, 6), ("refine", 1, 3)),
        *(("policy", 6, 10), ("refine", 3, 5)),
    ]
    alone = turns(Algorithm({}, (*COUNTED.stages, REFINE)), replace(training, refine_steps=0))
    assert [(turn.stage.name, turn.first, turn.last) for turn in alone] == [("policy", 0, 10)]


def test_turns_of_a_stage_are_one_training_and_one_program(given):
    problem, data = given
    settings = with_training(refine_steps=4, rounds=2)
    idle = Algorithm({"policy": ctvae}, (*COUNTED.stages, replace(REFINE, trains=(), terms=())))
    np.testing.assert_array_equal(flat(trained(given, settings, algorithm=idle)), flat(trained(given, TINY)))
    rolled, seen = jax.tree.map(lambda x: jnp.stack([x[:4]] * 2), data), []

    def collect(state, turn):
        seen.append((turn, flat(state)))
        return rolled

    TRACES.clear()
    algorithm = Algorithm({"policy": ctvae}, (*COUNTED.stages, REFINE))
    steps = [
        (now.number, now.stage, now.step)
        for now in fit(algorithm, start(algorithm, problem, np.arange(2)), data, data, settings, collect=collect)
        if now.losses
    ]
    assert steps == [(0, "policy", 2), (1, "refine", 2), (2, "policy", 4), (3, "refine", 4)]
    twice = len(TRACES)
    TRACES.clear()
    trained(given, with_training(refine_steps=4, rounds=1), algorithm=algorithm, collect=collect)
    assert twice == len(TRACES)  # more rounds compile no more
    assert [turn for turn, _ in seen] == [1, 3, 1]
    assert not np.array_equal(seen[0][1], seen[1][1])  # it is the current policy that is rolled out


def test_own_rollouts_are_learned_from(given):
    _, data = given
    algorithm = Algorithm({"policy": ctvae}, (*COUNTED.stages, REFINE))
    settings = with_training(refine_steps=4, rounds=1)
    one = jax.tree.map(lambda x: jnp.stack([x[:4], x[:4]]), data)
    other = jax.tree.map(lambda x: jnp.stack([x[:4], x[4:8]]), data)
    states = [trained(given, settings, algorithm=algorithm, collect=lambda *_, own=own: own) for own in (one, other)]
    np.testing.assert_array_equal(flat(states[0], 0), flat(states[1], 0))
    assert not np.array_equal(flat(states[0], 1), flat(states[1], 1))


def test_two_stages_in_a_row_cannot_both_collect():
    other = replace(REFINE, name="other")
    with pytest.raises(PoiseError, match="'refine' and 'other' both collect"):
        turns(Algorithm({}, (*COUNTED.stages, REFINE, other)), Training(extra_steps={"other": 4}))
