"""The axis of runs: one function of one run, over many runs at once.

Runs are spread over all devices, which never talk to each other; on a device they are one `vmap`, cut into pieces that
follow one another where memory is short. A run that is alone shares its batches among the cores of a CPU, where XLA
adds up what they found. None of this changes what a run computes.
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

RUNS, ROWS = "runs", "rows"

LEAST_ROWS = 16  # of a batch on a core: with fewer, cores wait for each other longer than they compute


@dataclass(frozen=True)
class Axis:
    """How so many runs are spread over devices, and cut into pieces on each of them."""

    runs: int
    devices: tuple[Any, ...]
    pieces: int = 1

    @staticmethod
    def over(runs: int, devices: Sequence[Any] | None = None, pieces: int = 1, batch: int = 1) -> Axis:
        """Runs over all local devices, or as many as there are runs; a batch of one run over the cores of a CPU."""
        devices = jax.local_devices() if devices is None else devices
        most = max(runs, 1)
        if runs == 1 and devices[0].platform == "cpu":
            most = max(n for n in range(1, len(devices) + 1) if n == 1 or (batch % n == 0 and batch // n >= LEAST_ROWS))
        return Axis(runs, tuple(devices[:most]), pieces)

    @property
    def shares(self) -> bool:
        """Whether devices share the batches of one run."""
        return self.runs == 1 < len(self.devices)

    @property
    def filled(self) -> int:
        """Runs with those that repeat the last one, so that all pieces are alike."""
        unit = self._groups * self.pieces
        return -(-self.runs // unit) * unit

    @property
    def piece(self) -> int:
        """Runs that a device trains at once."""
        return self.filled // (self._groups * self.pieces)

    def fill(self, each: Any) -> Any:
        """Arrays of all runs, filled up and put on their devices."""
        extra = self.filled - self.runs
        if extra:
            each = jax.tree.map(lambda x: jnp.concatenate([x, *([x[-1:]] * extra)]), each)
        return self._put(each, PartitionSpec() if self.shares else PartitionSpec(RUNS))

    def share(self, shared: Any) -> Any:
        """Arrays that all runs share, on every device."""
        return self._put(shared, PartitionSpec())

    def cut(self, each: Any) -> Any:
        """The arrays of the runs that were asked for."""
        return each if self.filled == self.runs else jax.tree.map(lambda x: x[: self.runs], each)

    def spread(self, batch: Any) -> Any:
        """A batch of one run, its rows among the devices that share it; within a compiled program."""
        if not self.shares or len(jax.tree.leaves(batch)[0]) % len(self.devices):
            return batch
        rows = NamedSharding(self._mesh, PartitionSpec(ROWS))
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, rows), batch)

    def map(self, function: Callable[[Any, Any], Any], shared: Any, each: Any) -> Any:
        """`function(shared, one)` of every run, within a compiled program."""

        def on_device(shared, each):
            runs = self._alone(partial(function, shared)) if self.piece == 1 else jax.vmap(partial(function, shared))
            if self.pieces == 1:
                return runs(each)
            cut = jax.tree.map(lambda x: x.reshape(self.pieces, self.piece, *x.shape[1:]), each)
            made = jax.lax.map(runs, cut)
            return jax.tree.map(lambda x: x.reshape(self.pieces * self.piece, *x.shape[2:]), made)

        if self._groups == 1:
            return on_device(shared, each)
        specs = PartitionSpec(), PartitionSpec(RUNS)
        spread = jax.shard_map(on_device, mesh=self._mesh, in_specs=specs, out_specs=specs[1], check_vma=False)
        return spread(shared, each)

    def _alone(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """As `vmap`, for a single run: without an axis of one a CPU is a little faster."""
        if self.devices[0].platform != "cpu":
            return jax.vmap(function)
        return lambda each: jax.tree.map(lambda x: x[None], function(jax.tree.map(lambda x: x[0], each)))

    @property
    def _groups(self) -> int:
        return 1 if self.shares else len(self.devices)

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.asarray(self.devices), (ROWS if self.shares else RUNS,))

    def _put(self, tree: Any, spec: PartitionSpec) -> Any:
        where = self.devices[0] if len(self.devices) == 1 else NamedSharding(self._mesh, spec)
        return jax.device_put(tree, where)
