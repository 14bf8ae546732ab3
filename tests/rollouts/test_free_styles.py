"""Styles that a request leaves free take the labels of demonstrations with the asked labels that start nearby."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from flow_helpers import STEERED, climb, drift, drifting

import poise
from poise import Network, Run, Settings, Training, Trajectories
from poise.config import FlowNetwork
from poise.rollouts.free_styles import NEARBY, Examples
from poise.rollouts.requests import FREE, Request
from poise.styles.label_spaces import GRADES, Categories, Graded, LabelSpace

RANDOM = np.random.default_rng(0)
STARTS = RANDOM.uniform(0, 10, size=(400, 2))
LABELS = np.stack([RANDOM.integers(3, size=400), np.where(STARTS[:, 0] < 5, 0, 1), RANDOM.integers(4, size=400)], 1)
EXAMPLES = Examples(STARTS, LABELS)


def filled(starts, labels, seed: int = 1) -> np.ndarray:
    return EXAMPLES.fill(np.asarray(starts, float), np.asarray(labels), np.random.default_rng(seed))


def test_what_is_asked_for_stays_and_what_is_free_is_drawn_with_it():
    made = filled(STARTS[:50], np.tile([FREE, FREE, 2], (50, 1)))
    assert (made[:, 2] == 2).all()
    known = {tuple(row) for row in LABELS[LABELS[:, 2] == 2].tolist()}
    assert {tuple(row) for row in made.tolist()} <= known
    assert len({tuple(row) for row in made.tolist()}) > 1


def test_labels_come_from_demonstrations_that_start_nearby():
    """The second label says on which side a demonstration starts."""
    made = filled([[0.5, 5.0]] * 100 + [[9.5, 5.0]] * 100, np.full((200, 3), FREE))
    assert made[:100, 1].tolist() == [0] * 100
    assert made[100:, 1].tolist() == [1] * 100


def test_one_of_the_nearest_is_drawn_at_random():
    point = np.asarray([5.0, 5.0])
    scale = STARTS.std(axis=0)
    nearest = np.argsort((((STARTS - point) / scale) ** 2).sum(axis=1))[:NEARBY]
    made = filled(np.tile(point, (2_000, 1)), np.full((2_000, 3), FREE))
    shares = [np.mean([(row == LABELS[i]).all() for row in made]) for i in nearest]
    same = [np.mean([(LABELS[j] == LABELS[i]).all() for j in nearest]) for i in nearest]
    np.testing.assert_allclose(shares, same, atol=0.04)


def test_a_style_stays_free_where_no_demonstration_has_the_others():
    made = filled(STARTS[:2], [[FREE, 7, FREE], [FREE, 1, FREE]])
    assert made[0].tolist() == [FREE, 7, FREE]
    assert (made[1] != FREE).all()


GRADED = LabelSpace((Graded(3), Graded(2), Categories(4)))
GRADES_SHOWN = RANDOM.integers(GRADES, size=(400, 2))
WITH_GRADES = LABELS + np.pad((GRADES_SHOWN + 1) * [3, 2], ((0, 0), (0, 1)))


def test_a_graded_style_takes_the_grade_of_a_demonstration_with_all_classes_that_starts_nearby():
    examples = Examples(STARTS, WITH_GRADES, GRADED)
    asked = np.tile([2, FREE, 1], (200, 1))
    made = examples.fill(np.tile([[0.5, 5.0]], (200, 1)), asked, np.random.default_rng(0))
    assert GRADED.classes_of(made).tolist() == [[2, 0, 1]] * 200  # and the side on which they start
    known = {tuple(row) for row in WITH_GRADES.tolist()}
    assert {tuple(row) for row in made.tolist()} <= known  # all grades are those of one demonstration
    assert 1 < len({tuple(row) for row in made.tolist()}) <= NEARBY


@pytest.mark.parametrize(("label", "lowest", "highest"), [(0, 0, 18), (1, 23, 40), (2, 45, 63)])
def test_grades_beside_a_threshold_are_not_taken(label, lowest, highest):
    """Grades of three classes: 0 to 20, 21 to 42 and 43 to 63. The outer ends are no thresholds."""
    grades = np.arange(GRADES).repeat(5)
    labels = Graded(3).grade(np.searchsorted([21, 43], grades, side="right"), grades)[:, None]
    examples = Examples(np.zeros((len(labels), 1)), labels, LabelSpace((Graded(3),)))
    asked, random = np.full((3_000, 1), label), np.random.default_rng(0)
    with_margin, without = (examples.fill(None, asked, random, margin)[:, 0] // 3 - 1 for margin in (2 / GRADES, 0.0))
    assert (with_margin.min(), with_margin.max()) == (lowest, highest)
    assert len(set(without.tolist())) == np.sum(labels[::5] % 3 == label)
    whole = examples.fill(None, asked, random, 1.0)[:, 0] // 3 - 1
    assert len(set(whole.tolist())) > 8  # of a class, at least half is left


def test_without_starts_grades_are_drawn_from_all_demonstrations():
    made = Examples(STARTS, WITH_GRADES, GRADED).fill(None, np.tile([2, FREE, 1], (2_000, 1)), np.random.default_rng(0))
    match = WITH_GRADES[(LABELS[:, 0] == 2) & (LABELS[:, 2] == 1)]
    assert {tuple(row) for row in made.tolist()} == {tuple(row) for row in match.tolist()}


def test_classes_that_no_demonstration_shows_together_are_graded_one_by_one():
    apart = Examples(STARTS, np.where(LABELS[:, :1] == 0, WITH_GRADES * [1, 1, 0], WITH_GRADES), GRADED)
    (made,) = apart.fill(STARTS[:1], np.asarray([[0, 1, 3]]), np.random.default_rng(0))
    assert GRADED.classes_of(made).tolist() == [0, 1, 3]
    assert (made[:2] >= [3, 2]).all()  # graded


def test_a_request_that_leaves_nothing_free_is_as_it_was():
    np.testing.assert_array_equal(filled(STARTS[:20], LABELS[:20]), LABELS[:20])


def test_the_same_seed_draws_the_same():
    one, same, other = (filled(STARTS, np.full((400, 3), FREE), seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def alike() -> Trajectories:
    """Walks of the plane that climb as much as they drift, so that one style tells the other."""
    walks = drifting(600)
    states = np.asarray(walks.states).copy()
    states[..., 1] = states[..., 0]
    return Trajectories(states + 0.1 * np.random.default_rng(0).normal(size=states.shape))


@pytest.fixture(scope="module")
def flow() -> Run:
    settings = Settings(
        Network(flow=FlowNetwork(width=32, blocks=1, steps=8)), Training(flow_steps=0), sampling=STEERED
    )
    return poise.train("flow", alike(), [drift, climb], settings=settings, progress=False)


def drawn(run: Run, words, **more) -> np.ndarray:
    """The labels that the policy of a run is given."""
    asked = run._ask(64, words, more.get("styles", ()), None, None, None, 0)
    found = asked.trained.draw_open(np.asarray(asked.request.labels), np.asarray(asked.request.starts), asked.key)
    assert found is not None
    return found


def test_a_run_gives_its_flow_labels_that_go_together(flow):
    made = drawn(flow, {"drift": "high"})
    assert (made[:, 0] == 2).all()
    assert (made[:, 1] == 2).mean() > 0.8  # a third of all demonstrations climb as much


def test_a_style_that_was_written_later_chooses_them_too(flow):
    def later(states, actions):
        return actions[:, 0].mean()  # drift under another name

    made = drawn(flow, {"later": "low"}, styles=[later])
    assert made.shape == (64, 2)
    assert (made[:, 0] == 0).mean() > 0.6  # a third of all demonstrations


def test_what_is_drawn_is_not_steered(flow):
    trained = flow.trained(None)(0)
    policy, followed = trained.policy(STEERED, 6)
    labels = np.tile([2, FREE], (4, 1))
    given = trained.arrange(labels, followed, drawn=np.tile([2, 1], (4, 1)))
    context, _ = policy.begin(given, np.full(4, 6), jax.random.key(0))
    assert (np.asarray(context.low) > -1e8).tolist() == [[True, False]] * 4
    assert np.asarray(context.flow.labels).sum(axis=1).tolist() == [2.0] * 4  # both are given


def test_rollouts_say_that_it_was_free(flow):
    made = flow.sample(8, {"drift": "high"}, tries=1)
    assert made.metadata["labels"].tolist() == [[2, FREE]] * 8


def test_a_run_that_kept_no_examples_leaves_them_free(flow):
    starts = flow.starts
    kept = {name: x for name, x in starts.metadata.items() if not name.startswith("example")}
    old = replace(flow, starts=Trajectories(starts.states, starts.actions, starts.lengths, kept))
    trained = old.trained(None)(0)
    assert trained.examples is None
    request = Request.like(starts[:4], np.full((4, 2), FREE))
    assert np.isfinite(trained.roll_out(request, jax.random.key(0), STEERED).states).all()
