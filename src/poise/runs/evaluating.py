"""What an evaluation needs beside trained seeds: demonstrations, what realism is measured by, refusals and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import Domain
from ..errors import PoiseError
from ..evaluation.base_rates import base_rates
from ..evaluation.realism import Reference
from ..evaluation.reconstruction import error_of_no_change
from ..styles.labeling_functions import LabelingFunction
from ..styles.scoring import label_all
from .experiment import Experiment
from .folder import describe
from .prepare import fingerprint, load_splits, maker_of_tests, row_digests


def find_splits(experiment: Experiment, domain: Domain, trained_on: str | None) -> Splits:
    """The demonstrations of an experiment, made or read again.

    Raises:
        PoiseError: They are gone, or have changed since training; `trained_on` is the fingerprint of then.
    """
    found = load_splits(experiment, domain)
    apart = maker_of_tests(experiment, domain) is not None  # then no test demonstration was trained on
    if not apart and trained_on not in (None, fingerprint(found.train)):
        raise PoiseError(
            f"{experiment.data} has changed since this run was trained on it, so its test demonstrations may "
            "have been trained on; restore it, or name others to test on with --data"
        )
    return found


def find_reference(
    splits: Splits, test: Trajectories, domain: Domain, styles: Sequence[LabelingFunction], split_by: str | None
) -> Reference:
    """What the realism of rollouts from test starts is measured by; its groups are those of the split, or games."""
    column = test.metadata.get(split_by or "game")
    groups = None if column is None else np.unique(column, return_inverse=True)[1]
    labels = None if splits.train.on_disk() else label_all(styles, splits.train)
    return Reference.fit(Splits(splits.train, splits.validation, test), domain, labels=labels, groups=groups)


def refuse_changed(styles: Sequence[LabelingFunction], starts: Trajectories, kept: Int[np.ndarray, "N M"]) -> None:
    """Refuses a labeling function that no longer gives held-out demonstrations the labels it gave them."""
    labels = label_all(styles, starts)
    for i, style in enumerate(styles):
        changed = int(np.sum(labels[:, i] != kept[:, i]))
        if changed > max(2, 0.02 * len(labels)):  # a few may lie on a threshold, on another machine
            raise PoiseError(
                f"style {style.name!r} has changed since training: {changed} of {len(labels)} kept demonstrations "
                "get another label; bring the old function back, or train again"
            )


def notes_on(test: Trajectories, starts: Trajectories) -> tuple[str, ...]:
    """A warning if demonstrations to test on are among those that the run was trained or validated on."""
    used = np.concatenate([starts.metadata["trained"], row_digests(starts)])
    shared = int(np.isin(row_digests(test), used).sum())
    if not shared:
        return ()
    return (f"at least {shared} of the {len(test)} test demonstrations were used in training this run",)


def describe_test(
    experiment: Experiment,
    domain: Domain,
    styles: Sequence[LabelingFunction],
    starts: Trajectories,
    test: Trajectories,
    labels: Int[np.ndarray, "N M"],
) -> dict[str, Any]:
    """What a report says of an evaluation on test demonstrations with these labels, beside its scores."""
    rates = base_rates(starts, starts.metadata["labels"], test, labels)
    by_style = dict(zip([style.name for style in styles], rates["by_style"], strict=True))
    return {
        "styles": [describe(style) for style in styles],
        "environment": domain.describe_simulation(),
        "simulation": domain.simulation.value,
        "units": domain.units_text,
        "data": experiment.data if isinstance(experiment.data, str) else None,
        "test": len(test),
        "base_rate": {**rates, "by_style": by_style},
        "change": error_of_no_change(domain, test),
        "experiment": experiment.to_json(),
    }
