"""Contracts that every row of the table keeps."""

from collections import Counter
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

from poise import ALGORITHMS, DOMAINS, PoiseError, Trajectories, Weights, losses, storage
from poise.algorithms import Problem, find_algorithm, register
from poise.domains import Domain
from poise.labeling import Categories, LabelSpace, label_all, label_space
from poise.losses import Batch
from poise.models import KnownDynamics, Policy, Statistics
from poise.rollout import environment_of
from poise.training import Data, fit, losses_of, one_run, start, turns

BASKETBALL = DOMAINS["basketball"]
NO_DYNAMICS = Domain("elsewhere", styles=BASKETBALL.styles)  # so that dynamics are learned too


@pytest.fixture(scope="module")
def walked(walks):
    styles = [BASKETBALL.styles[name].fit(walks) for name in ("speed", "direction")]
    return Problem(Statistics.of(walks), label_space(styles), TINY.network, NO_DYNAMICS), label_all(styles, walks)


REFINED = replace(TINY, training=replace(TINY.training, refine_steps=4, rounds=2))


def stacked(data: Data) -> Data:
    """Demonstrations in place of the rollouts of two runs."""
    return jax.tree.map(lambda x: jnp.stack([x[:4]] * 2), data)


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
    order = turns(algorithm, REFINED.training)
    for now in fit(algorithm, state, data, data, REFINED, collect=lambda *_: stacked(data)):
        after = {k: values(v) for k, v in now.state.parts.items()}
        stage = order[now.number].stage
        if now.step == now.last:
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
        assert REFINED.training.steps(stage.name) > 0
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

    def counting(stage, term):
        def counted(parts, batch, key):
            traces.append((stage.name, term.__name__))
            return term(parts, batch, key)

        return counted

    algorithm = find_algorithm(name, NO_DYNAMICS)
    stages = tuple(replace(s, terms=tuple(counting(s, t) for t in s.terms)) for s in algorithm.stages)
    algorithm = replace(algorithm, stages=stages)
    data, saved = Data.of(walks, labels), {}
    more = {"collect": lambda *_: stacked(data)}
    for now in fit(algorithm, start(algorithm, problem, np.arange(2)), data, data, REFINED, **more):
        if now.stage == "policy" and now.step == 2 and now.losses:  # in the middle of the last stage
            storage.write_tree(tmp_path / "cut", now.state, {})
            saved |= {"like": jax.tree.map(lambda x: x, now.state), "turn": now.number}
    whole, once = now.state, len(traces)
    assert {stage for stage, _ in traces} == {stage.name for stage in stages}
    assert max(Counter(traces).values()) <= 4
    resumed = storage.read_tree(tmp_path / "cut", eqx.filter_eval_shape(lambda: saved["like"]))
    *_, last = fit(algorithm, resumed, data, data, REFINED, turn=saved["turn"], **more)
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


def there_and_back(count: int) -> tuple[Trajectories, np.ndarray]:
    """Straight walks to the left or to the right, at many speeds; the label is the direction."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, size=(count, 1))
    actions = (2 * labels - 1)[:, None] * (1 + 0.3 * random.normal(size=(count, 1, 1))) * np.ones((1, 6, 1))
    actions = actions + 0.05 * random.normal(size=actions.shape)
    states = np.concatenate([np.zeros((count, 1, 1)), actions.cumsum(axis=1)], axis=1)
    return Trajectories(states, actions), labels.astype(np.int32)


def trained(algorithm, demonstrations, labels, domain=BASKETBALL, classes=2, **network):
    """Parts after some hundred steps, and the progress of each chunk of the last stage."""
    sizes = replace(TINY.network, hidden=16, layers=(16,), dynamics_layers=(32,), latent=2, free_bits=0.1, **network)
    training = replace(TINY.training, policy_steps=400, dynamics_steps=400, batch=64, learning_rate=1e-2, chunk=100)
    settings = replace(TINY, network=sizes, training=training)
    problem = Problem(Statistics.of(demonstrations), LabelSpace((Categories(classes),)), sizes, domain)
    data = Data.of(demonstrations, labels)
    steps = [now for now in fit(algorithm, start(algorithm, problem, np.arange(1)), data, data, settings) if now.losses]
    return one_run(steps[-1].state.parts, 0), steps


def told_from_embedding(parts, demonstrations, labels) -> float:
    """How often a line through embeddings, drawn as the decoder reads them, tells the label."""
    embedding = parts["policy"].encode(demonstrations.arrays, labels)
    z = np.asarray(embedding.draw(jax.random.normal(jax.random.key(0), embedding.mean.shape)))
    known = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    line = np.linalg.lstsq(known, 2.0 * labels[:, 0] - 1, rcond=None)[0]
    return float(np.mean((known @ line > 0) == (labels[:, 0] == 1)))


def test_the_adversary_cannot_tell_the_label_from_the_embedding():
    walks, labels = there_and_back(400)
    informed = replace(ALGORITHMS["ctvae-info"], stages=ALGORITHMS["ctvae"].stages)  # no adversary learns in it
    parts, steps = trained(ALGORITHMS["ctvae-info"], walks, labels, decoder="markov")
    freely = trained(informed, walks, labels, decoder="markov")[0]
    assert told_from_embedding(freely, walks, labels) > 0.75
    assert told_from_embedding(parts, walks, labels) < 0.65
    assert steps[-1].validation["information"][0] > 0.9 * np.log(2)


def test_the_encoder_goes_against_the_adversary():
    walks, labels = there_and_back(50)
    algorithm, batch = ALGORITHMS["ctvae-info"], Batch(walks.arrays, labels)
    problem = Problem(Statistics.of(walks), LabelSpace((Categories(2),)), TINY.network, BASKETBALL)
    parts = algorithm.build(problem, jax.random.key(0))

    def information(policy, adversary):
        return losses.information({"policy": policy, "adversary": adversary}, batch, jax.random.key(1))["information"]

    def after(step):
        gradient = eqx.filter_grad(lambda both: information(*both))((parts["policy"], parts["adversary"]))
        one, other = (
            eqx.apply_updates(part, jax.tree.map(lambda g: -step * g, back))
            for part, back in zip((parts["policy"], parts["adversary"]), gradient, strict=True)
        )
        return float(information(one, parts["adversary"])), float(information(parts["policy"], other))

    now = float(information(parts["policy"], parts["adversary"]))
    encoder, adversary = after(0.1)
    assert encoder > now > adversary


def test_mutual_information_rises():
    walks, labels = there_and_back(400)
    _, steps = trained(ALGORITHMS["ctvae-mi"], walks, labels)
    seen = [float(now.validation["mutual"][0]) for now in steps if now.stage == "policy"]
    assert np.log(2) - seen[-1] > 0.6  # of at most log 2 = 0.69 nats
    assert "labeler" in steps[-1].state.parts  # the posterior, learned beside the policy


@pytest.mark.parametrize("name", [name for name, row in ALGORITHMS.items() if "dynamics" in row.parts])
def test_gaussian_dynamics_recover_a_known_noise(name):
    random = np.random.default_rng(0)
    actions = random.normal(size=(300, 6, 2))
    noise = np.asarray([0.1, 0.5]) * random.normal(size=actions.shape)
    states = np.concatenate([np.zeros((300, 1, 2)), (actions + noise).cumsum(axis=1)], axis=1)
    walks = Trajectories(states, actions)
    algorithm = find_algorithm(name, NO_DYNAMICS)
    only = replace(algorithm, stages=tuple(stage for stage in algorithm.stages if stage.name == "dynamics"))
    parts, _ = trained(only, walks, np.zeros((300, 1), np.int32), NO_DYNAMICS, dynamics="gaussian")
    dynamics, start_at = parts["dynamics"], jax.numpy.zeros((2000, 2))
    drawn = dynamics.step(start_at, start_at + 0.5, jax.random.normal(jax.random.key(0), (2000, 2)))
    np.testing.assert_allclose(np.std(drawn, axis=0), [0.1, 0.5], rtol=0.15)
    np.testing.assert_allclose(np.mean(drawn, axis=0), [0.5, 0.5], atol=0.1)


def test_learned_dynamics_are_never_the_judge_of_a_domain_that_knows_better():
    domain, learned = DOMAINS["basketball"], KnownDynamics(lambda state, action: state)
    assert environment_of(domain, {"dynamics": learned}) is domain.dynamics
    assert environment_of(NO_DYNAMICS, {"dynamics": learned}) is learned


def test_dynamics_can_be_learned_where_they_are_known():
    walks, labels = there_and_back(100)
    learned = trained(ALGORITHMS["ctvae-mi"], walks, labels, dynamics="deterministic")[0]["dynamics"]
    np.testing.assert_allclose(learned.step(np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 0))), 1.0, atol=0.2)
