"""Contracts that every row of the table keeps."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from conftest import TINY

from poise import ALGORITHMS, DOMAINS, PoiseError, Weights, storage
from poise.algorithms import Problem, find_algorithm, register
from poise.domains import Domain
from poise.labeling import label_all, label_space
from poise.losses import Batch
from poise.models import Policy, Statistics
from poise.training import Data, fit, losses_of, start

BASKETBALL = DOMAINS["basketball"]
NO_DYNAMICS = Domain("elsewhere", styles=BASKETBALL.styles)  # so that dynamics are learned too


@pytest.fixture(scope="module")
def walked(walks):
    styles = [BASKETBALL.styles[name].fit(walks) for name in ("speed", "direction")]
    return Problem(Statistics.of(walks), label_space(styles), TINY.network, NO_DYNAMICS), label_all(styles, walks)


def values(part):
    return [np.asarray(x) for x in jax.tree.leaves(part) if hasattr(x, "dtype")]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_only_named_parts_move_and_standardisation_never_does(name, walks, walked):
    problem, labels = walked
    algorithm = find_algorithm(name, NO_DYNAMICS)
    state = start(algorithm, problem, np.arange(2))
    data = Data.of(walks, labels)
    before = jax.tree.map(lambda x: np.asarray(x), {k: values(v) for k, v in state.parts.items()})
    seen = set()
    for now in fit(algorithm, state, data, data, TINY):
        after = {k: values(v) for k, v in now.state.parts.items()}
        stage = algorithm.stages[now.number]
        if now.step == now.steps:
            moved = {
                k for k in after if any(not np.array_equal(a, b) for a, b in zip(before[k], after[k], strict=True))
            }
            assert moved == set(stage.trains), stage.name
            before = jax.tree.map(np.array, after)
            seen.add(stage.name)
    assert seen == {stage.name for stage in algorithm.stages}
    for part in now.state.parts.values():
        for standard in (
            x for x in jax.tree.leaves(part, is_leaf=lambda x: isinstance(x, Statistics)) if isinstance(x, Statistics)
        ):
            np.testing.assert_array_equal(standard.action.mean[0], problem.statistics.action.mean)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_loss_has_a_weight_and_every_stage_a_number_of_steps(name, walks, walked):
    problem, labels = walked
    algorithm = find_algorithm(name, NO_DYNAMICS)
    parts = algorithm.build(problem, jax.random.key(0))
    assert isinstance(parts["policy"], Policy)
    for stage in algorithm.stages:
        assert set(stage.trains) <= set(parts)
        assert TINY.training.steps(stage.name) > 0
        named = losses_of(stage, parts, Batch(walks.arrays, labels), jax.random.key(0))
        assert set(named) <= set(Weights().by_name())


def test_every_weight_is_of_some_loss(walks, walked):
    problem, labels = walked
    named = set()
    for name in ALGORITHMS:
        algorithm = find_algorithm(name, NO_DYNAMICS)
        parts = algorithm.build(problem, jax.random.key(0))
        for stage in algorithm.stages:
            named |= set(losses_of(stage, parts, Batch(walks.arrays, labels), jax.random.key(0)))
    assert named == set(Weights().by_name())


def test_the_same_part_starts_alike_in_every_algorithm(walked):
    problem, _ = walked
    one, other = (
        find_algorithm(n, NO_DYNAMICS).build(problem, jax.random.key(3))["policy"] for n in ("ctvae", "ctvae-style")
    )
    for a, b in zip(values(one), values(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_row_is_traced_once_a_stage_resumes_exactly_and_comes_back_from_disk(name, walks, walked, tmp_path):
    problem, labels = walked
    traces = []

    def counting(term):
        def counted(parts, batch, key):
            traces.append(term.__name__)
            return term(parts, batch, key)

        return counted

    algorithm = find_algorithm(name, NO_DYNAMICS)
    stages = tuple(replace(s, terms=tuple(counting(t) for t in s.terms)) for s in algorithm.stages)
    algorithm = replace(algorithm, stages=stages)
    data, saved = Data.of(walks, labels), {}
    for now in fit(algorithm, start(algorithm, problem, np.arange(2)), data, data, TINY):
        if now.stage == "policy" and now.step == 2:  # in the middle of the last stage
            storage.write_tree(tmp_path / "cut", now.state, {})
            saved["like"] = jax.tree.map(lambda x: x, now.state)
    whole, once = now.state, len(traces)
    assert all(
        count <= 4
        for count in (traces.count(t.__name__) for s in find_algorithm(name, NO_DYNAMICS).stages for t in s.terms)
    )
    resumed = storage.read_tree(tmp_path / "cut", eqx.filter_eval_shape(lambda: saved["like"]))
    *_, last = fit(algorithm, resumed, data, data, TINY, stage=len(stages) - 1)
    for one, other in zip(values(whole.parts), values(last.state.parts), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(traces) - once <= once
    storage.write_tree(tmp_path / "parts", whole.parts, {})
    for one, other in zip(values(whole.parts), values(storage.read_tree(tmp_path / "parts", whole.parts)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_known_dynamics_are_not_trained(walks):
    algorithm = find_algorithm("ctvae-style", BASKETBALL)
    styles = [BASKETBALL.styles["speed"].fit(walks)]
    problem = Problem(Statistics.of(walks), label_space(styles), TINY.network, BASKETBALL)
    data = Data.of(walks, label_all(styles, walks))
    stages = {now.stage for now in fit(algorithm, start(algorithm, problem, np.arange(1)), data, data, TINY)}
    assert stages == {"labeler", "policy"}


def test_an_unknown_algorithm_gets_a_suggestion():
    with pytest.raises(PoiseError, match="unknown algorithm 'ctvae-sytle'; did you mean 'ctvae-style'"):
        find_algorithm("ctvae-sytle", BASKETBALL)


def test_a_name_is_registered_once():
    with pytest.raises(PoiseError, match="already"):
        register("ctvae", ALGORITHMS["ctvae"])
