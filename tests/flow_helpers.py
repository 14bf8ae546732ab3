"""What the tests of flows share: walks that drift, two styles, flows made by hand, and one that is trained once."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import poise
from poise import Network, Run, Settings, Training, Trajectories
from poise.config import FlowNetwork, Sampling
from poise.models import Flow, Statistics
from poise.styles.label_spaces import Categories, LabelSpace

STEPS = 6
PLAIN = Sampling(guidance=1.0, strength=0.0, steps=8, tries=1)
STEERED = Sampling(guidance=1.0, strength=1.0, steps=8, tries=1)


def drifting(count: int, seed: int = 0) -> Trajectories:
    """Walks in the plane, each with a velocity of its own and a little noise."""
    random = np.random.default_rng(seed)
    actions = random.normal(size=(count, 1, 2)) + 0.5 * random.normal(size=(count, STEPS, 2))
    starts = random.normal(size=(count, 1, 2))
    return Trajectories(np.concatenate([starts, starts + actions.cumsum(axis=1)], axis=1))


def drift(states, actions):
    return actions[:, 0].mean()


def climb(states, actions):
    return actions[:, 1].mean()


def top(states, actions):
    return states[-1, 1]


@functools.cache
def trained() -> Run:
    """A small flow that was trained in `drift`, not in `climb` or `top`."""
    settings = Settings(
        Network(flow=FlowNetwork(width=32, blocks=1, steps=8)),
        Training(flow_steps=300, flow_batch=64, chunk=300, learning_rate=5e-3),
        sampling=STEERED,
    )
    return poise.train("flow", drifting(1500), [drift], settings=settings, progress=False)


def new_flow(
    data: Trajectories,
    kinds: tuple[int | Categories, ...] = (3,),
    *,
    adds_up: bool = True,
    position: tuple[int, ...] = (),
    **sizes: Any,
) -> Flow:
    """An untrained flow."""
    network = Network(flow=FlowNetwork(**{"width": 16, "blocks": 1, "steps": 4, **sizes}))
    space = LabelSpace(tuple(Categories(kind) if isinstance(kind, int) else kind for kind in kinds))
    return Flow(Statistics.of(data), space, network, adds_up=adds_up, position=position, key=jax.random.key(0))


def rough_flow(
    data: Trajectories, kinds: tuple[int | Categories, ...] = (3,), rough: float = 1.0, **given: Any
) -> Flow:
    """A flow with random weights everywhere, so that its velocity depends on all that it reads; nothing is compiled."""
    shapes = eqx.filter_eval_shape(lambda: new_flow(data, kinds, **given))
    random = np.random.default_rng(0)

    def weights(x):
        return jnp.asarray(rough * random.normal(size=x.shape) / np.sqrt(len(x)), jnp.float32)

    network = jax.tree.map(weights, shapes.network)
    return eqx.tree_at(lambda f: (f.statistics, f.network), shapes, (Statistics.of(data), network))


def no_labels(count: int) -> Any:
    return jnp.zeros((count, 1), jnp.int32)
