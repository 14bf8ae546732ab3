"""Runs: trained seeds of an experiment, in memory or in a folder; evaluate them, sample from them.

A run folder holds config.json (what was asked for, styles with their thresholds, versions), metrics.jsonl,
checkpoint.safetensors while training, then weights.safetensors, starts.npz and summary.json, and a report if asked.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import config, origin, storage
from .acting import Actor, Words, check_draw, check_state, draw_labels, find_classes
from .algorithms import Problem, find_algorithm
from .config import Experiment
from .domains import Domain
from .errors import PoiseError, unknown
from .evaluation import Checked, Report, base_rates, judge, mean_change, score_seed
from .files import make_folder
from .joining import Place
from .labeling import LabelingFunction, LabelSpace, label_all, label_space, load_style
from .losses import Parts
from .models import Standardizer, Statistics
from .program_cache import use_program_cache
from .records import describe, find_path, read_config, restore_domain, restore_style, write_config
from .rollout import environment_of, simulate
from .tasks import check_sizes, fingerprint, load_splits, tests_made_by
from .training import one_run, start
from .trajectories import Splits, Trajectories


@dataclass(frozen=True)
class Run:
    """Trained seeds of one experiment: evaluate them, sample from them, load them again from their folder."""

    experiment: Experiment
    domain: Domain
    styles: tuple[LabelingFunction, ...]
    parts: Parts
    """The parts of all seeds; arrays have the seeds as their first axis."""
    starts: Trajectories
    """Some demonstrations that were not trained on, to start rollouts from."""
    stopped: tuple[str | None, ...]
    """For each seed, where its loss turned non-finite, if it did."""
    best: int
    """The seed (its place) with the highest joint style-consistency on validation demonstrations."""
    seconds: float
    fingerprint: str | None = None
    """Of the training demonstrations."""
    folder: Path | None = None
    _splits: Splits | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        names = ", ".join(style.name for style in self.styles)
        return f"Run({self.experiment.algorithm!r}, styles: {names}, seeds: {self.seeds}, folder: {self.folder})"

    @property
    def seeds(self) -> list[int]:
        """The trained seeds."""
        return seeds_of(self.experiment)

    def splits(self) -> Splits:
        """The demonstrations, made or read again if they are not in memory; they must be what was trained on."""
        if self._splits is not None:
            return self._splits
        found = load_splits(self.experiment, self.domain)
        apart = tests_made_by(self.experiment, self.domain) is not None  # then none was trained on, whatever changed
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
        joint: LabelSpace | None = None,
    ) -> Report:
        """Scores every seed on test demonstrations: the experiment's own, or others that it has never seen.

        `name` is what the report calls the others. Runs that are given room for the labels of all of them (`joint`,
        see `joining`) are evaluated by the same programs; that changes no score.
        """
        began = time.perf_counter()
        rollouts = self.domain.rollouts if rollouts is None else rollouts
        check_draw(draw)
        self._check_styles()
        test = self.splits().test if test is None else test
        self.domain.check(test)
        check_sizes(test, self.starts)
        labels, own = label_all(self.styles, test), label_space(self.styles)
        place, parts = Place(own, joint or own), self._parts_of
        if joint is not None and joint != own:
            parts = functools.partial(
                one_run, place.put(self.parts, _like(self.experiment, self.domain, joint, self.starts))
            )
        scores = [
            score_seed(
                parts(i),
                seed,
                self.domain,
                self.styles,
                test,
                labels,
                rollouts=rollouts,
                draw=draw,
                stopped=self.stopped[i],
                place=place,
            )
            for i, seed in enumerate(self.seeds)
        ]
        about = {
            "styles": [describe(style) for style in self.styles],
            "environment": self.domain.environment_text,
            "units": self.domain.units_text,
            "rollouts": rollouts,
            "data": name or self.experiment.data,
            "test": len(test),
            "base_rate": self._base_rate(test, labels),
            "change": mean_change(self.domain, test, labels),
            "experiment": config.to_json(self.experiment),
        }
        seconds = self.seconds + time.perf_counter() - began
        return Report({self.experiment.algorithm: scores}, about, origin.origin(seconds))

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
        """Rollouts in the style that the words name, for example {"speed": "slow", "destination": "near"}.

        They start at `start`, or where held-out demonstrations of that style start; a style that is not named takes the
        label of the demonstration started from. `seed` picks a trained seed; without it, the best on validation data.
        The labels that were asked for come along as metadata. The same arguments give the same rollouts; another count
        gives others.
        """
        made, labels = self._roll(count, words, start, steps, seed, draw)
        return Trajectories(made.states, made.actions, made.lengths, {"labels": labels})

    def sample_checked(self, count: int = 1, words: Words | None = None, **more: Any) -> Checked:
        """As `sample`, with the same arguments, and with what λ says of every rollout."""
        self._check_styles()
        return judge(self.styles, *self._roll(count, words, **more))

    def actor(
        self, words: Words | None = None, *, count: int | None = None, seed: int | None = None, draw: int = 0
    ) -> Actor:
        """The policy for a loop of your own: `actor.step(state)` gives the next action in the style of the words.

        With `count`, it plays so many parts at once, and states and actions have that many rows.
        """
        policy, size = self._parts_of(self._place(seed))["policy"], self.starts.states.shape[-1]
        return Actor(policy, self.styles, self.starts.metadata["labels"], size, words, count=count, draw=draw)

    def _roll(
        self,
        count: int,
        words: Words | None,
        start: Sequence[float] | None = None,
        steps: int | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> tuple[Trajectories, np.ndarray]:
        """Rollouts as they come, and the labels that were asked for."""
        if not 1 <= count <= 10_000_000:
            raise PoiseError(f"sample between one and ten million rollouts at a time; got {count}")
        if steps is not None and steps < 1:
            raise PoiseError(f"a rollout has at least one step; got {steps}")
        random, wanted = np.random.default_rng(check_draw(draw)), find_classes(self.styles, words or {})
        rows, labels = draw_labels(self.starts.metadata["labels"], wanted, count, random)
        starts, lengths = np.asarray(self.starts.starts)[rows], np.asarray(self.starts.lengths)[rows]
        if start is not None:
            starts = np.tile(check_state(start, starts.shape[1:], "a start is"), (count, 1))
        if start is not None or steps is not None:
            lengths = np.full(count, steps or self.starts.steps, np.int32)
        parts, steps = self._parts_of(self._place(seed)), steps or self.starts.steps
        policy, environment = parts["policy"], environment_of(self.domain, parts)
        return simulate(policy, environment, starts, labels, lengths, steps, key=jax.random.key(draw)), labels

    @functools.cached_property
    def _parts_of(self) -> Callable[[int], Parts]:
        """The parts of a seed by its place, cut out of those of all seeds once."""
        return functools.cache(functools.partial(one_run, self.parts))

    def _base_rate(self, test: Trajectories, labels: np.ndarray) -> dict[str, Any]:
        rates = base_rates(self.starts, self.starts.metadata["labels"], test, labels)
        names = [style.name for style in self.styles]
        return {**rates, "by_style": dict(zip(names, rates["by_style"], strict=True))}

    def _check_styles(self) -> None:
        """Refuses a labeling function that no longer gives held-out demonstrations the labels it gave them."""
        labels = label_all(self.styles, self.starts)
        for i, style in enumerate(self.styles):
            changed = int(np.sum(labels[:, i] != self.starts.metadata["labels"][:, i]))
            if changed > max(2, 0.02 * len(labels)):  # a few may lie on a threshold, on another machine
                raise PoiseError(
                    f"style {style.name!r} has changed since training: {changed} of {len(labels)} kept demonstrations "
                    "get another label; bring the old function back, or train again"
                )

    def _place(self, seed: int | None) -> int:
        if seed is None:
            return self.best
        if seed not in self.seeds:
            raise PoiseError(f"this run has the seeds {', '.join(map(str, self.seeds))}; got {seed}")
        return self.seeds.index(seed)

    def save(self, folder: str | Path) -> Run:
        """Writes the run into a folder; `load_run` reads it back, equal."""
        folder = make_folder(Path(folder))
        with storage.lock(folder):
            write_config(folder, self.experiment, self.styles, self.domain, self.fingerprint)
            write_result(folder, self)
        return replace(self, folder=folder)


def load_run(folder: str | Path, styles: Sequence[str | LabelingFunction] = (), domain: Domain | None = None) -> Run:
    """The run that a folder holds.

    A style from a file that has moved since can be given anew, as file.py:function or as itself; a domain of the
    user's own must be.
    """
    use_program_cache()  # but not each core for a device: one device answers a single call faster
    folder = Path(folder)
    if not folder.is_dir():
        raise PoiseError(f"no such run folder: {folder}")
    written = read_config(folder)
    if not (folder / "weights.safetensors").exists():
        raise PoiseError(f"{folder} is not trained to its end yet; start the same `poise train` again to resume it")
    try:
        return _load(folder, written, styles, domain)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise PoiseError(f"{folder} is damaged: its files do not fit together ({error!r})") from error


def _load(
    folder: Path, written: dict[str, Any], styles: Sequence[str | LabelingFunction], domain: Domain | None
) -> Run:
    experiment = config.from_json(Experiment, written["experiment"])
    base = Path(written["cwd"])  # where relative paths began
    experiment = replace(experiment, data=find_path(experiment.data, base), test=find_path(experiment.test, base))
    summary, starts = storage.read_json(folder / "summary.json"), Trajectories.load(folder / "starts.npz")
    domain = domain or restore_domain(written, starts)
    given = [load_style(style, domain.styles) if isinstance(style, str) else style for style in styles]
    names = [entry["name"] for entry in written["styles"]]
    for style in given:
        if style.name not in names:
            raise unknown("style of this run", style.name, names)
    fitted = tuple(restore_style(entry, domain, given, base) for entry in written["styles"])
    like = _like(experiment, domain, label_space(fitted), starts)
    parts = storage.read_tree(folder / "weights.safetensors", like)
    return Run(
        experiment,
        domain,
        fitted,
        parts,
        starts,
        tuple(summary["stopped"]),
        summary["best"],
        summary["seconds"],
        written["data"],
        folder,
    )


def _like(experiment: Experiment, domain: Domain, space: LabelSpace, starts: Trajectories) -> Parts:
    """The shapes of an experiment's parts for these labels."""
    algorithm = find_algorithm(experiment.algorithm, domain)
    problem = Problem(_empty_statistics(starts, domain), space, experiment.settings.network, domain)
    return eqx.filter_eval_shape(lambda: start(algorithm, problem, np.asarray(seeds_of(experiment))).parts)


def seeds_of(experiment: Experiment) -> list[int]:
    """The seeds that an experiment trains."""
    return list(range(experiment.first_seed, experiment.first_seed + experiment.seeds))


def write_result(folder: Path, run: Run) -> None:
    """Writes what training gave; the weights come last, so that a folder with weights is complete."""
    run.starts.save(folder / "starts.npz")
    storage.write_json(
        folder / "summary.json", {"stopped": list(run.stopped), "best": run.best, "seconds": round(run.seconds, 1)}
    )
    storage.write_tree(folder / "weights.safetensors", run.parts, {"seeds": run.seeds})


def _empty_statistics(like: Trajectories, domain: Domain) -> Statistics:
    sizes = (like.states.shape[-1], like.actions.shape[-1], like.states.shape[-1])
    return Statistics(*(Standardizer(jnp.zeros(n), jnp.ones(n)) for n in sizes), limits=domain.actions)
