"""How long a trained flow takes on this machine: verified rollouts, an actor's steps, an evaluation.

make demo && python experiments/flow_times.py demo/flow
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import poise
from poise.system import provenance, storage

RESULTS = Path(__file__).parent.parent / "results" / "basketball" / "flow_times.json"
COUNT, AGAIN, PLAYS = 1_000, 5, 50


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds of a call, and what it returned."""
    began = time.perf_counter()
    found = call()
    return time.perf_counter() - began, found


def time_rollouts(run: poise.Run, words: dict[str, str]) -> dict[str, Any]:
    """Verified rollouts: the first call, which compiles, and the median of others."""
    made = [timed(lambda draw=draw: run.sample(COUNT, words, draw=draw)) for draw in range(1 + AGAIN)]
    accepted = np.mean([one.metadata["accepted"].mean() for _, one in made])
    again = float(np.median([seconds for seconds, _ in made[1:]]))
    return {"rollouts": COUNT, "first": round(made[0][0], 2), "again": round(again, 3), "accepted": round(accepted, 5)}


def time_actor(run: poise.Run, words: dict[str, str]) -> dict[str, float]:
    """Microseconds of an actor's steps: of all of them, and of those at which it proposes a plan."""
    actor, times = run.actor(words), []
    for start in np.asarray(run.starts.starts)[:PLAYS]:
        state = start
        for _ in range(run.starts.steps):
            seconds, action = timed(lambda state=state: actor.step(state))
            state, times = state + action, [*times, 1e6 * seconds]
    plans = np.asarray(times).reshape(PLAYS, -1)[:, 0]
    return {"median_us": round(float(np.median(times)), 1), "plan_us": round(float(np.median(plans)), 1)}


def main(folder: Path) -> None:
    """Measures and writes."""
    run, began = poise.load_run(folder), time.perf_counter()
    words = {style.name: style.classes[0] for style in run.styles}
    found = {"rollouts": time_rollouts(run, words), "actor": time_actor(run, words)}
    found["evaluate"] = {"rollouts": 2_000, "seeds": len(run.seeds)}
    found["evaluate"]["seconds"] = round(timed(lambda: run.evaluate(rollouts=2_000))[0], 1)
    storage.write_json(RESULTS, {**found, **provenance.provenance(time.perf_counter() - began)})
    print(storage.read_json(RESULTS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
