"""The networks: policies, dynamics and labeler, as modules that are values."""

from .auxiliaries import Adversary, Dynamics, KnownDynamics, Labeler, LearnedDynamics
from .layers import Standardizer, Statistics
from .policies import RNN, TVAE, Imitation, Policy

__all__ = [
    "RNN",
    "TVAE",
    "Adversary",
    "Dynamics",
    "Imitation",
    "KnownDynamics",
    "Labeler",
    "LearnedDynamics",
    "Policy",
    "Standardizer",
    "Statistics",
]
