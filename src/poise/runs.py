"""Runs: trained seeds of an experiment, in memory or in a folder; evaluate them, sample from them.

A run folder holds config.json (what was asked for, styles with their thresholds, versions), metrics.jsonl,
checkpoint.safetensors while training, then weights.safetensors, starts.npz and summary.json, and a report if asked.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import config, origin, storage
from .algorithms import Problem, find_algorithm
from .config import Experiment
from .domains import DOMAINS, Domain, find_domain, plain
from .errors import PoiseError, unknown
from .evaluation import ROLLOUTS, Checked, Report, base_rates, check, score_seed
from .labeling import LabelingFunction, label_all, label_space, load_style
from .losses import Parts
from .models import Standardizer, Statistics
from .rollout import simulate
from .tasks import check_sizes, load_splits
from .training import one_run, start
from .trajectories import Splits, Trajectories

FORMAT = 1


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
    folder: Path | None = None
    _splits: Splits | None = field(default=None, repr=False)

    @property
    def seeds(self) -> list[int]:
        """The trained seeds."""
        return seeds_of(self.experiment)

    def splits(self) -> Splits:
        """The demonstrations, made or read again if they are not in memory."""
        return self._splits or load_splits(self.experiment)

    def evaluate(self, test: Trajectories | None = None, rollouts: int = ROLLOUTS, draw: int = 0) -> Report:
        """Scores every seed on test demonstrations: the experiment's own, or others that it has never seen."""
        began = time.perf_counter()
        test = self.splits().test if test is None else test
        check_sizes(test, self.starts)
        labels = label_all(self.styles, test)
        scores = [
            score_seed(
                one_run(self.parts, i),
                seed,
                self.domain,
                self.styles,
                test,
                labels,
                rollouts=rollouts,
                draw=draw,
                stopped=self.stopped[i],
            )
            for i, seed in enumerate(self.seeds)
        ]
        about = {
            "styles": [describe(style) for style in self.styles],
            "environment": self.domain.environment_text,
            "units": self.domain.units_text,
            "rollouts": rollouts,
            "test": len(test),
            "base_rate": base_rates(self.starts, self.starts.metadata["labels"], test, labels),
            "experiment": config.to_json(self.experiment),
        }
        seconds = self.seconds + time.perf_counter() - began
        return Report({self.experiment.algorithm: scores}, about, origin.origin(seconds))

    def sample(
        self,
        count: int = 1,
        words: Mapping[str, str | int] | None = None,
        *,
        start: Sequence[float] | None = None,
        steps: int | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> Trajectories:
        """Rollouts in the style that the words name, for example {"speed": "slow", "destination": "near"}.

        They start at `start`, or where held-out demonstrations of that style start; a style that is not named takes the
        label of the demonstration started from. `seed` picks a trained seed; without it, the best on validation data.
        The labels that were asked for come along as metadata.
        """
        parts, starts, labels = self._begin(count, words or {}, start, steps, seed, draw)
        environment = self.domain.environment or parts["dynamics"]
        made = simulate(
            parts["policy"], environment, starts.starts, labels, starts.lengths, starts.steps, key=jax.random.key(draw)
        ).numpy()
        return Trajectories(made.states, made.actions, made.lengths, {"labels": labels})

    def sample_checked(
        self,
        count: int = 1,
        words: Mapping[str, str | int] | None = None,
        *,
        start: Sequence[float] | None = None,
        steps: int | None = None,
        seed: int | None = None,
        draw: int = 0,
    ) -> Checked:
        """As `sample`, with what λ says of every rollout."""
        parts, starts, labels = self._begin(count, words or {}, start, steps, seed, draw)
        return check(parts, self.domain, self.styles, starts, labels, jax.random.key(draw))

    def _begin(self, count, words, start, steps, seed, draw) -> tuple[Parts, Trajectories, np.ndarray]:
        if count < 1:
            raise PoiseError(f"sample at least one rollout; got {count}")
        starts, labels = _matching_starts(self.starts, self._wanted(words), count, draw)
        if start is not None or steps is not None:
            starts = _moved(starts, start, steps)
        return one_run(self.parts, self._place(seed)), starts, labels

    def _wanted(self, words: Mapping[str, str | int]) -> dict[int, int]:
        names = [style.name for style in self.styles]
        for name in words:
            if name not in names:
                raise unknown("style", name, names)
        return {names.index(name): self.styles[names.index(name)].index(word) for name, word in words.items()}

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
            write_config(folder, self.experiment, self.styles, self.domain, None)
            write_result(folder, self)
        return replace(self, folder=folder)


def load_run(folder: str | Path, styles: Sequence[str | LabelingFunction] = (), domain: Domain | None = None) -> Run:
    """The run that a folder holds.

    A style from a file that has moved since can be given anew, as file.py:function or as itself; a domain of the
    user's own must be.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise PoiseError(f"no such run folder: {folder}")
    written = _read_config(folder)
    experiment = config.from_json(Experiment, written["experiment"])
    if not (folder / "weights.safetensors").exists():
        raise PoiseError(f"{folder} is not trained to its end yet; start the same `poise train` again to resume it")
    starts = Trajectories.load(folder / "starts.npz")
    domain = domain or _restore_domain(written, starts)
    fitted = tuple(_restore_style(entry, domain, styles) for entry in written["styles"])
    summary = storage.read_json(folder / "summary.json")
    algorithm = find_algorithm(experiment.algorithm, domain)
    problem = Problem(_empty_statistics(starts), label_space(fitted), experiment.settings.network, domain)
    like = eqx.filter_eval_shape(lambda: start(algorithm, problem, np.asarray(seeds_of(experiment))).parts)
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
        folder,
    )


def _matching_starts(
    starts: Trajectories, wanted: dict[int, int], count: int, draw: int
) -> tuple[Trajectories, np.ndarray]:
    """Starts of demonstrations that have the wanted labels, or any if none has; and the labels to ask for."""
    random, labels = np.random.default_rng(draw), starts.metadata["labels"]
    match = np.all([labels[:, i] == k for i, k in wanted.items()], axis=0) if wanted else np.ones(len(starts), bool)
    rows = random.choice(np.flatnonzero(match) if match.any() else len(starts), size=count)
    asked = labels[rows].copy()
    for i, k in wanted.items():
        asked[:, i] = k
    return starts[rows], asked


def _moved(starts: Trajectories, start: Sequence[float] | None, steps: int | None) -> Trajectories:
    count, size = len(starts), starts.states.shape[-1]
    steps = int(steps or starts.steps)
    if steps < 1:
        raise PoiseError(f"a rollout has at least one step; got {steps}")
    first = np.asarray(starts.starts)
    if start is not None:
        if len(start) != size:
            raise PoiseError(f"a start is one state of {size} numbers; got {len(start)}")
        first = np.tile(np.asarray(start, np.float32), (count, 1))
    return Trajectories(
        np.tile(first[:, None], (1, steps + 1, 1)), np.zeros((count, steps, starts.actions.shape[-1]), np.float32)
    )


def seeds_of(experiment: Experiment) -> list[int]:
    """The seeds that an experiment trains."""
    return list(range(experiment.first_seed, experiment.first_seed + experiment.seeds))


def describe(style: LabelingFunction) -> dict[str, Any]:
    """A style as config.json and reports keep it."""
    return {
        "name": style.name,
        "classes": list(style.classes),
        "thresholds": list(style.thresholds or ()),
        "unit": style.unit,
        "source": style.source,
    }


def make_folder(folder: Path) -> Path:
    """The folder, made if it was not there."""
    with clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def clear_errors(path: Path):
    """Says in one line that a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise PoiseError(f"cannot write {path}: {error.strerror or error}") from error


def write_config(folder: Path, experiment: Experiment, styles, domain: Domain, fingerprint: str | None) -> None:
    """Writes config.json; a folder that holds another experiment is refused."""
    path = folder / "config.json"
    new = {
        "format": FORMAT,
        "experiment": config.to_json(experiment),
        "domain": {"name": domain.name, "built_in": DOMAINS.get(domain.name) is domain},
        "environment": domain.environment_text,
        "styles": [describe(style) for style in styles],
        "data": fingerprint,
    }
    if path.exists():
        old = _read_config(folder)
        for key, what in (
            ("experiment", "experiment"),
            ("data", "set of training demonstrations"),
            ("styles", "set of styles"),
        ):
            if old[key] != json.loads(json.dumps(new[key])):
                raise PoiseError(
                    f"{folder} holds another {what}{_difference(old[key], new[key])}; choose another --out"
                )
        return
    storage.write_json(path, {**new, "versions": origin.versions(), "command": origin.command()})


def _read_config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").exists():
        raise PoiseError(f"{folder} is not a run folder: it has no config.json")
    written = storage.read_json(folder / "config.json")
    if not isinstance(written, dict) or written.get("format") != FORMAT:
        found = written.get("format") if isinstance(written, dict) else None
        raise PoiseError(
            f"{folder} was written by another version of Poise (format {found}; this one reads {FORMAT}); "
            "use that version, or train again"
        )
    return written


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key in new and old[key] != json.loads(json.dumps(new[key])):
                deeper = _difference(old[key], new[key])
                return f".{key}{deeper}" if deeper.startswith(".") else f" ({key}: {old[key]}, not {new[key]})"
    return ""


def write_result(folder: Path, run: Run) -> None:
    """Writes what training gave; the weights come last, so that a folder with weights is complete."""
    run.starts.save(folder / "starts.npz")
    storage.write_json(
        folder / "summary.json", {"stopped": list(run.stopped), "best": run.best, "seconds": round(run.seconds, 1)}
    )
    storage.write_tree(folder / "weights.safetensors", run.parts, {"seeds": run.seeds})


def _restore_domain(written: dict[str, Any], starts: Trajectories) -> Domain:
    name = written["domain"]["name"]
    if written["domain"]["built_in"]:
        return find_domain(name)
    found = plain(starts, name)
    for dynamics in (found.dynamics, None):
        restored = replace(found, dynamics=dynamics)
        if restored.environment_text == written["environment"]:
            return restored
    raise PoiseError(
        f"this run was trained in the domain {name!r} of the user's own; pass it: load_run(folder, domain=...)"
    )


def _restore_style(entry: dict[str, Any], domain: Domain, given: Sequence[str | LabelingFunction]) -> LabelingFunction:
    """A style as it was fitted; its function comes from the domain, its file, or the one named anew."""
    fitted = {"classes": tuple(entry["classes"]), "thresholds": tuple(entry["thresholds"]), "unit": entry["unit"]}
    for new in given:
        style = load_style(new, domain.styles) if isinstance(new, str) else new
        if style.name == entry["name"]:
            return replace(style, **fitted)
    source = entry["source"] or entry["name"]
    if ":" not in source and source not in domain.styles:
        return LabelingFunction(entry["name"], _missing(entry["name"], source), **fitted, source=entry["source"])
    if ":" in source and not Path(source.rpartition(":")[0]).exists():
        return LabelingFunction(entry["name"], _missing(entry["name"], source), **fitted, source=source)
    return replace(load_style(source, domain.styles), name=entry["name"], **fitted)


def _missing(name: str, source: str) -> Callable[[Any, Any], Any]:
    def score(states, actions):
        raise PoiseError(f"the function of style {name!r} ({source}) is not here; name it with --styles file.py:{name}")

    return score


def _empty_statistics(like: Trajectories) -> Statistics:
    sizes = (like.states.shape[-1], like.actions.shape[-1], like.states.shape[-1])
    return Statistics(*(Standardizer(jnp.zeros(n), jnp.ones(n)) for n in sizes))
