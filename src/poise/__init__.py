"""Poise: learn policies from demonstrations that you can dial.

Write what a style is as a short function of one trajectory; get rollouts that show the style you ask for, checked by
the very function that defined it.
"""

from .algorithms import ALGORITHMS, Algorithm, Stage, register
from .config import PRESETS, FlowNetwork, Network, Sampling, Settings, Training, Weights
from .data.splits import Splits, split
from .data.trajectories import Trajectories
from .data.writer import Writer
from .domains import DOMAINS, Domain, Scene
from .errors import PoiseError
from .evaluation.report import Report
from .evaluation.scored import ScoredRollouts
from .rollouts.actor import Actor
from .runs.experiment import Experiment
from .runs.load import load_run
from .runs.run import Run
from .runs.train import train, train_many
from .styles.labeling_functions import LabelingFunction, labeling_function

__version__ = "0.2.0"

__all__ = [
    "ALGORITHMS",
    "DOMAINS",
    "PRESETS",
    "Actor",
    "Algorithm",
    "Domain",
    "Experiment",
    "FlowNetwork",
    "LabelingFunction",
    "Network",
    "PoiseError",
    "Report",
    "Run",
    "Sampling",
    "Scene",
    "ScoredRollouts",
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
