"""The blocks of results that pages name, each written from a file under results/."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from poise.reproduce.cells import SETUPS
from poise.reproduce.grid import TABLES

from . import ablations, basketball, cheetah, flow, paper, speed, walker

BLOCKS: dict[str, Callable[[], str]] = {
    "demo": basketball.demo,
    "summary": basketball.summary,
    "paper-summary": basketball.paper_summary,
    "simulated": basketball.simulated,
    "augmentation": basketball.augmentation,
    "out-of-range": basketball.out_of_range,
    "flow-short": flow.short,
    "flow-joint": flow.joint,
    "flow-realism": flow.realism,
    "flow-shuffled": flow.shuffled,
    "flow-later": flow.later,
    "flow-cells": flow.cells,
    "flow-cells-verified": flow.cells_verified,
    "flow-time": flow.time_of_sampling,
    "flow-time-cores": flow.time_on_cores,
    "flow-ablations": ablations.about,
    "flow-training": ablations.training,
    "flow-guidance": ablations.guidance,
    "flow-weights": ablations.weights,
    "flow-memorisation": ablations.memorisation,
    "flow-displacement": ablations.displacement,
    "cheetah-demo": cheetah.demo,
    "cheetah-choices": cheetah.choices,
    "cheetah-summary": cheetah.paper_summary,
    "demonstrators": partial(cheetah.demonstrators, "cheetah"),
    "walker-demonstrators": partial(cheetah.demonstrators, "walker"),
    "walker-flow": walker.flow,
    "demos": cheetah.demonstrations,
    "gradient-decay": cheetah.gradient_decay,
    "falls": cheetah.falls,
    "speed": speed.overview,
    "speed-steps": speed.steps,
    "speed-other": speed.other,
    "speed-unchanged": speed.unchanged,
    **{f"paper-{name}": partial(paper.paper_table, name) for name in TABLES},
    **{f"{domain}-verdict": partial(paper.goals, domain) for domain in SETUPS},
    **{f"{domain}-behind": partial(paper.behind, domain) for domain in SETUPS},
    **{f"{domain}-quick": partial(paper.quick, domain) for domain in SETUPS},
}
"""The blocks by name."""
