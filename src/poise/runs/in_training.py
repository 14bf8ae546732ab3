"""One run on its way: its state within the shared label space, its log, and the trained run at the end."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..algorithms import Problem
from ..data.trajectories import Trajectories
from ..evaluation.scored import TrainedSeed
from ..models import Statistics
from ..rollouts.requests import Request
from ..styles.label_spaces import LabelSpace, SharedSpace
from ..styles.labeling_functions import label_space
from ..styles.scoring import classify_all, label_all, score_all
from ..training.checkpoints import CHECKPOINT, Position, TrainingLog
from ..training.stages import begin, turns
from ..training.state import State, one_run, running, start
from .asking import find_examples
from .folder import digest, read_config, refuse_foreign
from .prepare import Prepared, row_digests
from .run import Run

STARTS_KEPT = 1_000
EXAMPLES_KEPT = 20_000  # training demonstrations whose digests, starts and labels are kept


class RunInTraining:
    """One experiment in training, beside others in the same program."""

    def __init__(self, number: int, prepared: Prepared, folder: Path | None, begun: Run | None = None):
        self.number, self.prepared, self.begun = number, prepared, begun
        self.seeds = prepared.experiment.seed_numbers
        if folder is not None:
            refuse_foreign(folder, CHECKPOINT)
        self.log = TrainingLog.open(folder, self.seeds, None if folder is None else digest(read_config(folder)))
        if begun is not None and self.log.position == Position():
            self.log.position = Position(len(turns(begun.algorithm, prepared.settings.training)))
            self.log.stopped, self.log.earlier = list(begun.stopped), begun.seconds

    @property
    def program(self) -> tuple:
        """Equal for runs that one program can train."""
        prepared, settings = self.prepared, self.prepared.settings
        weights = tuple(settings.weights.by_name())
        parts = tuple(prepared.algorithm.parts)
        settled = prepared.experiment.algorithm, parts, settings.network, repr(settings.training), weights
        return *settled, id(prepared.splits.train), id(prepared.domain), self.log.position

    @property
    def space(self) -> LabelSpace:
        """The labels of its styles."""
        return label_space(self.prepared.styles)

    @property
    def shared(self) -> SharedSpace:
        """Its labels within the label space of all runs that train together."""
        return SharedSpace(self.space, self._shared)

    def resume_or_start(self, statistics: Statistics, shared: LabelSpace, shapes: dict[Any, State]) -> State:
        """The state of the last checkpoint, or one from the start, padded to the shared label space.

        `shapes` are traced once for all runs that train together and have as many seeds.
        """
        self._statistics, self._shared, self._known_shapes = statistics, shared, shapes
        turn = self.log.position.turn if self.log.position.step else None
        own = self._new(self.space) if turn is None else self.log.load(self._shapes(self.space, turn))
        return self.shared.pad(own, self._shapes(shared, turn))

    def unpad(self, state: State, turn: int) -> State:
        """Its own state in a turn, without the labels of the other runs."""
        return self.shared.unpad(state, self._shapes(self.space, turn if state.optimisers else None))

    def _shapes(self, space: LabelSpace, turn: int | None) -> State:
        key = len(self.seeds), space, turn
        if key not in self._known_shapes:
            self._known_shapes[key] = eqx.filter_eval_shape(lambda: self._new(space, turn))
        return self._known_shapes[key]

    def _new(self, space: LabelSpace, turn: int | None = None) -> State:
        """A new state for these labels: before any turn, or at the first step of one."""
        prepared, settings = self.prepared, self.prepared.settings
        problem = Problem(self._statistics, space, settings.network, prepared.domain)
        state = start(prepared.algorithm, problem, np.asarray(self.seeds))
        if turn is None and self.begun is not None and space == self.space:
            stopped = jnp.asarray([-1 if where is None else 0 for where in self.begun.stopped], jnp.int32)
            state = State({**state.parts, **self.begun.parts}, {}, state.key, state.step, stopped)
        if turn is None:
            return state
        return begin(state, turns(prepared.algorithm, settings.training), turn, settings.training)

    @functools.cached_property
    def validation_labels(self) -> np.ndarray:
        """The labels of validation demonstrations."""
        return label_all(self.prepared.styles, self.prepared.splits.validation)

    def finish(self, state: State, turn: int) -> Run:
        """The trained run; the seed to sample from is chosen on validation demonstrations."""
        prepared, labels = self.prepared, self.validation_labels
        kept = prepared.splits.validation[:STARTS_KEPT]
        sampled = np.sort(np.random.default_rng(0).permutation(len(prepared.splits.train))[:EXAMPLES_KEPT])
        examples = prepared.splits.train[sampled]
        known = {
            "labels": labels[:STARTS_KEPT],
            "range": state_range(prepared.splits.train),
            "trained": row_digests(examples),  # to notice when a run is tested on them
            "example_starts": np.asarray(examples.starts),  # to draw free styles from
            "example_labels": np.asarray(prepared.labels)[sampled],
        }
        if self.space.graded:
            known["trained_labels"] = self._graded(kept)
        starts = Trajectories(kept.states, kept.actions, kept.lengths, known)
        run = Run(
            experiment=prepared.experiment,
            algorithm=prepared.algorithm,
            domain=prepared.domain,
            styles=prepared.styles,
            parts=self.unpad(state, turn).parts,
            starts=starts,
            stopped=tuple(self.log.stopped),
            best=self._best(state, starts),
            seconds=self.log.seconds,
            steps=prepared.splits.train.steps,
            fingerprint=prepared.fingerprint,
            folder=self.log.folder,
            _splits=prepared.splits,
        )
        if self.log.folder is not None:
            run.write_result(self.log.folder)
            self.log.remove_checkpoint()
        return run

    def _graded(self, demonstrations: Trajectories) -> np.ndarray:
        """The labels of demonstrations with their grades."""
        styles = self.prepared.styles
        return classify_all(styles, score_all(styles, demonstrations), graded=True)

    def _best(self, state: State, starts: Trajectories) -> int:
        """The position of the best seed; what is trained is not lost if the user's environment fails."""
        if len(self.seeds) == 1:
            return 0
        try:
            right = self.joint_consistency(state, starts)
        except Exception as error:
            tqdm.write(f"the seeds could not be compared, so that the first one is sampled: {error}", file=sys.stderr)
            return 0
        return int(np.argmax(np.where(running(state), right, -1)))

    def joint_consistency(self, state: State, starts: Trajectories) -> np.ndarray:
        """The joint style-consistency of each seed from these starts."""
        prepared, request = self.prepared, Request.like(starts, starts.metadata["labels"])
        examples = find_examples(starts, starts.metadata["labels"], self.shared, self.space)
        trained = [
            TrainedSeed(
                one_run(state.parts, i),
                prepared.domain,
                prepared.styles,
                self.shared,
                find_examples=(lambda: examples) if self.space.graded else None,
            )
            for i in range(len(self.seeds))
        ]
        return np.asarray([one.score(request, jax.random.key(0)).joint.mean() for one in trained])


def state_range(demonstrations: Trajectories) -> np.ndarray:
    """The smallest and the largest state [2, S] of demonstrations, their starts not counted."""
    low, high = [], []
    for piece in demonstrations.pieces():
        seen = np.asarray(piece.states)[:, 1:][np.asarray(piece.mask)]
        low.append(seen.min(axis=0))
        high.append(seen.max(axis=0))
    return np.stack([np.min(low, axis=0), np.max(high, axis=0)])


def label_sets_of(group: Sequence[RunInTraining]) -> tuple[list[RunInTraining], list[int]]:
    """The runs whose labels differ, and for each seed of the group which of them has its labels."""
    found: dict[bytes, int] = {}
    different, of_seed = [], []
    for one in group:
        labels = np.ascontiguousarray(one.prepared.labels).tobytes()
        key = hashlib.sha256(labels).digest() + repr(one.prepared.styles).encode()
        if key not in found:
            found[key] = len(different)
            different.append(one)
        of_seed += [found[key]] * len(one.seeds)
    return different, of_seed
