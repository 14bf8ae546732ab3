"""A study trains each cell once, in few programs, and continues where it was interrupted."""

import json
from dataclasses import replace

import equinox as eqx
import numpy as np
import pytest
from conftest import TINY

from poise import DOMAINS, PoiseError, Trajectories, reproduce
from poise.reproduce import study
from poise.reproduce.cells import SETUPS, STYLES, Cell
from poise.reproduce.grid import Table, of_domain
from poise.reproduce.study import Study
from poise.runs import prepare


@pytest.fixture(scope="module")
def small():
    """Tiny settings, few demonstrations and 64 rollouts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DOMAINS, "basketball", replace(DOMAINS["basketball"], rollouts=4 * 64))
        patch.setitem(SETUPS, "basketball", replace(SETUPS["basketball"], settings=TINY, quick=TINY, quick_count=300))
        yield


@pytest.fixture(scope="module")
def loads():
    """The calls that read or make demonstrations, of all studies of this module."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        load = prepare.load_data
        patch.setattr(prepare, "load_data", lambda *given, **more: found.append(given) or load(*given, **more))
        yield found


@pytest.fixture(scope="module")
def finished(small, loads, tmp_path_factory):
    """The folder of a study of the RNNs, with two seeds, and how often it loaded its data."""
    out, before = tmp_path_factory.mktemp("study"), len(loads)
    reproduce.reproduce(["rnn"], quick=True, seeds=2, out=out, algorithms=("rnn", "rnn-style"), progress=False)
    return out, len(loads) - before


@pytest.fixture(scope="module")
def folder(finished):
    return finished[0]


@pytest.mark.slow
def test_every_cell_is_kept_with_all_seeds_and_its_provenance(folder):
    cells = {path.stem for path in (folder / "cells").iterdir()}
    assert cells == {"rnn-destination-3", "rnn-style-destination-3"}
    kept = json.loads((folder / "cells" / "rnn-destination-3.json").read_text())
    assert [seed["seed"] for seed in kept["seeds"]] == [0, 1]
    assert kept["runs_in_program"] == 2
    assert {"command", "hardware", "versions", "commit"} <= set(kept)


def test_the_data_of_a_study_are_loaded_once_for_all_programs(finished):
    assert finished[1] == 1


def test_a_file_of_demonstrations_is_read_once(small, tmp_path, monkeypatch):
    make = DOMAINS["basketball"].demonstrations
    assert make is not None
    make(60, 0).save(tmp_path / "games.npz")
    load, paths = Trajectories.load, []
    monkeypatch.setattr(Trajectories, "load", staticmethod(lambda path: paths.append(path) or load(path)))
    opened = Study.open(tmp_path / "study", str(tmp_path / "games.npz"))
    assert paths == [str(tmp_path / "games.npz")]
    assert opened.splits is not None
    assert sum(map(len, opened.splits)) == 60


def test_a_cell_that_is_measured_is_not_trained_again(folder, monkeypatch):
    monkeypatch.setattr(study, "train_prepared", lambda *given, **more: pytest.fail("trained again"))
    files = reproduce.reproduce(["rnn"], quick=True, seeds=2, out=folder, algorithms=("rnn",), progress=False)
    assert {"tables.md", "tables.tex", "results.json"} <= {path.name for path in files}


def test_an_interrupted_study_continues(small, tmp_path, monkeypatch):
    evaluate, scored = vars(study)["evaluate_all"], []

    def interrupted(runs, **more):
        if scored:
            raise KeyboardInterrupt
        scored.extend(runs)
        return evaluate(runs, **more)

    def again():
        reproduce.reproduce(["rnn"], quick=True, seeds=2, out=tmp_path, algorithms=("rnn", "rnn-style"), progress=False)

    monkeypatch.setattr(study, "evaluate_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert len(list((tmp_path / "cells").iterdir())) == 1
    monkeypatch.setattr(study, "evaluate_all", lambda runs, **more: scored.extend(runs) or evaluate(runs, **more))
    again()
    assert len(list((tmp_path / "cells").iterdir())) == len(scored) == 2


def test_a_study_with_other_data_is_refused(small, tmp_path):
    make = DOMAINS["basketball"].demonstrations
    assert make is not None
    walks = make(60, 0)
    walks.save(tmp_path / "games.npz")
    Study.open(tmp_path / "study", str(tmp_path / "games.npz"))
    walks[1:].save(tmp_path / "games.npz")
    with pytest.raises(PoiseError, match=r"holds another study \(fingerprints"):
        Study.open(tmp_path / "study", str(tmp_path / "games.npz"))


def test_a_study_with_other_settings_is_refused(folder):
    with pytest.raises(PoiseError, match=r"holds another study \(seeds: 2, not 3\)"):
        reproduce.reproduce(["rnn"], quick=True, seeds=3, out=folder, progress=False)


def test_missing_cells_are_grouped_by_program(small, tmp_path):
    groups = Study.open(tmp_path, quick=True).missing(of_domain("basketball").values())
    assert len(groups) == 12
    assert sorted(len(group) for group in groups) == [1, 1, 1, 1, 1, 5, 17, 17, 17, 17, 17, 40]


@pytest.mark.slow
def test_one_flow_answers_for_all_cells_and_another_begins_where_it_ends(tmp_path, monkeypatch):
    """The other one takes no steps of its own: with them, it ends as `test_train.py` says."""
    steps = replace(TINY.training, labeler_steps=0, style_steps=0)
    tiny = replace(SETUPS["basketball"], quick=replace(TINY, training=steps), quick_count=300)
    monkeypatch.setitem(SETUPS, "basketball", tiny)
    table = Table("", {"speed": Cell("", ("speed",)), "2x6": Cell("", ("destination", "displacement"), 6)}, ("flow",))
    opened = replace(Study.open(tmp_path, quick=True, seeds=1), rollouts=64)
    opened.fill([table], progress=False)
    (group,) = opened.missing([Table("", {"speed": table.columns["speed"]}, ("flow-style",))])
    opened.train(group, progress=False)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"flow", "flow-style"}
    for name, styles in (("flow-speed-3", ["speed"]), ("flow-destination+displacement-6", STYLES[1:3])):
        kept = opened.results()[name]
        assert list(kept["seeds"][0]["by_style"]) == list(styles)
        assert {"speed-3", "curvature-4", "displacement-8"} < {style["name"] for style in kept["trained_in"]}
    cell = table.columns["2x6"]
    run, begun = (opened.run(replace(cell, algorithm=name)) for name in ("flow", "flow-style"))
    assert run is not None
    assert begun is not None
    assert [(style.name, len(style.classes)) for style in run.styles] == [("destination", 6), ("displacement", 6)]
    assert eqx.tree_equal(run.parts["policy"], begun.parts["policy"])
    assert (tmp_path / "runs" / "flow" / "metrics.jsonl").exists()
    assert not (tmp_path / "runs" / "flow-style" / "metrics.jsonl").exists()  # its flow is not trained again


def test_tables_show_what_was_measured_next_to_what_the_paper_prints(folder):
    results = json.loads((folder / "results.json").read_text())
    cells = {(cell["algorithm"], cell["measure"]): cell for cell in results["tables"]["rnn"]}
    assert cells["rnn", "joint"]["paper"]["median"] == 80
    seeds = results["measured"]["rnn-destination-3"]["seeds"]
    assert cells["rnn", "joint"]["values"] == sorted(round(100 * seed["joint"], 3) for seed in seeds)
    page = (folder / "tables.md").read_text()
    assert f"{cells['rnn', 'joint']['median']:.1f} (80)" in page
    assert "ctvae-style" not in page  # it was not measured
    assert r"\begin{tabular}" in (folder / "tables.tex").read_text()


def test_noise_changes_about_as_many_labels_as_in_the_paper(small, tmp_path):
    """One σ is a tenth of a score's deviation: labels of 3 classes change in 2 to 10 % of demonstrations."""
    opened = Study.open(tmp_path, quick=True)
    cells = [Cell("ctvae", (style,), noise=noise) for style in STYLES for noise in (1, 0)]
    ready = prepare.prepare_all([cell.experiment(opened.shared) for cell in cells], splits=opened.splits)
    for noisy, true in zip(ready[::2], ready[1::2], strict=True):
        assert noisy.styles == true.styles  # thresholds come from scores without noise
        assert 0.02 < np.mean(noisy.labels != true.labels) < 0.1
