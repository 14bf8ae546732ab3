"""Poise: learn policies from demonstrations that you can dial.

Write what a style is as a short function of one trajectory; get rollouts that show the style you ask for, checked by
the very function that defined it.
"""

from .algorithms import ALGORITHMS, Algorithm, Stage, register
from .config import PRESETS, Experiment, Network, Settings, Training, Weights
from .domains import DOMAINS, Domain
from .errors import PoiseError
from .evaluation import Report
from .jobs import train, train_many
from .labeling import LabelingFunction, labeling_function
from .runs import Run, load_run
from .trajectories import Splits, Trajectories, Writer, split

__version__ = "0.1.0"

__all__ = [
    "ALGORITHMS",
    "DOMAINS",
    "PRESETS",
    "Algorithm",
    "Domain",
    "Experiment",
    "LabelingFunction",
    "Network",
    "PoiseError",
    "Report",
    "Run",
    "Settings",
    "Splits",
    "Stage",
    "Training",
    "Trajectories",
    "Weights",
    "Writer",
    "labeling_function",
    "load_run",
    "register",
    "split",
    "train",
    "train_many",
]
