import numpy as np
import pytest
from conftest import wander

from poise import DOMAINS, Trajectories, labeling_function
from poise.domains import plain
from poise.labeling import label_all
from poise.widening import label_sets, widen, widened


def by(*sets):
    """Labels copies by these sets of styles."""
    return lambda copies: np.stack(label_sets(sets, copies))


SPEED = DOMAINS["basketball"].styles["speed"]


def test_copies_start_where_demonstrations_start_and_obey_the_dynamics(walks):
    copies = widen(walks, plain(walks))
    np.testing.assert_array_equal(copies.starts, walks.starts)
    np.testing.assert_allclose(copies.states[:, 1:], copies.states[:, :-1] + copies.actions, atol=1e-4)
    assert np.abs(copies.actions - walks.actions).mean() > 0.2


def test_copies_are_labelled_by_the_true_function(walks):
    style = SPEED.fit(walks)
    both, labels = widened(walks, label_all([style], walks)[None], plain(walks), by([style]), 1.0)
    assert len(both) == 2 * len(walks)
    np.testing.assert_array_equal(labels[0], label_all([style], both))


def test_they_reach_further_than_demonstrations(walks):
    copies = widen(walks, plain(walks), amount=1.0)
    assert copies.states.std() > 1.1 * walks.states.std()


def test_unknown_dynamics_and_lengths_are_respected(ragged):
    other = Trajectories(ragged.states, 3 * np.asarray(ragged.actions), ragged.lengths)
    copies = widen(other, plain(other))
    np.testing.assert_array_equal(copies.lengths, ragged.lengths)
    assert np.isfinite(copies.states).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides(seed):
    walks = wander(20)
    same, other = (widen(walks, plain(walks), seed=s).states for s in (seed, seed + 1))
    np.testing.assert_array_equal(same, widen(walks, plain(walks), seed=seed).states)
    assert not np.array_equal(same, other)


def test_nothing_is_learned_from_a_copy_that_a_function_cannot_cope_with():
    walks = wander(60)
    reach = float(np.abs(np.asarray(walks.states)).max())

    @labeling_function(classes=("short", "long"))
    def fragile(states, actions):
        if np.abs(states).max() > reach:
            raise ValueError("nobody goes there")
        return float(np.abs(actions).sum())

    style = fragile.fit(walks)
    _, labels = widened(walks, label_all([style], walks)[None], plain(walks), by([style]), 1.0)
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
    both, labels = widened(walks, known, plain(walks), by(*sets), 1.0)
    for number, styles in enumerate(sets):
        alone, one = widened(walks, known[number : number + 1], plain(walks), by(styles), 1.0)
        np.testing.assert_array_equal(alone.states, both.states)
        np.testing.assert_array_equal(one[0], labels[number])


def test_copies_stay_where_the_data_are():
    far = Trajectories(1000 + np.asarray(wander(40).states), 3 * np.asarray(wander(40).actions))
    copies = widen(far, plain(far))
    np.testing.assert_allclose(copies.starts, far.starts)
    assert np.abs(copies.states - 1000).max() < 10 * np.abs(far.states - 1000).max()
