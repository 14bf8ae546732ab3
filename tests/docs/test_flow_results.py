"""The flow's page shows what its results files hold, and says what they lack; the files here are made up."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from poise import PRESETS

ROOT = Path(__file__).parents[2]
JOINT = "speed+destination+displacement+direction+curvature-4"
ABOUT = {"command": "c", "hardware": "one GPU", "commit": "abc", "versions": {}, "seconds": 1.0}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Writes results files that stand for measured ones, and returns what a block makes of them."""
    monkeypatch.syspath_prepend(ROOT / "experiments")
    blocks = importlib.import_module("results_blocks")
    monkeypatch.setattr("results_blocks.text.ROOT", tmp_path)
    (tmp_path / "results" / "basketball").mkdir(parents=True)

    def show(block: str, **files: Any) -> str:
        for name, content in files.items():
            (tmp_path / "results" / "basketball" / f"{name}.json").write_text(json.dumps(content))
        return blocks.BLOCKS[block]()

    return show


def cell(name: str, right: tuple[float, ...], c2st: float, **more: Any) -> dict[str, Any]:
    """A cell of paper.json: its seeds have these yields."""
    rows = [
        {"joint": y + 0.01, "joint_in_range": y + 0.005, "yield": y, "c2st": c2st + i / 100}
        for i, y in enumerate(right)
    ]
    tried = [{**row, "verified": {**row, "tries": 1.5, "never": 0.02}} for row in rows]
    steered = [{**row, "unsteered": {**row, "yield": 0.3}} for row in tried] if name.startswith("flow") else tried
    return {name: {"seeds": steered, "realism": {"c2st_floor": 0.512}, **more}}


def paper(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"measured": {name: one for each in cells for name, one in each.items()}}


def variation(group: str, value: str, right: tuple[float, ...], c2st: float = 0.55, **more: Any) -> dict[str, Any]:
    """A measurement of ablations.json."""
    more = {"novelty": 3.1, "novelty_of_demonstrations": 3.2, "off_support": 0.01, **more}
    free = {"joint": 0.4, "yield": 0.3, "c2st": 0.53, "novelty": 3.0}
    seeds = [
        {"joint": y + 0.01, "yield": y, "c2st": c2st + i / 50, **more, "unsteered": free} for i, y in enumerate(right)
    ]
    return {"group": group, "value": value, "seeds": seeds, **ABOUT}


def ablations(*measured: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "rollouts": 4000,
        "classes": 4,
        "measured": [variation("default", "", (0.97, 0.96, 0.9)), *measured],
        **more,
    }


def table(text: str) -> list[list[str]]:
    """The rows of a table, its head first."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [[entry.strip() for entry in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize(
    "block",
    [
        "short",
        "joint",
        "cells",
        "cells-verified",
        "ablations",
        "training",
        "guidance",
        "weights",
        "memorisation",
        "displacement",
    ],
)
def test_a_block_without_its_file_says_that_nothing_was_measured(results, block):
    text = results(f"flow-{block}")
    assert "not measured yet" in text
    assert not table(text)


def test_the_cells_have_a_row_per_cell_and_a_column_per_algorithm(results):
    shown = paper(
        cell("ctvae-speed-3", (0.7, 0.71, 0.6), 0.6),
        cell("flow-speed-3", (0.98, 0.97, 0.9), 0.55, trained_in=[{}] * 15),
        cell("flow-style-destination-6", (0.95, 0.94, 0.93), 0.56),
    )
    text = results("flow-cells", paper=shown)
    names = ["ctvae", "ctvae-style", "flow", "flow-style"]
    assert table(text) == [
        ["one try", *(f"yield, %: `{name}`" for name in names), *(f"C2ST: `{name}`" for name in names)],
        ["SPEED", "70.0 [60.0]", "-", "97.0 [90.0]", "-", "0.61", "-", "0.56", "-"],
        ["DESTINATION 6", "-", "-", "-", "94.0 [93.0]", "-", "-", "-", "0.57"],
    ]
    assert "`ctvae-style`: 17 of 17 cells not measured yet. `flow`: 16 of 17" in text
    assert "demonstrations against demonstrations: 0.51." in text
    assert "One `flow` per seed, trained in 15 styles at once, answers for 1 of these cells" in text


def test_a_flow_of_its_own_answers_for_its_cell_alone(results):
    assert "at once" not in results("flow-cells", paper=paper(cell("flow-speed-3", (0.98,), 0.55, trained_in=None)))


def test_verified_cells_show_shares_tries_and_what_was_never_reached(results):
    text = results("flow-cells-verified", paper=paper(cell("flow-displacement-8", (0.98, 0.97, 0.9), 0.55)))
    head = ["`flow`, verified", "right, %", "right and in range, %", "yield, %", "C2ST", "tries", "never reached, %"]
    row = ["98.00 [91.00]", "97.50 [90.50]", "97.00 [90.00]", "0.56 [0.57]", "1.50", "2.00"]
    assert table(text) == [head, ["DISPLACEMENT 8", *row]]
    assert "16 of 17 cells not measured yet" in text


def test_a_flow_that_is_verified_but_not_steered_stands_between_the_two(results):
    seeds = [
        {"joint": y, "joint_in_range": y, "yield": y, "c2st": 0.53, "tries": 4.5, "never": 0.1} for y in (0.9, 0.8)
    ]
    shown = paper(cell(f"flow-{JOINT}", (0.98, 0.97, 0.9), 0.55))
    assert "`flow` unsteered and verified: not measured yet" in results("flow-joint", paper=shown)
    rows = table(results("flow-joint", verified={"unsteered": seeds, "tries": 32}))[1:]
    assert [row[1] for row in rows] == [
        "unsteered",
        "unsteered, verified (up to 32 tries)",
        "one try, steered",
        "verified",
    ]
    assert rows[1][2:] == ["85.00 [80.00]"] * 3 + ["0.53 [0.53]", "4.50", "10.00"]


def test_the_page_in_short_names_the_lowest_yield_and_the_highest_c2st(results):
    shown = paper(
        cell(f"ctvae-style-{JOINT}", (0.8,), 0.9),
        cell(f"flow-{JOINT}", (0.98, 0.97, 0.9), 0.54),
        cell("flow-direction-3", (0.95, 0.96, 0.99), 0.58),
        cell("flow-curvature-3", (0.99,), 0.51),
    )
    text = results("flow-short", paper=shown)
    assert "`ctvae-style` 80.0 % (0.90), `flow` 97.0 % (0.55)" in text
    assert "Unsteered, `flow` has a yield of 30.0 % at a C2ST of 0.55." in text
    assert "Over 3 of 17 cells" in text
    assert "at least 96.0 % (DIRECTION) and a C2ST of at most 0.59 (DIRECTION)" in text


def test_variations_are_in_order_with_the_default_among_them(results):
    shown = ablations(
        variation("width", "2,048", (0.97,)),
        variation("width", "128", (0.91, 0.93, 0.92), 0.6),
        variation("steps", "90,000", (0.98,)),
    )
    text = results("flow-training", ablations=shown)
    own, free = PRESETS["basketball"], ["30.0 [30.0]", "0.53 [0.53]"]
    default = ["97.0 [91.0]", "96.0 [90.0]", "0.57 [0.59]", *free]
    assert table(text) == [
        ["varied", "value", "right, %", "yield, %", "C2ST", "unsteered: yield, %", "unsteered: C2ST"],
        ["training steps", f"**{own.training.flow_steps:,}** (default)", *default],
        ["", "90,000", "99.0 [99.0]", "98.0 [98.0]", "0.55 [0.55]", *free],
        ["width", "128", "93.0 [92.0]", "92.0 [91.0]", "0.62 [0.64]", *free],
        ["", f"**{own.network.flow.width}** (default)", *default],
        ["", "2,048", "98.0 [98.0]", "97.0 [97.0]", "0.55 [0.55]", *free],
    ]
    assert "trajectories per batch, blocks, share of rows with styles left free: not measured yet" in text


def test_only_clear_differences_from_the_default_are_named(results):
    near, far = variation("limit", "3", (0.965,), 0.56), variation("limit", "0.5", (0.94,), 0.61)
    text = results("flow-guidance", ablations=ablations(near, far))
    assert "from the default: limit 0.5 (-2.0 points, C2ST +0.04)." in text
    text = results("flow-guidance", ablations=ablations(near))
    assert "None is 1 point of yield or 0.02 of C2ST from the default." in text


def test_the_default_of_a_named_preset_is_marked(results):
    width = f"{PRESETS['small'].network.flow.width}"
    shown = ablations(variation("width", width, (0.9,)), variation("width", "64", (0.8,)), preset="small")
    assert [row[1] for row in table(results("flow-training", ablations=shown))[1:]] == ["64", f"**{width}** (default)"]
    assert "settings of the preset `small`" in results("flow-ablations")


def test_weights_stand_without_a_default_and_ways_of_sampling_with_what_is_off_support(results):
    shown = ablations(variation("ctvae-style", "20", (0.9,), 0.98), variation("limit", "0.5", (0.94,)))
    text = results("flow-weights", ablations=shown)
    assert [row[:5] for row in table(text)[1:]] == [
        ["`ctvae-style`: weight", "20", "91.0 [91.0]", "90.0 [90.0]", "0.98 [0.98]"]
    ]
    assert "`flow-style`: weight: not measured yet." in text
    head, row, _ = table(results("flow-guidance"))
    assert (head[-1], row) == ("off support, %", ["limit", "0.5", "95.0 [95.0]", "94.0 [94.0]", "0.55 [0.55]", "1.0"])


def test_memorisation_shows_novelty_and_velocity_by_the_number_of_demonstrations(results):
    few = variation(
        "demonstrations", "1,000", (0.8, 0.9), 0.6, novelty=2.0, velocity_train=0.1, velocity_validation=0.4
    )
    head, row, default = table(results("flow-memorisation", ablations=ablations(few)))
    assert head[:4] == ["varied", "value", "yield, %", "C2ST"]
    assert head[4:7] == ["novelty", "novelty, unsteered", "novelty of validation demonstrations"]
    assert head[7:] == ["velocity error, training", "velocity error, validation"]
    assert row == ["demonstrations", "1,000", "85.0 [80.0]", "0.61 [0.62]", "2.00", "3.00", "3.20", "0.100", "0.400"]
    assert default[1] == "**all** (default)"


def test_the_study_of_displacement_shows_every_variation_and_the_best(results):
    def studied(name: str, right: tuple[float, ...], **more: float) -> dict[str, Any]:
        more = {"right_mean_actions": 0.5, "displacement": 0.8, "nld": -9.0, "kl": 1.1, **more}
        return {"variation": name, "seeds": [{"right": share, **more} for share in right], **ABOUT}

    own = studied("as it is", (0.42, 0.44), right_embedding_of_the_demonstration=0.9)
    measured = [own, studied("no embedding (rnn)", (0.8, 0.7), kl=0.0)]
    text = results("flow-displacement", displacement={"rollouts": 4000, "measured": measured})
    head, *rows = table(text)
    assert head[1:4] == ["right, %", "right with mean actions, %", "right with the demonstration's embedding, %"]
    assert head[4:] == ["displacement, relative", "NLD per step", "KL"]
    assert rows[0] == ["as it is", "43.0 [42.0]", "50.0 [50.0]", "90.0 [90.0]", "0.80", "-9.00", "1.10"]
    assert rows[1] == ["no embedding (rnn)", "75.0 [70.0]", "50.0 [50.0]", "-", "0.80", "-9.00", "0.00"]
    assert "The paper has 83 %. Best here: no embedding (rnn), 75.0 [70.0] %." in text
    assert (
        "right in 43.0 % with an embedding drawn from its prior, and in 90.0 % with that of the demonstration" in text
    )


def test_the_front_has_every_algorithm_and_a_panel_per_group_once_they_are_measured(results, tmp_path):
    front = importlib.import_module("front")
    shown = paper(cell(f"ctvae-{JOINT}", (0.1,), 0.6), cell(f"flow-{JOINT}", (0.98, 0.97, 0.9), 0.54))
    results("flow-joint", paper=shown)
    names = {(point.name, point.way) for point in front.algorithms() if point.c2st is not None}
    ways = ("unsteered", "one try", "verified")
    assert names == {*(("flow", way) for way in ways), ("ctvae", "one try"), ("ctvae", "verified")}
    front.main(str(tmp_path / "front.png"))
    results(
        "flow-weights",
        ablations=ablations(variation("ctvae-style", "20", (0.9,), 0.98), variation("guidance", "3", (0.9,))),
    )
    points = front.varied()
    assert [point.name for point in points["strength"]] == ["0", f"{PRESETS['basketball'].sampling.strength:g}"]
    assert points["ctvae-style"] == [("20", "", 0.98, 0.9)]
    front.main(str(tmp_path / "both.png"))
    before, after = (np.asarray(Image.open(tmp_path / name)) for name in ("front.png", "both.png"))
    assert len(after) > len(before) + 300
    assert (after[: len(before), : before.shape[1]] == before).all()
