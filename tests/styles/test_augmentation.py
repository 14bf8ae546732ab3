"""Augmentation: perturbed copies of demonstrations, labelled by the true labeling functions."""

from dataclasses import dataclass

import numpy as np
import pytest
from conftest import wander

from poise import DOMAINS, Trajectories, labeling_function
from poise.domains import integrator
from poise.styles.augmentation import augment, augment_and_label, label_sets
from poise.styles.scoring import label_all

SPEED = DOMAINS["basketball"].styles["speed"]


def labeled_by(*sets):
    """A function that returns the labels of copies in these sets of styles."""
    return lambda copies: np.stack(label_sets(sets, copies))


def test_copies_start_where_demonstrations_start_and_obey_the_dynamics(walks):
    copies = augment(walks, integrator)
    np.testing.assert_array_equal(copies.starts, walks.starts)
    np.testing.assert_allclose(copies.states[:, 1:], copies.states[:, :-1] + copies.actions, atol=1e-4)
    assert np.abs(copies.actions - walks.actions).mean() > 0.2


def test_copies_are_labelled_by_the_true_function(walks):
    style = SPEED.fit(walks)
    both, labels = augment_and_label(walks, label_all([style], walks)[None], integrator, labeled_by([style]), 1.0)
    assert len(both) == 2 * len(walks)
    np.testing.assert_array_equal(labels[0], label_all([style], both))


def test_copies_reach_further_than_demonstrations(walks):
    copies = augment(walks, integrator, amount=1.0)
    assert copies.states.std() > 1.1 * walks.states.std()


def test_copies_keep_the_lengths_and_need_no_known_dynamics(ragged):
    other = Trajectories(ragged.states, 3 * np.asarray(ragged.actions), ragged.lengths)
    copies = augment(other, None)
    np.testing.assert_array_equal(copies.lengths, ragged.lengths)
    assert np.isfinite(copies.states).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_copies_are_a_function_of_the_seed(seed):
    walks = wander(20)
    same, other = (augment(walks, integrator, seed=s).states for s in (seed, seed + 1))
    np.testing.assert_array_equal(same, augment(walks, integrator, seed=seed).states)
    assert not np.array_equal(same, other)


def test_a_copy_that_a_function_cannot_score_has_no_loss():
    walks = wander(60)
    reach = float(np.abs(np.asarray(walks.states)).max())

    @labeling_function(classes=("short", "long"))
    def fragile(states, actions):
        if np.abs(states).max() > reach:
            raise ValueError("nobody goes there")
        return float(np.abs(actions).sum())

    style = fragile.fit(walks)
    _, labels = augment_and_label(walks, label_all([style], walks)[None], integrator, labeled_by([style]), 1.0)
    assert 0 < (labels < 0).sum() < 60
    losses = style.kind.loss(np.random.default_rng(0).normal(size=(120, 2)).astype(np.float32), labels[0, :, 0])
    np.testing.assert_array_equal(np.asarray(losses) == 0, labels[0, :, 0] < 0)


def test_several_sets_of_styles_share_the_copies_and_each_has_the_labels_it_would_have_alone():
    walks = wander(30)
    reach = float(np.abs(np.asarray(walks.states)).max())

    @labeling_function(classes=("short", "long"))
    def fragile(states, actions):
        return np.nan if np.abs(states).max() > reach else float(np.abs(actions).sum())

    sets = [[fragile.fit(walks), SPEED.fit(walks)], [SPEED.fit(walks), SPEED.with_classes(2).fit(walks)]]
    known = np.stack([label_all(styles, walks) for styles in sets])
    both, labels = augment_and_label(walks, known, integrator, labeled_by(*sets), 1.0)
    for number, styles in enumerate(sets):
        alone, one = augment_and_label(walks, known[number : number + 1], integrator, labeled_by(styles), 1.0)
        np.testing.assert_array_equal(alone.states, both.states)
        np.testing.assert_array_equal(one[0], labels[number])


def test_copies_stay_near_the_data():
    far = Trajectories(1000 + np.asarray(wander(40).states), 3 * np.asarray(wander(40).actions))
    copies = augment(far, None)
    np.testing.assert_allclose(copies.starts, far.starts)
    assert np.abs(copies.states - 1000).max() < 10 * np.abs(far.states - 1000).max()


def test_a_function_that_cannot_be_hashed_labels_copies_too():
    @dataclass
    class Reach:
        column: int

        def __call__(self, states, actions):
            return abs(states[-1, self.column])

    walks = wander(30)
    style = labeling_function(Reach(0), classes=("near", "far")).fit(walks)
    (labels,) = label_sets([[style]], walks)
    np.testing.assert_array_equal(labels, label_all([style], walks))
