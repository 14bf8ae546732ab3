"""What the parts of the flow do: each choice varied alone, on validation games.

Trains the flow in five styles of four classes for each variation of its training, and samples one of them in several
ways. All choices of the defaults are made by these numbers, never by test demonstrations. Every variation is written
as soon as it is measured, and the same call continues; several processes may share a folder.

    python experiments/ablations.py --data players_train.npz --out runs/ablations
    python experiments/ablations.py --merge runs/ablations       # into results/basketball/ablations.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

import poise
from poise.config import Sampling, Settings
from poise.data.splits import Splits
from poise.evaluation.evaluate import draw_starts
from poise.evaluation.realism import Reference, RolloutSet
from poise.evaluation.scored import ScoredRollouts, TrainedSeed, out_of_range
from poise.evaluation.variety import Variety
from poise.models import Flow
from poise.reproduce.cells import STYLES
from poise.rollouts.requests import Request
from poise.runs.experiment import Experiment
from poise.runs.prepare import load_splits
from poise.styles.scoring import label_all
from poise.system import provenance, storage

RESULTS = Path(__file__).parent.parent / "results" / "basketball" / "ablations.json"
ROLLOUTS = 4_000
CLASSES = 4


@dataclass(frozen=True)
class Variation:
    """One choice that differs from the defaults."""

    group: str
    value: str
    change: Callable[[Settings], Settings] = lambda settings: settings
    algorithm: str = "flow"
    demonstrations: int | None = None

    @property
    def name(self) -> str:
        """A name that is fit for a file."""
        return f"{self.group} {self.value}".replace(" ", "-").replace(".", "_")


def _flow(**values: Any) -> Callable[[Settings], Settings]:
    return lambda s: replace(s, network=replace(s.network, flow=replace(s.network.flow, **values)))


def _training(**values: Any) -> Callable[[Settings], Settings]:
    return lambda s: replace(s, training=replace(s.training, **values))


def _weights(**values: Any) -> Callable[[Settings], Settings]:
    return lambda s: replace(s, weights=replace(s.weights, **values))


TRAININGS = [
    Variation("default", ""),
    *(Variation("steps", f"{n:,}", _training(flow_steps=n)) for n in (1_250, 2_500, 5_000, 20_000)),
    Variation("batch", "512, 20,000 steps", _training(flow_batch=512, flow_steps=20_000)),
    *(Variation("width", f"{n:,}", _flow(width=n)) for n in (128, 256, 1_024)),
    *(Variation("blocks", f"{n}", _flow(blocks=n)) for n in (3,)),
    *(Variation("labels dropped", f"{n:g}", _flow(drop=n)) for n in (0.1, 0.9)),
    *(Variation("demonstrations", f"{n:,}", demonstrations=n) for n in (1_000, 4_000, 16_000)),
    *(Variation("ctvae-style", f"{n:g}", _weights(style=n), "ctvae-style") for n in (0.2, 1.0, 20.0)),
    *(Variation("flow-style", f"{n:g}", _weights(flow_style=n), "flow-style") for n in (0.002, 0.02, 0.1)),
]
"""Each is trained anew; the steps of the others are those of the defaults."""

WAYS: dict[str, list[tuple[str, dict[str, Any], int]]] = {
    "sampler steps": [(f"{n}", {"steps": n}, 0) for n in (5, 10, 40)],
    "guidance": [(f"{n:g}", {"guidance": n}, 0) for n in (0.0, 1.0, 2.0, 3.0)],
    "strength": [(f"{n:g}", {"strength": n}, 0) for n in (0.25, 0.5, 2.0)],
    "limit": [(f"{n:g}", {"limit": n}, 0) for n in (0.5, 2.0)],
    "planned anew every": [(f"{n} steps", {}, n) for n in (12, 6)],
}
"""Ways of sampling the default: what is changed, and after how many actions a plan is made anew (0: never)."""


class Bench:
    """The demonstrations, and what rollouts from validation starts are measured by."""

    def __init__(self, data: str, seeds: int):
        self.data, self.seeds = data, seeds
        splits = load_splits(Experiment(data=data, domain="basketball", split_by="game"), poise.DOMAINS["basketball"])
        self.train, self.shown = splits.train, splits.validation
        games = np.unique(self.shown.metadata["game"], return_inverse=True)[1]
        parts = Splits(self.train, self.shown, self.shown)
        self.reference = Reference.fit(parts, poise.DOMAINS["basketball"], groups=games)

    def run(self, variation: Variation) -> poise.Run:
        """The trained run of a variation; its test demonstrations are the validation games."""
        settings = variation.change(poise.PRESETS["basketball"])
        train = self.train[slice(variation.demonstrations)]
        return poise.train(
            variation.algorithm,
            Splits(train, self.shown, self.shown),
            STYLES,
            domain="basketball",
            classes=CLASSES,
            settings=settings,
            seeds=self.seeds,
            progress=False,
        )

    def measure(self, run: poise.Run, sampling: Sampling, replan: int = 0) -> list[dict[str, Any]]:
        """Each seed in one try, steered and not, from validation starts."""
        rows, variety = draw_starts(len(self.shown), ROLLOUTS, 0)[0], Variety.fit(run.splits().train)
        request = Request.like(self.shown[rows], label_all(run.styles, self.shown)[rows])
        seeds = [_sampled(run.trained(None)(i), sampling, replan) for i in range(len(run.seeds))]
        found: list[list[ScoredRollouts]] = []
        for seed in seeds:
            key = jax.random.fold_in(jax.random.key(1), seed.seed)
            found.append([seed.score(request, key, each) for each in (sampling, None)])
        sets = [RolloutSet(each.rollouts, each.joint, rows, each.finite) for both in found for each in both]
        real = iter(self.reference.measure(sets))
        shown = [[self._row(each, next(real).to_json(), variety) for each in both] for both in found]
        return [
            {"seed": seed.seed, **steered, "unsteered": unsteered, **self._losses(run, seed)}
            for seed, (steered, unsteered) in zip(seeds, shown, strict=True)
        ]

    def _row(self, found: ScoredRollouts, realism: dict[str, Any], variety: Variety) -> dict[str, Any]:
        """The numbers of one set of rollouts; they are new beside the demonstrations that their flow was trained on."""
        in_range = found.joint & ~out_of_range(found, self.shown)
        return {
            "joint": round(float(found.joint.mean()), 4),
            "joint_in_range": round(float(in_range.mean()), 4),
            **{key: realism[key] for key in ("yield", "c2st", "c2st_interval", "off_support")},
            "novelty": round(variety.novelty(found.rollouts), 3),
            "novelty_of_demonstrations": round(variety.novelty(self.shown), 3),
        }

    def _losses(self, run: poise.Run, seed: TrainedSeed) -> dict[str, float]:
        """The squared error of a flow's velocity on demonstrations that it was trained on, and on others."""
        policy = seed.parts["policy"]
        if not isinstance(policy, Flow):
            return {}
        both = {"velocity_train": run.splits().train, "velocity_validation": self.shown}
        return {
            name: round(float(_match(policy, part[:ROLLOUTS].arrays, label_all(run.styles, part[:ROLLOUTS]))), 4)
            for name, part in both.items()
        }


@eqx.filter_jit
def _match(policy, demonstrations, labels):
    keys = jax.random.split(jax.random.key(0), 8)
    return jax.lax.map(lambda key: policy.match(demonstrations, labels, key).mean(), keys).mean()


def _sampled(seed: TrainedSeed, sampling: Sampling, replan: int) -> TrainedSeed:
    """The seed with a flow that takes this many steps of the sampler, and plans anew after so many actions."""
    policy = seed.parts["policy"]
    if not isinstance(policy, Flow):
        return seed
    sampled = policy.sampled(sampling.steps, policy.guidance, replan or None)
    return replace(seed, parts={**seed.parts, "policy": sampled})


def write(folder: Path, group: str, value: str, seeds: list[dict[str, Any]], began: float) -> None:
    """Keeps what was measured."""
    name = f"{group} {value}".replace(" ", "-").replace(".", "_")
    found = {"group": group, "value": value, "seeds": seeds, **provenance.provenance(time.perf_counter() - began)}
    storage.write_json(folder / f"{name}.json", found)
    median = {key: round(float(np.median([seed[key] for seed in seeds])), 4) for key in ("yield", "c2st")}
    print(group, value, median, "unsteered", [seed["unsteered"]["c2st"] for seed in seeds], flush=True)


def fill(folder: Path, bench: Bench, chosen: Sequence[Variation]) -> None:
    """Measures every variation that is not in the folder yet."""
    for variation in chosen:
        ways = [way for group in WAYS for way in WAYS[group]] if variation.group == "default" else []
        if (folder / f"{variation.name}.json").exists() and not ways:
            continue
        began = time.perf_counter()
        run = bench.run(variation)
        write(folder, variation.group, variation.value, bench.measure(run, run.sampling()), began)
        if variation.group == "default":
            for group, values in WAYS.items():
                for value, change, replan in values:
                    began = time.perf_counter()
                    found = bench.measure(run, replace(run.sampling(), **change), replan)
                    write(folder, group, value, found, began)


def merge(folder: Path) -> None:
    """Puts the files of a folder into one."""
    order = ["default", *dict.fromkeys(one.group for one in TRAININGS[1:]), *WAYS]
    found = [storage.read_json(path) for path in folder.glob("*.json")]
    found.sort(key=lambda one: (order.index(one["group"]), len(one["value"]), one["value"]))
    storage.write_json(RESULTS, {"rollouts": ROLLOUTS, "classes": CLASSES, "measured": found})


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=[one.name for one in TRAININGS])
    parser.add_argument("--merge", type=Path)
    given = parser.parse_args()
    if given.merge:
        merge(given.merge)
        return
    storage.make_folder(given.out)
    fill(given.out, Bench(given.data, given.seeds), [one for one in TRAININGS if one.name in given.only])


if __name__ == "__main__":
    main()
