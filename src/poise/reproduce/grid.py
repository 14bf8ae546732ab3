"""The paper's tables on basketball, as grids of experiments: what is trained for each cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..config import PRESETS, Experiment, Settings
from ..errors import unknown

STYLES = ("speed", "destination", "displacement", "direction", "curvature")
"""In the order in which joint styles take them; the paper does not say which of them it took."""
SIGMA = 0.1
"""The noise that is called one σ, in units of a score's deviation: labels disagree about as much as in the paper."""
BASELINES = ("ctvae", "ctvae-info", "ctvae-mi")
CALIBRATED = (*BASELINES, "ctvae-style")
QUICK = 6_000  # demonstrations that a quick table is trained on, if the domain makes them


@dataclass(frozen=True)
class Cell:
    """One experiment of the grid; cells of several tables may be the same."""

    algorithm: str
    styles: tuple[str, ...]
    classes: int = 3
    noise: int = 0
    """In multiples of σ."""
    dynamics: str = "known"
    weight: float | None = None
    """Of the style loss, if not that of the settings."""
    plain: bool = False
    """Whether the style loss has the paper's weight 1, and the labeler sees demonstrations alone, as in the paper."""

    @property
    def name(self) -> str:
        """What sets it apart, as a file's name."""
        noise = f"-noise{self.noise}" if self.noise else ""
        dynamics = f"-{self.dynamics}" if self.dynamics != "known" else ""
        weight = f"-weight{self.weight:g}" if self.weight is not None else ""
        plain = "-plain" if self.plain else ""
        return f"{self.algorithm}-{'+'.join(self.styles)}-{self.classes}{noise}{dynamics}{weight}{plain}"

    def experiment(self, like: Experiment) -> Experiment:
        """The experiment that is trained for it."""
        settings = like.settings
        if self.dynamics != "known":  # all that is wanted of it are its dynamics
            network = replace(settings.network, dynamics=self.dynamics)
            training = replace(settings.training, policy_steps=0, labeler_steps=0, refine_steps=0)
            settings = replace(settings, network=network, training=training)
        weight = 1.0 if self.plain else self.weight
        if weight is not None:
            settings = replace(settings, weights=replace(settings.weights, style=weight))
        if self.plain:
            settings = replace(settings, training=replace(settings.training, widen=0.0))
        own = {"algorithm": self.algorithm, "styles": self.styles, "classes": self.classes}
        return replace(like, **own, noise=SIGMA * self.noise, settings=settings)


@dataclass(frozen=True)
class Table:
    """One table: its rows are algorithms, its columns are styles, classes or noise."""

    title: str
    columns: dict[str, Cell]
    """Each column as a cell, whose algorithm is that of the row."""
    algorithms: tuple[str, ...] = CALIBRATED
    measures: tuple[str, ...] = ("joint",)
    """What of a seed's score it shows."""

    def cells(self) -> Iterator[tuple[str, str, Cell]]:
        """(algorithm, column, cell) for each of its cells."""
        for algorithm in self.algorithms:
            for name, cell in self.columns.items():
                yield algorithm, name, replace(cell, algorithm=algorithm)


def _column(*styles: str, **more) -> Cell:
    return Cell("", styles, **more)


TABLES: dict[str, Table] = {
    "single-styles": Table("One style, 3 classes", {style: _column(style) for style in STYLES}),
    "displacement": Table(
        "DISPLACEMENT by its number of classes", {str(n): _column("displacement", classes=n) for n in (2, 3, 4, 6, 8)}
    ),
    "destination": Table(
        "DESTINATION by its number of classes", {str(n): _column("destination", classes=n) for n in (2, 3, 4, 6)}
    ),
    "joint": Table(
        "Several styles at once: all of them right",
        {f"{m}x{n}": _column(*STYLES[:m], classes=n) for m, n in ((2, 3), (3, 3), (4, 3), (5, 3), (5, 4))},
    ),
    "plain": Table(
        "One style, 3 classes: ctvae-style with the paper's weight 1, its labeler without perturbed copies",
        {style: _column(style, plain=True) for style in STYLES},
        ("ctvae-style",),
    ),
    "weight": Table(
        "The weight of the style loss: style-consistency against NLD (DESTINATION, 3 classes)",
        {
            **{f"{weight:g}": _column("destination", weight=weight) for weight in (1.0, 2.0, 3.0)},
            f"{PRESETS['basketball'].weights.style:g}": _column("destination"),
        },
        ("ctvae-style",),
        ("joint", "nld"),
    ),
    "tradeoff": Table(
        "KL and NLD (DESTINATION, 3 classes)",
        {"destination": _column("destination")},
        ("tvae", *CALIBRATED),
        ("kl", "nld"),
    ),
    "rnn": Table(
        "RNN and CTVAE (DESTINATION, 3 classes)",
        {"destination": _column("destination")},
        ("rnn", "rnn-style", "ctvae", "ctvae-style"),
        ("joint", "nld"),
    ),
    "noise": Table(
        "Noisy labeling functions (ctvae-style, 3 classes)",
        {f"{style} {c}": _column(style, noise=c) for c in range(5) for style in STYLES},
        ("ctvae-style",),
    ),
    "labeler": Table(
        "Cross-entropy of the labeler on test demonstrations (3 classes)",
        {style: _column(style) for style in STYLES},
        ("ctvae-style",),
        ("label_loss",),
    ),
    "dynamics": Table(
        "Squared error of learned dynamics per step and dimension on test demonstrations",
        {
            "deterministic": _column("destination", dynamics="deterministic"),
            "gaussian": _column("destination", dynamics="gaussian"),
        },
        ("ctvae-style",),
        ("dynamics_error",),
    ),
}
"""The tables by name."""


def find_tables(names: Iterable[str]) -> dict[str, Table]:
    """The tables of these names; `all` are all of them."""
    found = {}
    for name in names:
        if name not in TABLES and name != "all":
            raise unknown("table", name, [*TABLES, "all"])
        found |= TABLES if name == "all" else {name: TABLES[name]}
    return found


def settings(quick: bool) -> Settings:
    """The paper's sizes, or small ones that show the same on two cores in minutes."""
    if not quick:
        return PRESETS["basketball"]
    small = PRESETS["small"]
    return replace(small, training=replace(small.training, policy_steps=1_200, labeler_steps=1_200, dynamics_steps=500))


def summary() -> str:
    """The names of the tables, what they show and how many cells they have."""
    lines = [f"{name:14} {len(list(table.cells())):3} cells  {table.title}" for name, table in TABLES.items()]
    cells = {cell for table in TABLES.values() for _, _, cell in table.cells()}
    return "\n".join([*lines, f"{'all':14} {len(cells):3} cells  all of them; cells that tables share count once"])


def same_program(cell: Cell) -> tuple[str, str, bool]:
    """Equal for cells that one compiled program can train."""
    return cell.algorithm, cell.dynamics, cell.plain
