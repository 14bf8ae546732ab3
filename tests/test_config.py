import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise import Experiment, Network, PoiseError, Settings, Training, config


@given(st.integers(1, 500), st.lists(st.integers(1, 99), max_size=3), st.sampled_from(["recurrent", "markov"]))
def test_an_experiment_comes_back_from_json(hidden, layers, decoder):
    network = Network(hidden=hidden, layers=tuple(layers), decoder=decoder)
    asked = Experiment(styles=("speed", "mine.py:zigzag"), settings=Settings(network=network))
    assert config.from_json(Experiment, json.loads(json.dumps(config.to_json(asked)))) == asked


def test_an_unknown_setting_is_refused_with_a_suggestion():
    with pytest.raises(PoiseError, match="unknown setting of Network 'hiden'; did you mean 'hidden'"):
        config.from_json(Network, {"hiden": 3})


def test_impossible_numbers_are_refused():
    for wrong in (
        {"network": Network(hidden=0)},
        {"training": Training(batch=0)},
        {"training": Training(policy_steps=-1)},
    ):
        with pytest.raises(PoiseError, match="must"):
            Settings(**wrong)
