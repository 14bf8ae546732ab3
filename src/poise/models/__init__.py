"""The networks: policies, dynamics and labeler, as modules that are values."""

from .auxiliaries import Dynamics, KnownDynamics, Labeler, LearnedDynamics
from .layers import Standardizer, Statistics
from .policies import RNN, TVAE, Imitation, Policy

__all__ = [
    "RNN",
    "TVAE",
    "Dynamics",
    "Imitation",
    "KnownDynamics",
    "Labeler",
    "LearnedDynamics",
    "Policy",
    "Standardizer",
    "Statistics",
]
