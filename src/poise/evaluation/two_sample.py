"""The classifier two-sample test: how often a fresh classifier tells rollouts from demonstrations.

Rollout i has the start and the labels of demonstration i. Half of these pairs train a classifier, and the other half
judges it. An accuracy of 0.5 says that the rollouts pass for demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from ..data.trajectories import Array, Trajectories
from ..errors import PoiseError
from ..models.layers import MLP, Standardizer, on_cpu
from ..models.recurrent import Reader
from ..system.memory import total_memory
from ..training.run_axis import Axis
from .rows import finite_rows, select_rows
from .shares import Share

LIMIT = 20.0  # deviations; one rollout that flies off would otherwise decide the scale of every Adam update
JUDGED_AT_ONCE = 500  # trajectories
RESIDUALS = 40  # numbers per step, row and hidden unit that a gradient keeps, about


@dataclass(frozen=True)
class ClassifierSize:
    """How large the classifier of a two-sample test is, and how much it sees."""

    rows: int
    """The most demonstrations that take part, and as many rollouts; half of them are learned from."""
    hidden: int
    """The size of the GRU in each direction."""
    steps: int
    """Updates by Adam."""
    batch: int
    """Trajectories in an update."""
    rate: float
    """The first learning rate; it falls to zero along a cosine."""
    reads: int | None = None
    """The most inputs of the GRU, which reads several steps at once where trajectories are longer; None: one a step."""


FULL = ClassifierSize(rows=4_000, hidden=128, steps=1_500, batch=128, rate=1e-3)
"""For accelerators: the protocol behind the published numbers."""
SMALL = ClassifierSize(rows=1_000, hidden=32, steps=400, batch=64, rate=1e-2, reads=25)
"""For CPUs: a smaller network, which learns faster, sees nearly as much."""


@dataclass(frozen=True)
class TwoSample:
    """The result of a two-sample test."""

    accuracy: float
    """The share of judged trajectories that the classifier recognised; 0.5 where it cannot tell."""
    interval: tuple[float, float]
    """The 95 % interval of the accuracy (Wilson's)."""
    rows: int
    """The demonstrations that took part, and as many rollouts; about half of them were judged."""


class _Inputs(NamedTuple):
    """What the classifier of one comparison reads: first the demonstrations, then the rollouts."""

    steps: Float[Array, "*sets R T F"]
    real: Bool[Array, "*sets R T"]


class _Task(NamedTuple):
    """What all comparisons share."""

    is_demonstration: Float[Array, " R"]
    order: Int[Array, " R"]
    """All trajectories, those to learn from first."""
    learns: Int[Array, ""]
    """How many trajectories to learn from."""
    key: PRNGKeyArray


class _Classifier(eqx.Module):
    """A bidirectional GRU, averaged over the real steps, and an MLP on top."""

    reader: Reader
    head: MLP

    def __init__(self, inputs: int, hidden: int, *, key: PRNGKeyArray):
        key_reader, key_head = jax.random.split(key)
        self.reader = Reader(inputs, hidden, key=key_reader)
        self.head = MLP((self.reader.width, hidden, 1), key=key_head)

    def __call__(self, steps: Float[Array, "batch T F"], real: Bool[Array, "batch T"]) -> Float[Array, " batch"]:
        """The logits of being a demonstration."""
        return self.head(self.reader(jnp.swapaxes(steps, 0, 1), real.T))[..., 0]


def c2st(
    demonstrations: Trajectories,
    several_rollouts: Sequence[Trajectories],
    *,
    groups: Int[np.ndarray, " N"] | None = None,
    size: ClassifierSize = SMALL,
    seed: int = 0,
) -> list[TwoSample]:
    """How well fresh classifiers tell each set of rollouts from the same demonstrations.

    All sets are compared by one compiled program. A result does not depend on which other sets are compared with it.

    Args:
        demonstrations: N demonstrations, each of them once.
        several_rollouts: Sets of N rollouts; rollout i has the start and the labels of demonstration i. A rollout
            with NaN or infinite numbers counts as recognised.
        groups: The group of each demonstration, such as its game. A group is learned from or judged, never both.
        size: The size of the classifier.
        seed: Of the rows that take part, of the halves and of the classifier.

    Returns:
        One result per set of rollouts.

    Raises:
        PoiseError: The sizes do not fit together, or there are fewer than two groups.
    """
    count, random = len(demonstrations), np.random.default_rng(seed)
    for rollouts in several_rollouts:
        if len(rollouts) != count:
            raise PoiseError(f"each demonstration is compared with its own rollout; got {count} and {len(rollouts)}")
    rows = random.permutation(count)[: size.rows]
    learned = split_groups(rows if groups is None else groups[rows], random)
    sets = [select_rows(rollouts, rows) for rollouts in several_rollouts]
    if not sets:
        return []
    recognised = _recognise(select_rows(demonstrations, rows), sets, learned, size, seed)
    shares = [Share.of(each[:, ~learned].reshape(-1)) for each in recognised]
    return [TwoSample(share.value, (share.low, share.high), len(rows)) for share in shares]


def floor(
    demonstrations: Trajectories,
    *,
    groups: Int[np.ndarray, " N"] | None = None,
    size: ClassifierSize = SMALL,
    seed: int = 0,
) -> TwoSample:
    """The same test of demonstrations against other demonstrations: what rollouts that pass for them score.

    Two demonstrations of one group make a pair. The `rows` of the result are fewer than those of a test of rollouts
    where there are not twice as many demonstrations.
    """
    order = np.random.default_rng(seed).permutation(len(demonstrations))
    if groups is not None:
        order = order[np.argsort(groups[order], kind="stable")]
    one, other = order[:-1:2], order[1::2]
    if groups is not None:
        alike = groups[one] == groups[other]
        one, other = one[alike], other[alike]
    pairs = select_rows(demonstrations, one), [select_rows(demonstrations, other)]
    return c2st(*pairs, groups=None if groups is None else groups[one], size=size, seed=seed)[0]


def split_groups(groups: Int[np.ndarray, " N"], random: np.random.Generator) -> Bool[np.ndarray, " N"]:
    """True for about half of the rows, such that rows of one group are all true or all false.

    Raises:
        PoiseError: There is only one group.
    """
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise PoiseError(f"a two-sample test needs at least 2 groups, one for each half; got {len(sizes)}")
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order] / 2  # the rows up to the middle of each group
    taken = before < len(groups) / 2
    taken[0], taken[-1] = True, False
    return np.isin(number.reshape(-1), order[taken])


def _recognise(
    demonstrations: Trajectories,
    several_rollouts: Sequence[Trajectories],
    learned: Bool[np.ndarray, " N"],
    size: ClassifierSize,
    seed: int,
) -> list[Bool[np.ndarray, "2 N"]]:
    """For each set of rollouts, which demonstrations and which rollouts its classifier recognises."""
    steps = max(each.steps for each in (demonstrations, *several_rollouts))
    together = -(-steps // (size.reads or steps))
    read, real = _read(demonstrations, steps)
    standardizer = Standardizer.fit(read[real])
    natural = _standardise(standardizer, read, real)
    sets = []
    for rollouts in several_rollouts:
        made = _standardise(standardizer, *_read(rollouts, steps))
        both = _Inputs(*(np.concatenate(each) for each in zip(natural, made, strict=True)))
        sets.append(_join_steps(both, together))
    count, learns = len(demonstrations), np.tile(learned, 2)
    is_demonstration = np.arange(2 * count) < count
    order = jnp.asarray(np.argsort(~learns, kind="stable"))
    key = jax.random.key(seed)
    task = _Task(jnp.asarray(is_demonstration, jnp.float32), order, jnp.asarray(learns.sum()), key)
    recognised = ((_logits(sets, task, size) > 0) == is_demonstration).reshape(-1, 2, count)
    recognised[:, 1] |= ~np.stack([finite_rows(rollouts) for rollouts in several_rollouts])
    return list(recognised)


def _logits(sets: Sequence[_Inputs], task: _Task, size: ClassifierSize) -> Float[np.ndarray, "sets R"]:
    """The logits of all trajectories by classifiers that learned from some of them, as many at once as fit."""
    at_once = 1  # a CPU is no faster with several
    if not on_cpu():
        steps = sets[0].steps.shape[1]
        needed = 2 * sets[0].steps.nbytes + 4 * size.batch * steps * size.hidden * RESIDUALS
        at_once = max(1, total_memory() // (2 * needed))
    per_device = Axis.over(len(sets), batch=size.batch).piece
    axis = Axis.over(len(sets), pieces=-(-per_device // at_once), batch=size.batch)
    each = axis.fill(jax.tree.map(lambda *arrays: jnp.asarray(np.stack(arrays)), *sets))
    return np.asarray(axis.cut(_learn_and_judge(axis, size, axis.share(task), each)))


@partial(jax.jit, static_argnums=(0, 1))
def _learn_and_judge(axis: Axis, size: ClassifierSize, task: _Task, each: _Inputs) -> Array:
    return axis.map(lambda task, inputs: _judge(_learn(axis, size, task, inputs), inputs), task, each)


def _learn(axis: Axis, size: ClassifierSize, task: _Task, inputs: _Inputs) -> _Classifier:
    """A classifier of one set of rollouts."""
    key_classifier, key_batches = jax.random.split(task.key)
    optimiser = optax.adam(optax.cosine_decay_schedule(size.rate, size.steps))

    def loss(classifier, rows):
        steps, real, target = axis.spread((inputs.steps[rows], inputs.real[rows], task.is_demonstration[rows]))
        return optax.sigmoid_binary_cross_entropy(classifier(steps, real), target).mean()

    def step(carry: tuple[_Classifier, optax.OptState], key: PRNGKeyArray):
        classifier, state = carry
        rows = task.order[jax.random.randint(key, (size.batch,), 0, task.learns)]
        updates, state = optimiser.update(jax.grad(loss)(classifier, rows), state)
        return (eqx.apply_updates(classifier, updates), state), None

    classifier = _Classifier(inputs.steps.shape[-1], size.hidden, key=key_classifier)
    keys = jax.random.split(key_batches, size.steps)
    return jax.lax.scan(step, (classifier, optimiser.init(eqx.filter(classifier, eqx.is_array))), keys)[0][0]


def _judge(classifier: _Classifier, inputs: _Inputs) -> Float[Array, " R"]:
    """The logits of all trajectories, some at a time."""
    rows = len(inputs.steps)
    pieces = -(-rows // JUDGED_AT_ONCE)
    order = jnp.arange(pieces * -(-rows // pieces)) % rows
    found = jax.lax.map(lambda some: classifier(inputs.steps[some], inputs.real[some]), order.reshape(pieces, -1))
    return found.reshape(-1)[:rows]


def _standardise(standardizer: Standardizer, read: np.ndarray, real: Bool[np.ndarray, "N T"]) -> _Inputs:
    """What was read, in the deviations of demonstrations; padding stays zero."""
    standard = np.clip(np.asarray(standardizer(read)), -LIMIT, LIMIT)
    return _Inputs(np.where(real[..., None], standard, np.float32(0)), real)


def _join_steps(inputs: _Inputs, together: int) -> _Inputs:
    """The same inputs, several steps at a time; padding that shares an input with real steps is zero."""
    rows, steps, _ = inputs.steps.shape
    extra = -steps % together
    joined = np.pad(inputs.steps, ((0, 0), (0, extra), (0, 0))).reshape(rows, (steps + extra) // together, -1)
    real = np.pad(inputs.real, ((0, 0), (0, extra))).reshape(rows, -1, together)
    return _Inputs(joined, np.asarray(real.any(axis=2)))


def _read(trajectories: Trajectories, steps: int) -> tuple[np.ndarray, Bool[np.ndarray, "N {steps}"]]:
    """The state and action of each step [N, steps, F], and which steps are real; zeros at the others."""
    read = np.concatenate([np.asarray(trajectories.states)[:, :-1], np.asarray(trajectories.actions)], axis=-1)
    real = np.asarray(trajectories.mask)
    read = np.where((real & finite_rows(trajectories)[:, None])[..., None], read, np.float32(0))
    padding = (0, 0), (0, steps - trajectories.steps)
    return np.pad(read, (*padding, (0, 0))), np.pad(real, padding)
