"""Why `ctvae` is right less often for DISPLACEMENT than in the paper: one setting changed at a time.

Each variation is trained on real basketball and scored on validation games, for DISPLACEMENT in three classes: the
policy as it is (the embedding drawn from its prior), and with the embedding read from the demonstration whose label is
asked for, which shows how much of the style the embedding holds. What is measured is kept, and the same call continues.

    python experiments/displacement.py --data players_train.npz --out runs/displacement
    python experiments/displacement.py --merge runs/displacement     # into results/basketball/displacement.json
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

import poise
from poise.data.splits import Splits
from poise.domains import integrator
from poise.evaluation.evaluate import draw_starts
from poise.evaluation.scored import TrainedSeed, score_rollouts
from poise.models import KnownDynamics
from poise.rollouts.requests import Request
from poise.rollouts.simulate import imagine
from poise.runs.experiment import Experiment
from poise.runs.prepare import load_splits
from poise.styles.scoring import label_all
from poise.system import provenance, storage

RESULTS = Path(__file__).parent.parent / "results" / "basketball" / "displacement.json"
ROLLOUTS = 4_000
DEFAULT = poise.PRESETS["basketball"]


def change(part: str, **values: Any) -> poise.Settings:
    """The default settings, changed in one part."""
    return replace(DEFAULT, **{part: replace(getattr(DEFAULT, part), **values)})


VARIATIONS: dict[str, tuple[str, poise.Settings]] = {
    "as it is": ("ctvae", DEFAULT),
    "no embedding (rnn)": ("rnn", DEFAULT),
    "the KL divergence weighs 10": ("ctvae", change("weights", kl=10.0)),
    "no free bits": ("ctvae", change("network", free_bits=0.0)),
    "free bits 4": ("ctvae", change("network", free_bits=4.0)),
    "40,000 steps": ("ctvae", change("training", policy_steps=40_000)),
    "the paper's learning rate 2e-4": ("ctvae", change("training", learning_rate=2e-4)),
    "an embedding of 16": ("ctvae", change("network", latent=16)),
    "one variance for all states": ("ctvae", change("network", variance="global")),
    "no memory (markov)": ("ctvae", change("network", decoder="markov")),
    "GRUs of 256": ("ctvae", change("network", hidden=256)),
    "the encoder blind to labels (ctvae-info)": ("ctvae-info", DEFAULT),
}


class Probe(eqx.Module):
    """A policy that takes its mean actions, or whose embedding is given instead of drawn."""

    policy: Any
    embedding: Float[Array, "N latent"] | None = None
    mean: bool = eqx.field(static=True, default=False)

    @property
    def replan(self) -> int:
        """Actions of a proposal that are taken."""
        return self.policy.replan

    @property
    def noise(self) -> int:
        """Standard normal numbers per proposal."""
        return self.policy.noise

    def begin(self, labels: Array, lengths: Array, key: PRNGKeyArray) -> tuple[Any, Any]:
        """The policy's own context and memory, with the given embedding if there is one."""
        if self.embedding is None:
            return self.policy.begin(labels, lengths, key)
        return self.policy.decoder.begin(jnp.concatenate([self.embedding, self.policy.space.encode(labels)], axis=-1))

    def propose(self, context: Any, memory: Any, state: Array, noise: Array) -> Array:
        """The policy's proposal, without noise if its mean is asked for."""
        return self.policy.propose(context, memory, state, jnp.zeros_like(noise) if self.mean else noise)

    def remember(self, context: Any, memory: Any, state: Array, action: Array) -> Any:
        """The policy's memory."""
        return self.policy.remember(context, memory, state, action)


def measure(name: str, data: Splits, seeds: int) -> list[dict[str, float]]:
    """What each seed does from the starts of validation games, with their labels."""
    algorithm, settings = VARIATIONS[name]
    run = poise.train(
        algorithm, data, ["displacement"], domain="basketball", settings=settings, seeds=seeds, progress=False
    )
    shown = data.validation[draw_starts(len(data.validation), ROLLOUTS, 0)[0]]
    labels = label_all(run.styles, shown)
    return [_measure_seed(run, run.trained(None)(i), shown, labels) for i in range(seeds)]


def _measure_seed(run: poise.Run, seed: TrainedSeed, shown: poise.Trajectories, labels: np.ndarray) -> dict[str, float]:
    policy, request = seed.parts["policy"], Request.like(shown, labels)
    key = jax.random.fold_in(jax.random.key(1), seed.seed)
    losses = eqx.filter_jit(policy.imitate)(shown.arrays, jnp.asarray(labels), key)
    ways = {"right": Probe(policy), "right_mean_actions": Probe(policy, mean=True)}
    if hasattr(policy, "encode"):
        embedding = eqx.filter_jit(policy.encode)(shown.arrays, jnp.asarray(labels))
        drawn = embedding.draw(jax.random.normal(key, embedding.mean.shape))
        ways["right_embedding_of_the_demonstration"] = Probe(policy, drawn)
    found: dict[str, float] = {"seed": seed.seed}
    for way, probe in ways.items():
        made = eqx.filter_jit(imagine)(probe, KnownDynamics(integrator), request, key=key)
        right = score_rollouts(run.styles, jax.device_get(made), labels).joint
        found |= {way: round(float(right.mean()), 4), way.replace("right", "displacement"): _relative(made, shown)}
    kl = float(losses.kl.sum(axis=1).mean()) if losses.kl.shape[1] else 0.0
    return {**found, "nld": round(float(losses.nld.mean()) / shown.steps, 3), "kl": round(kl, 3)}


def _relative(made: poise.Trajectories, shown: poise.Trajectories) -> float:
    """The median displacement of rollouts, relative to that of the demonstrations they start like."""
    both = [np.linalg.norm(np.asarray(x.states)[:, -1] - np.asarray(x.states)[:, 0], axis=1) for x in (made, shown)]
    return round(float(np.median(both[0]) / np.median(both[1])), 3)


def main() -> None:
    """Trains, measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=list(VARIATIONS))
    parser.add_argument("--merge", type=Path)
    given = parser.parse_args()
    if given.merge:
        found = {one["variation"]: one for one in map(storage.read_json, given.merge.glob("*.json"))}
        measured = [found[name] for name in VARIATIONS if name in found]
        return storage.write_json(RESULTS, {"rollouts": ROLLOUTS, "measured": measured})
    splits = load_splits(Experiment(data=given.data, domain="basketball", split_by="game"), poise.DOMAINS["basketball"])
    data = Splits(splits.train, splits.validation, splits.validation)
    for number, name in enumerate(VARIATIONS):
        path, began = storage.make_folder(given.out) / f"{number}.json", time.perf_counter()
        if name not in given.only or path.exists():
            continue
        seeds = measure(name, data, given.seeds)
        result = {"variation": name, "seeds": seeds, **provenance.provenance(time.perf_counter() - began)}
        storage.write_json(path, result)
        print(name, seeds, flush=True)


if __name__ == "__main__":
    main()
