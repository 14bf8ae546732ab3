"""Domains by name. A domain brings demonstrations, an environment, styles, presets and a scene to draw on."""

from __future__ import annotations

from ..errors import unknown
from .base import Domain, Scene, integrator, plain
from .basketball import BASKETBALL
from .cheetah import CHEETAH

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in (BASKETBALL, CHEETAH)}


def find_domain(name: str) -> Domain:
    """The domain of that name."""
    if name not in DOMAINS:
        raise unknown("domain", name, DOMAINS)
    return DOMAINS[name]


__all__ = ["DOMAINS", "Domain", "Scene", "find_domain", "integrator", "plain"]
