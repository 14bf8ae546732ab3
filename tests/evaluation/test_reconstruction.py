"""What networks do on demonstrations: NLD and KL per step, and the errors of a labeler and of dynamics."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from evaluation_helpers import AHEAD, FLAT, LABELS, ORACLE, Constant, score

from poise.domains import Domain, integrator
from poise.evaluation import reconstruction
from poise.evaluation.reconstruction import dynamics_error, error_of_no_change, label_loss, reconstruction_metrics
from poise.models import KnownDynamics

KEY = jax.random.key(0)


def test_nld_and_kl_are_reported_per_step_and_in_the_units_of_the_domain():
    assert reconstruction_metrics(ORACLE, FLAT, AHEAD, LABELS, KEY) == pytest.approx((12 / 4, 2 / 4))
    court = Domain("court", units=(94.0, 50.0))
    assert reconstruction_metrics(ORACLE, court, AHEAD, LABELS, KEY)[0] == pytest.approx(3 - np.log(94) - np.log(50))


def test_every_step_has_the_same_weight_whatever_the_lengths(ragged):
    labels = np.zeros((len(ragged), 1), np.int32)
    nld, _ = reconstruction_metrics(ORACLE, FLAT, ragged, labels, KEY)
    assert nld == pytest.approx(12 * len(ragged) / ragged.lengths.sum())


class Still:
    """Dynamics of a user's own that predict that nothing moves; really every step has length 1 in both directions."""

    noise, gradient_decay = 0, 1.0

    def step(self, state, action, noise):
        return state

    def loss(self, demonstrations):
        raise NotImplementedError


def test_the_error_of_learned_dynamics_is_reported_and_that_of_known_ones_is_not():
    assert score(ORACLE).dynamics_error is None
    assert score(ORACLE, dynamics=Still()).dynamics_error == pytest.approx(1.0)
    assert error_of_no_change(FLAT, AHEAD) == pytest.approx(1.0)


def test_errors_of_dynamics_are_in_the_units_of_the_domain():
    assert error_of_no_change(Domain("court", units=(2.0, 4.0)), AHEAD) == pytest.approx((1 / 4 + 1 / 16) / 2)
    assert dynamics_error(KnownDynamics(integrator), FLAT, AHEAD) == pytest.approx(0.0)


def test_the_loss_of_an_undecided_labeler_is_the_logarithm_of_the_classes_whatever_the_pieces(monkeypatch):
    undecided = Constant((0.0, 0.0, 0.0, 0.0))
    for piece in (len(AHEAD), 250):
        monkeypatch.setattr(reconstruction, "PIECE", piece)
        assert label_loss(undecided, AHEAD, LABELS) == pytest.approx(2 * np.log(2))
