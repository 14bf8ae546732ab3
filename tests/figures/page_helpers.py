"""What the tests of the report share: runs that walk at random instead of asking a network, and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poise import ALGORITHMS, Experiment, LabelingFunction, Run, Trajectories, labeling_function
from poise.domains.base import Simulation, plain
from poise.evaluation.consistency import SeedScore
from poise.evaluation.report import Report
from poise.evaluation.scored import ScoredRollouts
from poise.evaluation.shares import Share
from poise.runs.folder import describe

JOINT = {"ctvae": (0.523, 0.518), "ctvae-style": (0.934, 0.951)}


@dataclass(frozen=True)
class WalkingRun(Run):
    """A run that walks at random instead of asking a network, and remembers what it was asked for."""

    def sample_scored(self, count: int = 1, words: Any = None, **more: Any) -> ScoredRollouts:
        self.starts.metadata["asked"].append(words)  # pyright: ignore[reportAttributeAccessIssue]
        all_right = np.ones((count, len(self.styles)), bool)
        return ScoredRollouts(walks(count), all_right, np.ones(count, bool), all_right)


def walks(count: int) -> Trajectories:
    return Trajectories(np.random.default_rng(0).normal(size=(count, 6, 2)).cumsum(axis=1))


def make_style(name: str, classes: tuple[str, ...] = ("low", "middle", "high")) -> LabelingFunction:
    def score(states, actions):
        """Mean size of an action & more."""
        return abs(actions).mean()

    return labeling_function(score, name=name, classes=classes, unit="m/s").fit(walks(60))


def make_run(
    names: tuple[str, ...] = ("pace", "place"), algorithm: str = "ctvae-style", folder: Path | None = None
) -> WalkingRun:
    starts, styles = walks(60), tuple(make_style(name) for name in names)
    starts.metadata["asked"] = []  # pyright: ignore[reportArgumentType]
    return WalkingRun(
        experiment=Experiment(algorithm, starts, styles=names, seeds=2),
        algorithm=ALGORITHMS[algorithm],
        domain=plain(starts),
        styles=styles,
        parts={},
        starts=starts,
        stopped=(None, None),
        best=1,
        seconds=1.0,
        folder=folder,
    )


def asked_of(run: Run) -> list[dict[str, str]]:
    """What a run was asked for, in order."""
    return list(run.starts.metadata["asked"])  # pyright: ignore[reportReturnType]


def make_score(run: Run, seed: int, joint: float, **more: Any) -> SeedScore:
    names = [style.name for style in run.styles]
    share = Share(joint, joint - 0.012, joint + 0.012, 4000)
    has_labeler = run.experiment.algorithm_name.endswith("style")
    more = {
        "joint_in_range": joint - 0.2,
        "labeler_estimate": dict.fromkeys(names, joint + 0.011) if has_labeler else None,
        **more,
    }
    return SeedScore(
        seed=seed,
        joint=share,
        joint_shuffled=share,
        by_style=dict.fromkeys(names, share),
        by_class={style.name: dict.fromkeys(style.classes, share) for style in run.styles},
        by_style_shuffled=dict.fromkeys(names, share),
        nld=-7.123,
        kl=0.0456,
        unscored=dict.fromkeys(names, 0),
        **more,
    )


def make_report(runs: list[WalkingRun], simulation: Simulation = Simulation.KNOWN_DYNAMICS, **more: Any) -> Report:
    """A report of runs; `more` goes into the scores of every seed."""
    scores = {}
    for run in runs:
        algorithm = run.experiment.algorithm_name
        scores[algorithm] = [make_score(run, seed, joint, **more) for seed, joint in enumerate(JOINT[algorithm])]
    about = {
        "styles": [describe(style) for style in runs[-1].styles],
        "environment": "the words for where rollouts are simulated",
        "simulation": simulation.value,
        "units": "x over 94 ft",
        "data": "basketball",
        "rollouts": 4000,
        "test": 2000,
        "base_rate": {"own": 0.2, "shuffled": 0.11},
        "change": 4.881,
        "experiment": runs[-1].experiment.to_json(),
    }
    provenance = {"command": "poise evaluate <run>", "commit": "abc1234+", "hardware": "2 CPU cores", "seconds": 200.0}
    return Report(scores, about, {**provenance, "versions": {"poise": "0.1.0", "jax": "0.10"}})
