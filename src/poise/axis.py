"""The axis of runs: one function of one run, over many runs at once.

Runs are spread over all devices, which never talk to each other; on a device they are one `vmap`, cut into pieces that
follow one another where memory is short. Neither changes what a run computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

RUNS = "runs"


@dataclass(frozen=True)
class Axis:
    """How so many runs are spread over devices, and cut into pieces on each of them."""

    runs: int
    devices: tuple[Any, ...]
    pieces: int = 1

    @staticmethod
    def over(runs: int, devices: Sequence[Any] | None = None, pieces: int = 1) -> Axis:
        """Runs over all local devices, or as many as there are runs."""
        devices = jax.local_devices() if devices is None else devices
        return Axis(runs, tuple(devices[:runs]), pieces)

    @property
    def filled(self) -> int:
        """Runs with those that repeat the last one, so that all pieces are alike."""
        unit = len(self.devices) * self.pieces
        return -(-self.runs // unit) * unit

    @property
    def piece(self) -> int:
        """Runs that a device trains at once."""
        return self.filled // (len(self.devices) * self.pieces)

    def fill(self, each: Any) -> Any:
        """Arrays of all runs, filled up and put on their devices."""
        extra = self.filled - self.runs
        if extra:
            each = jax.tree.map(lambda x: jnp.concatenate([x, *([x[-1:]] * extra)]), each)
        return self._put(each, PartitionSpec(RUNS))

    def share(self, shared: Any) -> Any:
        """Arrays that all runs share, on every device."""
        return self._put(shared, PartitionSpec())

    def cut(self, each: Any) -> Any:
        """The arrays of the runs that were asked for."""
        return each if self.filled == self.runs else jax.tree.map(lambda x: x[: self.runs], each)

    def map(self, function: Callable[[Any, Any], Any], shared: Any, each: Any) -> Any:
        """`function(shared, one)` of every run, within a compiled program."""

        def on_device(shared, each):
            runs = jax.vmap(partial(function, shared))
            if self.pieces == 1:
                return runs(each)
            cut = jax.tree.map(lambda x: x.reshape(self.pieces, self.piece, *x.shape[1:]), each)
            made = jax.lax.map(runs, cut)
            return jax.tree.map(lambda x: x.reshape(self.pieces * self.piece, *x.shape[2:]), made)

        if len(self.devices) == 1:
            return on_device(shared, each)
        specs = PartitionSpec(), PartitionSpec(RUNS)
        spread = jax.shard_map(on_device, mesh=self._mesh, in_specs=specs, out_specs=specs[1], check_vma=False)
        return spread(shared, each)

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.asarray(self.devices), (RUNS,))

    def _put(self, tree: Any, spec: PartitionSpec) -> Any:
        where = self.devices[0] if len(self.devices) == 1 else NamedSharding(self._mesh, spec)
        return jax.device_put(tree, where)
