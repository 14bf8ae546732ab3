"""Runs: trained seeds of an experiment, in memory or in a folder; evaluate them, sample from them, load them again."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..algorithms import Algorithm, Problem
from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError
from ..evaluation.base_rates import base_rates
from ..evaluation.consistency import score_seed
from ..evaluation.reconstruction import error_of_no_change
from ..evaluation.report import Report
from ..evaluation.scored import ScoredRollouts, TrainedSeed, score_rollouts
from ..losses import Parts
from ..models import Standardizer, Statistics
from ..rollouts.actor import Actor
from ..rollouts.requests import Request, Words, check_draw, check_state, draw_labels, find_classes
from ..styles.label_spaces import LabelSpace, SharedSpace
from ..styles.labeling_functions import LabelingFunction, label_space
from ..styles.scoring import label_all
from ..system import provenance, storage
from ..training.state import one_run, start
from .experiment import Experiment
from .folder import WEIGHTS, describe, write_config
from .prepare import check_sizes, fingerprint, load_splits, maker_of_tests, row_digests

MOST_ROLLOUTS = 10_000_000


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
        >>> run.actor({"speed": "fast"}).step([30.0, 25.0]).shape
        (2,)
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
    fingerprint: str | None = None
    """Of the training demonstrations."""
    folder: Path | None = None
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
        if self._splits is not None:
            return self._splits
        found = load_splits(self.experiment, self.domain)
        apart = maker_of_tests(self.experiment, self.domain) is not None  # then no test demonstration was trained on
        if not apart and self.fingerprint not in (None, fingerprint(found.train)):
            raise PoiseError(
                f"{self.experiment.data} has changed since this run was trained on it, so its test demonstrations may "
                "have been trained on; restore it, or name others to test on with --data"
            )
        return found

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
        began = time.perf_counter()
        rollouts = self.domain.rollouts if rollouts is None else rollouts
        if rollouts < 1:
            raise PoiseError(f"an evaluation has at least 1 rollout per seed; got {rollouts}")
        check_draw(draw)
        self._check_styles()
        test = self.splits().test if test is None else test
        self.domain.check(test)
        check_sizes(test, self.starts)
        labels, trained = label_all(self.styles, test), self._trained(shared)
        scores = [score_seed(trained(i), test, labels, rollouts=rollouts, draw=draw) for i in range(len(self.seeds))]
        rates = base_rates(self.starts, self.labels, test, labels)
        by_style = dict(zip([style.name for style in self.styles], rates["by_style"], strict=True))
        data = self.experiment.data if isinstance(self.experiment.data, str) else None
        about = {
            "styles": [describe(style) for style in self.styles],
            "environment": self.domain.describe_simulation(),
            "simulation": self.domain.simulation.value,
            "units": self.domain.units_text,
            "rollouts": rollouts,
            "data": name or data,
            "test": len(test),
            "base_rate": {**rates, "by_style": by_style},
            "change": error_of_no_change(self.domain, test),
            "experiment": self.experiment.to_json(),
        }
        seconds = self.seconds + time.perf_counter() - began
        made_by = provenance.provenance(seconds)
        return Report({self.experiment.algorithm_name: scores}, about, made_by, self._notes_on(test))

    def sample(
        self,
        count: int = 1,
        words: Words | None = None,
        *,
        start: Sequence[float] | None = None,
        steps: int | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> Trajectories:
        """Rollouts in the style that the words name.

        Args:
            count: How many rollouts.
            words: Classes by style, for example {"speed": "slow"}. A style that is not named takes the label of the
                demonstration that the rollout starts from.
            start: A state to start from; where held-out demonstrations of that style start if not given.
            steps: Steps of a rollout; as many as the demonstrations have if not given.
            seed: A trained seed; the best on validation demonstrations if not given.
            draw: Seed of the randomness. The same arguments give the same rollouts; another count gives others.

        Returns:
            The rollouts; the labels that were asked for are in their metadata as `labels`.

        Raises:
            PoiseError: A style, a class or a seed is not known, or a number is out of range.
        """
        made, labels = self._roll_out(count, words, start, steps, seed, draw)
        return Trajectories(made.states, made.actions, made.lengths, {"labels": labels})

    def sample_scored(
        self,
        count: int = 1,
        words: Words | None = None,
        *,
        start: Sequence[float] | None = None,
        steps: int | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> ScoredRollouts:
        """As `sample`, with the same arguments, and with what λ says of every rollout."""
        self._check_styles()
        return score_rollouts(self.styles, *self._roll_out(count, words, start, steps, seed, draw))

    def actor(
        self, words: Words | None = None, *, count: int | None = None, seed: int | None = None, draw: int = 0
    ) -> Actor:
        """The policy for a loop of your own: `actor.step(state)` gives the next action.

        Args:
            words: Classes by style, for example {"speed": "slow"}.
            count: Plays so many at once, from states [count, S]; by default one, from states [S].
            seed: A trained seed; the best on validation demonstrations if not given.
            draw: Seed of the actor's randomness.
        """
        policy, size = self._parts_of(self._position(seed))["policy"], self.starts.states.shape[-1]
        return Actor(policy, self.styles, self.labels, size, words, count=count, draw=draw)

    def save(self, folder: str | Path) -> Run:
        """Writes the run into a folder; `load_run` reads it back, equal."""
        folder = storage.make_folder(Path(folder))
        with storage.lock(folder):
            write_config(folder, self.experiment, self.styles, self.domain, self.fingerprint)
            write_result(folder, self)
        return replace(self, folder=folder)

    def _roll_out(
        self,
        count: int,
        words: Words | None,
        start: Sequence[float] | None,
        steps: int | None,
        seed: int | None,
        draw: int,
    ) -> tuple[Trajectories, np.ndarray]:
        """Rollouts as they come, and the labels that were asked for."""
        if not isinstance(count, int | np.integer):
            raise PoiseError(f"count is a whole number, as in sample(100, {{...}}); got a {type(count).__name__}")
        if not 1 <= count <= MOST_ROLLOUTS:
            raise PoiseError(f"sample between one and ten million rollouts at a time; got {count}")
        if steps is not None and steps < 1:
            raise PoiseError(f"a rollout has at least one step; got {steps}")
        random, wanted = np.random.default_rng(check_draw(draw)), find_classes(self.styles, words or {})
        rows, labels = draw_labels(self.labels, wanted, count, random)
        starts, lengths = np.asarray(self.starts.starts)[rows], np.asarray(self.starts.lengths)[rows]
        if start is not None:
            starts = np.tile(check_state(start, starts.shape[1:], "a start is"), (count, 1))
        if start is not None or steps is not None:
            lengths = np.full(count, steps or self.starts.steps, np.int32)
        request = Request(starts, labels, lengths, steps or self.starts.steps)
        return self._trained(None)(self._position(seed)).roll_out(request, jax.random.key(draw)), labels

    def _trained(self, shared: LabelSpace | None) -> Callable[[int], TrainedSeed]:
        """Each seed by its position, ready to be rolled out; padded to a shared label space, if one is given."""
        own = label_space(self.styles)
        space, parts_of = SharedSpace(own, shared or own), self._parts_of
        if shared is not None and shared != own:
            like = shapes_of_parts(self.experiment, self.algorithm, self.domain, shared, self.starts)
            parts_of = functools.partial(one_run, space.pad(self.parts, like))

        def trained(i: int) -> TrainedSeed:
            return TrainedSeed(parts_of(i), self.domain, self.styles, space, self.seeds[i], self.stopped[i])

        return trained

    @functools.cached_property
    def _parts_of(self) -> Callable[[int], Parts]:
        """The parts of a seed by its position, cut out of those of all seeds once."""
        return functools.cache(functools.partial(one_run, self.parts))

    def _check_styles(self) -> None:
        """Refuses a labeling function that no longer gives held-out demonstrations the labels it gave them."""
        labels = label_all(self.styles, self.starts)
        for i, style in enumerate(self.styles):
            changed = int(np.sum(labels[:, i] != self.labels[:, i]))
            if changed > max(2, 0.02 * len(labels)):  # a few may lie on a threshold, on another machine
                raise PoiseError(
                    f"style {style.name!r} has changed since training: {changed} of {len(labels)} kept demonstrations "
                    "get another label; bring the old function back, or train again"
                )

    def _notes_on(self, test: Trajectories) -> tuple[str, ...]:
        """A warning if demonstrations to test on are among those that the run was trained or validated on."""
        used = np.concatenate([self.starts.metadata["trained"], row_digests(self.starts)])
        shared = int(np.isin(row_digests(test), used).sum())
        if not shared:
            return ()
        return (f"at least {shared} of the {len(test)} test demonstrations were used in training this run",)

    def _position(self, seed: int | None) -> int:
        if seed is None:
            return self.best
        if seed not in self.seeds:
            raise PoiseError(f"this run has the seeds {', '.join(map(str, self.seeds))}; got {seed}")
        return self.seeds.index(seed)


def shapes_of_parts(
    experiment: Experiment, algorithm: Algorithm, domain: Domain, space: LabelSpace, like: Trajectories
) -> Parts:
    """The shapes of an experiment's parts for these labels, and for states and actions of these sizes."""
    assert experiment.settings is not None
    sizes = (like.states.shape[-1], like.actions.shape[-1], like.states.shape[-1])
    statistics = Statistics(*(Standardizer(jnp.zeros(n), jnp.ones(n)) for n in sizes), limits=domain.actions)
    problem = Problem(statistics, space, experiment.settings.network, domain)
    return eqx.filter_eval_shape(lambda: start(algorithm, problem, np.asarray(experiment.seed_numbers)).parts)


def write_result(folder: Path, run: Run) -> None:
    """Writes what training gave; the weights come last, so that a folder with weights is complete."""
    run.starts.save(folder / "starts.npz")
    storage.write_json(
        folder / "summary.json", {"stopped": list(run.stopped), "best": run.best, "seconds": round(run.seconds, 1)}
    )
    storage.write_tree(folder / WEIGHTS, run.parts, {"seeds": run.seeds})
