"""Labeling functions: a style is a short pure function of one trajectory that returns a score; classes have thresholds.

A function of `jax.numpy` is traced, vectorised and differentiable. A function of NumPy or plain Python is called on one
trajectory at a time, in several processes where that is faster.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from jaxtyping import Float, Int

from ..data.trajectories import Trajectories
from ..errors import PoiseError, unknown
from ..system.imports import import_value, is_file_spec
from .label_spaces import GRADES, Categories, Graded, LabelSpace
from .scoring import score_all
from .traced import Score


@dataclass(frozen=True)
class LabelingFunction:
    """A style: a named score of one trajectory, and the thresholds that turn the score into a class.

    Class k holds the scores from threshold k-1 up to, but not including, threshold k. `labeling_function` makes one.

    Args:
        name: What reports, pictures and the command line call it.
        score: The function (states [T+1, S], actions [T, A]) -> number.
        classes: The names of the classes, from low to high scores; at least two.
        thresholds: The scores that separate the classes, rising, one fewer than classes. Default: `fit` takes quantiles
            of the training demonstrations, so that all classes hold about the same number of them.
        unit: The unit of the score.
        source: Where the function is found again: the name of a domain's style, or file.py:function.
        wraps: The ends of the range of a score that wraps, such as an angle's (-pi, pi): they are the same direction.
        gradient: Whether the score's own gradient can steer a flow; None if that was not tried out.
        grades: The scores that separate the grades that a policy is conditioned on too; None if it is conditioned on
            classes alone.

    Raises:
        PoiseError: There are fewer than two classes, two have one name, the thresholds do not fit the classes, or the
            ends of the range are not in order.

    Examples:
        >>> import numpy as np
        >>> import poise
        >>> style = poise.LabelingFunction("end", lambda states, actions: states[-1, 0], ("left", "right"), (0.5,))
        >>> walks = poise.Trajectories(np.asarray([[[0.0], [1.0]], [[0.0], [0.2]]]))
        >>> style.label(walks).tolist()
        [1, 0]
        >>> style.index("right")
        1
    """

    name: str
    score: Score
    classes: tuple[str, ...] = ("low", "medium", "high")
    thresholds: tuple[float, ...] | None = None
    unit: str = ""
    source: str | None = None
    wraps: tuple[float, float] | None = None
    gradient: bool | None = None
    grades: tuple[float, ...] | None = None

    def __post_init__(self):
        if self.wraps is not None and not (len(self.wraps) == 2 and self.wraps[0] < self.wraps[1]):
            raise PoiseError(f"style {self.name!r} wraps between two numbers that rise; got {list(self.wraps)}")
        for word in (self.name, self.unit, *self.classes):
            if any(ord(character) < 32 for character in word):
                raise PoiseError(f"names, units and classes of a style are one line of text; got {word!r}")
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
        """The score of one trajectory, as the undecorated function returns it."""
        return self.score(states, actions)

    @property
    def kind(self) -> Categories:
        """How labels of this style are encoded and learned."""
        return Categories(len(self.classes)) if self.grades is None else Graded(len(self.classes))

    def with_classes(self, count: int) -> LabelingFunction:
        """The same score in another number of classes, without thresholds; the outer classes keep their names."""
        if count < 2:
            raise PoiseError(f"a style needs at least 2 classes; got {count}")
        if count == len(self.classes):
            return self
        names = (self.classes[0], *(f"class-{i}" for i in range(2, count)), self.classes[-1])
        return replace(self, classes=names, thresholds=None, grades=None)

    def scores(self, trajectories: Trajectories, progress: bool = False) -> Float[np.ndarray, " N"]:
        """The score of each trajectory; the function is called without what lies beyond a trajectory's length."""
        return np.asarray(score_all([self], trajectories, progress)[0], np.float32)

    def fit(self, trajectories: Trajectories, progress: bool = False) -> LabelingFunction:
        """The same style with thresholds: its own if it has any, else quantiles of these demonstrations' scores.

        Raises:
            PoiseError: The scores have fewer distinct values than there are classes, or one is not finite.
        """
        return self if self.thresholds is not None else self.fit_scores(self.scores(trajectories, progress))

    def fit_scores(self, scores: Float[np.ndarray, " N"]) -> LabelingFunction:
        """As `fit`, with the scores of the demonstrations."""
        if self.thresholds is not None:
            return self
        distinct = np.unique(scores)
        count = len(self.classes)
        if len(distinct) == 1:
            raise PoiseError(
                f"style {self.name!r} scores all {len(scores)} demonstrations {distinct[0]:g}: one class only; "
                "change the function, leave the style out or add data"
            )
        if len(distinct) < count:
            raise PoiseError(
                f"style {self.name!r} has {len(distinct)} distinct scores, too few for {count} classes; "
                f"ask for --classes {len(distinct)} at most, or give thresholds"
            )
        thresholds = _midpoints(distinct, np.quantile(scores, np.arange(1, count) / count))
        return replace(self, thresholds=thresholds)

    def classify(self, scores: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The class of each score; -1 where the score is NaN or infinite."""
        if self.thresholds is None:
            raise PoiseError(f"style {self.name!r} has no thresholds yet; fit it on training demonstrations first")
        classes = np.searchsorted(np.asarray(self.thresholds, np.float32), scores, side="right").astype(np.int32)
        classes[~np.isfinite(scores)] = -1
        return classes

    def with_grades(self, scores: Float[np.ndarray, " N"]) -> LabelingFunction:
        """The same style with grades: quantiles of the scores of the training demonstrations."""
        edges = np.quantile(np.asarray(scores, np.float64), np.arange(1, GRADES) / GRADES)
        return replace(self, grades=tuple(edges.tolist()))

    def grade(self, scores: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """The label of each score as a policy is conditioned on it: its class, and its grade if there are grades."""
        classes = self.classify(scores)
        if self.grades is None:
            return classes
        return Graded(len(self.classes)).grade(classes, np.searchsorted(self.grades, scores, side="right"))

    def label(self, trajectories: Trajectories, progress: bool = False) -> Int[np.ndarray, " N"]:
        """The class of each trajectory: λ(τ)."""
        return self.classify(self.scores(trajectories, progress))

    def index(self, word: str | int) -> int:
        """The class of that name; a number that is no name is the class itself, counted from 0."""
        number = str(word).strip()
        if isinstance(word, str) and number.lower() in [name.lower() for name in self.classes]:
            return [name.lower() for name in self.classes].index(number.lower())
        if number.isascii() and number.isdecimal() and int(number) < len(self.classes):
            return int(number)
        raise unknown(f"class of style {self.name!r}", str(word), self.classes)


@overload
def labeling_function(
    function: Score,
    *,
    name: str | None = None,
    classes: Sequence[str] = ...,
    thresholds: Sequence[float] | None = None,
    unit: str = "",
    wraps: tuple[float, float] | None = None,
) -> LabelingFunction: ...


@overload
def labeling_function(
    function: None = None,
    *,
    name: str | None = None,
    classes: Sequence[str] = ...,
    thresholds: Sequence[float] | None = None,
    unit: str = "",
    wraps: tuple[float, float] | None = None,
) -> Callable[[Score], LabelingFunction]: ...


def labeling_function(
    function: Score | None = None,
    *,
    name: str | None = None,
    classes: Sequence[str] = ("low", "medium", "high"),
    thresholds: Sequence[float] | None = None,
    unit: str = "",
    wraps: tuple[float, float] | None = None,
) -> LabelingFunction | Callable[[Score], LabelingFunction]:
    """Turns a function of one trajectory into a style; a decorator, with or without arguments.

    Args:
        function: A pure function (states [T+1, S], actions [T, A]) -> number, of `jax.numpy`, NumPy or plain Python.
        name: What the style is called. Default: the name of the function.
        classes: The names of the classes, from low to high scores.
        thresholds: The scores that separate the classes. Default: quantiles of the training demonstrations; 0.5 for the
            classes ("no", "yes"), so that a function may return True or False.
        unit: The unit of the score.
        wraps: The ends of the range of a score that wraps, such as an angle's (-pi, pi). Sampling is then steered the
            shorter way round.

    Returns:
        A `LabelingFunction`; without a function, a decorator that returns one.

    Raises:
        PoiseError: The classes or thresholds do not fit together.

    Examples:
        >>> import numpy as np
        >>> import poise
        >>> @poise.labeling_function(classes=("slow", "fast"), unit="m")
        ... def speed(states, actions):
        ...     return np.linalg.norm(actions, axis=-1).mean()
        >>> walks = poise.Trajectories(np.arange(4.0)[:, None, None] * np.arange(3.0)[:, None])
        >>> speed.scores(walks).tolist()
        [0.0, 1.0, 2.0, 3.0]
        >>> fitted = speed.fit(walks)
        >>> fitted.thresholds
        (1.5,)
        >>> fitted.label(walks).tolist()
        [0, 0, 1, 1]
    """

    def decorate(function: Score) -> LabelingFunction:
        given = None if thresholds is None else tuple(float(t) for t in thresholds)
        if given is None and tuple(classes) == ("no", "yes"):
            given = (0.5,)
        own_name = name or getattr(function, "__name__", type(function).__name__)
        return LabelingFunction(own_name, function, tuple(classes), given, unit, wraps=wraps)

    return decorate if function is None else decorate(function)


def load_style(spec: str, known: dict[str, LabelingFunction]) -> LabelingFunction:
    """The style of that name among the known ones, or the one that file.py:function stands for."""
    if not is_file_spec(spec):
        if "=" in spec:
            raise PoiseError(f"{spec!r} asks for a class, which is --style; --styles names functions")
        if spec.endswith(".py"):
            raise PoiseError(f"{spec} is a file; name a function in it, as {spec}:function")
        if spec not in known and not known:
            raise PoiseError(f"unknown style {spec!r}; give file.py:function, or a --domain that has styles")
        if spec not in known:
            raise unknown("style", spec, [*known, "file.py:function"])
        return replace(known[spec], source=spec)
    found = import_value(spec, lambda value: isinstance(value, LabelingFunction) or inspect.isfunction(value))
    if not isinstance(found, LabelingFunction):
        if not callable(found):
            raise PoiseError(f"{spec} is not a function but a {type(found).__name__}")
        found = labeling_function(found)
    return replace(found, source=spec)


def _midpoints(distinct: np.ndarray, quantiles: np.ndarray) -> tuple[float, ...]:
    """Thresholds halfway between two neighbouring scores, near the quantiles, and never the same one twice."""
    count = len(quantiles)
    cuts = np.searchsorted(distinct, quantiles, side="left").clip(1, len(distinct) - 1)
    for i in range(1, count):  # ties move a threshold up to the next gap ...
        cuts[i] = max(cuts[i], cuts[i - 1] + 1)
    for i in range(count - 1, -1, -1):  # ... and the last ones down again, so that every class has a score
        cuts[i] = min(cuts[i], len(distinct) - count + i)
    middles = (distinct[cuts - 1].astype(np.float64) + distinct[cuts].astype(np.float64)) / 2
    return tuple(
        float(x) for x in np.minimum(np.maximum(middles, np.nextafter(distinct[cuts - 1], np.inf)), distinct[cuts])
    )


def label_space(styles: Sequence[LabelingFunction]) -> LabelSpace:
    """The labels of these styles together."""
    return LabelSpace(tuple(style.kind for style in styles))
