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
from .domains import DOMAINS, Domain, find_domain, integrator, plain
from .errors import PoiseError, unknown
from .evaluation import ROLLOUTS, Checked, Report, base_rates, check, score_seed
from .labeling import LabelingFunction, label_all, label_space, load_style
from .losses import Parts
from .models import Standardizer, Statistics
from .rollout import simulate
from .tasks import check_sizes, fingerprint, load_splits
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
        if self.fingerprint not in (None, fingerprint(found.train)):
            raise PoiseError(
                f"{self.experiment.data} has changed since this run was trained on it, so its test demonstrations may "
                "have been trained on; restore it, or name others to test on with --data"
            )
        return found

    def evaluate(
        self, test: Trajectories | None = None, rollouts: int = ROLLOUTS, draw: int = 0, name: str | None = None
    ) -> Report:
        """Scores every seed on test demonstrations: the experiment's own, or others that it has never seen.

        `name` is what the report calls the others.
        """
        began = time.perf_counter()
        _check_draw(draw)
        self._check_styles()
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
            "data": name or self.experiment.data,
            "test": len(test),
            "base_rate": self._base_rate(test, labels),
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
        self._check_styles()
        parts, starts, labels = self._begin(count, words or {}, start, steps, seed, draw)
        return check(parts, self.domain, self.styles, starts, labels, jax.random.key(draw))

    def _begin(self, count, words, start, steps, seed, draw) -> tuple[Parts, Trajectories, np.ndarray]:
        if not 1 <= count <= 10_000_000:
            raise PoiseError(f"sample between one and ten million rollouts at a time; got {count}")
        _check_draw(draw)
        starts, labels = _matching_starts(self.starts, self._wanted(words), count, draw)
        if start is not None or steps is not None:
            starts = _moved(starts, start, steps)
        return one_run(self.parts, self._place(seed)), starts, labels

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
            write_config(folder, self.experiment, self.styles, self.domain, self.fingerprint)
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
    experiment = replace(experiment, data=_found(experiment.data, base), test=_found(experiment.test, base))
    summary, starts = storage.read_json(folder / "summary.json"), Trajectories.load(folder / "starts.npz")
    domain = domain or _restore_domain(written, starts)
    given = [load_style(style, domain.styles) if isinstance(style, str) else style for style in styles]
    names = [entry["name"] for entry in written["styles"]]
    for style in given:
        if style.name not in names:
            raise unknown("style of this run", style.name, names)
    fitted = tuple(_restore_style(entry, domain, given, base) for entry in written["styles"])
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
        written["data"],
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
    steps = starts.steps if steps is None else int(steps)
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
        "domain": {"name": domain.name, "kind": _kind(domain)},
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
    trained = {
        "cwd": str(Path.cwd()),
        "command": origin.command(),
        "commit": origin.commit(),
        "hardware": origin.hardware(),
    }
    storage.write_json(path, {**new, "versions": origin.versions(), **trained})


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
    name, kind = written["domain"]["name"], written["domain"]["kind"]
    if kind == "built-in":
        return find_domain(name)
    if kind == "plain":
        found = plain(starts, name)
        known = written["environment"] == replace(found, dynamics=integrator).environment_text
        return replace(found, dynamics=integrator if known else None)
    raise PoiseError(
        f"this run was trained in the domain {name!r} of the user's own; pass it: load_run(folder, domain=...)"
    )


def _kind(domain: Domain) -> str:
    if DOMAINS.get(domain.name) is domain:
        return "built-in"
    bare = Domain(domain.name, dynamics=domain.dynamics, scene=domain.scene)
    return "plain" if domain == bare and domain.dynamics in (None, integrator) else "own"


def _found(path: Any, base: Path) -> Any:
    """The path as it was given, or from where it was given, if the file is only there."""
    return str(base / path) if path and not Path(path).exists() and (base / path).exists() else path


def _check_draw(draw: int) -> None:
    if not 0 <= draw < 2**31:
        raise PoiseError(f"a draw lies between 0 and 2^31; got {draw}")


def _restore_style(
    entry: dict[str, Any], domain: Domain, given: Sequence[LabelingFunction], base: Path
) -> LabelingFunction:
    """A style as it was fitted; its function comes from the domain, its file, or the one named anew."""
    fitted = {"classes": tuple(entry["classes"]), "thresholds": tuple(entry["thresholds"]), "unit": entry["unit"]}
    for style in given:
        if style.name == entry["name"]:
            return replace(style, **fitted)
    name, source = entry["name"], entry["source"]
    if source and ":" in source:
        file, _, function = source.rpartition(":")
        source = f"{_found(file, base)}:{function}"
    if source in domain.styles or (source and ":" in source and Path(source.rpartition(":")[0]).exists()):
        return replace(load_style(source, domain.styles), name=name, **fitted)
    return LabelingFunction(name, _missing(name, source or "a function in memory"), **fitted, source=source)


def _missing(name: str, source: str) -> Callable[[Any, Any], Any]:
    def score(states, actions):
        raise PoiseError(f"the function of style {name!r} ({source}) is not here; name it with --styles file.py:{name}")

    return score


def _empty_statistics(like: Trajectories) -> Statistics:
    sizes = (like.states.shape[-1], like.actions.shape[-1], like.states.shape[-1])
    return Statistics(*(Standardizer(jnp.zeros(n), jnp.ones(n)) for n in sizes))
