"""Domains by name. A domain brings demonstrations, an environment, styles, presets and a scene to draw on."""

from __future__ import annotations

from ..errors import PoiseError, unknown
from ..system.imports import import_value, is_file_spec
from .base import Domain, Scene, Simulation, integrator, plain, recognise_integrator
from .basketball import BASKETBALL
from .cheetah import CHEETAH
from .walker import WALKER

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in (BASKETBALL, CHEETAH, WALKER)}


def find_domain(name: str) -> Domain:
    """The domain of that name, or the one that file.py:NAME stands for; only for names that the user gave."""
    if not is_file_spec(name):
        return built_in_domain(name)
    value = import_value(name, lambda value: isinstance(value, Domain))
    if not isinstance(value, Domain):
        raise PoiseError(f"{name} is not a poise.Domain but {type(value).__name__}")
    return value


def built_in_domain(name: str) -> Domain:
    """The domain of that name; nothing is imported."""
    if name not in DOMAINS:
        raise unknown("domain", name, [*DOMAINS, "file.py:NAME"])
    return DOMAINS[name]


__all__ = [
    "DOMAINS",
    "Domain",
    "Scene",
    "Simulation",
    "built_in_domain",
    "find_domain",
    "integrator",
    "plain",
    "recognise_integrator",
]
