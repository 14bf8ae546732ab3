"""What a group of runs trains on: demonstrations in memory or streamed, augmented copies, and collected rollouts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import jax
import numpy as np
from tqdm import tqdm

from ..data.batches import WINDOW, Data, Stream
from ..data.trajectories import Trajectories
from ..rollouts.simulate import collect
from ..styles.augmentation import augment_and_label, label_sets
from ..styles.label_spaces import LabelSpace
from ..system.memory import fits_on_device, total_memory
from ..training.fit import Collect, Sources
from ..training.state import State
from .in_training import RunInTraining, label_sets_of

WINDOWS_IN_MEMORY = 16  # a window of streamed data is no larger than memory over this number


def make_sources(group: list[RunInTraining], shared: LabelSpace, progress: bool) -> tuple[Sources, Data]:
    """What runs of one program draw their batches from, and what they are validated on."""
    prepared, different = group[0].prepared, label_sets_of(group)[0]
    splits, training = prepared.splits, prepared.settings.training

    def pad(labels: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack([one.shared.pad_labels(mine) for one, mine in zip(different, labels, strict=True)])

    def label(copies: Trajectories) -> np.ndarray:
        given = [one.prepared for one in different]
        return pad(label_sets([one.styles for one in given], copies, [one.noise for one in given]))

    def augment(demonstrations: Trajectories, labels: np.ndarray, seed: int = 0) -> tuple[Trajectories, np.ndarray]:
        return augment_and_label(demonstrations, labels, prepared.domain.dynamics, label, training.augment, seed)

    labels = pad([one.prepared.labels for one in different])
    validation = Data.of(splits.validation, pad([one.validation_labels for one in different]))
    collected = _collector(group, labels)
    augmented = any(stage.augmented and training.steps(stage.name) for stage in prepared.algorithm.stages)
    augmented = augmented and training.augment > 0
    size = (splits.train.nbytes + labels.nbytes) * (3 if augmented else 1)  # the copies come on top
    if not splits.train.on_disk() and fits_on_device(size):
        copies = Data.of(*augment(splits.train, labels)) if augmented else None
        return Sources(Data.of(splits.train, labels), copies, collected), validation
    bytes_per_row = (splits.train.nbytes + labels.nbytes) // len(splits.train)
    rows = max(2 * training.batch, min(WINDOW, total_memory() // (WINDOWS_IN_MEMORY * bytes_per_row)))
    if progress:
        tqdm.write(f"the demonstrations are streamed, in windows of {rows}", file=sys.stderr)
    copies = Stream(splits.train, labels, rows, seed=1, augment=augment) if augmented else None
    return Sources(Stream(splits.train, labels, rows), copies, collected), validation


def _collector(group: list[RunInTraining], labels: np.ndarray) -> Collect | None:
    """Rolls out the policies of all runs in the environment for a turn of training, if there is an environment."""
    prepared, sets = group[0].prepared, np.asarray(label_sets_of(group)[1])
    environment, training = prepared.domain.transition, prepared.settings.training
    if environment is None or not training.refine_steps:
        return None

    def made(state: State, turn: int) -> Data:
        keys = jax.vmap(jax.random.fold_in, (0, None))(state.key, turn)
        train = prepared.splits.train
        return Data.of(*collect(state.parts["policy"], environment, train, labels, sets, training.rollouts, keys))

    return made
