"""The record of a run, config.json in its folder: written, compared with what is asked for, and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import config, origin, storage
from .config import Experiment
from .domains import DOMAINS, Domain, find_domain, integrator, plain
from .errors import PoiseError
from .labeling import LabelingFunction, load_style
from .trajectories import Trajectories

LISTED = 4  # differences that a message names
FORMAT = 2


def describe(style: LabelingFunction) -> dict[str, Any]:
    """A style as config.json and reports keep it."""
    return {
        "name": style.name,
        "classes": list(style.classes),
        "thresholds": list(style.thresholds or ()),
        "unit": style.unit,
        "source": style.source,
    }


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
        old = read_config(folder)
        old["experiment"] = config.fill(Experiment, old["experiment"])
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


def _difference(old: Any, new: Any) -> str:
    """What differs, number by number, as far as one line has room for it."""
    found = list(_differences(old, json.loads(json.dumps(new))))
    more = [f"and {len(found) - LISTED} more"] if len(found) > LISTED else []
    return f" ({'; '.join(found[:LISTED] + more)})" if found else ""


def _differences(old: Any, new: Any, name: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key in new:
                yield from _differences(old[key], new[key], f"{name}.{key}" if name else key)
    elif name and old != new:
        yield f"{name}: {old}, not {new}"


def restore_domain(written: dict[str, Any], starts: Trajectories) -> Domain:
    """The domain that a run was trained in."""
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


def find_path(path: Any, base: Path) -> Any:
    """The path as it was given, or from where it was given, if the file is only there."""
    return str(base / path) if path and not Path(path).exists() and (base / path).exists() else path


def restore_style(
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
        source = f"{find_path(file, base)}:{function}"
    if source in domain.styles or (source and ":" in source and Path(source.rpartition(":")[0]).exists()):
        return replace(load_style(source, domain.styles), name=name, **fitted)
    return LabelingFunction(name, _missing(name, source or "a function in memory"), **fitted, source=source)


def _missing(name: str, source: str) -> Callable[[Any, Any], Any]:
    def score(states, actions):
        raise PoiseError(f"the function of style {name!r} ({source}) is not here; name it with --styles file.py:{name}")

    return score
