"""What the tests of the report share: runs that walk at random instead of asking a network, and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poise import ALGORITHMS, Experiment, LabelingFunction, Run, Settings, Trajectories, labeling_function
from poise.domains.base import Simulation, plain
from poise.evaluation.consistency import SeedScore, WayOfSampling
from poise.evaluation.feasibility import Feasibility
from poise.evaluation.realism import Realism
from poise.evaluation.report import Report
from poise.evaluation.scored import ScoredRollouts
from poise.evaluation.shares import Share
from poise.rollouts.requests import FREE, Request
from poise.runs.folder import describe

JOINT = {"ctvae": (0.523, 0.518), "ctvae-style": (0.934, 0.951)}


@dataclass(frozen=True)
class WalkingRun(Run):
    """A run that walks at random instead of asking a network, and remembers what it was asked for."""

    def sample_scored(self, count: int = 1, words: Any = None, **more: Any) -> ScoredRollouts:
        self.starts.metadata["asked"].append(words)  # pyright: ignore[reportAttributeAccessIssue]
        all_right = np.ones((count, len(self.styles)), bool)
        return ScoredRollouts(walks(count), all_right, np.ones(count, bool), all_right)

    def reach(self, style: str, count: int = 100, **more: Any) -> Feasibility:
        """Every class but the first is within reach from everywhere; the other styles are left free."""
        position = [one.name for one in self.styles].index(style)
        classes = len(self.styles[position].classes)
        labels = np.full((count * classes, len(self.styles)), FREE)
        labels[:, position] = np.repeat(np.arange(classes), count)
        starts = np.tile(walks(count).starts, (classes, 1))
        request = Request(starts, labels, np.full(len(labels), 5), 5)
        return Feasibility(self.styles, request, labels[:, position] > 0, np.where(labels[:, position] > 0, 1, 16), 16)


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
        experiment=Experiment(algorithm, starts, styles=names, seeds=2, settings=Settings()),
        algorithm=ALGORITHMS[algorithm],
        domain=plain(starts),
        styles=styles,
        parts={},
        starts=starts,
        stopped=(None, None),
        best=1,
        seconds=1.0,
        steps=5,
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


def real(c2st: float, yield_: float) -> Realism:
    return Realism(c2st=c2st, c2st_interval=(c2st - 0.02, c2st + 0.02), yield_=yield_)


def in_every_way(never: float = 0.004) -> dict[str, Any]:
    """What a score also has of a flow: realism, unsteered, verified, and what is within reach."""
    return {
        "realism": real(0.581, 0.913),
        "unsteered": WayOfSampling(Share(0.613, 0.6, 0.63, 4000), 0.601, real(0.523, 0.597)),
        "verified": WayOfSampling(Share(0.998, 0.99, 1.0, 4000), 0.996, real(0.582, 0.977), 1.16, never),
    }


def measured(bent: float = 0.0) -> Realism:
    """Realism with every measure beside that of demonstrations; distances are larger by `bent`."""
    names = [f"state {i}" for i in range(12)]
    return Realism(
        c2st=0.6,
        c2st_interval=(0.58, 0.62),
        off_support=0.031,
        yield_=0.9,
        distances={name: 0.1 * i + bent for i, name in enumerate(names)},
        distance_floor=dict.fromkeys(names, 0.0123),
        measures={"upside_down": 0.25, "jerk": 5022.4},
        measures_of_demonstrations={"upside_down": 0.0, "jerk": 4800.6},
        diversity=0.84,
        novelty=3.17,
        novelty_of_demonstrations=3.15,
    )


def within_reach(run: Run) -> dict[str, Any]:
    """The field `shuffled_verified` of a seed: the last class of the first style was never reached."""
    reached = {"reached": 0.732, "reached_interval": [0.7, 0.76], "tries": 5.16, "count": 90}
    never = {"reached": 0.0, "reached_interval": [0.0, 0.1], "tries": 16.0, "count": 30}
    by_style = {style.name: dict.fromkeys(style.classes, reached) for style in run.styles}
    by_style[run.styles[0].name][run.styles[0].classes[-1]] = never
    confirmed = {
        "feasible": {"value": 0.987, "interval": [0.97, 0.99], "count": 80},
        "infeasible": {"value": None, "interval": [0.0, 1.0], "count": 0},
        "feasible_one_try": {"value": 0.9, "interval": [0.8, 0.95], "count": 80},
    }
    return {"joint": 0.8, "feasibility": {**reached, "allowed": 16, "by_style": by_style}, "confirmed": confirmed}


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
