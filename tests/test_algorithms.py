"""The table of algorithms: contracts that every row keeps, and what rows of one's own must keep."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY

from poise import ALGORITHMS, DOMAINS, Algorithm, PoiseError, Stage, Trajectories, Weights, losses
from poise import algorithms as table
from poise.algorithms import DYNAMICS, Problem, find_algorithm, fit_to, register
from poise.data.batches import Batch, Data
from poise.domains import Domain
from poise.models import KnownDynamics, Policy, Statistics
from poise.rollouts.simulate import find_environment
from poise.styles.label_spaces import Categories, LabelSpace
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.system import storage
from poise.training.fit import Sources, fit
from poise.training.stages import losses_of, turns
from poise.training.state import PerRun, State, one_run, start

BASKETBALL = DOMAINS["basketball"]
NO_DYNAMICS = Domain("elsewhere", styles=BASKETBALL.styles)  # so that dynamics are learned, too
REFINED = replace(TINY, training=replace(TINY.training, refine_steps=4, rounds=2))
LEARNED = {name: fit_to(algorithm, NO_DYNAMICS, ()) for name, algorithm in ALGORITHMS.items()}


@pytest.fixture(scope="module")
def problem(walks) -> Problem:
    styles = [BASKETBALL.styles[name].fit(walks) for name in ("speed", "direction")]
    return Problem(Statistics.of(walks), label_space(styles), TINY.network, NO_DYNAMICS)


@pytest.fixture(scope="module")
def data(walks) -> Data:
    styles = [BASKETBALL.styles[name].fit(walks) for name in ("speed", "direction")]
    return Data.of(walks, label_all(styles, walks))


def arrays_of(part: Any) -> list[np.ndarray]:
    return [np.array(x) for x in jax.tree.leaves(part) if hasattr(x, "dtype")]


def sources_of(data: Data) -> Sources:
    """Demonstrations, also in place of the rollouts of two runs."""
    return Sources(data, collect=lambda *_: jax.tree.map(lambda x: jnp.stack([x[:4]] * 2), data))


@dataclass
class Trained:
    """A row of the table, trained once for all contracts: two runs, every stage for a few steps."""

    algorithm: Algorithm
    last: State
    moved: dict[str, list[set[str]]] = field(default_factory=dict)
    """By stage, the parts that changed in each of its turns."""
    traces: list[tuple[str, str]] = field(default_factory=list)
    """The stage and name of a term, each time that it was traced."""
    cut: tuple[State, int] | None = None
    """A state in the middle of the policy's stage, and the number of its turn."""


@pytest.fixture(scope="module", params=ALGORITHMS)
def trained(request, problem, data) -> Trained:
    algorithm = LEARNED[request.param]
    made = Trained(algorithm, start(algorithm, problem, np.arange(2)))

    def counting(stage, term):
        def counted(parts, batch, key):
            made.traces.append((stage.name, term.__name__))
            return term(parts, batch, key)

        return counted

    for stage in algorithm.stages:
        algorithm = algorithm.with_stage(replace(stage, terms=tuple(counting(stage, term) for term in stage.terms)))
    made.algorithm = algorithm
    order, before = turns(algorithm, REFINED.training), made.last.parts
    before = {name: arrays_of(part) for name, part in before.items()}
    for now in fit(algorithm, made.last, sources_of(data), data, REFINED):
        if now.stage in ("policy", "flow") and now.step == 2 and now.losses and made.cut is None:
            made.cut = jax.tree.map(lambda x: jnp.array(x) if eqx.is_array(x) else x, now.state), now.turn
        if now.step == now.last:
            after = {name: arrays_of(part) for name, part in now.state.parts.items()}
            moved = {k for k in after if any((a != b).any() for a, b in zip(before[k], after[k], strict=True))}
            made.moved.setdefault(order[now.turn].stage.name, []).append(moved)
            made.last, before = now.state, after
    return made


@pytest.mark.slow
def test_every_stage_moves_the_parts_that_it_names_and_no_others(trained):
    assert set(trained.moved) == {stage.name for stage in trained.algorithm.stages}
    for stage in trained.algorithm.stages:
        assert all(moved == set(stage.trains) for moved in trained.moved[stage.name]), stage.name


def test_standardisation_never_moves(trained, problem):
    leaves = jax.tree.leaves(trained.last.parts, is_leaf=lambda x: isinstance(x, Statistics))
    found = [x for x in leaves if isinstance(x, Statistics)]
    assert found
    for statistics in found:
        for standard, expected in zip(arrays_of(statistics), arrays_of(problem.statistics), strict=True):
            np.testing.assert_array_equal(standard[0], expected)


def test_a_stage_is_traced_once_for_all_its_turns(trained):
    assert {stage for stage, _ in trained.traces} == {stage.name for stage in trained.algorithm.stages}
    assert max(Counter(trained.traces).values()) <= 3  # of them one for its memory, and one for validation


def test_a_resumed_run_ends_exactly_as_one_that_was_not_interrupted(trained, data, tmp_path):
    state, turn = trained.cut
    storage.write_tree(tmp_path / "cut", state, {})
    resumed = storage.read_tree(tmp_path / "cut", eqx.filter_eval_shape(lambda: state))
    *_, last = fit(trained.algorithm, resumed, sources_of(data), data, REFINED, turn=turn)
    for one, other in zip(arrays_of(trained.last.parts), arrays_of(last.state.parts), strict=True):
        np.testing.assert_array_equal(one, other)


def test_trained_parts_come_back_from_a_file(trained, tmp_path):
    parts = trained.last.parts
    storage.write_tree(tmp_path / "parts", parts, {})
    for one, other in zip(arrays_of(parts), arrays_of(storage.read_tree(tmp_path / "parts", parts)), strict=True):
        np.testing.assert_array_equal(one, other)


def names_of_losses(algorithm: Algorithm, problem: Problem, data: Data) -> dict[str, set[str]]:
    """By stage, the names of its losses, found without computing them."""
    parts = eqx.filter_eval_shape(algorithm.build, problem, jax.random.key(0))
    batch = Batch(data.demonstrations, data.labels)
    return {
        stage.name: set(eqx.filter_eval_shape(losses_of, stage, parts, batch, jax.random.key(0)))
        for stage in algorithm.stages
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_loss_has_a_weight_and_every_stage_a_number_of_steps(name, problem, data):
    for stage, named in names_of_losses(LEARNED[name], problem, data).items():
        assert REFINED.training.steps(stage) > 0
        assert named <= set(Weights().by_name())


def test_every_weight_is_of_some_loss(problem, data):
    found = [names_of_losses(algorithm, problem, data) for algorithm in LEARNED.values()]
    assert set().union(*(named for stages in found for named in stages.values())) == set(Weights().by_name())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_policy(name, problem):
    assert isinstance(LEARNED[name].build(problem, jax.random.key(0))["policy"], Policy)


def test_the_same_part_starts_alike_in_every_algorithm(problem):
    one, other = (LEARNED[name].build(problem, jax.random.key(3))["policy"] for name in ("ctvae", "ctvae-style"))
    for a, b in zip(arrays_of(one), arrays_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_known_dynamics_are_not_trained(problem, data):
    algorithm = Algorithm({"policy": table.rnn, **table.MODELS}, (DYNAMICS, table.IMITATE, table.REFINE))
    state = start(algorithm, replace(problem, domain=BASKETBALL), np.arange(2))
    assert {now.stage for now in fit(algorithm, state, sources_of(data), data, REFINED)} == {"policy"}


def test_dynamics_are_learned_where_nothing_else_can_take_a_step():
    assert fit_to(ALGORITHMS["ctvae"], BASKETBALL, ()) is ALGORITHMS["ctvae"]
    assert [stage.name for stage in LEARNED["ctvae"].stages] == ["dynamics", "policy"]
    assert LEARNED["ctvae-style"] is ALGORITHMS["ctvae-style"]


def test_a_flow_learns_a_labeler_where_a_style_has_no_gradient_to_steer_by():
    smooth, jumpy = (replace(BASKETBALL.styles["speed"], gradient=useful) for useful in (True, False))
    assert fit_to(ALGORITHMS["flow"], BASKETBALL, (smooth,)) is ALGORITHMS["flow"]
    assert [stage.name for stage in fit_to(ALGORITHMS["flow"], BASKETBALL, (smooth, jumpy)).stages] == [
        "flow",
        "labeler",
    ]
    assert fit_to(ALGORITHMS["flow-style"], BASKETBALL, (jumpy,)) is ALGORITHMS["flow-style"]
    steered = [name for name, algorithm in ALGORITHMS.items() if table.steers_in(algorithm, BASKETBALL, 0, 24)]
    assert steered == ["flow", "flow-style"]
    assert not table.steers_in(ALGORITHMS["flow"], NO_DYNAMICS, 0, 24)


def test_only_plans_of_whole_trajectories_are_steered():
    assert [table.steers_in(ALGORITHMS["flow"], BASKETBALL, horizon, 24) for horizon in (23, 24)] == [False, True]


def test_an_unknown_algorithm_gets_a_suggestion():
    with pytest.raises(PoiseError, match="unknown algorithm 'ctvae-sytle'; did you mean 'ctvae-style'"):
        find_algorithm("ctvae-sytle")


def test_an_algorithm_is_found_by_name_or_in_a_file(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from poise import ALGORITHMS\n\nMINE = ALGORITHMS['ctvae']\nnumber = 3\n")
    assert find_algorithm("ctvae") is ALGORITHMS["ctvae"]
    assert find_algorithm(f"{file}:MINE") is ALGORITHMS["ctvae"]
    with pytest.raises(PoiseError, match=r"mine\.py:number is not a poise\.Algorithm but int"):
        find_algorithm(f"{file}:number")
    with pytest.raises(PoiseError, match=r"unknown name in .*mine\.py 'MIEN'; did you mean 'MINE'"):
        find_algorithm(f"{file}:MIEN")


def test_a_name_is_registered_once():
    with pytest.raises(PoiseError, match="there is an algorithm 'ctvae' already; choose another name"):
        register("ctvae", ALGORITHMS["ctvae"])


def test_two_stages_of_one_name_are_refused():
    with pytest.raises(PoiseError, match="two stages are named 'policy'"):
        Algorithm({"policy": table.ctvae}, (table.IMITATE, replace(table.IMITATE, l2=1.0)))


def test_a_stage_that_trains_a_part_that_is_not_there_is_refused():
    stage = replace(table.IMITATE, trains=("policy", "labelr"))
    with pytest.raises(PoiseError, match="unknown part that stage 'policy' trains: 'labelr'; did you mean 'labeler'"):
        Algorithm({"policy": table.ctvae, "labeler": table.labeler}, (stage,))


@pytest.mark.parametrize(
    ("stages", "before"),
    [
        ((table.IMITATE, table.LABELER, table.REFINE), "'labeler'"),
        ((table.REFINE, table.IMITATE), "None"),
        ((table.LABELER, table.REFINE), "'labeler'"),
    ],
)
def test_a_stage_alternates_only_with_the_one_right_before_it(stages, before):
    with pytest.raises(PoiseError, match=f"'refine' alternates with 'policy', .* there is {before}"):
        Algorithm({"policy": table.ctvae, **table.MODELS}, stages)


def test_a_stage_that_collects_may_not_train_the_policy():
    with pytest.raises(PoiseError, match="stage 'mine' collects rollouts of the policy, so it must not train"):
        Stage("mine", trains=("dynamics", "policy"), terms=(losses.dynamics,), collects=True)


def test_a_stage_takes_the_place_of_the_one_that_has_its_name():
    parent = ALGORITHMS["ctvae-style"]
    policy = replace(parent.stage("policy"), l2=0.5)
    child = parent.with_stage(policy)
    assert [stage.name for stage in child.stages] == [stage.name for stage in parent.stages]
    assert child.stage("policy") is policy
    assert child.stage("labeler") is parent.stage("labeler")
    assert parent.stage("policy").l2 == 0
    for change in (lambda: parent.stage("polcy"), lambda: parent.with_stage(replace(policy, name="polcy"))):
        with pytest.raises(PoiseError, match="unknown stage 'polcy'; did you mean 'policy'"):
            change()


def left_and_right(count: int) -> tuple[Trajectories, np.ndarray]:
    """Straight walks to the left or to the right, at many speeds; the label is the direction."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, size=(count, 1))
    actions = (2 * labels - 1)[:, None] * (1 + 0.3 * random.normal(size=(count, 1, 1))) * np.ones((1, 6, 1))
    actions = actions + 0.05 * random.normal(size=actions.shape)
    states = np.concatenate([np.zeros((count, 1, 1)), actions.cumsum(axis=1)], axis=1)
    return Trajectories(states, actions), labels.astype(np.int32)


def train_longer(algorithm, demonstrations, labels, domain=BASKETBALL, weights=None, **network):
    """The progress of each chunk in some hundred steps; `weights` are those of a loss in several runs, by its name."""
    sizes = replace(TINY.network, hidden=16, layers=(16,), dynamics_layers=(32,), latent=2, free_bits=0.1, **network)
    training = replace(TINY.training, policy_steps=400, dynamics_steps=400, batch=64, learning_rate=1e-2, chunk=100)
    settings = replace(TINY, network=sizes, training=training)
    problem = Problem(Statistics.of(demonstrations), LabelSpace((Categories(2),)), sizes, domain)
    data, weights = Data.of(demonstrations, labels), weights or {}
    runs = max(map(len, weights.values()), default=1)
    per_run = PerRun.equal(runs, settings)
    per_run = per_run._replace(weights={**per_run.weights, **{name: jnp.asarray(w) for name, w in weights.items()}})
    state = start(algorithm, problem, np.zeros(runs, int))
    return [now for now in fit(algorithm, state, Sources(data), data, settings, per_run=per_run) if now.losses]


def accuracy_from_embedding(parts, demonstrations, labels) -> float:
    """How often a linear classifier finds the label in embeddings that are drawn as the decoder reads them."""
    embedding = parts["policy"].encode(demonstrations.arrays, labels)
    z = np.asarray(embedding.draw(jax.random.normal(jax.random.key(0), embedding.mean.shape)))
    inputs = np.concatenate([z, np.ones((len(z), 1))], axis=1)
    line = np.linalg.lstsq(inputs, 2.0 * labels[:, 0] - 1, rcond=None)[0]
    return float(np.mean((inputs @ line > 0) == (labels[:, 0] == 1)))


@pytest.mark.slow
def test_with_an_adversary_the_embedding_does_not_hold_the_label():
    walks, labels = left_and_right(400)
    weights = {"information": [1.0, 0.0]}  # the second run has no adversary
    *_, last = train_longer(ALGORITHMS["ctvae-info"], walks, labels, weights=weights, decoder="markov")
    informed, free = (one_run(last.state.parts, i) for i in range(2))
    assert accuracy_from_embedding(free, walks, labels) > 0.75
    assert accuracy_from_embedding(informed, walks, labels) < 0.65
    assert last.validation["information"][0] > 0.9 * np.log(2)


@pytest.mark.slow
def test_mutual_information_rises():
    walks, labels = left_and_right(400)
    chunks = train_longer(ALGORITHMS["ctvae-mi"], walks, labels)
    found = [float(now.validation["mutual"][0]) for now in chunks if now.stage == "policy"]
    assert np.log(2) - found[-1] > 0.6  # of at most log 2 = 0.69 nats
    assert "labeler" in chunks[-1].state.parts  # the posterior, which is trained together with the policy


def test_gaussian_dynamics_recover_a_known_noise():
    random = np.random.default_rng(0)
    actions = random.normal(size=(300, 6, 2))
    noise = np.asarray([0.1, 0.5]) * random.normal(size=actions.shape)
    states = np.concatenate([np.zeros((300, 1, 2)), (actions + noise).cumsum(axis=1)], axis=1)
    only = Algorithm({"dynamics": table.dynamics}, (DYNAMICS,))
    labels = np.zeros((300, 1), np.int32)
    *_, last = train_longer(only, Trajectories(states, actions), labels, NO_DYNAMICS, dynamics="gaussian")
    dynamics, at = one_run(last.state.parts, 0)["dynamics"], jnp.zeros((2000, 2))
    drawn = dynamics.step(at, at + 0.5, jax.random.normal(jax.random.key(0), (2000, 2)))
    np.testing.assert_allclose(np.std(drawn, axis=0), [0.1, 0.5], rtol=0.15)
    np.testing.assert_allclose(np.mean(drawn, axis=0), [0.5, 0.5], atol=0.1)


@pytest.mark.parametrize("name", [name for name, row in LEARNED.items() if "dynamics" in row.parts])
def test_all_algorithms_learn_dynamics_in_the_same_way(name):
    assert LEARNED[name].parts["dynamics"] is table.dynamics
    assert LEARNED[name].stage("dynamics") is DYNAMICS


def test_dynamics_can_be_learned_where_they_are_known():
    walks, labels = left_and_right(100)
    only = Algorithm({"dynamics": table.dynamics}, (DYNAMICS,))
    *_, last = train_longer(only, walks, labels, dynamics="deterministic")
    learned = one_run(last.state.parts, 0)["dynamics"]
    np.testing.assert_allclose(learned.step(np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 0))), 1.0, atol=0.2)


def test_rollouts_are_simulated_in_learned_dynamics_only_where_a_domain_has_no_others():
    learned = KnownDynamics(lambda state, action: state)
    assert find_environment(BASKETBALL, {"dynamics": learned}) is BASKETBALL.dynamics
    assert find_environment(NO_DYNAMICS, {"dynamics": learned}) is learned
