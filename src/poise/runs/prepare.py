"""An experiment made ready to train: its data, domain, algorithm and fitted styles, checked before it costs time."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ..algorithms import Algorithm, Stage, find_algorithm, fit_to, steers_in
from ..config import Settings
from ..data.splits import Splits, in_memory, split
from ..data.trajectories import NAMES, Trajectories, per_row
from ..domains import DOMAINS, Domain, Simulation, integrator, plain, recognise_integrator
from ..domains.base import is_traced
from ..errors import PoiseError, unknown
from ..evaluation.report import FEW
from ..styles.gradients import try_gradients
from ..styles.labeling_functions import LabelingFunction, labeling_function, load_style
from ..styles.scoring import classify_all, score_all
from .experiment import MISSING_DATA, Experiment
from .sizes import check_classes, check_count, check_networks


@dataclass(frozen=True)
class Prepared:
    """An experiment made ready: its data, domain, algorithm and fitted styles."""

    experiment: Experiment
    """With the domain's data, styles and settings where the user gave none."""
    splits: Splits
    domain: Domain
    algorithm: Algorithm
    styles: tuple[LabelingFunction, ...]
    labels: Int[np.ndarray, "N M"]
    """The labels of the training demonstrations, noisy if the experiment says so."""
    noise: tuple[float, ...] = ()
    """The deviation of the noise on the scores of each style."""

    @property
    def settings(self) -> Settings:
        """The experiment's settings."""
        assert self.experiment.settings is not None
        return self.experiment.settings

    @property
    def dynamics_known(self) -> bool:
        """Whether there are no dynamics to learn."""
        return self.domain.dynamics is not None and self.settings.network.dynamics == "known"

    def __str__(self) -> str:
        """What is about to be trained, on one line."""
        sizes = [len(part) for part in self.splits]
        trained = [stage for stage in self.algorithm.stages if not self._skips(stage)]
        stages = {stage.name: self.settings.training.steps(stage.name) for stage in trained}
        steps = [f"{name} {count}" for name, count in stages.items() if count]
        few = " (few: metrics will be noisy)" if min(sizes[1:]) < FEW else ""
        seeds = self.experiment.seeds
        return (
            f"{self.experiment.algorithm_name}, {', '.join(style.name for style in self.styles)}: {sizes[0]} train, "
            f"{sizes[1]} validation, {sizes[2]} test demonstrations{few}; {self.domain.describe_simulation()}; "
            f"{seeds} seed{'s' if seeds > 1 else ''}, steps: {', '.join(steps)}"
        )

    def _skips(self, stage: Stage) -> bool:
        """Whether there is nothing to train, or nowhere to collect rollouts."""
        nothing = self.dynamics_known and stage.trains == ("dynamics",)
        return nothing or (stage.collects and self.domain.simulation is Simulation.LEARNED_DYNAMICS)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies these training demonstrations."""
        return fingerprint(self.splits.train)


def fingerprint(demonstrations: Trajectories) -> str:
    """A digest that differs for different demonstrations."""
    digest = hashlib.sha256()
    for name in ("states", "actions", "lengths"):
        for piece in demonstrations.pieces():
            digest.update(np.ascontiguousarray(getattr(piece, name)).data)
    return digest.hexdigest()[:16]


def row_digests(demonstrations: Trajectories) -> np.ndarray:
    """One number per demonstration, the same for the same states."""
    rows = np.ascontiguousarray(np.asarray(demonstrations.states, np.float32))
    return np.asarray(
        [int.from_bytes(hashlib.blake2b(row.data, digest_size=8).digest(), "big") for row in rows], np.uint64
    )


def prepare(
    experiment: Experiment, *, splits: Splits | None = None, domain: Domain | None = None, progress: bool = False
) -> Prepared:
    """The experiment's data, domain and algorithm, and its styles fitted to the training demonstrations.

    Args:
        experiment: What is asked for.
        splits: Its demonstrations, if they were read or made earlier.
        domain: Its domain, if it was found earlier.
        progress: Shows a bar while demonstrations are labelled.

    Raises:
        PoiseError: Something does not exist, does not fit together, or is out of range.
    """
    algorithm = find_algorithm(experiment.algorithm)  # a misspelt name is reported before data are read
    domain = domain or experiment.find_domain()
    experiment = experiment.resolve(domain)
    if splits is None:
        splits = load_splits(experiment, domain)
    domain = domain or plain(in_memory(splits.train), _name_of_data(experiment))
    check_dynamics(domain, splits.train)
    domain = recognise_integrator(domain, splits.train)
    check_classes(experiment.classes, len(splits.train))
    chosen = load_styles(experiment.styles or (), domain, experiment.classes)
    check_networks(experiment, algorithm, domain, chosen, splits.train)
    whole, rows = splits.train.source_and_rows()  # on disk, consecutive rows are the fastest to read
    scores = score_all(chosen, whole, progress)[:, rows]
    fitted = tuple(style.fit_scores(row) for style, row in zip(chosen, scores, strict=True))
    noise = tuple(experiment.noise * float(row.std()) for row in scores)
    assert experiment.settings is not None
    flow = experiment.settings.network.flow
    if steers_in(algorithm, domain, flow.horizon, splits.train.steps):
        fitted = try_gradients(fitted, splits.validation)
    elif algorithm.steered and flow.grades:
        fitted = tuple(style.with_grades(row) for style, row in zip(fitted, scores, strict=True))
    labels = classify_all(fitted, scores, noise, graded=True)
    return Prepared(experiment, splits, domain, fit_to(algorithm, domain, fitted), fitted, labels, noise)


def prepare_all(
    experiments: Sequence[Experiment], *, splits: Splits | None = None, progress: bool = False
) -> list[Prepared]:
    """Each experiment made ready; those of the same data share them in memory. `splits` are the data of all of them."""
    known: dict[tuple, Prepared] = {}
    made = []
    for experiment in experiments:
        key = tuple(_identity(getattr(experiment, name)) for name in ("data", "count", "domain", "test", "split_by"))
        same = known.get(key)
        if same is None:
            known[key] = same = prepare(experiment, splits=splits, progress=progress)
            made.append(same)
        else:
            made.append(prepare(experiment, splits=same.splits, domain=same.domain, progress=progress))
    return made


def _identity(value: object) -> object:
    """What two experiments must agree in to have the same data: words by value, demonstrations and domains as such."""
    return value if isinstance(value, str | Path | int | None) else id(value)


def _name_of_data(experiment: Experiment) -> str:
    return Path(experiment.data).stem if isinstance(experiment.data, str) else "data"


def load_splits(experiment: Experiment, domain: Domain | None) -> Splits:
    """The experiment's demonstrations in three parts; those made or kept for testing are for that alone."""
    data = experiment.in_memory
    if data is not None and experiment.count is not None:
        raise PoiseError("count is for domains that make their demonstrations; these are in memory")
    if data is None:
        data = load_data(experiment.data, experiment.count, domain)
    check = (domain or Domain("data")).check
    for part in data if isinstance(data, Splits) else (data,):
        check(part)
    if isinstance(data, Splits):
        for name in ("test", "split_by"):
            if getattr(experiment, name) is not None:
                raise PoiseError(f"{name} does not go with demonstrations that are split already")
        return data
    test, maker = None, maker_of_tests(experiment, domain)
    if experiment.test is not None:
        test = Trajectories.load(experiment.test)
        check(test)
        test = in_memory(test)
    elif maker is not None and maker.test is not None:
        test = maker.test(len(data), 0)
    if test is None:
        return split(data, by=experiment.split_by)
    check_sizes(test, data)
    train, *rest = split(data, (0.9, 0.05, 0.05), by=experiment.split_by)
    states, actions, lengths = (np.concatenate([getattr(part, k) for part in rest]) for k in NAMES)
    metadata = {
        name: np.concatenate([part.metadata[name] for part in rest]) if per_row(values, len(rest[0])) else values
        for name, values in rest[0].metadata.items()
    }
    return Splits(train, Trajectories(states, actions, lengths, metadata), test)


def maker_of_tests(experiment: Experiment, domain: Domain | None) -> Domain | None:
    """The domain that makes the test demonstrations apart from the others, if one does: they are never trained on."""
    source = _makers(domain).get(experiment.data) if isinstance(experiment.data, str) else None
    return source if source and source.test and experiment.test is None else None


def load_data(data: object, count: int | None = None, domain: Domain | None = None) -> Trajectories:
    """Demonstrations by name, made by their domain, or by path."""
    if not isinstance(data, str | Path):
        raise PoiseError(MISSING_DATA)
    data, makers = str(data), _makers(domain)
    if data in makers:
        source = makers[data]
        if source.demonstrations is None:
            raise PoiseError(
                f"the domain {data!r} makes no demonstrations of its own; give the path of an .npz or a folder"
            )
        if count is not None and count < 1:
            raise PoiseError(f"--count is at least 1; got {count}")
        return source.demonstrations(source.count if count is None else check_count(source, count), 0)
    if not data.endswith(".npz") and not Path(data).exists():
        raise unknown("data", data, [*makers, "PATH.npz", "FOLDER"])
    if count is not None:
        raise PoiseError(f"count is for domains that make their demonstrations; {data} is a file")
    return Trajectories.load(data)


def _makers(domain: Domain | None) -> dict[str, Domain]:
    """The domains that data may name."""
    return {**DOMAINS, **({domain.name: domain} if domain else {})}


def as_style(style: Callable) -> LabelingFunction:
    """A labeling function as it is, or one made of a plain function; one from a module remembers its file."""
    made = style if isinstance(style, LabelingFunction) else labeling_function(style)
    if made.source is None and inspect.isfunction(made.score) and made.score.__module__ != "__main__":
        file, name = inspect.getsourcefile(made.score), made.score.__qualname__
        if file and name.isidentifier():
            return replace(made, source=f"{file}:{name}")
    return made


def load_styles(styles: Sequence[str | Callable], domain: Domain, classes: int | None) -> list[LabelingFunction]:
    """The named styles, each once, in the number of classes asked for."""
    chosen = [load_style(style, domain.styles) if isinstance(style, str) else as_style(style) for style in styles]
    names = [style.name for style in chosen]
    if not names:
        raise PoiseError("there is nothing to dial without a style; name one with --styles NAME or file.py:function")
    for name in names:
        if names.count(name) > 1:
            raise PoiseError(f"style {name!r} is given twice; give each style once")
    if classes is None:
        return chosen
    return [style if style.thresholds is not None else style.with_classes(classes) for style in chosen]


def check_dynamics(domain: Domain, demonstrations: Trajectories) -> None:
    """Refuses known dynamics that JAX cannot trace, or that return something other than finite next states."""
    if domain.dynamics is None or domain.dynamics is integrator:
        return
    states, actions = (np.asarray(x[:8])[:, 0] for x in (demonstrations.states, demonstrations.actions))
    if not is_traced(domain.dynamics, states.shape[-1], actions.shape[-1]):
        raise PoiseError(
            f"JAX cannot trace the dynamics of {domain.name}; give them as Domain(environment=...) instead"
        )
    if not np.isfinite(np.asarray(domain.dynamics(jnp.asarray(states), jnp.asarray(actions)))).all():
        raise PoiseError(f"the dynamics of {domain.name} return NaN or infinite states for the first demonstrations")


def check_sizes(test: Trajectories, known: Trajectories) -> None:
    """Refuses demonstrations whose states or actions have another size than the known ones."""
    for name in ("states", "actions"):
        expected, found = getattr(known, name).shape[-1], getattr(test, name).shape[-1]
        if expected != found:
            raise PoiseError(f"this run knows {name} of {expected} numbers; got {found}")
