"""One way in: Python and the command line build the same experiment, with the domain's settings and default styles."""

import inspect
from dataclasses import fields, replace

import pytest
from conftest import TINY, wander

import poise
from poise import DOMAINS, PRESETS, Domain, Experiment, PoiseError
from poise.cli import parse
from poise.cli.training import Train
from poise.domains import integrator
from poise.runs.prepare import prepare


def reach(states, actions):
    return states[-1, 0]


MINE = Domain(
    "mine",
    demonstrations=lambda count, seed: wander(count, seed=seed),
    count=40,
    dynamics=integrator,
    styles={"reach": poise.labeling_function(reach)},
    settings=TINY,
)


def resolved(experiment: Experiment) -> Experiment:
    return experiment.resolve(experiment.find_domain())


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_brings_its_own_settings_styles_and_data(name):
    for asked in (Experiment(data=name), Experiment(domain=name)):
        found = resolved(asked)
        assert found.settings == DOMAINS[name].settings
        assert found.styles == DOMAINS[name].default_styles
        assert found.styles
        assert set(found.styles) <= set(DOMAINS[name].styles)
        assert found.data == name


def test_the_command_line_asks_for_what_python_asks_for():
    words = ["train", "--data", "cheetah", "--preset", "cheetah-small", "--seeds", "3", "--styles", "speed"]
    typed = resolved(parse(words).experiment())
    assert typed == resolved(Experiment(data="cheetah", preset="cheetah-small", seeds=3, styles=("speed",)))
    assert resolved(parse(["train"]).experiment()) == resolved(Experiment())


def test_every_field_of_an_experiment_is_an_option_and_a_parameter():
    names = {field.name for field in fields(Experiment)}
    assert names <= {field.name for field in fields(Train)}
    assert names <= set(inspect.signature(poise.train).parameters)


def test_a_preset_is_refused_where_it_does_not_fit():
    assert resolved(Experiment(preset="small")).settings == PRESETS["small"]
    with pytest.raises(PoiseError, match=r"preset 'small' was not made for cheetah .* take cheetah or cheetah-small"):
        poise.train(domain="cheetah", preset="small", progress=False)
    with pytest.raises(PoiseError, match="unknown preset 'smal'; did you mean 'small'"):
        Experiment(preset="smal")
    with pytest.raises(PoiseError, match="a preset or settings, not both"):
        Experiment(preset="small", settings=TINY)


def test_domains_functions_and_paths_are_accepted_by_train_and_by_train_many(tmp_path):
    wander(40).save(tmp_path / "walks.npz")
    asked = [
        {"domain": MINE},
        {"data": tmp_path / "walks.npz", "styles": [reach], "settings": TINY},
        {"data": wander(40), "styles": (reach,), "domain": replace(MINE, styles={})},
        {"data": str(tmp_path / "walks.npz"), "domain": MINE, "styles": ["reach"]},
    ]
    many = poise.train_many([Experiment("rnn", **one) for one in asked], out=tmp_path / "many", progress=False)
    assert [run.styles[0].name for run in many] == ["reach"] * 4
    assert [run.domain.name for run in many] == ["mine", "walks", "mine", "mine"]
    for number, one in enumerate(asked):
        run = poise.train("rnn", **one, out=tmp_path / f"{number}", progress=False)
        assert run.experiment.to_json() == many[number].experiment.to_json()


FILE = """
import poise
from poise.domains import integrator

def reach(states, actions):
    return states[-1, 0]

def walks(count, seed):
    import numpy as np
    return poise.Trajectories(np.random.default_rng(seed).normal(size=(count, 7, 2)).cumsum(axis=1))

FIELD = poise.Domain("field", walks, 40, dynamics=integrator, styles={"reach": poise.labeling_function(reach)})
ROW = poise.ALGORITHMS["rnn"]
NUMBER = 3
"""


def test_domains_and_algorithms_can_be_named_in_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    made = prepare(Experiment(f"{tmp_path}/mine.py:ROW", domain=f"{tmp_path}/mine.py:FIELD", settings=TINY))
    assert made.domain.name == "field"
    assert made.experiment.algorithm_name == "ROW"
    assert [style.name for style in made.styles] == ["reach"]
    for wrong, message in (("NUMBER", "is not a poise.Domain but int"), ("FEILD", "did you mean 'FIELD'")):
        with pytest.raises(PoiseError, match=message):
            prepare(Experiment(domain=f"{tmp_path}/mine.py:{wrong}"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seeds": 0}, "at least one seed; got 0"),
        ({"first_seed": -1}, "seeds lie between 0"),
        ({"noise": -0.1}, "noise is a deviation, 0 or above; got -0.1"),
        ({"noise": float("nan")}, "noise is a deviation"),
        ({"count": 0}, "count is at least 1; got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_when_an_experiment_is_made(given, message):
    with pytest.raises(PoiseError, match=message):
        Experiment(**given)


def test_experiments_come_back_from_json():
    asked = resolved(Experiment("ctvae", styles=["speed"], seeds=2, noise=0.5))
    assert Experiment.from_json(asked.to_json()) == asked
    with pytest.raises(PoiseError, match="unknown setting of Experiment 'sedes'; did you mean 'seeds'"):
        Experiment.from_json({**asked.to_json(), "sedes": 2})
