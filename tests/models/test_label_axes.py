"""Modules declare which of their arrays have label columns, so that runs of different label spaces can be padded."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY, wander

from poise.models import RNN, TVAE, Adversary, Labeler, Statistics
from poise.styles.label_spaces import Categories, HasLabelAxes, LabelSpace

SMALL = LabelSpace((Categories(3),))
LARGE = LabelSpace((Categories(3), Categories(3)))
STATISTICS = Statistics.of(wander(50))


def tvae(space, key, **options):
    return TVAE(STATISTICS, space, TINY.network, key=key, **options)


POLICIES = {
    "TVAE": tvae,
    "TVAE whose encoder does not read labels": lambda space, key: tvae(space, key, encode_labels=False),
    "RNN": lambda space, key: RNN(STATISTICS, space, TINY.network, key=key),
}
MODULES = {
    **POLICIES,
    "Labeler": lambda space, key: Labeler(STATISTICS, space, TINY.network, key=key),
    "Adversary": lambda space, key: Adversary(space, TINY.network, key=key),
}


def shapes(module):
    """The shape of each array by its dotted path."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(module, eqx.is_array))
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf.shape for path, leaf in leaves}


@pytest.mark.parametrize("runs", [None, 2], ids=["one run", "an axis of runs"])
@pytest.mark.parametrize("name", MODULES)
def test_exactly_the_declared_axes_grow_with_the_label_space(name, runs):
    def build(space):
        key = jax.random.key(0)
        if runs is None:
            return MODULES[name](space, key)
        return eqx.filter_vmap(lambda key: MODULES[name](space, key))(jax.random.split(key, runs))

    small, large = build(SMALL), build(LARGE)
    assert isinstance(small, HasLabelAxes)
    assert small.label_axes() == large.label_axes()
    expected = {path: list(shape) for path, shape in shapes(small).items()}
    for path, axis in small.label_axes().items():
        assert axis < 0
        expected[path][axis] += LARGE.width - SMALL.width
    assert {path: list(shape) for path, shape in shapes(large).items()} == expected


@pytest.mark.parametrize("name", POLICIES)
def test_the_label_columns_of_a_policy_are_the_last_on_their_axis(name, walks):
    """Without them, the policy no longer depends on its labels."""
    policy = POLICIES[name](SMALL, jax.random.key(0))
    blank = policy
    for path, axis in policy.label_axes().items():
        blank = eqx.tree_at(lambda p, path=path: find(p, path), blank, replace_fn=lambda x, axis=axis: clear(x, axis))
    before, after = (spread(p, walks) for p in (policy, blank))
    assert before > 1e-3
    assert after == 0


def find(module, path):
    for name in path.split("."):
        module = module[int(name)] if name.isdigit() else getattr(module, name)
    return module


def clear(x, axis):
    """The array with zeros in the last columns of the axis, which are those of the labels."""
    first = x.shape[axis] - SMALL.width
    return jnp.where(jnp.arange(x.shape[axis]).reshape(-1, *[1] * (-axis - 1)) < first, x, 0.0)


def spread(policy, walks):
    """The largest difference between the imitation losses for two labels."""
    imitate = eqx.filter_jit(lambda policy, labels: policy.imitate(walks.arrays, labels, jax.random.key(1)))
    losses = [imitate(policy, np.full((60, 1), k)) for k in (0, 2)]
    return max(np.abs(a - b).max(initial=0) for a, b in zip(*losses, strict=True))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_without_labels_declares_no_axes(name):
    assert MODULES[name](LabelSpace(()), jax.random.key(0)).label_axes() == {}
