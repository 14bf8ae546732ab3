"""What memory cannot hold is refused in one line, before anything of it is made."""

from dataclasses import replace

import pytest
from conftest import TINY, wander

import poise
from poise import PoiseError
from poise.config import FlowNetwork, Network, Settings
from poise.runs import sizes
from poise.runs.prepare import prepare
from poise.system import memory

GIB = 2**30


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """A machine of 8 GiB, on which nothing is labelled."""
    monkeypatch.setenv("POISE_MEMORY", "8G")
    monkeypatch.setattr(sizes, "host_memory", lambda: 8 * GIB)
    monkeypatch.setattr(sizes, "training_memory", lambda: 8 * GIB)


def refused(algorithm="flow", data=None, **given) -> str:
    with pytest.raises(PoiseError) as error:
        prepare(poise.Experiment(algorithm, wander(60) if data is None else data, **{"styles": [end], **given}))
    assert "\n" not in str(error.value)
    return str(error.value)


def end(states, actions):
    return states[-1, 0]


@pytest.mark.parametrize(
    ("algorithm", "network", "name", "limit"),
    [
        ("flow", Network(flow=FlowNetwork(width=10**6)), "network.flow.width=1000000", 10**4),
        ("ctvae-style", Network(hidden=10**6), "network.hidden=1000000", 10**4),
        ("rnn", Network(layers=(10**6, 10**6)), "network.layers=(1000000, 1000000)", 10**5),
        ("ctvae", Network(hidden=10**12), "network.hidden=1000000000000", 10**4),
    ],
)
def test_networks_that_do_not_fit_are_refused_with_the_setting_and_what_would_fit(algorithm, network, name, limit):
    line = refused(algorithm, settings=Settings(network=network))
    assert line.startswith(f"training networks of {name} would take about ")
    assert "iB of memory, and there are 8 GiB; about " in line
    fitting = int(line.split()[-2])
    assert 100 < fitting < limit
    setting = name.split("=")[0].removeprefix("network.")
    value = tuple(min(n, fitting) for n in network.layers) if setting == "layers" else fitting
    prepare(
        poise.Experiment(
            algorithm, wander(60), styles=[end], settings=Settings(network=sizes._with(network, setting, value))
        )
    )


def test_more_seeds_than_fit_are_refused_with_how_many_would():
    line = refused(seeds=100_000)
    assert line.startswith("training 100000 seeds would take about ")
    fitting = int(line.split()[-3])
    assert 1 < fitting < 1000
    prepare(poise.Experiment("flow", wander(60), styles=[end], seeds=fitting))
    prepare(poise.Experiment("flow", wander(60), styles=[end], seeds=1000, settings=TINY))  # small ones fit
    assert "fits" not in refused(seeds=2**30, settings=TINY)


def test_more_classes_than_demonstrations_are_refused():
    line = refused(classes=10**8)
    assert "there are 48 for classes=100000000; their names alone take 9.31 GiB; ask for --classes 48" in line
    assert "their names" not in refused(classes=49)


def test_demonstrations_that_do_not_fit_are_not_made():
    made = []

    def walk(count, seed):
        made.append(count)
        return wander(min(count, 60))

    domain = poise.Domain("walk", demonstrations=walk, count=60)
    assert (
        "count=1000000000 demonstrations would take about 96.9 GiB of memory, and there are 8 GiB; 82000000"
        in refused(data="walk", domain=domain, count=10**9)
    )
    assert made == [1]
    cheetah = poise.DOMAINS["cheetah"]
    with pytest.raises(PoiseError, match="or fewer fit"):
        sizes.check_count(cheetah, 10**9)
    assert sizes.check_count(replace(cheetah, demonstrations=None), 10**9) == 10**9


def test_rollouts_that_do_not_fit_are_not_made():
    run = poise.train("rnn", styles=["speed"], count=40, settings=TINY, progress=False)
    with pytest.raises(PoiseError, match=r"3 rollouts of 1000000000 steps would take about 44.7 GiB .* 8 GiB; ask for"):
        run.sample(3, steps=10**9)
    with pytest.raises(PoiseError, match="rollouts of 24 steps would take about"):
        run.evaluate(rollouts=10**9)
    assert len(run.sample(3, tries=1)) == 3


def test_sizes_are_told_in_units_for_people():
    assert [memory.in_units(size) for size in (0, 1020, 2048, 10 * GIB, 1e30)] == [
        "0 B",
        "1020 B",
        "2 KiB",
        "10 GiB",
        "8.67e+11 EiB",
    ]
    assert 2**20 < memory.host_memory() < 2**50
    assert memory.training_memory() == 8 * GIB
