"""The paper's tables, as grids of experiments: what is trained for each cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..config import PRESETS, Experiment, Settings
from ..errors import PoiseError, unknown

STYLES = ("speed", "destination", "displacement", "direction", "curvature")
"""In the order in which joint styles take them; the paper does not say which of them it took."""
SIGMA = 0.1
"""The noise that is called one σ, in units of a score's deviation: labels disagree about as much as in the paper."""
BASELINES = ("ctvae", "ctvae-info", "ctvae-mi")
CALIBRATED = (*BASELINES, "ctvae-style")
CHEETAH_STYLES = ("speed", "torso_height", "back_foot_height", "front_foot_height")
LONGER = 1.5  # times as many steps of the policy


@dataclass(frozen=True)
class Setup:
    """What the tables of a domain have in common."""

    settings: Settings
    quick: Settings
    """Small networks and few steps, which show the same on two cores in minutes."""
    few: int
    """Demonstrations that a quick table is trained on, if the domain makes them."""
    styles: tuple[str, ...]
    classes: int
    """Of a single style."""


def _quick(name: str, **training) -> Settings:
    """A preset with fewer steps still."""
    return replace(PRESETS[name], training=replace(PRESETS[name].training, **training))


SETUPS = {
    "basketball": Setup(
        PRESETS["basketball"],
        _quick("small", policy_steps=1_200, labeler_steps=1_200, dynamics_steps=500),
        6_000,
        STYLES,
        3,
    ),
    "cheetah": Setup(
        PRESETS["cheetah"],
        _quick("cheetah-small", policy_steps=400, dynamics_steps=800, refine_steps=400, rounds=4),
        500,
        CHEETAH_STYLES,
        2,
    ),
}


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
    """Of the style loss (of mutual information for ctvae-mi), if not that of the settings."""
    longer: bool = False
    """Whether the policy is trained half as long again, and its dynamics are refined as much more often."""
    refined: bool = True
    """Whether learned dynamics are refined in the environment, if the settings ask for it."""
    plain: bool = False
    """Whether the style loss has the paper's weight 1, and the labeler sees demonstrations alone, as in the paper."""

    @property
    def name(self) -> str:
        """What sets it apart, as a file's name."""
        noise = f"-noise{self.noise}" if self.noise else ""
        dynamics = f"-{self.dynamics}" if self.dynamics != "known" else ""
        weight = f"-weight{self.weight:g}" if self.weight is not None else ""
        marks = {"-longer": self.longer, "-unrefined": not self.refined, "-plain": self.plain}
        marked = "".join(mark for mark, there in marks.items() if there)
        return f"{self.algorithm}-{'+'.join(self.styles)}-{self.classes}{noise}{dynamics}{weight}{marked}"

    def experiment(self, like: Experiment) -> Experiment:
        """The experiment that is trained for it."""
        settings = like.settings
        if self.dynamics != "known":  # all that is wanted of it are its dynamics
            network = replace(settings.network, dynamics=self.dynamics)
            training = replace(settings.training, policy_steps=0, labeler_steps=0, refine_steps=0)
            settings = replace(settings, network=network, training=training)
        weight = 1.0 if self.plain else self.weight
        if weight is not None:
            settings = replace(settings, weights=replace(settings.weights, style=weight, mutual=weight))
        training = settings.training
        if self.plain:
            training = replace(training, widen=0.0)
        if self.longer:
            more = {
                name: round(LONGER * getattr(training, name)) for name in ("policy_steps", "refine_steps", "rounds")
            }
            training = replace(training, **more)
        if not self.refined:
            training = replace(training, refine_steps=0)
        settings = replace(settings, training=training)
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
    domain: str = "basketball"

    def cells(self) -> Iterator[tuple[str, str, Cell]]:
        """(algorithm, column, cell) for each of its cells."""
        for algorithm in self.algorithms:
            for name, cell in self.columns.items():
                yield algorithm, name, replace(cell, algorithm=algorithm)


def _column(*styles: str, **more) -> Cell:
    return Cell("", styles, **more)


CHEETAH_WEIGHTS = PRESETS["cheetah"].weights

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
    "cheetah-single-styles": Table(
        "Cheetah: one style, 2 classes",
        {style: _column(style, classes=2) for style in CHEETAH_STYLES},
        domain="cheetah",
    ),
    "cheetah-speed": Table(
        "Cheetah: SPEED by its number of classes",
        {str(n): _column("speed", classes=n) for n in (3, 4)},
        domain="cheetah",
    ),
    "cheetah-joint": Table(
        "Cheetah: several styles at once: all of them right",
        {f"{m}x2": _column(*CHEETAH_STYLES[:m], classes=2) for m in (2, 3)},
        domain="cheetah",
    ),
    "cheetah-tradeoff": Table(
        "Cheetah: KL and NLD (SPEED, 2 classes)",
        {"speed": _column("speed", classes=2)},
        ("tvae", *CALIBRATED),
        ("kl", "nld"),
        "cheetah",
    ),
    "cheetah-longer": Table(
        "Cheetah: ctvae-style trained half as long again",
        {style: _column(style, classes=2, longer=True) for style in CHEETAH_STYLES},
        ("ctvae-style",),
        ("joint", "nld"),
        "cheetah",
    ),
    "cheetah-refined": Table(
        "Cheetah: dynamics from demonstrations alone, and refined in the environment (SPEED, 2 classes)",
        {
            "demonstrations alone": _column("speed", classes=2, refined=False),
            "refined in the environment": _column("speed", classes=2),
        },
        ("ctvae-style",),
        ("joint", "dynamics_error"),
        "cheetah",
    ),
    "cheetah-plain": Table(
        "Cheetah: ctvae-style with the paper's weight 1, its labeler without perturbed copies",
        {style: _column(style, classes=2, plain=True) for style in CHEETAH_STYLES},
        ("ctvae-style",),
        ("joint", "joint_inside"),
        "cheetah",
    ),
    "cheetah-weight": Table(
        "Cheetah: the weight of the style loss: style-consistency against what it costs (SPEED, 2 classes)",
        {
            **{f"{weight:g}": _column("speed", classes=2, weight=weight) for weight in (2.0, 10.0, 50.0)},
            f"{CHEETAH_WEIGHTS.style:g}": _column("speed", classes=2),
        },
        ("ctvae-style",),
        ("joint", "joint_inside", "nld"),
        "cheetah",
    ),
    "cheetah-mutual": Table(
        "Cheetah: ctvae-mi with the weight of ctvae-style (SPEED, 2 classes)",
        {
            f"{CHEETAH_WEIGHTS.mutual:g}": _column("speed", classes=2),
            f"{CHEETAH_WEIGHTS.style:g}": _column("speed", classes=2, weight=CHEETAH_WEIGHTS.style),
        },
        ("ctvae-mi",),
        domain="cheetah",
    ),
    "cheetah-labeler": Table(
        "Cheetah: cross-entropy of the labeler on test demonstrations (2 classes)",
        {style: _column(style, classes=2) for style in CHEETAH_STYLES},
        ("ctvae-style",),
        ("label_loss",),
        "cheetah",
    ),
}
"""The tables by name."""


ALL = {"all": "basketball", "cheetah": "cheetah"}
"""Names that stand for all tables of a domain."""


def find_tables(names: Iterable[str]) -> dict[str, Table]:
    """The tables of these names, which are of one domain."""
    found: dict[str, Table] = {}
    for name in names:
        if name not in TABLES and name not in ALL:
            raise unknown("table", name, [*TABLES, *ALL])
        found |= of_domain(ALL[name]) if name in ALL else {name: TABLES[name]}
    domains = dict.fromkeys(table.domain for table in found.values())
    if len(domains) > 1:
        raise PoiseError(f"tables of {' and '.join(domains)} are studies of their own: ask for one after the other")
    return found


def of_domain(name: str) -> dict[str, Table]:
    """All tables of a domain."""
    return {key: table for key, table in TABLES.items() if table.domain == name}


def summary() -> str:
    """The names of the tables, what they show and how many cells they have."""
    lines = [f"{name:21} {len(list(table.cells())):3} cells  {table.title}" for name, table in TABLES.items()]
    for name, domain in ALL.items():
        cells = {cell for table in of_domain(domain).values() for _, _, cell in table.cells()}
        lines.append(f"{name:21} {len(cells):3} cells  all of {domain}; cells that tables share count once")
    return "\n".join(lines)


PROGRAM = ("algorithm", "dynamics", "plain", "longer", "refined")
"""What cells of one program agree in."""


def same_program(cell: Cell) -> tuple:
    """Equal for cells that one compiled program can train."""
    return tuple(getattr(cell, name) for name in PROGRAM)
