"""What is asked for: an `Experiment`, and how the names in it are found.

`poise.train`, `poise.train_many` and the command line all build an `Experiment` and hand it to `runs.prepare`, so a
default, a preset or a path means the same everywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config import PRESETS, Settings, from_json, to_json
from ..data.splits import Splits
from ..data.trajectories import Trajectories
from ..domains import DOMAINS, Domain, find_domain
from ..errors import PoiseError, unknown
from ..system.imports import is_file_spec, split_file_spec

DEFAULT_DATA = "basketball"
DEFAULT_ALGORITHM = "flow"
MISSING_DATA = "this run was trained on demonstrations in memory; pass the ones to use"


@dataclass(frozen=True)
class InMemory:
    """Stands for demonstrations that were given as values and are not kept with an experiment."""


@dataclass(frozen=True)
class Experiment:
    """What to train, on what, and in which styles. Fields that are None take what the domain says.

    Args:
        algorithm: A row of `ALGORITHMS` by name, or file.py:NAME for an `Algorithm` of your own.
        data: Demonstrations: the name of a domain that makes its own, the path of an .npz or of a folder of .npy,
            `Trajectories`, or `Splits`. By default those that the domain makes, and without a domain simulated
            basketball.
        styles: Labeling functions: names of the domain's styles, file.py:function, or functions. By default the
            domain's default styles.
        domain: Where styles, units, presets and the environment come from: a name, file.py:NAME or a `Domain`. By
            default the domain that `data` names.
        preset: The name of the settings to start from, one of `PRESETS`.
        settings: Sizes, steps and weights; they take the place of a preset. By default the domain's.
        test: A file or folder of test demonstrations. Without one, the domain makes some, or a tenth of the data is set
            aside.
        split_by: A column of the metadata (game, player) whose groups are never divided by the split.
        count: How many demonstrations a domain makes.
        classes: Classes of every style that sets no thresholds of its own.
        noise: Gaussian noise on the scores that training labels come from, in units of each score's deviation.
        seeds: How many seeds to train, as one compiled program.
        first_seed: The first seed; the others follow it.

    Raises:
        PoiseError: A number is out of range, or the preset is not known.

    Examples:
        >>> from poise import Experiment
        >>> Experiment(styles=["speed"], seeds=5).seed_numbers
        [0, 1, 2, 3, 4]
    """

    algorithm: str = DEFAULT_ALGORITHM
    data: str | Path | Trajectories | Splits | InMemory | None = None
    styles: Sequence[str | Callable] | None = None
    domain: str | Domain | None = None
    preset: str | None = None
    settings: Settings | None = None
    test: str | Path | None = None
    split_by: str | None = None
    count: int | None = None
    classes: int | None = None
    noise: float = 0.0
    seeds: int = 1
    first_seed: int = 0

    def __post_init__(self):
        if self.seeds < 1:
            raise PoiseError(f"train at least one seed; got {self.seeds}")
        if not 0 <= self.first_seed < 2**31 - self.seeds:
            raise PoiseError(f"seeds lie between 0 and 2^31; got {self.first_seed}")
        if not 0 <= self.noise < np.inf:
            raise PoiseError(f"noise is a deviation, 0 or above; got {self.noise}")
        if self.count is not None and self.count < 1:
            raise PoiseError(f"count is at least 1; got {self.count}")
        if self.preset is not None and self.preset not in PRESETS:
            raise unknown("preset", self.preset, PRESETS)
        if self.preset is not None and self.settings is not None:
            raise PoiseError("give a preset or settings, not both; change a preset with dataclasses.replace")
        check_data(self.data)
        if not isinstance(self.algorithm, str):
            raise PoiseError(
                "algorithm is a name or file.py:NAME; give an Algorithm a name with poise.register(name, algorithm)"
            )
        if not isinstance(self.test, str | Path | None):
            raise PoiseError(
                "test is a path; demonstrations in memory go in as data=poise.Splits(train, validation, test)"
            )
        if self.styles is not None and not isinstance(self.styles, tuple):
            given = (self.styles,) if isinstance(self.styles, str) or callable(self.styles) else tuple(self.styles)
            object.__setattr__(self, "styles", given)

    @property
    def seed_numbers(self) -> list[int]:
        """The seeds that are trained."""
        return list(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def in_memory(self) -> Trajectories | Splits | None:
        """The demonstrations, if they were given as values."""
        return self.data if isinstance(self.data, Trajectories | Splits) else None

    @property
    def algorithm_name(self) -> str:
        """The algorithm without the file that it may come from."""
        return split_file_spec(self.algorithm)[1] if is_file_spec(self.algorithm) else self.algorithm

    def find_domain(self) -> Domain | None:
        """The domain that is named, or that the data belong to; None for data that come alone."""
        if isinstance(self.domain, Domain):
            return self.domain
        if self.domain is not None:
            return find_domain(self.domain)
        if self.data is None:
            return DOMAINS[DEFAULT_DATA]
        return DOMAINS.get(self.data) if isinstance(self.data, str) else None

    def resolve(self, domain: Domain | None) -> Experiment:
        """The same experiment with the domain's data, settings and default styles where it gives none.

        Raises:
            PoiseError: The preset was made for another domain, or there is no style to train.
        """
        if isinstance(self.data, InMemory):
            raise PoiseError(MISSING_DATA)
        data = self.data if self.data is not None else domain.name if domain else DEFAULT_DATA
        styles = self.styles
        if styles is None and domain is not None:
            styles = domain.default_styles or tuple(domain.styles)
        return replace(
            self,
            data=str(data) if isinstance(data, str | Path) else data,
            test=None if self.test is None else str(self.test),
            styles=styles or (),
            preset=None,
            settings=self._settings(domain),
        )

    def _settings(self, domain: Domain | None) -> Settings:
        if self.settings is not None:
            return self.settings
        if self.preset is None:
            return domain.settings if domain else Settings()
        if domain and domain.presets and self.preset not in domain.presets:
            own = " or ".join(domain.presets)
            raise PoiseError(f"preset {self.preset!r} was not made for {domain.name} and does badly there; take {own}")
        return PRESETS[self.preset]

    def to_json(self) -> dict[str, Any]:
        """The experiment in plain words and numbers, as config.json keeps it; values in memory have no words."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **fields,
            "data": str(self.data) if isinstance(self.data, str | Path) else None,
            "domain": self.domain.name if isinstance(self.domain, Domain) else self.domain,
            "styles": None if self.styles is None else [name_of(style) for style in self.styles],
            "settings": None if self.settings is None else to_json(self.settings),
        }

    @staticmethod
    def from_json(tree: dict[str, Any]) -> Experiment:
        """What `to_json` wrote; settings that an earlier version did not know have their defaults."""
        settings = tree.get("settings")
        known = {field.name for field in dataclasses.fields(Experiment)}
        for name in tree:
            if name not in known:
                raise unknown("setting of Experiment", name, known)
        styles = tree.get("styles")
        return Experiment(
            **{
                **tree,
                "data": InMemory() if tree.get("data") is None else tree["data"],
                "styles": None if styles is None else tuple(styles),
                "settings": None if settings is None else from_json(Settings, settings),
            }
        )


def check_data(data: Any) -> None:
    """Refuses demonstrations that are neither named nor `Trajectories` nor `Splits`, such as a bare array."""
    if not isinstance(data, str | Path | Trajectories | Splits | InMemory | None):
        kind = type(data).__name__
        raise PoiseError(f"data are a name, a path, poise.Trajectories(states) or poise.Splits; got a {kind}")


def name_of(style: str | Callable) -> str:
    """The name of a style that is given as a function, or as it is named."""
    return style if isinstance(style, str) else getattr(style, "name", getattr(style, "__name__", "style"))
