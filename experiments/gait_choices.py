"""What the choices of a body's flow do: each varied alone, on demonstrations that no table is made of.

One flow per seed is trained in the Cheetah's four styles for each variation of its training, and one of them is sampled
in several ways. It is scored in MuJoCo, in one try, from where fresh demonstrations of the same demonstrators start.
All defaults are chosen by these numbers, never by test demonstrations. Every variation is written as soon as it is
measured, and the same call continues.

    python experiments/gait_choices.py --out runs/gait_choices
    python experiments/gait_choices.py --merge runs/gait_choices       # into results/cheetah/choices.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

import poise
from poise.config import Sampling, Settings
from poise.data.splits import Splits
from poise.domains.cheetah import CHEETAH, demonstrations
from poise.evaluation.realism import Reference, RolloutSet
from poise.evaluation.scored import TrainedSeed, out_of_range
from poise.models import Flow
from poise.reproduce.cells import CHEETAH_STYLES
from poise.rollouts.requests import FREE, Request
from poise.runs.experiment import Experiment
from poise.runs.prepare import load_splits
from poise.styles.scoring import label_all
from poise.system import provenance, storage

RESULTS = Path(__file__).parent.parent / "results" / "cheetah" / "choices.json"
FRESH = 7  # the seed of demonstrations that are in no table
ROLLOUTS = 500
ASKED = {"SPEED": (0,), "TORSO HEIGHT": (1,), "2x2": (0, 1), "3x2": (0, 1, 2), "4x2": (0, 1, 2, 3)}
Change = Callable[[Settings], Settings]


def _flow(**values: Any) -> Change:
    return lambda s: replace(s, network=replace(s.network, flow=replace(s.network.flow, **values)))


def _steps(count: int) -> Change:
    return lambda s: replace(s, training=replace(s.training, flow_steps=count))


TRAININGS: dict[str, Change] = {
    "default": lambda settings: settings,
    "classes alone": _flow(grades=False),
    "5,000 steps": _steps(5_000),
    "20,000 steps": _steps(20_000),
    "width 256": _flow(width=256),
    "width 1,024": _flow(width=1_024),
    "plans of 2, anew every 1": _flow(horizon=2, replan=1),
    "plans of 4, anew every 1": _flow(horizon=4, replan=1),
    "plans of 8, anew every 4": _flow(horizon=8, replan=4),
    "plans of 16, anew every 8": _flow(horizon=16, replan=8),
    "states not shaken": _flow(shake=0.0),
    "states shaken by 0.02": _flow(shake=0.02),
    "states shaken by 0.1": _flow(shake=0.1),
    "labels dropped in 0.1": _flow(drop=0.1),
    "labels dropped in 0.9": _flow(drop=0.9),
}
"""Each is trained anew."""
WAYS: dict[str, dict[str, Any]] = {
    **{f"{n} sampler steps": {"steps": n} for n in (3, 10, 20)},
    **{f"guidance {n:g}": {"guidance": n} for n in (1.5, 2.0)},
    **{f"margin {n:g}": {"margin": n} for n in (0.0, 0.02, 0.1)},
}
"""Ways of sampling the default."""


class Bench:
    """The demonstrations, and what rollouts from fresh starts are measured by."""

    def __init__(self, settings: Settings, seeds: int, fresh: int):
        self.settings, self.seeds = settings, seeds
        self.splits = load_splits(Experiment(data="cheetah"), CHEETAH)
        self.shown = demonstrations(fresh, FRESH)
        self.reference = Reference.fit(Splits(self.splits.train, self.splits.validation, self.shown), CHEETAH)

    def run(self, change: Change) -> poise.Run:
        """The trained run of a variation."""
        given = {"domain": "cheetah", "classes": 2, "settings": change(self.settings), "seeds": self.seeds}
        return poise.train("flow", self.splits, CHEETAH_STYLES, progress=False, **given)

    def measure(self, run: poise.Run, sampling: Sampling, steps: int | None = None) -> list[dict[str, Any]]:
        """What each seed does in each cell, in one try."""
        shown = self.shown[:ROLLOUTS]
        labels = label_all(run.styles, shown)
        return [self._seed(_sampled(run.trained(None)(i), steps), labels, sampling) for i in range(self.seeds)]

    def _seed(self, seed: TrainedSeed, labels: np.ndarray, sampling: Sampling) -> dict[str, Any]:
        key, shown, sets, found = jax.random.fold_in(jax.random.key(1), seed.seed), self.shown[: len(labels)], [], {}
        for name, columns in ASKED.items():
            wanted = np.full_like(labels, FREE)
            wanted[:, columns] = labels[:, columns]
            scored = seed.score(Request.like(shown, wanted), key, sampling)
            in_range = scored.joint & ~out_of_range(scored, self.shown)
            found[name] = {"joint": scored.joint.mean(), "joint_in_range": in_range.mean()}
            sets.append(RolloutSet(scored.rollouts, scored.joint, np.arange(len(labels)), scored.finite))
        for name, realism in zip(ASKED, self.reference.measure(sets), strict=True):
            written = realism.to_json()
            found[name] |= {key: written[key] for key in ("yield", "c2st", "off_support")} | written["measures"]
        rounded = {name: {key: round(float(value), 4) for key, value in one.items()} for name, one in found.items()}
        return {"seed": seed.seed, **rounded}


def _sampled(seed: TrainedSeed, steps: int | None) -> TrainedSeed:
    """The seed with a flow that takes this many steps of the sampler."""
    policy = seed.parts["policy"]
    if steps is None or not isinstance(policy, Flow):
        return seed
    return replace(seed, parts={**seed.parts, "policy": policy.sampled(steps, policy.guidance)})


def fill(folder: Path, bench: Bench) -> None:
    """Measures every variation that is not in the folder yet."""

    def path(name: str) -> Path:
        return folder / f"{name.replace(' ', '-').replace(',', '')}.json"

    def keep(name: str, seeds: list[dict[str, Any]], began: float) -> None:
        found = {"variation": name, "seeds": seeds, **provenance.provenance(time.perf_counter() - began)}
        storage.write_json(path(name), found)
        shown = {cell: [one[cell]["joint_in_range"] for one in seeds] for cell in ASKED}
        print(name, shown, "C2ST", [one["SPEED"]["c2st"] for one in seeds], flush=True)

    for name, change in TRAININGS.items():
        ways = {way: values for way, values in WAYS.items() if name == "default" and not path(way).exists()}
        if path(name).exists() and not ways:
            continue
        began, run = time.perf_counter(), bench.run(change)
        if not path(name).exists():
            keep(name, bench.measure(run, run.sampling()), began)
        for way, values in ways.items():
            began, sampling = time.perf_counter(), dict(values)
            steps = sampling.pop("steps", None)
            keep(way, bench.measure(run, replace(run.sampling(), **sampling), steps), began)


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="cheetah")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fresh", type=int, default=2_500)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--merge", type=Path)
    given = parser.parse_args()
    if given.merge:
        found = {one["variation"]: one for one in map(storage.read_json, given.merge.glob("*.json"))}
        measured = [found[name] for name in (*TRAININGS, *WAYS) if name in found]
        return storage.write_json(RESULTS, {"rollouts": ROLLOUTS, "measured": measured})
    fill(storage.make_folder(given.out), Bench(poise.PRESETS[given.preset], given.seeds, given.fresh))


if __name__ == "__main__":
    main()
