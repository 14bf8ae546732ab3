"""Labeling functions: a style is a short pure function of one trajectory; here its score becomes a label in words.

    @labeling_function(classes=("slow", "medium", "fast"))
    def speed(states, actions):
        return jnp.linalg.norm(actions, axis=-1).mean()

A function of `jax.numpy` is traced, vectorised and differentiable. One of NumPy or plain Python works just as well:
it is called on one trajectory at a time, in several processes when that pays.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped
from tqdm import tqdm

from . import parallel
from .errors import PoiseError, unknown
from .trajectories import Array, Trajectories

Score = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Categories:
    """A label that is one of several classes, encoded as a one-hot vector."""

    size: int

    @property
    def width(self) -> int:
        """Numbers that encode such a label, and that a labeler returns for it."""
        return self.size

    def encode(self, label: Shaped[Array, ...]) -> Float[Array, "... width"]:
        """The label as the policy reads it; -1, no label at all, is zeros, and so has no loss."""
        return jax.nn.one_hot(label, self.size)

    def loss(self, output: Float[Array, "... width"], label: Shaped[Array, ...]) -> Float[Array, ...]:
        """Cross-entropy of a labeler's output."""
        return -jnp.sum(jax.nn.log_softmax(output) * self.encode(label), axis=-1)

    def decide(self, output: Float[Array, "... width"]) -> Int[Array, ...]:
        """The label a labeler believes in."""
        return jnp.argmax(output, axis=-1)


@dataclass(frozen=True)
class LabelSpace:
    """The labels of several styles together, one kind a style: labels [..., M], encoded as [..., width]."""

    kinds: tuple[Categories, ...]

    @property
    def width(self) -> int:
        """Numbers that encode all labels of a trajectory."""
        return sum(kind.width for kind in self.kinds)

    def encode(self, labels: Shaped[Array, "... M"]) -> Float[Array, "... width"]:
        """All labels of a trajectory, side by side."""
        if not self.kinds:
            return jnp.zeros((*labels.shape[:-1], 0))
        return jnp.concatenate([kind.encode(labels[..., i]) for i, kind in enumerate(self.kinds)], axis=-1)

    def loss(self, outputs: Float[Array, "... width"], labels: Shaped[Array, "... M"]) -> Float[Array, ...]:
        """The loss of a labeler, summed over styles (Eq. 6)."""
        return sum(
            (
                kind.loss(out, labels[..., i])
                for i, (kind, out) in enumerate(zip(self.kinds, self._cut(outputs), strict=True))
            ),
            start=jnp.zeros(()),
        )

    def decide(self, outputs: Float[Array, "... width"]) -> Shaped[Array, "... M"]:
        """The labels a labeler believes in."""
        return jnp.stack([kind.decide(out) for kind, out in zip(self.kinds, self._cut(outputs), strict=True)], axis=-1)

    def _cut(self, outputs: Array) -> Sequence[Array]:
        return jnp.split(jnp.asarray(outputs), np.cumsum([kind.width for kind in self.kinds])[:-1].tolist(), axis=-1)


@dataclass(frozen=True)
class LabelingFunction:
    """A named score of one trajectory, and how the score becomes a class.

    Class k holds the scores from threshold k-1 up to, and not including, threshold k. Without thresholds they are the
    quantiles that `fit` finds on training demonstrations, so that every class holds about as many of them.
    """

    name: str
    score: Score
    classes: tuple[str, ...] = ("low", "medium", "high")
    thresholds: tuple[float, ...] | None = None
    unit: str = ""
    source: str | None = None
    """Where to find it again: a name of a domain, or file.py:function."""

    def __post_init__(self):
        if len(self.classes) < 2:
            raise PoiseError(f"style {self.name!r} needs at least 2 classes; got {list(self.classes)}")
        if len(set(self.classes)) < len(self.classes):
            raise PoiseError(f"the classes of style {self.name!r} need different names; got {list(self.classes)}")
        if self.thresholds is not None:
            if len(self.thresholds) != len(self.classes) - 1:
                raise PoiseError(
                    f"style {self.name!r} has {len(self.classes)} classes and so {len(self.classes) - 1} thresholds; "
                    f"got {len(self.thresholds)}"
                )
            if not all(a < b for a, b in zip(self.thresholds, self.thresholds[1:], strict=False)):
                raise PoiseError(f"the thresholds of style {self.name!r} must rise; got {list(self.thresholds)}")

    def __call__(self, states, actions):
        """The score of one trajectory, as the undecorated function gives it."""
        return self.score(states, actions)

    @property
    def kind(self) -> Categories:
        """How labels of this style are encoded and learned."""
        return Categories(len(self.classes))

    def with_classes(self, count: int) -> LabelingFunction:
        """The same score in another number of classes, to be fitted anew; its outer names are kept."""
        if count < 2:
            raise PoiseError(f"a style needs at least 2 classes; got {count}")
        if count == len(self.classes):
            return self
        names = (self.classes[0], *(f"class-{i}" for i in range(2, count)), self.classes[-1])
        return replace(self, classes=names, thresholds=None)

    def scores(self, trajectories: Trajectories, progress: bool = False) -> Float[np.ndarray, " N"]:
        """The score of each trajectory; what lies beyond a trajectory's length is never seen by the function."""
        return np.asarray(score_all([self], trajectories, progress)[0], np.float32)

    def fit(self, trajectories: Trajectories, progress: bool = False) -> LabelingFunction:
        """The same style with thresholds: its own, or the quantiles of these demonstrations' scores."""
        return self if self.thresholds is not None else self.fit_scores(self.scores(trajectories, progress))

    def fit_scores(self, scores: Float[np.ndarray, " N"]) -> LabelingFunction:
        """As `fit`, for scores that are known already."""
        if self.thresholds is not None:
            return self
        distinct = np.unique(scores)
        count = len(self.classes)
        if len(distinct) == 1:
            raise PoiseError(
                f"style {self.name!r} scores all {len(scores)} demonstrations {distinct[0]:g}: one class only; "
                "change the function, leave the style out or bring more data"
            )
        if len(distinct) < count:
            raise PoiseError(
                f"style {self.name!r} has {len(distinct)} distinct scores, too few for {count} classes; "
                f"ask for --classes {len(distinct)} at most, or give thresholds"
            )
        thresholds = _midpoints(distinct, np.quantile(scores, np.arange(1, count) / count))
        return replace(self, thresholds=thresholds)

    def classify(self, scores: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The class of each score; -1 where there is no score."""
        if self.thresholds is None:
            raise PoiseError(f"style {self.name!r} has no thresholds yet; fit it on training demonstrations first")
        classes = np.searchsorted(np.asarray(self.thresholds, np.float32), scores, side="right").astype(np.int32)
        classes[~np.isfinite(scores)] = -1
        return classes

    def label(self, trajectories: Trajectories, progress: bool = False) -> Int[np.ndarray, " N"]:
        """The class of each trajectory: λ(τ)."""
        return self.classify(self.scores(trajectories, progress))

    def index(self, word: str | int) -> int:
        """The class that a word names; a number is the class itself, counted from 0."""
        number = str(word).strip()
        if isinstance(word, str) and number.lower() in [name.lower() for name in self.classes]:
            return [name.lower() for name in self.classes].index(number.lower())
        if number.isascii() and number.isdecimal() and int(number) < len(self.classes):
            return int(number)
        raise unknown(f"class of style {self.name!r}", str(word), self.classes)


def labeling_function(
    function: Score | None = None,
    *,
    name: str | None = None,
    classes: Sequence[str] = ("low", "medium", "high"),
    thresholds: Sequence[float] | None = None,
    unit: str = "",
) -> Any:
    """Turns a function of one trajectory, `f(states, actions) -> number`, into a named style.

    A function that answers yes or no needs nothing else: `classes=("no", "yes")` are split at one half.
    """

    def decorate(function: Score) -> LabelingFunction:
        cuts = None if thresholds is None else tuple(float(t) for t in thresholds)
        names = tuple(classes)
        if cuts is None and names == ("no", "yes"):
            cuts = (0.5,)
        known_as = name or getattr(function, "__name__", type(function).__name__)
        return LabelingFunction(known_as, function, names, cuts, unit)

    return decorate if function is None else decorate(function)


def label_space(styles: Sequence[LabelingFunction]) -> LabelSpace:
    """The labels of these styles together."""
    return LabelSpace(tuple(style.kind for style in styles))


def score_all(
    styles: Sequence[LabelingFunction], trajectories: Trajectories, progress: bool = False, strict: bool = True
) -> Float[np.ndarray, "M N"]:
    """The scores of every style, checked: one finite number a trajectory.

    If not `strict`, a trajectory that a function cannot score (it raises, or returns NaN) has the score NaN.
    """
    scores = np.empty((len(styles), len(trajectories)), np.float32)
    with tqdm(
        total=scores.size, desc="label", unit="score", unit_scale=True, disable=not progress, leave=False, delay=1
    ) as bar:
        left = _score_traced(styles, trajectories, scores, bar)
        for i in sorted(range(len(styles)), key=lambda i: len(left[i])):  # what is done already can fail at once
            name, score = styles[i].name, styles[i].score
            if len(left[i]):
                bar.set_description(f"label {name}", refresh=False)
                scores[i, left[i]] = parallel.map_rows(name, score, trajectories, left[i], strict, bar.update)
            bad = np.flatnonzero(~np.isfinite(scores[i]))
            if strict and len(bad):
                raise PoiseError(
                    f"style {name!r} returned {scores[i, bad[0]]} for trajectory {bad[0]} (and {len(bad) - 1} others); "
                    "a score is a finite number: handle that case in the function"
                )
    return scores


def label_all(
    styles: Sequence[LabelingFunction],
    trajectories: Trajectories,
    progress: bool = False,
    strict: bool = True,
    noise: Sequence[float] = (),
) -> Int[np.ndarray, "N M"]:
    """The labels of every trajectory in every fitted style; if not `strict`, -1 where a function gives no score."""
    return classify_all(styles, score_all(styles, trajectories, progress, strict), noise)


def classify_all(
    styles: Sequence[LabelingFunction], scores: Float[np.ndarray, "M N"], noise: Sequence[float] = ()
) -> Int[np.ndarray, "N M"]:
    """The labels that belong to the scores of every style, after Gaussian noise of these deviations, if any."""
    labels = np.empty(scores.shape[::-1], np.int32)
    for style, row, column, deviation in zip(styles, scores, labels.T, noise or [0.0] * len(styles), strict=True):
        if deviation:  # the same noise for the same style and scores, whatever stands beside it
            random = np.random.default_rng([zlib.crc32(style.name.encode()), zlib.crc32(row.tobytes())])
            row = row + deviation * random.standard_normal(len(row), np.float32)
        column[:] = style.classify(row)
    return labels


def traced(score: Score, states: Array, actions: Array) -> bool:
    """Whether JAX can trace the function, and so vectorise and differentiate it."""
    return parallel.outline(score, states.shape[1:], actions.shape[1:]) is not NotImplemented


def load_style(spec: str, known: dict[str, LabelingFunction]) -> LabelingFunction:
    """The style that a name of the domain or `file.py:function` stands for."""
    if ":" not in spec:
        if "=" in spec:
            raise PoiseError(f"{spec!r} asks for a class: that is --style; --styles names functions")
        if spec.endswith(".py"):
            raise PoiseError(f"{spec} is a file; name a function in it, as {spec}:function")
        if spec not in known and not known:
            raise PoiseError(f"unknown style {spec!r}; give file.py:function, or a --domain that has styles")
        if spec not in known:
            raise unknown("style", spec, [*known, "file.py:function"])
        return replace(known[spec], source=spec)
    file, _, function = spec.rpartition(":")
    module = parallel.import_file(Path(file))
    if not hasattr(module, function):
        candidates = [k for k, v in vars(module).items() if isinstance(v, LabelingFunction) or inspect.isfunction(v)]
        raise unknown(f"function in {file}", function, candidates)
    found = getattr(module, function)
    if not isinstance(found, LabelingFunction):
        if not callable(found):
            raise PoiseError(f"{spec} is not a function but a {type(found).__name__}")
        found = labeling_function(found)
    return replace(found, source=spec)


def parse_words(words: Sequence[str], styles: Sequence[LabelingFunction]) -> dict[str, int]:
    """The classes that words such as `speed=slow` ask for, by style."""
    by_name = {style.name: style for style in styles}
    wanted = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip()
        if not equals:
            raise PoiseError(f"a style is asked for as name=class, for example {_example(styles)}; got {word!r}")
        if name not in by_name:
            raise unknown("style", name, by_name)
        if name in wanted:
            raise PoiseError(f"style {name!r} is asked for twice; ask once")
        wanted[name] = by_name[name].index(value.strip())
    return wanted


def _example(styles: Sequence[LabelingFunction]) -> str:
    return f"{styles[0].name}={styles[0].classes[0]}" if styles else "speed=slow"


def _midpoints(distinct: np.ndarray, quantiles: np.ndarray) -> tuple[float, ...]:
    """Thresholds halfway between two neighbouring scores, near the quantiles, and never the same one twice."""
    count = len(quantiles)
    cuts = np.searchsorted(distinct, quantiles, side="left").clip(1, len(distinct) - 1)
    for i in range(1, count):  # ties push a threshold up to the next gap, ...
        cuts[i] = max(cuts[i], cuts[i - 1] + 1)
    for i in range(count - 1, -1, -1):  # ... and the last ones back down, so that every class keeps a score
        cuts[i] = min(cuts[i], len(distinct) - count + i)
    middles = (distinct[cuts - 1].astype(np.float64) + distinct[cuts].astype(np.float64)) / 2
    return tuple(
        float(x) for x in np.minimum(np.maximum(middles, np.nextafter(distinct[cuts - 1], np.inf)), distinct[cuts])
    )


def _score_traced(
    styles: Sequence[LabelingFunction], trajectories: Trajectories, scores: np.ndarray, bar: tqdm
) -> list[np.ndarray]:
    """Scores what JAX can trace, all styles in one program a length; the rows that are left over, for every style."""
    states, actions, lengths = (
        np.asarray(x) for x in (trajectories.states, trajectories.actions, trajectories.lengths)
    )
    left = np.zeros((len(styles), states.shape[1]), bool)  # by length: some functions fail on short trajectories alone
    for length, rows in parallel.groups(states, actions, lengths):
        parts = states[:, : length + 1], actions[:, :length]
        left[:, length] = [not parallel.can_trace(style.name, style.score, *parts) for style in styles]
        chosen = [i for i in range(len(styles)) if not left[i, length]]
        if not chosen:
            continue
        program = parallel.vectorise(*(styles[i].score for i in chosen))
        for where, answers in parallel.map_traced(program, *parts, rows):
            for i, answer in zip(chosen, answers, strict=True):
                scores[i, where] = answer
            bar.update(len(chosen) * len(answers[0]))
    return [np.flatnonzero(by_length[lengths]) for by_length in left]
