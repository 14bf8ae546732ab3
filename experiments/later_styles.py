"""Styles that a flow was never trained in, dialled by steering: writes results/basketball/later_styles.json.

The flow is trained in a style that says nothing of the behaviour (where a player starts). All five styles of basketball
are written afterwards, as far as it knows: all at once, and each alone.

    python experiments/later_styles.py --data players_train.npz --test players_test.npz
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import poise
from poise.evaluation.evaluate import draw_starts
from poise.evaluation.realism import RolloutSet
from poise.evaluation.scored import out_of_range
from poise.reproduce.cells import STYLES
from poise.rollouts.requests import FREE, Request
from poise.runs.evaluating import find_reference
from poise.styles.scoring import label_all
from poise.system import provenance, storage


@poise.labeling_function(classes=("left", "right"))
def side(states, actions):
    """Where a player starts, across the court."""
    return states[0, 1]


def measure(run: poise.Run, names: tuple[str, ...], classes: int, rollouts: int) -> list[dict]:
    """What each seed does for styles that it was never trained in."""
    known = poise.DOMAINS["basketball"].styles
    later = run.fit_later([known[name].with_classes(classes) for name in names])
    test, seeds = run.splits().test, [run.trained(None, later)(i) for i in range(len(run.seeds))]
    rows = draw_starts(len(test), rollouts, 0)[0]
    own = np.full((rollouts, 1), FREE, np.int32)
    request = Request.like(test[rows], np.concatenate([own, label_all(later, test)[rows]], axis=1))
    keys = [jax.random.fold_in(jax.random.key(1), seed.seed) for seed in seeds]
    sampling = run.sampling()
    tried = [seed.score(request, key, sampling) for seed, key in zip(seeds, keys, strict=True)]
    found = [
        seed.score_verified(request, key, sampling, one) for seed, key, one in zip(seeds, keys, tried, strict=True)
    ]
    both = [*tried, *found]
    reference = find_reference(run, test)
    assert reference is not None
    real = reference.measure([RolloutSet(each.rollouts, each.joint, rows, each.finite) for each in both])
    shown = [
        {
            "joint": round(float(each.joint.mean()), 4),
            "joint_in_range": round(float((each.joint & ~out_of_range(each, test)).mean()), 4),
            **one.to_json(),
        }
        for each, one in zip(both, real, strict=True)
    ]
    result = []
    for i, (seed, one) in enumerate(zip(seeds, found, strict=True)):
        assert one.tries is not None
        assert one.accepted is not None
        more = {"tries": round(float(one.tries.mean()), 4), "never": round(float(1 - one.accepted.mean()), 4)}
        result.append({"seed": seed.seed, **shown[i], "verified": {**shown[len(seeds) + i], **more}})
    return result


def main() -> None:
    """Trains the flow, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=4_000)
    parser.add_argument("--preset", default="basketball")
    parser.add_argument("--out", type=Path, default=Path("results/basketball/later_styles.json"))
    given, began = parser.parse_args(), time.perf_counter()
    run = poise.train(
        "flow",
        given.data,
        [side],
        domain="basketball",
        test=given.test,
        split_by="game",
        preset=given.preset,
        seeds=given.seeds,
    )
    results = {"joint 5x4": {"styles": STYLES, "classes": 4, "seeds": measure(run, STYLES, 4, given.rollouts)}}
    for name in STYLES:
        seeds = measure(run, (name,), 3, given.rollouts)
        results[name] = {"styles": [name], "classes": 3, "seeds": seeds}
    training = {"seconds": run.seconds, "settings": run.experiment.to_json()["settings"]}
    storage.write_json(
        given.out,
        {"training": training, "measured": results, **provenance.provenance(time.perf_counter() - began)},
    )
    for name, one in results.items():
        median = {
            key: float(np.median([seed[key] for seed in one["seeds"]])) for key in ("joint", "joint_in_range", "c2st")
        }
        verified = float(np.median([seed["verified"]["joint_in_range"] for seed in one["seeds"]]))
        print(name, median, "verified, in range", verified)


if __name__ == "__main__":
    main()
