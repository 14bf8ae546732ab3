"""The kernels do what single steps do: run by an interpreter here, and only lowered for the GPU they are made for."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander

from poise.config import Network
from poise.labeling import Categories, LabelSpace
from poise.models import RNN, TVAE, Statistics, rollout_kernel
from poise.models.kernels import recur
from poise.models.recurrent import GRU, gates

SPACE = LabelSpace((Categories(3),))
NETWORKS = {
    "sizes filled up": (TVAE, 2, Network(hidden=20, layers=(20, 20))),
    "sizes that differ, one variance": (RNN, 3, Network(hidden=8, layers=(16, 24), variance="global")),
}
BATCH, STEPS = 18, 3


def moved(policy, seed):
    """The policy with everything but its statistics moved a little: biases start at zero, and would hide."""
    random = np.random.default_rng(seed)
    after = jax.tree.map(lambda x: x + np.float32(0.05) * random.normal(size=x.shape).astype(np.float32), policy)
    return eqx.tree_at(lambda p: p.decoder.statistics, after, policy.decoder.statistics)


def made(name):
    kind, size, network = NETWORKS[name]
    return moved(kind(Statistics.of(wander(50, size=size)), SPACE, network, key=jax.random.key(0)), 1)


@pytest.fixture(scope="module", params=NETWORKS)
def policy(request):
    return made(request.param)


def given(policy, batch=BATCH):
    keys = jax.random.split(jax.random.key(2), 3)
    return (
        policy,
        jax.random.normal(keys[0], (batch, policy.noise)),
        jax.random.randint(keys[1], (batch, 1), 0, 3),
        jax.random.normal(keys[2], (STEPS, batch, policy.noise)),
    )


def by_steps(policy, starts, labels, noise):
    context = policy.context(labels, jax.random.key(3))

    def step(now, noise):
        action, memory = policy.step(context, now[1], now[0], noise)
        return (now[0] + action, memory), (now[0] + action, action)

    return jax.lax.scan(step, (starts, policy.memory(len(starts))), noise)[1]


@cache
def by_kernel(low=jnp.float32, interpret=True):
    def roll(policy, starts, labels, noise):
        ready = policy.context(labels, jax.random.key(3))
        return rollout_kernel.roll(policy.decoder, ready, starts, noise, low=low, interpret=interpret)

    return roll


@partial(jax.jit, static_argnums=0)
def results(function, policy, starts, labels, noise):
    """What the function returns, and the gradients of some function of it to weights and starts."""
    weights, statistics = eqx.partition(policy, trainable(policy))

    def score(given):
        states, actions = function(eqx.combine(given[0], statistics), given[1], labels, noise)
        return jnp.sum(jnp.sin(states)) + jnp.sum(actions**2), (states, actions)

    gradients, made = jax.grad(score, has_aux=True)((weights, starts))
    return made, gradients


def trainable(policy):
    flags = jax.tree.map(lambda _: True, policy)
    return eqx.tree_at(lambda p: p.decoder.statistics, flags, jax.tree.map(lambda _: False, policy.decoder.statistics))


def assert_close(one, other, tolerance):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(jnp.abs(a).max()))


def test_a_rollout_and_its_gradients_are_those_of_its_steps(policy):
    assert_close(results(by_steps, *given(policy)), results(by_kernel(), *given(policy)), 1e-4)


def test_many_runs_roll_at_once():
    first = made("sizes filled up")
    runs = jax.tree.map(lambda *x: jnp.stack(x), first, moved(first, 2))
    both = [
        jax.vmap(lambda run, function=function: results(function, *given(run)))(runs)
        for function in (by_steps, by_kernel())
    ]
    assert_close(*both, 1e-4)


def test_low_precision_stays_near(policy):
    (exact, exact_back), (made, back) = (
        results(by_steps, *given(policy)),
        results(by_kernel(jnp.bfloat16), *given(policy)),
    )
    assert_close(exact, made, 1e-2)
    one, other = (jnp.concatenate([x.ravel() for x in jax.tree.leaves(tree)]) for tree in (exact_back, back))
    assert jnp.linalg.norm(one - other) < 0.05 * jnp.linalg.norm(one)


def test_nothing_comes_back_through_a_clipped_sigma():
    sigmas = jnp.array([0.0, 0.0, -20.0, 20.0])
    policy = eqx.tree_at(lambda p: p.decoder.body.layers[2].bias, made("sizes filled up"), sigmas)
    exact, clipped = results(by_steps, *given(policy)), results(by_kernel(), *given(policy))
    assert_close(exact, clipped, 1e-4)
    assert not clipped[1][0].decoder.body.layers[2].bias[2:].any()


@pytest.mark.parametrize(("batch", "size"), [(128, 128), (20, 20)])
def test_the_kernels_lower_for_a_gpu(batch, size):
    statistics, network = Statistics.of(wander(50)), Network(hidden=size, layers=(size, size))
    policies = jax.vmap(lambda key: RNN(statistics, SPACE, network, key=key))(jax.random.split(jax.random.key(0), 2))
    function = by_kernel(jnp.bfloat16, interpret=False)
    traced = jax.jit(jax.vmap(lambda policy: results(function, *given(policy, batch)))).trace(policies)
    assert "roll_back" in traced.lower(lowering_platforms=("cuda",)).as_text()


def test_a_kernel_takes_what_it_fits(monkeypatch):
    statistics = Statistics.of(wander(50))

    def fits(**network):
        return rollout_kernel.fits(RNN(statistics, SPACE, Network(**network), key=jax.random.key(0)).decoder)

    assert not fits(hidden=8, layers=(8, 8))  # there is no GPU
    monkeypatch.setattr(rollout_kernel, "available", lambda: True)
    assert fits(hidden=8, layers=(8, 8))
    assert not fits(hidden=8, layers=(8,))
    assert not fits(hidden=8, layers=(8, 8), decoder="markov")
    assert not fits(hidden=8, layers=(8, 300))


def test_several_grus_read_as_their_steps_do():
    several, size, keys = 2, 20, jax.random.split(jax.random.key(0), 4)
    grus = [GRU(3, size, key=key).recurrent for key in keys[:several]]
    weight, bias = jnp.stack([x.weight for x in grus]), 0.1 * jax.random.normal(keys[2], (several, 3 * size))
    projected = jax.random.normal(keys[3], (STEPS, several, BATCH, 3 * size))
    real = jnp.arange(STEPS)[:, None, None] < jnp.arange(1, BATCH + 1)[None, None] * jnp.ones((1, several, 1))

    def by_steps(weight, bias, projected):
        def step(memory, now):
            x, real = now
            after = gates(memory, x, memory @ weight + bias[:, None], real[..., None].astype(jnp.float32))
            return after, after

        return jax.lax.scan(step, jnp.zeros((several, BATCH, size)), (projected, real))[1]

    def of(function):
        loss = lambda *given: jnp.sum(jnp.sin(3 * function(*given)))  # noqa: E731
        return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(weight, bias, projected)

    assert_close(of(by_steps), of(lambda *given: recur(*given, real, True)), 1e-2)
