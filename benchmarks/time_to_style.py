"""Seconds of training until rollouts show a style."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from poise import Experiment, Trajectories
from poise.algorithms import Problem
from poise.config import Settings
from poise.data.batches import Data
from poise.evaluation.scored import TrainedSeed
from poise.models import Statistics
from poise.rollouts.requests import Request
from poise.runs.prepare import Prepared, prepare
from poise.styles.augmentation import augment_and_label, label_sets
from poise.styles.labeling_functions import label_space
from poise.styles.scoring import label_all
from poise.training.fit import Sources, fit
from poise.training.state import one_run, start

ROLLOUTS = 1_000  # from validation starts


def time_to_style(settings: Settings, goal: float, every: int = 250) -> dict[str, Any]:
    """Trains ctvae-style on simulated players, and evaluates it every `every` steps until the goal is reached."""
    settings = replace(settings, training=replace(settings.training, chunk=every))
    prepared = prepare(Experiment(styles=("destination",), settings=settings))
    train, validation, _ = prepared.splits
    labels = label_all(prepared.styles, validation)
    request = Request.like(validation[:ROLLOUTS], labels[:ROLLOUTS])
    began, evaluating, seen = time.perf_counter(), 0.0, []
    problem = Problem(Statistics.of(train), label_space(prepared.styles), settings.network, prepared.domain)
    state = start(prepared.algorithm, problem, np.arange(1))
    sources = Sources(Data.of(train, prepared.labels), _augmented(prepared))
    for now in fit(prepared.algorithm, state, sources, Data.of(validation, labels), settings):
        if now.stage != "policy" or not now.losses:
            continue
        jax.block_until_ready(now.state.step)
        paused = time.perf_counter()
        trained = TrainedSeed.alone(one_run(now.state.parts, 0), prepared.domain, prepared.styles)
        right = float(trained.score(request, jax.random.key(0)).right.mean())
        seen.append([now.step, round(paused - began - evaluating, 2), round(right, 4)])
        evaluating += time.perf_counter() - paused
        if right >= goal:
            break
    reached = seen[-1][1] if seen[-1][2] >= goal else None
    return {
        "goal": goal,
        "seconds": reached,
        "hidden": settings.network.hidden,
        "seen": seen,
        "compilation": "included",
    }


def _augmented(prepared: Prepared) -> Data:
    """The demonstrations and their perturbed copies, for the labeler."""

    def label(copies: Trajectories) -> np.ndarray:
        return np.stack(label_sets([prepared.styles], copies))

    amount = prepared.settings.training.augment
    return Data.of(
        *augment_and_label(prepared.splits.train, prepared.labels[None], prepared.domain.dynamics, label, amount)
    )
