"""Evaluating runs: their demonstrations, what realism is measured by, scores, refusals and warnings."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int

from ..data.splits import Splits, number_groups
from ..data.trajectories import Trajectories, per_row
from ..domains import Domain
from ..errors import PoiseError, check_whole
from ..evaluation.base_rates import base_rates
from ..evaluation.evaluate import RunToScore, score_runs
from ..evaluation.realism import Reference
from ..evaluation.reconstruction import error_of_no_change
from ..evaluation.report import Report
from ..rollouts.requests import check_draw
from ..styles.label_spaces import LabelSpace
from ..styles.labeling_functions import LabelingFunction
from ..styles.scoring import label_all
from ..system import provenance
from .experiment import Experiment
from .folder import describe
from .prepare import check_sizes, fingerprint, load_splits, maker_of_tests, row_digests
from .sizes import check_rollouts

if TYPE_CHECKING:
    from .run import Run


def evaluate_all(
    runs: Sequence[Run],
    test: Trajectories | None = None,
    rollouts: int | None = None,
    draw: int = 0,
    *,
    name: str | None = None,
    shared: LabelSpace | None = None,
) -> list[Report]:
    """A report of each of several runs of the same demonstrations; what they have in common is computed once.

    Args:
        runs: Runs that were trained and are tested on the same demonstrations.
        test: Demonstrations to test on; those of the runs if not given.
        rollouts: Rollouts per seed; as many as the paper has for the domain if not given.
        draw: Seed of the rollouts' randomness.
        name: What the reports call the test demonstrations.
        shared: A label space to pad all parts to, so that the same compiled programs serve all runs.

    Raises:
        PoiseError: The demonstrations do not fit a run, or a labeling function has changed since training.
    """
    began, first = time.perf_counter(), runs[0]
    rollouts = first.domain.rollouts if rollouts is None else check_whole("rollouts", rollouts)
    check_draw(draw)
    check_rollouts(rollouts, first.starts.steps, first.starts)
    for run in runs:
        run.check_styles()
    test = first.splits().test if test is None else test
    first.domain.check(test)
    check_sizes(test, first.starts)
    reference, asked = find_reference(first, test), []
    for run in runs:
        trained, known = run.trained(shared), reference and reference.with_labels(_train_labels(run))
        seeds = [trained(i) for i in range(len(run.seeds))]
        asked.append(RunToScore(seeds, label_all(run.styles, test), run.sampling(), known))
    scores = score_runs(asked, test, rollouts=rollouts, draw=draw)
    floor = None if reference is None else reference.about()
    seconds = (time.perf_counter() - began) / len(runs)
    reports = []
    for run, given, found in zip(runs, asked, scores, strict=True):
        about = describe_test(run.experiment, run.domain, run.styles, run.starts, test, given.labels)
        about |= {"rollouts": rollouts, "realism": floor, "data": name or about["data"]}
        by_algorithm, made_by = {run.experiment.algorithm_name: found}, provenance.provenance(run.seconds + seconds)
        reports.append(Report(by_algorithm, about, made_by, notes_on(test, run.starts)))
    return reports


def _train_labels(run: Run) -> Int[np.ndarray, "N M"] | None:
    """The labels of the training demonstrations, for measures of realism; None if those are on disk."""
    train = run.splits().train
    return None if train.on_disk() else label_all(run.styles, train)


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


def find_reference(run: Run, test: Trajectories) -> Reference | None:
    """What the realism of rollouts from test starts is measured by; its groups are those of the split, or games.

    None if the demonstrations that were trained on are gone.
    """
    try:
        splits = run.splits()
    except PoiseError:
        return None
    column = test.metadata.get(run.experiment.split_by or "game")
    groups = None if column is None or not per_row(column, len(test)) else number_groups(column)
    return Reference.fit(Splits(splits.train, splits.validation, test), run.domain, groups=groups)


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
