"""Runs: trained seeds of an experiment, in memory or in a folder; evaluate them, sample from them, load them again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..algorithms import Algorithm
from ..config import Sampling, check_sampling
from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError, check_whole
from ..evaluation.feasibility import Feasibility
from ..evaluation.report import Report
from ..evaluation.scored import Known, ScoredRollouts, TrainedSeed, range_of
from ..losses import Parts
from ..rollouts.actor import Actor
from ..rollouts.requests import Words
from ..styles.label_spaces import LabelSpace, SharedSpace
from ..styles.labeling_functions import LabelingFunction, label_space
from ..system import storage
from ..training.state import one_run
from .asking import Asked, Nearest, ask, check_start, find_examples, find_seed, find_styles, fit_later, keep_labels
from .evaluating import evaluate_all, find_splits, refuse_changed
from .experiment import Experiment
from .folder import write_config, write_result
from .shapes import shapes_of_parts


@dataclass(frozen=True)
class Run:
    """Trained seeds of one experiment: evaluate them, sample from them, load them again from their folder.

    `poise.train` and `poise.load_run` make one.

    Examples:
        >>> import poise
        >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
        >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
        >>> run.sample(3, {"speed": "slow"}).states.shape
        (3, 25, 2)
    """

    experiment: Experiment
    algorithm: Algorithm
    domain: Domain
    styles: tuple[LabelingFunction, ...]
    parts: Parts
    """The parts of all seeds; arrays have the seeds as their first axis."""
    starts: Trajectories
    """Some demonstrations that were not trained on, to start rollouts from, with their labels as metadata."""
    stopped: tuple[str | None, ...]
    """For each seed the stage and step at which its loss became NaN or infinite, if it did."""
    best: int
    """The position of the seed with the highest joint style-consistency on validation demonstrations."""
    seconds: float
    steps: int
    """Steps of the longest demonstration that was trained on."""
    fingerprint: str | None = None
    """Of the training demonstrations."""
    folder: Path | None = None
    space: SharedSpace | None = None
    """The labels of its styles among those that it was trained in, if it is dialled by some of them only."""
    _splits: Splits | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        names = ", ".join(style.name for style in self.styles)
        return f"Run({self.experiment.algorithm_name!r}, styles: {names}, seeds: {self.seeds}, folder: {self.folder})"

    @property
    def seeds(self) -> list[int]:
        """The trained seeds."""
        return self.experiment.seed_numbers

    @property
    def labels(self) -> np.ndarray:
        """The labels [N, M] of the kept starts."""
        return self.starts.metadata["labels"]

    def splits(self) -> Splits:
        """The demonstrations, made or read again if they are not in memory; they must be what was trained on.

        Raises:
            PoiseError: The demonstrations are gone, or have changed since training.
        """
        return self._found

    @functools.cached_property
    def _found(self) -> Splits:
        return self._splits or find_splits(self.experiment, self.domain, self.fingerprint)

    def only(self, styles: Sequence[str]) -> Run:
        """The same run, dialled by some of its styles only: the others are always left free.

        Args:
            styles: Names of styles of this run, each once.

        Raises:
            PoiseError: A style is not known or named twice, or the policy cannot leave a style free.

        Examples:
            >>> import poise
            >>> settings = poise.Settings(training=poise.Training(flow_steps=0))
            >>> run = poise.train(styles=["speed", "destination"], count=40, settings=settings, progress=False)
            >>> run.only(["speed"]).sample(2, {"speed": "slow"}, tries=1).metadata["labels"].tolist()
            [[0], [0]]
        """
        if not self.parts["policy"].open_labels:
            raise PoiseError(f"{self.experiment.algorithm_name!r} always needs all its styles; a flow does not")
        rows = find_styles(self.styles, styles)
        chosen, starts = tuple(self.styles[i] for i in rows), keep_labels(self.starts, rows)
        return replace(self, styles=chosen, starts=starts, space=self._own_space.only(rows))

    def evaluate(
        self,
        test: Trajectories | None = None,
        rollouts: int | None = None,
        draw: int = 0,
        name: str | None = None,
        shared: LabelSpace | None = None,
    ) -> Report:
        """Scores every seed on test demonstrations, by the true labeling functions in the true environment.

        Args:
            test: Demonstrations to test on; the experiment's own test demonstrations if not given.
            rollouts: Rollouts per seed; as many as the paper has for the domain if not given.
            draw: Seed of the rollouts' randomness.
            name: What the report calls the test demonstrations.
            shared: A label space to pad the parts to. Runs that are padded to the same space are evaluated by the same
                compiled programs; it changes no score.

        Returns:
            A report, to print, to write as a page, or to read.

        Raises:
            PoiseError: The demonstrations do not fit the run, or a labeling function has changed since training.
        """
        return evaluate_all([self], test, rollouts, draw, name=name, shared=shared)[0]

    def sample(
        self,
        count: int = 1,
        words: Words | None = None,
        *,
        styles: Sequence[str | Callable] = (),
        start: Sequence[float] | None = None,
        steps: int | None = None,
        tries: int | None = None,
        sampling: Sampling | None = None,
        in_range: bool = True,
        seed: int | None = None,
        draw: int = 0,
    ) -> Trajectories:
        """Rollouts in the style that the words name, made again where the labeling functions differ.

        Args:
            count: How many rollouts.
            words: Classes by style, for example {"speed": "slow"}. A style that is not named is left free by a flow: it
                follows demonstrations that start nearby. Other policies take the label of the start for it, and need
                not show it. Without words, rollouts take the labels of their starts, and must show them.
            styles: Labeling functions that were written after training, to ask for as well: functions, or
                file.py:function. Their thresholds come from the run's demonstrations.
            start: A state to start from; where held-out demonstrations of that style start if not given. Without words,
                a flow leaves all styles free there; other policies take the labels of any demonstration.
            steps: Steps of a rollout; as many as the demonstrations have if not given.
            tries: The most rollouts of one request, until the labeling functions agree; 1 asks them nothing, as in the
                paper. By default as the settings say.
            sampling: How a flow is guided and steered, and the tries; as the settings say if not given.
            in_range: Whether a rollout must also stay in the range of the demonstrations to be accepted.
            seed: A trained seed; the best on validation demonstrations if not given.
            draw: Seed of the randomness. The same arguments give the same rollouts; another count gives others.

        Returns:
            The rollouts. Their metadata hold what was asked for as `labels`, -1 where a style was left free; `finite`,
            False where a rollout became NaN or infinite and is zeros; and with more than one try also `tries` and
            `accepted`: what no try reached keeps its first rollout, marked False.

        Raises:
            PoiseError: A style, a class or a seed is not known, or a number is out of range.

        Examples:
            >>> import poise
            >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
            >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
            >>> rollouts = run.sample(3, {"speed": "slow"}, tries=4)
            >>> rollouts.metadata["accepted"].shape
            (3,)
        """
        asked = self._ask(count, words, styles, start, steps, seed, draw)
        sampling = self.sampling(sampling, tries)
        if sampling.tries > 1:
            self.check_styles()
            return asked.verified(sampling, in_range).rollouts
        return asked.once(sampling)

    def sample_scored(
        self,
        count: int = 1,
        words: Words | None = None,
        *,
        styles: Sequence[str | Callable] = (),
        start: Sequence[float] | None = None,
        steps: int | None = None,
        tries: int | None = None,
        sampling: Sampling | None = None,
        in_range: bool = True,
        seed: int | None = None,
        draw: int = 0,
    ) -> ScoredRollouts:
        """As `sample`, and with what λ says of every rollout."""
        self.check_styles()
        asked = self._ask(count, words, styles, start, steps, seed, draw)
        return asked.verified(self.sampling(sampling, tries), in_range)

    def nearest(
        self,
        words: Words,
        *,
        start: Sequence[float],
        change: Sequence[str] | None = None,
        styles: Sequence[str | Callable] = (),
        steps: int | None = None,
        tries: int | None = None,
        sampling: Sampling | None = None,
        in_range: bool = True,
        seed: int | None = None,
        draw: int = 0,
    ) -> Nearest:
        """The possible request that is nearest to one from a start: itself if it is possible.

        Nearer is what changes fewer styles, then what moves by fewer classes. Other arguments are those of `sample`.

        Args:
            words: What is asked for: classes by style.
            start: The state that it is asked for from.
            change: The styles that may be changed; all that the words name if not given.

        Returns:
            The nearest request, which a second pass of sampling may be asked for; `str` of it is a line for people.

        Examples:
            >>> import poise
            >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
            >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
            >>> run.nearest({"speed": "slow"}, start=[30.0, 25.0], tries=2).asked
            {'speed': 'slow'}
        """
        self.check_styles()
        asked = self._ask(1, words, styles, check_start(start), steps, seed, draw)
        return asked.nearest(words, change, self.sampling(sampling, tries), in_range)

    def reach(self, style: str, count: int = 100, *, seed: int | None = None, draw: int = 0) -> Feasibility:
        """Which classes of a style are within reach from where held-out demonstrations start, as settings sample.

        Args:
            style: The name of the style. A flow leaves the others free; other policies must show those of the start.
            count: How many starts; each is asked for every class.
            seed: A trained seed; the best on validation demonstrations if not given.
            draw: Seed of the randomness.
        """
        self.check_styles()
        asked = self._ask(count, None, (), None, None, seed, draw)
        return asked.reach(style, self.sampling())

    def actor(
        self,
        words: Words | None = None,
        *,
        styles: Sequence[str | Callable] = (),
        count: int | None = None,
        steps: int | None = None,
        lookahead: int = 1,
        sampling: Sampling | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> Actor:
        """The policy for a loop of your own: `actor.step(state)` gives the next action.

        Args:
            words: Classes by style, for example {"speed": "slow"}.
            styles: Labeling functions that were written after training, to ask for as well.
            count: Plays so many at once, from states [count, S]; by default one, from states [S].
            steps: Steps of a trajectory, after which a flow plans another; by default as the demonstrations have.
            lookahead: Plans, or rollouts where plans are short, that a flow imagines, to take one that is right.
            sampling: How a flow is guided and steered; as the settings say if not given.
            seed: A trained seed; the best on validation demonstrations if not given.
            draw: Seed of the actor's randomness.
        """
        later, steps = self.fit_later(styles), self.starts.steps if steps is None else check_whole("steps", steps)
        trained = self.trained(None, later)(find_seed(self.seeds, seed, self.best))
        policy, followed = trained.policy(sampling := self.sampling(sampling), steps)
        return Actor(
            policy,
            trained.styles,
            self.labels_in(later),
            self.starts.states.shape[-1],
            words,
            count=count,
            draw=draw,
            steps=steps,
            known_range=range_of(self.starts),
            dynamics=self.domain.dynamics,
            moves=np.diff(np.asarray(self.starts.states), axis=1)[np.asarray(self.starts.mask)].std(axis=0),
            lookahead=lookahead,
            imagine=trained.imagine(policy),
            arrange=functools.partial(trained.arrange, followed=followed, draw=draw, margin=sampling.margin),
        )

    def save(self, folder: str | Path) -> Run:
        """Writes the run into a folder; `load_run` reads it back, equal."""
        if self.space is not None:
            raise PoiseError("this run is dialled by some of its styles only; save the run that it was taken from")
        folder = storage.make_folder(Path(folder))
        with storage.lock(folder):
            write_config(folder, self.experiment, self.styles, self.domain, self.fingerprint)
            self.write_result(folder)
        return replace(self, folder=folder)

    def write_result(self, folder: Path) -> None:
        """Writes what training gave into a folder that describes the experiment already."""
        summary = {"stopped": list(self.stopped), "best": self.best, "steps": self.steps}
        write_result(folder, self.starts, {**summary, "seconds": round(self.seconds, 1)}, self.parts, self.seeds)

    def sampling(self, sampling: Sampling | None = None, tries: int | None = None) -> Sampling:
        """How to sample: as is said, else as the settings say."""
        assert self.experiment.settings is not None
        return check_sampling(self.experiment.settings.sampling if sampling is None else sampling, tries)

    def _ask(
        self,
        count: int,
        words: Words | None,
        styles: Sequence[str | Callable],
        start: Sequence[float] | None,
        steps: int | None,
        seed: int | None,
        draw: int,
    ) -> Asked:
        """What is asked for, and the seed that is asked."""
        later = self.fit_later(styles)
        trained = self.trained(None, later)(find_seed(self.seeds, seed, self.best))
        return ask(trained, self.starts, self.labels_in(later), count, words, start, steps, draw)

    def fit_later(self, styles: Sequence[str | Callable]) -> tuple[LabelingFunction, ...]:
        """Labeling functions that were written after training, with thresholds from the run's demonstrations."""
        return fit_later(styles, self.domain, self.styles, self.starts)

    def labels_in(self, later: Sequence[LabelingFunction]) -> np.ndarray:
        """The labels of the kept starts, also in styles that were written later."""
        return np.concatenate([self.labels, *(style.label(self.starts)[:, None] for style in later)], axis=1)

    @functools.cached_property
    def known(self) -> Known:
        """What steering and verifying know of the demonstrations and of the trained styles."""
        return Known.of(self.styles, self.starts)

    def trained(
        self, shared: LabelSpace | None, later: Sequence[LabelingFunction] = ()
    ) -> Callable[[int], TrainedSeed]:
        """Each seed by its position, ready to be rolled out; padded to a shared label space, if one is given.

        `later` are styles that it was not trained in.
        """
        styles = (*self.styles, *later)
        find_known = functools.cache(lambda: Known.of(styles, self.starts)) if later else lambda: self.known
        own, parts_of = self._own_space, self._parts_of
        space = own if shared is None else own.within(shared)
        if space.shared != own.shared:
            like = shapes_of_parts(self.experiment, self.algorithm, self.domain, space.shared, self.starts, self.steps)
            parts_of = functools.partial(one_run, SharedSpace(own.shared, space.shared).pad(self.parts, like))
        find = functools.cache(lambda: find_examples(self.starts, self.labels_in(later), space, own.shared))

        def trained(i: int) -> TrainedSeed:
            known = self.seeds[i], self.stopped[i], find_known, find
            return TrainedSeed(parts_of(i), self.domain, styles, space, *known)

        return trained

    @property
    def _own_space(self) -> SharedSpace:
        """The labels of its styles within those that its parts know."""
        return self.space or SharedSpace.alone(label_space(self.styles))

    @functools.cached_property
    def _parts_of(self) -> Callable[[int], Parts]:
        """The parts of a seed by its position, cut out of those of all seeds once."""
        return functools.cache(functools.partial(one_run, self.parts))

    def check_styles(self) -> None:
        """Refuses a labeling function that no longer gives held-out demonstrations the labels it gave them."""
        return self._checked

    @functools.cached_property
    def _checked(self) -> None:
        refuse_changed(self.styles, self.starts, self.labels)
