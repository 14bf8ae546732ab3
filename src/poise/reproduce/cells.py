"""The cells of the paper's tables: one experiment each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..config import PRESETS, Settings, Training
from ..runs.experiment import Experiment
from ..styles.labeling_functions import LabelingFunction

STYLES = ("speed", "destination", "displacement", "direction", "curvature")
"""The styles of basketball, in the order in which joint styles take them. The paper does not say which ones it took."""

CHEETAH_STYLES = ("speed", "torso_height", "back_foot_height", "front_foot_height")
"""The styles of the Cheetah, in the order in which joint styles take them."""

BASELINES = ("ctvae", "ctvae-info", "ctvae-mi")

CALIBRATED = (*BASELINES, "ctvae-style")

COMPARED = (*CALIBRATED, "flow", "flow-style")

SIGMA = 0.1
"""One σ of label noise, in standard deviations of a score; it changes about as many labels as in the paper."""

LONGER = 1.5
"""Factor on the steps of the policy in a cell that is trained longer."""


@dataclass(frozen=True)
class Setup:
    """What the experiments of a domain have in common."""

    settings: Settings
    quick: Settings
    """Small networks and few steps: minutes on two cores."""
    quick_count: int
    """Demonstrations that a quick study is trained on, if the domain makes its own."""
    styles: tuple[str, ...]
    classes: int
    """Classes of a single style."""


def _shorter(preset: str, **training: int) -> Settings:
    """A preset with fewer training steps."""
    return replace(PRESETS[preset], training=replace(PRESETS[preset].training, **training))


SETUPS = {
    "basketball": Setup(
        settings=PRESETS["basketball"],
        quick=_shorter("small", policy_steps=1_200, labeler_steps=1_200, dynamics_steps=500),
        quick_count=6_000,
        styles=STYLES,
        classes=3,
    ),
    "cheetah": Setup(
        settings=PRESETS["cheetah"],
        quick=_shorter("cheetah-small", policy_steps=400, dynamics_steps=800, refine_steps=400, rounds=4),
        quick_count=500,
        styles=CHEETAH_STYLES,
        classes=2,
    ),
}
"""The setups by domain."""


@dataclass(frozen=True)
class Cell:
    """One experiment of a table. Tables may share cells."""

    algorithm: str
    styles: tuple[str, ...]
    classes: int = 3
    noise: int = 0
    """Label noise, in multiples of σ."""
    dynamics: str = "known"
    weight: float | None = None
    """Weight of the style loss (of mutual information for ctvae-mi), if not that of the settings."""
    longer: bool = False
    """Whether the policy is trained half as long again, and its dynamics are refined as much more often."""
    refined: bool = True
    """Whether learned dynamics are refined in the environment, if the settings ask for it."""
    plain: bool = False
    """Whether the style loss has the paper's weight 1 and the labeler is trained on demonstrations alone, as in the
    paper."""

    @property
    def name(self) -> str:
        """A unique name, fit for a file."""
        noise = f"-noise{self.noise}" if self.noise else ""
        dynamics = f"-{self.dynamics}" if self.dynamics != "known" else ""
        weight = f"-weight{self.weight:g}" if self.weight is not None else ""
        flags = {"-longer": self.longer, "-unrefined": not self.refined, "-plain": self.plain}
        suffix = "".join(flag for flag, is_set in flags.items() if is_set)
        return f"{self.algorithm}-{'+'.join(self.styles)}-{self.classes}{noise}{dynamics}{weight}{suffix}"

    def experiment(self, shared: Experiment) -> Experiment:
        """The experiment that is trained for this cell; `shared` has the data, seeds and settings of the study."""
        assert shared.settings is not None
        return replace(
            shared,
            algorithm=self.algorithm,
            styles=self.styles,
            classes=self.classes,
            noise=SIGMA * self.noise,
            settings=self._settings(shared.settings),
        )

    def _settings(self, settings: Settings) -> Settings:
        if self.dynamics != "known":
            settings = replace(settings, network=replace(settings.network, dynamics=self.dynamics))
        weight = 1.0 if self.plain else self.weight
        if weight is not None:
            settings = replace(settings, weights=replace(settings.weights, style=weight, mutual=weight))
        return replace(settings, training=self._training(settings.training))

    def _training(self, training: Training) -> Training:
        if self.dynamics != "known":  # only its dynamics are measured
            training = replace(training, policy_steps=0, labeler_steps=0, refine_steps=0)
        if self.plain:
            training = replace(training, augment=0.0)
        if self.longer:
            names = ("policy_steps", "refine_steps", "rounds")
            training = replace(training, **{name: round(LONGER * getattr(training, name)) for name in names})
        if not self.refined:
            training = replace(training, refine_steps=0)
        return training


def name_among(style: str, classes: int) -> str:
    """What a style is called in a run that has it in several numbers of classes."""
    return f"{style}-{classes}"


def experiment_of_all(cells: Sequence[Cell], shared: Experiment, known: dict[str, LabelingFunction]) -> Experiment:
    """One experiment in the styles of all of these cells, for an algorithm that can leave styles free.

    `known` are the domain's styles by name.
    """
    kinds = sorted({(style, cell.classes) for cell in cells for style in cell.styles})
    styles = tuple(
        replace(known[style].with_classes(classes), name=name_among(style, classes), source=style)
        for style, classes in kinds
    )
    return replace(cells[0].experiment(shared), styles=styles, classes=None)


PROGRAM = ("algorithm", "dynamics", "plain", "longer", "refined")
"""The fields in which cells agree that one compiled program trains."""


def program_of(cell: Cell) -> tuple:
    """A key that is equal for cells that one compiled program can train."""
    return tuple(getattr(cell, name) for name in PROGRAM)
