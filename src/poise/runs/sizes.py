"""Whether what is asked for fits into memory, before it is made: demonstrations, classes, networks, seeds, rollouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from ..algorithms import Algorithm, fit_to
from ..config import Network
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError
from ..styles.labeling_functions import LabelingFunction, label_space
from ..system.memory import host_memory, refuse_beyond, training_memory
from .experiment import Experiment
from .shapes import shapes_of_parts

COPIES = 3  # of what is trained: itself, and two moments of the optimiser
CLASS_BYTES = 100  # the name of a class and its threshold
NUMBER = 4  # bytes
MANY = 100_000  # demonstrations from which on it is worth a look at one of them
SIZES = ("hidden", "latent", "layers", "dynamics_layers", "flow.width")
"""Settings of networks that can make them too large."""


def check_count(domain: Domain, count: int) -> int:
    """The count, if so many demonstrations of a domain can be in memory."""
    if count > MANY and domain.demonstrations is not None:
        each = _row_bytes(domain)
        memory = host_memory()
        refuse_beyond(memory, f"count={count} demonstrations", each * count, f"{_rounded(memory // each)} or fewer fit")
    return count


def _row_bytes(domain: Domain) -> int:
    """The bytes of one demonstration that a domain makes."""
    if domain.task is not None and domain.sizes is not None:
        return _trajectory_bytes(domain.task.steps, *domain.sizes)
    assert domain.demonstrations is not None
    one = domain.demonstrations(1, 0)
    return _trajectory_bytes(one.steps, one.states.shape[-1], one.actions.shape[-1])


def _trajectory_bytes(steps: int, states: int, actions: int) -> int:
    return NUMBER * ((steps + 1) * states + steps * actions)


def check_rollouts(count: int, steps: int, like: Trajectories) -> None:
    """Refuses more or longer rollouts than memory can hold."""
    each, memory = _trajectory_bytes(steps, like.states.shape[-1], like.actions.shape[-1]), host_memory()
    fitting = memory // each
    way_out = f"ask for {_rounded(fitting)} or fewer" if fitting else "ask for fewer steps"
    refuse_beyond(memory, f"{count} rollouts of {steps} steps", each * count, way_out)


def check_classes(classes: int | None, demonstrations: int) -> None:
    """Refuses more classes than there are demonstrations to be in them."""
    if classes is not None and classes > demonstrations:
        size = f"; their names alone take {classes * CLASS_BYTES / 2**30:.3g} GiB" if classes > 10 * MANY else ""
        raise PoiseError(
            f"every class needs a demonstration, and there are {demonstrations} for classes={classes}{size}; "
            f"ask for --classes {demonstrations} at most, and better for a few"
        )


def check_networks(
    experiment: Experiment,
    algorithm: Algorithm,
    domain: Domain,
    styles: Sequence[LabelingFunction],
    demonstrations: Trajectories,
) -> None:
    """Refuses networks, or a number of seeds, that memory cannot hold while they are trained; nothing is computed."""
    settings = experiment.settings
    assert settings is not None
    network, memory = settings.network, training_memory()
    algorithm, space = fit_to(algorithm, domain, styles), label_space(styles)

    def size(network: Network) -> int:
        one = replace(experiment, seeds=1, settings=replace(settings, network=network))
        parts = shapes_of_parts(one, algorithm, domain, space, demonstrations, demonstrations.steps)
        arrays = [leaf for leaf in jax.tree.leaves(parts) if isinstance(leaf, jax.ShapeDtypeStruct)]
        return COPIES * sum(leaf.size * leaf.dtype.itemsize for leaf in arrays)

    each = size(network)
    if each > memory:
        name, largest = _too_large(network, size, memory)
        way_out = "ask for smaller networks or fewer classes" if largest is None else f"about {largest} fits"
        refuse_beyond(memory, f"training networks of {name}", each, way_out)
    fitting = _rounded(memory // max(1, each))
    refuse_beyond(memory, f"training {experiment.seeds} seeds", each * experiment.seeds, f"about {fitting} seeds fit")


def _too_large(network: Network, size: Callable[[Network], int], memory: int) -> tuple[str, int | None]:
    """The setting that makes networks too large, as it is, and about the largest value of it that fits."""
    usual = {name: _get(Network(), name) for name in SIZES}
    name = min(SIZES, key=lambda name: size(_with(network, name, usual[name])))
    given = _get(network, name)
    shown = f"network.{name}={given}"
    if size(_with(network, name, _at_most(given, 1))) > memory:
        return shown, None
    most = max(given) if isinstance(given, tuple) else given
    while (found := size(_with(network, name, _at_most(given, most)))) > memory:
        most = max(1, int(0.9 * most * (memory / found) ** 0.5))
    return shown, _rounded(most)


def _get(network: Network, name: str) -> Any:
    return network.flow.width if name == "flow.width" else getattr(network, name)


def _with(network: Network, name: str, value: Any) -> Network:
    if name == "flow.width":
        return replace(network, flow=replace(network.flow, width=value))
    return replace(network, **{name: value})


def _at_most(value: Any, most: int) -> Any:
    return tuple(min(one, most) for one in value) if isinstance(value, tuple) else min(value, most)


def _rounded(count: int) -> int:
    """A number cut to two digits: estimates know no more."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return count // unit * unit
