"""Fitting: what a run ends with, whatever the chunks, pieces, windows and runs beside it."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from training_helpers import (
    ONE,
    POLICY,
    REFINE,
    SMALL,
    TWO,
    base,
    chunks,
    counting,
    data,
    far,
    flat,
    problem,
    trained,
    with_training,
)

from poise import PoiseError, Weights, losses
from poise.algorithms import Algorithm, rnn
from poise.data.batches import Data
from poise.training.fit import MEMORY_MARGIN, Sources, fit
from poise.training.stages import estimate
from poise.training.state import PerRun, one_run, running, start


def test_a_stage_is_traced_no_more_often_for_more_chunks():
    counts = []
    for steps in (2, 9):  # one chunk, then four whole ones and a rest
        algorithm, traces = counting(ONE)
        assert len(chunks(with_training(policy_steps=steps), algorithm=algorithm)) == 1 + -(-steps // 2)
        counts.append(len(traces))
    assert counts[0] == counts[1]


def test_same_seed_same_weights_and_another_seed_other_weights():
    np.testing.assert_array_equal(flat(base()), flat(trained()))
    assert not np.array_equal(flat(base(), 0), flat(base(), 1))


def test_chunks_do_not_change_the_result():
    np.testing.assert_array_equal(flat(base()), flat(trained(with_training(chunk=3))))


def test_a_seed_trains_the_same_alone_as_among_others():
    np.testing.assert_allclose(flat(base(), 1), flat(trained(seeds=(1,)), 0), rtol=1e-4, atol=1e-5)


def test_labels_may_differ_from_run_to_run():
    both = Data(data().demonstrations, jnp.stack([data().labels, (data().labels + 1) % 3]))
    per_run = PerRun.equal(2, SMALL)._replace(label_set=jnp.arange(2))
    state = trained(seeds=(0, 0), sources=Sources(both), validation=both, per_run=per_run)
    np.testing.assert_allclose(flat(state, 0), flat(base(), 0), rtol=1e-4, atol=1e-5)
    assert not np.allclose(flat(state, 0), flat(state, 1), atol=1e-5)


def test_weights_may_differ_from_run_to_run():
    per_run = PerRun.equal(2, SMALL)
    per_run.weights["nld"] = jnp.asarray([1.0, 0.0])
    state = trained(seeds=(0, 0), per_run=per_run)
    np.testing.assert_allclose(flat(state, 0), flat(base(), 0), rtol=1e-4, atol=1e-5)
    assert not np.allclose(flat(state, 0), flat(state, 1), atol=1e-5)


def test_where_memory_is_short_the_runs_are_divided_into_pieces_and_end_the_same(monkeypatch):
    parts = one_run(start(ONE, problem(), np.arange(1)).parts, 0)
    need = estimate(POLICY, parts, data(), SMALL).bytes_per_run
    assert need > 1_000
    monkeypatch.setenv("POISE_MEMORY", str(int(1.5 * MEMORY_MARGIN * need)))
    last = chunks()[-1]
    assert (last.axis.pieces, last.axis.piece) == (2, 1)
    np.testing.assert_allclose(flat(last.state), flat(base()), rtol=1e-4, atol=1e-5)


class Windows:
    """A source whose windows are each used for three steps."""

    steps_per_window = 3

    def __init__(self):
        self.asked: list[int] = []

    def windows(self, first=0):
        for number in range(first, 99):
            self.asked.append(number)
            yield data().rows(np.arange(number, number + 20))


def test_windows_follow_steps_and_not_chunks():
    ends = []
    for chunk in (2, 5):
        source = Windows()
        ends.append(flat(trained(with_training(policy_steps=7, chunk=chunk), (0,), sources=Sources(source))))
        assert source.asked == [0, 1, 2]
    np.testing.assert_array_equal(*ends)


def test_a_chunk_reuses_the_memory_of_the_chunk_before_it():
    progress = fit(ONE, start(ONE, problem(), np.arange(2)), Sources(data()), data(), with_training(policy_steps=6))
    states = [next(progress).state, next(progress).state]
    next(progress)
    assert all(x.is_deleted() for x in jax.tree.leaves(states[1].parts) if isinstance(x, jax.Array))


def test_training_lowers_the_loss():
    """On walks that go farther than the standardisation of the policy has it."""
    settings = with_training(policy_steps=200, chunk=50, learning_rate=1e-2)
    made = chunks(settings, (0,), sources=Sources(far()), validation=far())
    for losses_of in (lambda now: now.losses, lambda now: now.validation):
        means = [losses_of(now)["nld"].mean() for now in made if now.losses]
        assert means[-1] < means[0] - 5, means


THRESHOLD = [0.0]


def explode(parts, batch, key):
    """A loss that is NaN at once in one run: the one whose first weight is the larger."""
    named = losses.imitation(parts, batch, key)
    first = parts["policy"].decoder.body.layers[0].weight[0, 0]
    return {**named, "nld": jnp.where(first > THRESHOLD[0], jnp.nan, named["nld"])}


def test_a_seed_whose_loss_is_not_finite_is_stopped_and_the_others_continue():
    algorithm = ONE.with_stage(replace(POLICY, terms=(explode,)))
    new = start(algorithm, problem(), np.arange(2))
    first = np.asarray(new.parts["policy"].decoder.body.layers[0].weight[:, 0, 0])
    THRESHOLD[0], stops, continues = float(first.mean()), int(first.argmax()), int(first.argmin())
    untouched, state = flat(new, stops), trained(algorithm=algorithm)
    assert running(state).tolist() == (first < first.mean()).tolist()
    assert np.isfinite(flat(state)).all()
    np.testing.assert_array_equal(flat(state, stops), untouched)
    assert np.asarray(state.stopped)[stops] == 0
    np.testing.assert_allclose(flat(state, continues), flat(base(), continues), rtol=1e-4, atol=1e-5)


def novel(parts, batch, key):
    return {"novel": losses.dynamics(parts, batch, key)["dynamics"]}


@pytest.mark.parametrize(
    ("algorithm", "settings", "line"),
    [
        (
            TWO.with_stage(replace(REFINE, terms=(novel,))),
            with_training(refine_steps=4),
            "stage 'refine' returns a loss 'novel' without a weight; give Weights(extra={'novel': ...})",
        ),
        (
            TWO,
            replace(SMALL, weights=Weights(extra={"novle": 1.0})),
            "Weights(extra=...) names 'novle', which no stage returns; the losses are: dynamics, nld",
        ),
        (
            TWO,
            with_training(extra_steps={"refien": 4}),
            "Training(extra_steps=...) names 'refien', which is not a stage; the stages are: policy, refine",
        ),
    ],
    ids=["a missing weight of the last stage", "an unused weight", "unused steps"],
)
def test_names_that_do_not_match_are_refused_before_the_first_step(algorithm, settings, line):
    def collect(state, turn):
        raise AssertionError("a stage began")

    state, sources = start(algorithm, problem(), np.arange(1)), Sources(data(), collect=collect)
    progress = fit(algorithm, state, sources, data(), settings)
    with pytest.raises(PoiseError) as error:
        next(progress)  # even the line before the first chunk does not come
    assert str(error.value) == line


def test_extra_weights_and_steps_that_are_used_are_accepted():
    extra = replace(REFINE, name="extra", terms=(novel,), collects=False, alternates_with=None)
    settings = replace(with_training(extra_steps={"extra": 2}), weights=Weights(extra={"novel": 1.0}))
    algorithm = Algorithm(TWO.parts, (POLICY, extra))
    assert [now.stage for now in chunks(settings, (0,), algorithm) if now.losses] == ["policy", "policy", "extra"]


def test_two_terms_may_not_share_a_name():
    twice = ONE.with_stage(replace(POLICY, terms=(losses.imitation, losses.imitation)))
    with pytest.raises(PoiseError, match="two terms of stage 'policy' return a loss named 'nld'"):
        trained(algorithm=twice)


def test_augmented_stages_draw_from_the_augmented_data():
    augmented = ONE.with_stage(replace(POLICY, augmented=True))
    found = flat(trained(algorithm=augmented, sources=Sources(data(), augmented=far())))
    np.testing.assert_array_equal(found, flat(trained(sources=Sources(far()))))
    assert not np.array_equal(found, flat(base()))


def test_turns_of_a_stage_are_one_training_and_one_program():
    rolled, seen = jax.tree.map(lambda x: jnp.stack([x[:4]] * 2), data()), []

    def collect(state, turn):
        seen.append((turn, flat(state, part="policy")))
        return rolled

    alone, expected = counting(ONE)
    once = flat(trained(algorithm=alone))
    algorithm, traces = counting(TWO)
    sources = Sources(data(), collect=collect)
    made = chunks(with_training(refine_steps=4, rounds=2), algorithm=algorithm, sources=sources)
    steps = [(now.turn, now.stage, now.step) for now in made if now.losses]
    assert steps == [(0, "policy", 2), (1, "refine", 2), (2, "policy", 4), (3, "refine", 4)]
    assert traces.count("policy") == traces.count("refine") == len(expected)  # more turns compile no more
    np.testing.assert_array_equal(flat(made[-1].state, part="policy"), once)
    assert [turn for turn, _ in seen] == [1, 3]
    assert not np.array_equal(seen[0][1], seen[1][1])  # the current policy is rolled out


def test_a_stage_that_collects_is_skipped_where_nothing_is_collected():
    state = trained(with_training(refine_steps=4, rounds=2), algorithm=TWO)
    np.testing.assert_array_equal(flat(state, part="policy"), flat(base()))
    new = start(TWO, problem(), np.arange(2))
    np.testing.assert_array_equal(flat(state, part="dynamics"), flat(new, part="dynamics"))


def test_each_run_learns_from_its_own_rollouts():
    one = jax.tree.map(lambda x: jnp.stack([x[:4], x[:4]]), data())
    other = jax.tree.map(lambda x: jnp.stack([x[:4], x[4:8]]), data())
    settings = with_training(policy_steps=0, refine_steps=4, rounds=1)
    states = [
        trained(settings, algorithm=TWO, sources=Sources(data(), collect=lambda *_, own=own: own))
        for own in (one, other)
    ]
    np.testing.assert_array_equal(flat(states[0], 0), flat(states[1], 0))
    assert not np.array_equal(flat(states[0], 1), flat(states[1], 1))


def test_a_policy_without_steps_can_be_rolled_out_to_refine_dynamics():
    rolled = jax.tree.map(lambda x: jnp.stack([x[:4]]), data())
    settings = with_training(policy_steps=0, refine_steps=4, rounds=2)
    made = chunks(settings, (0,), TWO, Sources(data(), collect=lambda *_: rolled))
    assert [(now.stage, now.step) for now in made if now.losses] == [("refine", 2), ("refine", 4)]


def test_an_algorithm_without_parts_that_learn_is_trained_in_no_time():
    still = Algorithm({"policy": rnn}, (replace(POLICY, trains=(), terms=()),))
    assert chunks(algorithm=still) == []
