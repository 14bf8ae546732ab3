"""The networks: policies, dynamics and labeler, as immutable Equinox modules."""

from __future__ import annotations

from .dynamics import Dynamics, KnownDynamics, LearnedDynamics
from .flow import Flow
from .labeler import Adversary, Labeler
from .layers import Standardizer, Statistics
from .policies import RNN, TVAE, Imitation, Policy

__all__ = [
    "RNN",
    "TVAE",
    "Adversary",
    "Dynamics",
    "Flow",
    "Imitation",
    "KnownDynamics",
    "Labeler",
    "LearnedDynamics",
    "Policy",
    "Standardizer",
    "Statistics",
]
