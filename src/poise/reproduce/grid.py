"""The paper's tables as grids of cells: which experiments stand in which row and column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..config import PRESETS
from ..errors import PoiseError, unknown
from .cells import CALIBRATED, CHEETAH_STYLES, COMPARED, STYLES, Cell


@dataclass(frozen=True)
class Table:
    """One table: a row per algorithm; columns are styles, numbers of classes, weights or levels of noise."""

    title: str
    columns: dict[str, Cell]
    """One cell per column; the row gives its algorithm."""
    algorithms: tuple[str, ...] = CALIBRATED
    measures: tuple[str, ...] = ("joint",)
    """The fields of a seed's score that it shows."""
    domain: str = "basketball"

    def cells(self) -> Iterator[tuple[str, str, Cell]]:
        """Yields (algorithm, column, cell) for every cell, row by row."""
        for algorithm in self.algorithms:
            for column, cell in self.columns.items():
                yield algorithm, column, replace(cell, algorithm=algorithm)


def _column(*styles: str, **more) -> Cell:
    """A column as a cell without an algorithm."""
    return Cell("", styles, **more)


CHEETAH_WEIGHTS = PRESETS["cheetah"].weights
CHEETAH_COMPARED = (*CALIBRATED, "flow")

TABLES: dict[str, Table] = {
    "single-styles": Table("One style, 3 classes", {style: _column(style) for style in STYLES}, COMPARED),
    "displacement": Table(
        "DISPLACEMENT by its number of classes",
        {str(n): _column("displacement", classes=n) for n in (2, 3, 4, 6, 8)},
        COMPARED,
    ),
    "destination": Table(
        "DESTINATION by its number of classes",
        {str(n): _column("destination", classes=n) for n in (2, 3, 4, 6)},
        COMPARED,
    ),
    "joint": Table(
        "Several styles at once: all of them right",
        {f"{m}x{n}": _column(*STYLES[:m], classes=n) for m, n in ((2, 3), (3, 3), (4, 3), (5, 3), (5, 4))},
        COMPARED,
    ),
    "plain": Table(
        "One style, 3 classes: ctvae-style with the paper's weight 1 and no augmentation",
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
        CHEETAH_COMPARED,
        domain="cheetah",
    ),
    "cheetah-speed": Table(
        "Cheetah: SPEED by its number of classes",
        {str(n): _column("speed", classes=n) for n in (3, 4)},
        CHEETAH_COMPARED,
        domain="cheetah",
    ),
    "cheetah-joint": Table(
        "Cheetah: several styles at once: all of them right",
        {f"{m}x2": _column(*CHEETAH_STYLES[:m], classes=2) for m in (2, 3)},
        CHEETAH_COMPARED,
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
        "Cheetah: ctvae-style with the paper's weight 1 and no augmentation",
        {style: _column(style, classes=2, plain=True) for style in CHEETAH_STYLES},
        ("ctvae-style",),
        ("joint", "joint_in_range"),
        "cheetah",
    ),
    "cheetah-weight": Table(
        "Cheetah: the weight of the style loss: style-consistency against its cost (SPEED, 2 classes)",
        {
            **{f"{weight:g}": _column("speed", classes=2, weight=weight) for weight in (2.0, 10.0, 50.0)},
            f"{CHEETAH_WEIGHTS.style:g}": _column("speed", classes=2),
        },
        ("ctvae-style",),
        ("joint", "joint_in_range", "nld"),
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
    """Returns the tables of these names.

    Raises:
        PoiseError: If a name is unknown, or the tables belong to more than one domain.
    """
    found: dict[str, Table] = {}
    for name in names:
        if name not in TABLES and name not in ALL:
            raise unknown("table", name, [*TABLES, *ALL])
        found |= of_domain(ALL[name]) if name in ALL else {name: TABLES[name]}
    domains = dict.fromkeys(table.domain for table in found.values())
    if len(domains) > 1:
        raise PoiseError(
            f"one study has tables of one domain; got tables of {' and '.join(domains)}: ask for one after the other"
        )
    return found


def of_domain(domain: str) -> dict[str, Table]:
    """All tables of a domain, by name."""
    return {name: table for name, table in TABLES.items() if table.domain == domain}


def summary() -> str:
    """The names of the tables, their titles and their numbers of cells, one per line."""
    lines = [f"{name:21} {len(list(table.cells())):3} cells  {table.title}" for name, table in TABLES.items()]
    for name, domain in ALL.items():
        cells = {cell for table in of_domain(domain).values() for _, _, cell in table.cells()}
        lines.append(f"{name:21} {len(cells):3} cells  all tables of {domain}; shared cells count once")
    return "\n".join(lines)
