import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise import PRESETS, Experiment, Network, PoiseError, Settings, Training, Weights, config


@given(st.integers(1, 500), st.lists(st.integers(1, 99), max_size=3), st.sampled_from(["recurrent", "markov"]))
def test_an_experiment_comes_back_from_json(hidden, layers, decoder):
    network = Network(hidden=hidden, layers=tuple(layers), decoder=decoder)
    asked = Experiment(styles=("speed", "mine.py:zigzag"), settings=Settings(network=network))
    assert config.from_json(Experiment, json.loads(json.dumps(config.to_json(asked)))) == asked


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(PoiseError, match="unknown setting of Network 'hiden'; did you mean 'hidden'"):
        config.from_json(Network, {"hiden": 3})


def test_an_algorithm_of_ones_own_brings_weights_and_steps():
    settings = Settings(weights=Weights(extra={"novel": 2.0}), training=Training(extra_steps={"finetune": 5}))
    back = config.from_json(Settings, json.loads(json.dumps(config.to_json(settings))))
    assert back == settings
    assert back.weights.by_name()["novel"] == 2.0
    assert back.training.steps("finetune") == 5
    with pytest.raises(PoiseError, match="stage 'other' has no number of steps"):
        back.training.steps("other")


def test_the_papers_sizes_are_presets():
    assert PRESETS["basketball"].network == Network()
    cheetah = PRESETS["cheetah"].network
    assert (cheetah.latent, cheetah.hidden, cheetah.layers, cheetah.dynamics_layers) == (8, 200, (200, 200), (500, 500))
    assert (cheetah.decoder, cheetah.variance) == ("markov", "global")


def test_impossible_numbers_are_refused():
    for wrong in (
        {"network": Network(hidden=0)},
        {"training": Training(batch=0)},
        {"training": Training(policy_steps=-1)},
        {"training": Training(clip=0.0)},
        {"training": Training(learning_rate=float("nan"))},
        {"network": Network(latent=-1)},
        {"network": Network(layers=(8, 0))},
        {"network": Network(fading=1.1)},
    ):
        with pytest.raises(PoiseError, match="must"):
            Settings(**wrong)
