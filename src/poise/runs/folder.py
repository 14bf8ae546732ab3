"""What a run folder holds: config.json is written, compared with what is asked for, and read back.

The other files are metrics.jsonl and checkpoint.safetensors while training, then weights.safetensors, starts.npz and
summary.json, and a report if asked for. Reading a folder never imports a file because the folder names it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..algorithms import Algorithm, find_algorithm, known_algorithm
from ..data.trajectories import Trajectories
from ..domains import DOMAINS, Domain, built_in_domain, find_domain, integrator
from ..domains.base import plain_domain
from ..errors import PoiseError
from ..losses import Parts
from ..styles.labeling_functions import LabelingFunction, load_style
from ..system import provenance, storage
from ..system.imports import is_file_spec, split_file_spec
from .experiment import Experiment

LISTED = 4  # differences that a message names
FORMAT = 3
WEIGHTS = "weights.safetensors"
"""A folder that has this file holds a finished run."""
BUILT_IN, PLAIN, OWN = "built-in", "plain", "own"
"""Kinds of domains: one of Poise, one for data that come alone, one of the user's."""


def describe(style: LabelingFunction) -> dict[str, Any]:
    """A style as config.json and reports keep it."""
    return {
        "name": style.name,
        "classes": list(style.classes),
        "thresholds": list(style.thresholds or ()),
        "unit": style.unit,
        "source": style.source,
        "gradient": style.gradient,
    }


def write_config(
    folder: Path, experiment: Experiment, styles: Sequence[LabelingFunction], domain: Domain, fingerprint: str | None
) -> None:
    """Writes config.json; a folder that holds another experiment is refused."""
    path = folder / "config.json"
    new = {
        "format": FORMAT,
        "experiment": experiment.to_json(),
        "domain": _describe_domain(domain, experiment),
        "styles": [{**describe(style), "grades": style.grades and list(style.grades)} for style in styles],
        "data": fingerprint,
    }
    if path.exists():
        _compare(folder, new)
        return
    written = {
        "bound": True,
        "versions": provenance.versions(),
        "cwd": str(Path.cwd()),
        "command": provenance.command(),
        "commit": provenance.commit(),
        "hardware": provenance.hardware(),
    }
    storage.write_json(path, {**new, **written})


def write_result(
    folder: Path, starts: Trajectories, summary: dict[str, Any], parts: Parts, seeds: Sequence[int]
) -> None:
    """Writes what training gave; the weights come last, so that a folder with weights is complete."""
    starts.save(folder / "starts.npz")
    storage.write_json(folder / "summary.json", summary)
    storage.write_tree(folder / WEIGHTS, parts, {"seeds": list(seeds), "run": digest(read_config(folder))})


def digest(written: dict[str, Any]) -> str:
    """Identifies the run that a config.json describes: weights and checkpoints are bound to it.

    All that shapes training counts: algorithm, settings, seeds, styles with their classes and thresholds, domain, and
    the demonstrations by their contents. Where the files of demonstrations lie does not.
    """
    bound = {key: written[key] for key in ("experiment", "domain", "styles", "data")}
    bound["experiment"] = {key: value for key, value in bound["experiment"].items() if key not in ("data", "test")}
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()


def refuse_foreign(folder: Path, name: str) -> None:
    """Refuses weights or a checkpoint that another run wrote, if there is such a file.

    A folder of an earlier version says nothing of binding, and its files may have no digest. They are accepted.
    """
    written = read_config(folder)
    if (folder / name).exists():
        storage.refuse_foreign(folder / name, digest(written), always=bool(written.get("bound")))


def _compare(folder: Path, new: dict[str, Any]) -> None:
    old = read_config(folder)
    old["experiment"] = Experiment.from_json(old["experiment"]).to_json()  # with settings that are new since then
    for key, what in (
        ("experiment", "experiment"),
        ("data", "set of training demonstrations"),
        ("styles", "set of styles"),
    ):
        before, after = (json.loads(json.dumps(tree[key])) for tree in (old, new))
        if before != after:
            found = list(_differences(before, after))
            more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
            listed = f" ({'; '.join(found[:LISTED] + more)})" if found else ""
            raise PoiseError(f"{folder} holds another {what}{listed}; choose another --out")


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says, if this version of Poise wrote it."""
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


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    """What differs, number by number."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key in new:
                yield from _differences(old[key], new[key], f"{name}.{key}" if name else key)
    elif name and old != new:
        yield f"{name}: {old}, not {new}"


def _describe_domain(domain: Domain, experiment: Experiment) -> dict[str, Any]:
    source = experiment.domain if isinstance(experiment.domain, str) and is_file_spec(experiment.domain) else None
    return {
        "name": domain.name,
        "kind": _kind(domain, experiment),
        "source": source,
        "adds_up": domain.dynamics is integrator,
    }


def _kind(domain: Domain, experiment: Experiment) -> str:
    if DOMAINS.get(domain.name) is domain:
        return BUILT_IN
    return PLAIN if experiment.domain is None else OWN


class Restore:
    """Finds again what a config.json names: domain, algorithm and styles. Files are imported only if trusted."""

    def __init__(self, folder: Path, written: dict[str, Any], trusted: bool):
        self.folder, self.written, self.trusted = folder, written, trusted
        self.base = Path(written["cwd"])  # where relative paths began

    def experiment(self) -> Experiment:
        """The experiment, with paths that are valid from here."""
        found = Experiment.from_json(self.written["experiment"])
        return replace(found, data=self.path(found.data), test=self.path(found.test))

    def path(self, path: Any) -> Any:
        """The path as it was given, or from where it was given, if the file is only there."""
        if not isinstance(path, str) or Path(path).exists() or not (self.base / path).exists():
            return path
        return str(self.base / path)

    def domain(self, state_size: int) -> Domain:
        """The domain that the run was trained in."""
        kept = self.written["domain"]
        if kept["kind"] == BUILT_IN:
            return built_in_domain(kept["name"])
        if kept["kind"] == PLAIN:
            return plain_domain(kept["name"], state_size, kept["adds_up"])
        if kept["source"] and self.trusted:
            return find_domain(self._spec(kept["source"]))
        where = f" ({kept['source']})" if kept["source"] else ""
        raise PoiseError(
            f"{self.folder} was trained in a domain of its user's own, {kept['name']!r}{where}; "
            f"{self._how('domain', kept['source'])}"
        )

    def algorithm(self, name: str) -> Algorithm:
        """The algorithm that the run was trained with."""
        if not is_file_spec(name):
            return known_algorithm(name)
        if self.trusted:
            return find_algorithm(self._spec(name))
        raise PoiseError(
            f"{self.folder} was trained with an algorithm of its user's own ({name}); {self._how('algorithm', name)}"
        )

    def style(self, kept: dict[str, Any], domain: Domain, given: Sequence[LabelingFunction]) -> LabelingFunction:
        """A style as it was fitted; its function is the one that is given, the domain's, or from a trusted file.

        A style whose function is not found can still be sampled; an error says what to do where it must be scored.
        """
        name, source = kept["name"], kept["source"]
        fitted = {"classes": tuple(kept["classes"]), "thresholds": tuple(kept["thresholds"]), "unit": kept["unit"]}
        fitted |= {"gradient": kept.get("gradient"), "grades": kept.get("grades") and tuple(kept["grades"])}
        for style in given:
            if style.name == name:
                return replace(style, **fitted)
        if source in domain.styles:
            return replace(load_style(source, domain.styles), name=name, **fitted)
        if source and is_file_spec(source) and self.trusted:
            spec = self._spec(source)
            if split_file_spec(spec)[0].exists():
                return replace(load_style(spec, domain.styles), name=name, **fitted)
        return LabelingFunction(name, self._not_found(name, source), **fitted, source=source)

    def _spec(self, spec: str) -> str:
        """file.py:NAME as it was when the run was trained: a file of that name in the current folder is another one."""
        file, name = split_file_spec(spec)
        return f"{self.base / file}:{name}"

    def _how(self, what: str, source: str | None) -> str:
        """How to name it. A file that a folder names is not imported: it would run its sender's code."""
        spec = source or "file.py:NAME"
        trust_it = ", or say --trust (trust=True) if you trust the folder" if source else ""
        return f"pass it: load_run(folder, {what}=...) or --{what} {spec}{trust_it}"

    def _not_found(self, name: str, source: str | None) -> Callable[[Any, Any], Any]:
        if source and is_file_spec(source) and not self.trusted and split_file_spec(self._spec(source))[0].exists():
            way_out = f"if you know the file, name it: --styles {source}; or say --trust (trust=True)"
            message = f"style {name!r} is {source}, and a file that a run folder names is not imported; {way_out}"
        else:
            where = source or "a function in memory"
            message = f"the function of style {name!r} ({where}) is not here; name it with --styles file.py:{name}"

        def score(states, actions):
            raise PoiseError(message)

        return score
