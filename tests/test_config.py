"""Settings: checked when they are made, and the same after a way through JSON."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise import PRESETS, Experiment, Network, PoiseError, Settings, Training, Weights, config


def through_json(value):
    return json.loads(json.dumps(value))


@given(st.integers(1, 500), st.lists(st.integers(1, 99), max_size=3), st.sampled_from(["recurrent", "markov"]))
def test_an_experiment_comes_back_from_json(hidden, layers, decoder):
    network = Network(hidden=hidden, layers=tuple(layers), decoder=decoder)
    asked = Experiment(data="basketball", styles=("speed", "mine.py:zigzag"), settings=Settings(network=network))
    assert Experiment.from_json(through_json(asked.to_json())) == asked


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_comes_back_from_json(name):
    assert config.from_json(Settings, through_json(config.to_json(PRESETS[name]))) == PRESETS[name]


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(PoiseError, match="unknown setting of Network 'hiden'; did you mean 'hidden'"):
        config.from_json(Network, {"hiden": 3})


def test_settings_of_an_earlier_version_are_filled_up_with_defaults():
    earlier = {"network": {"latent": 2}, "training": {}}
    expected = Settings(network=Network(latent=2))
    assert config.fill(Settings, earlier) == through_json(config.to_json(expected))


def test_an_algorithm_of_ones_own_brings_weights_and_steps():
    settings = Settings(weights=Weights(extra={"novel": 2.0}), training=Training(extra_steps={"finetune": 5}))
    back = config.from_json(Settings, through_json(config.to_json(settings)))
    assert back == settings
    assert back.weights.by_name()["novel"] == 2.0
    assert back.training.steps("finetune") == 5
    with pytest.raises(PoiseError, match="stage 'other' has no number of steps"):
        back.training.steps("other")


def test_every_weight_has_the_name_of_a_field_or_is_extra():
    names = {field.name for field in dataclasses.fields(Weights)} - {"extra"}
    assert set(Weights().by_name()) == names


def test_the_papers_sizes_are_presets():
    assert PRESETS["basketball"].network == Network()
    cheetah = PRESETS["cheetah"].network
    assert (cheetah.latent, cheetah.hidden, cheetah.layers, cheetah.dynamics_layers) == (8, 200, (200, 200), (500, 500))
    assert (cheetah.decoder, cheetah.variance) == ("markov", "global")


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"network": Network(hidden=0)}, r"network\.hidden must be above 0; got 0"),
        ({"training": Training(batch=0)}, r"training\.batch must be above 0"),
        (
            {"training": Training(policy_steps=-1)},
            r"training\.policy_steps must be .*, not negative; got -1",
        ),
        ({"training": Training(clip=0.0)}, r"training\.clip must be above 0"),
        ({"training": Training(learning_rate=float("nan"))}, r"training\.learning_rate must be a finite number"),
        ({"weights": Weights(style=float("inf"))}, r"weights\.style must be a finite number"),
        ({"network": Network(latent=-1)}, r"network\.latent must be a finite number, not negative"),
        ({"network": Network(layers=(8, 0))}, r"network\.layers must be above 0"),
        ({"network": Network(gradient_decay=1.1)}, r"network\.gradient_decay must be at most 1; got 1\.1"),
    ],
)
def test_impossible_numbers_are_refused(wrong, rule):
    with pytest.raises(PoiseError, match=rule):
        Settings(**wrong)


@pytest.mark.parametrize(
    ("kind", "name", "value", "rule"),
    [
        (config.Sampling, "strength", "1", r"^sampling\.strength must be a finite number, not negative; got '1'$"),
        (config.Sampling, "strength", None, r"^sampling\.strength must be a finite number, not negative; got None$"),
        (config.Sampling, "strength", 1e300, r"^sampling\.strength must be at most 1e\+30; got 1e\+300$"),
        (config.Sampling, "tries", 2.5, r"^sampling\.tries is a whole number; got 2\.5$"),
        (Network, "hidden", 2.5, r"^network\.hidden is a whole number; got 2\.5$"),
        (Network, "layers", (8, 2.5), r"^network\.layers is a whole number; got 2\.5$"),
        (Network, "flow", {}, r"^network\.flow is a poise\.FlowNetwork\(\.\.\.\); got a dict$"),
        (Training, "policy_steps", "9", r"^training\.policy_steps must be a finite number, not negative; got '9'$"),
    ],
)
def test_what_is_no_number_of_its_kind_is_refused(kind, name, value, rule):
    part = kind()
    object.__setattr__(part, name, value)  # types are checked in tests, not where users are
    with pytest.raises(PoiseError, match=rule):
        Settings(**{kind.__name__.lower(): part})


def test_sampling_is_checked_with_the_tries_that_are_given():
    assert config.check_sampling(config.Sampling(tries=1, typical=2), 4).tries == 4
    with pytest.raises(PoiseError, match=r"chooses among accepted rollouts; got 2 with one try"):
        config.check_sampling(config.Sampling(tries=4, typical=2), 1)
