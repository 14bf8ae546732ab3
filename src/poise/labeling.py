"""Labeling functions: a style is a short pure function of one trajectory; here its score becomes a label in words.

    @labeling_function(classes=("slow", "medium", "fast"))
    def speed(states, actions):
        return jnp.linalg.norm(actions, axis=-1).mean()

A function of `jax.numpy` is traced, vectorised and differentiable. One of NumPy or plain Python works just as well:
it is called on one trajectory at a time, in several processes when that pays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Shaped

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
        """The label as the policy reads it."""
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
        classes = np.searchsorted(np.asarray(self.thresholds, np.float32), scores, side="right")
        return np.where(np.isfinite(scores), classes, -1).astype(np.int32)

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
    for style, row in zip(styles, scores, strict=True):
        for length in np.unique(trajectories.lengths):
            rows = np.flatnonzero(np.asarray(trajectories.lengths) == length)
            states = np.asarray(trajectories.states)[rows, : length + 1]
            actions = np.asarray(trajectories.actions)[rows, :length]
            row[rows] = _scores(style, states, actions, progress, strict)
        bad = np.flatnonzero(~np.isfinite(row))
        if strict and len(bad):
            raise PoiseError(
                f"style {style.name!r} returned {row[bad[0]]} for trajectory {bad[0]} (and {len(bad) - 1} others); "
                "a score is a finite number: handle that case in the function"
            )
    return scores


def label_all(
    styles: Sequence[LabelingFunction], trajectories: Trajectories, progress: bool = False, strict: bool = True
) -> Int[np.ndarray, "N M"]:
    """The labels of every trajectory in every fitted style; if not `strict`, -1 where a function gives no score."""
    return classify_all(styles, score_all(styles, trajectories, progress, strict))


def classify_all(styles: Sequence[LabelingFunction], scores: Float[np.ndarray, "M N"]) -> Int[np.ndarray, "N M"]:
    """The labels that belong to the scores of every style."""
    return np.stack([style.classify(row) for style, row in zip(styles, scores, strict=True)], axis=-1)


def traced(score: Score, states: Array, actions: Array) -> bool:
    """Whether JAX can trace the function, and so vectorise and differentiate it."""
    one = [jax.ShapeDtypeStruct(x.shape[1:], jnp.float32) for x in (states, actions)]
    try:
        jax.eval_shape(score, *one)
    except Exception:  # whatever it is, the function is called on real arrays next, where the error is the user's own
        return False
    return True


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


def _what(answer: Any) -> str:
    return "None: is a return missing?" if answer is None else f"a {type(answer).__name__}"


@functools.lru_cache(maxsize=256)
def _compiled(score: Score) -> Callable[[Array, Array], Array]:
    return jax.jit(jax.vmap(score))


def _vectorised(score: Score) -> Callable[[Array, Array], Array]:
    return _compiled(score) if isinstance(score, Hashable) else jax.jit(jax.vmap(score))


def _scores(
    style: LabelingFunction, states: np.ndarray, actions: np.ndarray, progress: bool, strict: bool
) -> np.ndarray:
    if traced(style.score, states, actions):
        # padded to a power of two, so that groups of other sizes need no program of their own
        rows = np.arange(1 << (len(states) - 1).bit_length()) % len(states)
        answer = _vectorised(style.score)(states[rows], actions[rows])
        if not isinstance(answer, jax.Array):
            raise PoiseError(f"style {style.name!r} must return one number a trajectory; got {_what(answer)}")
        scores = np.asarray(answer)[: len(states)]
    else:
        scores = parallel.map_rows(style.name, style.score, states, actions, progress, strict)
    if scores.shape != (len(states),) or scores.dtype.kind not in "fiub":
        got = f"an array of shape {list(scores.shape[1:])}" if scores.ndim > 1 else f"values of {scores.dtype}"
        raise PoiseError(f"style {style.name!r} must return one number a trajectory; got {got}")
    return scores
