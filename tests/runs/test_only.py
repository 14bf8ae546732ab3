"""A run that is dialled by some of its styles only leaves the others free, in whatever it does."""

import functools

import jax
import numpy as np
import pytest
from flow_helpers import STEERED, climb, drift, drifting

import poise
from poise import Network, PoiseError, Settings, Training
from poise.config import FlowNetwork
from poise.rollouts.requests import Request
from poise.styles.label_spaces import Categories, LabelSpace


@functools.cache
def both():
    """A flow that was trained in two styles, a little, so that it listens to both."""
    settings = Settings(
        Network(flow=FlowNetwork(width=32, blocks=1, steps=8)),
        Training(flow_steps=60, flow_batch=64, chunk=300, learning_rate=5e-3),
        sampling=STEERED,
    )
    return poise.train("flow", drifting(600), [drift, climb], settings=settings, progress=False)


@pytest.mark.parametrize(("name", "column"), [("drift", 0), ("climb", 1)])
def test_it_samples_as_the_whole_run_does_with_the_other_style_left_free(name, column):
    whole, part = (run.sample(16, {name: "high"}, tries=1) for run in (both(), both().only([name])))
    assert whole.metadata["labels"].tolist() == [[2 if i == column else -1 for i in range(2)]] * 16
    assert part.metadata["labels"].tolist() == [[2]] * 16
    np.testing.assert_array_equal(part.states, whole.states)


def test_what_is_left_free_differs_from_what_is_asked_for():
    """Or the test above could not fail."""
    whole = both().sample(16, {"drift": "high", "climb": "low"}, start=[0, 0], tries=1)
    part = both().only(["drift"]).sample(16, {"drift": "high"}, start=[0, 0], tries=1)
    assert np.abs(part.states[:, -1] - whole.states[:, -1]).mean() > 0.1


def test_styles_come_in_the_order_in_which_they_are_named():
    part = both().only(["climb", "drift"])
    assert [style.name for style in part.styles] == ["climb", "drift"]
    np.testing.assert_array_equal(part.labels, both().labels[:, ::-1])
    whole = both().sample(8, {"drift": "low", "climb": "high"}, start=[0, 0], tries=1)
    np.testing.assert_array_equal(
        part.sample(8, {"drift": "low", "climb": "high"}, start=[0, 0], tries=1).states, whole.states
    )


def test_its_actor_acts_as_that_of_the_whole_run():
    whole, part = (run.actor({"climb": "high"}).step([0.0, 0.0]) for run in (both(), both().only(["climb"])))
    np.testing.assert_array_equal(part, whole)


def test_beside_a_later_style_the_others_follow_the_data_too():
    """The flow is given labels of the styles that nobody can ask for, as if the whole run were asked."""

    def top(states, actions):
        return states[-1, 1]

    runs, given = (both(), both().only(["drift"])), []
    for run, free in zip(runs, ([-1], []), strict=True):
        seed = run.trained(None, run.fit_later([top]))(0)
        labels = np.tile(np.asarray([[2, *free, 1]], np.int32), (8, 1))
        request = Request(run.starts.starts[:8], labels, run.starts.lengths[:8], run.starts.steps)
        given.append(seed.draw_open(labels, np.asarray(request.starts), jax.random.key(0)))
    np.testing.assert_array_equal(*given)
    assert (given[1] >= 0).all()


def test_a_later_style_is_asked_for_beside_it():
    def top(states, actions):
        return states[-1, 1]

    made = both().only(["drift"]).sample(8, {"drift": "low", "top": "high"}, styles=[top])
    assert made.metadata["labels"].tolist() == [[0, 2]] * 8


def test_its_report_is_of_the_named_styles_alone(no_classifier):
    report = both().only(["climb"]).evaluate(rollouts=64)
    assert list(report.algorithms["flow"][0].by_style) == ["climb"]
    assert [style["name"] for style in report.about["styles"]] == ["climb"]


def test_it_rolls_out_alike_in_a_larger_shared_label_space():
    part, larger = both().only(["climb"]), LabelSpace((Categories(3), Categories(5), Categories(3), Categories(3)))
    test = drifting(8, seed=1)
    scores = [part.evaluate(test, 64, shared=shared).algorithms["flow"][0] for shared in (None, larger)]
    assert scores[0].joint == scores[1].joint
    assert scores[0].nld == pytest.approx(scores[1].nld, rel=1e-4)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["drfit"], "unknown style of this run 'drfit'; did you mean 'drift'?"),
        (["drift", "drift"], "name at least one style, and each once; got drift, drift"),
        ([], "name at least one style, and each once; got none"),
    ],
)
def test_names_that_are_not_styles_are_refused(names, message):
    with pytest.raises(PoiseError) as error:
        both().only(names)
    assert message in str(error.value)


def test_a_policy_that_needs_all_styles_is_refused(run):
    with pytest.raises(PoiseError, match="always needs all its styles"):
        run.only(["speed"])


def test_it_is_not_saved_without_the_others(tmp_path):
    with pytest.raises(PoiseError, match="save the run that it was taken from"):
        both().only(["drift"]).save(tmp_path / "part")
