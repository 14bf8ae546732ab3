"""The rollout kernel returns what single steps return: interpreted on a CPU here, and only lowered for a GPU."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import wander

from poise.config import Network
from poise.models import RNN, TVAE, Statistics
from poise.models.kernels import rollout as rollout_kernel
from poise.styles.label_spaces import Categories, LabelSpace

SPACE = LabelSpace((Categories(3),))
NETWORKS = {
    "padded sizes": (TVAE, 2, Network(hidden=20, layers=(20, 20))),
    "different sizes, one variance": (RNN, 3, Network(hidden=8, layers=(16, 24), variance="global")),
}
BATCH, STEPS = 18, 3


def perturb(policy, seed):
    """The policy with noise on everything but its statistics: biases that are zero would hide errors."""
    random = np.random.default_rng(seed)
    after = jax.tree.map(lambda x: x + np.float32(0.05) * random.normal(size=x.shape).astype(np.float32), policy)
    return eqx.tree_at(lambda p: p.decoder.statistics, after, policy.decoder.statistics)


def build(name):
    kind, size, network = NETWORKS[name]
    return perturb(kind(Statistics.of(wander(50, size=size)), SPACE, network, key=jax.random.key(0)), 1)


@pytest.fixture(scope="module", params=NETWORKS)
def policy(request):
    return build(request.param)


def arguments(policy, batch=BATCH):
    """The policy, starts, labels and noise."""
    keys = jax.random.split(jax.random.key(2), 3)
    return (
        policy,
        jax.random.normal(keys[0], (batch, policy.noise)),
        jax.random.randint(keys[1], (batch, 1), 0, 3),
        jax.random.normal(keys[2], (STEPS, batch, policy.noise)),
    )


def by_steps(policy, starts, labels, noise):
    context, memory = policy.begin(labels, jnp.full(len(starts), STEPS), jax.random.key(3))

    def step(carry, noise):
        state, memory = carry
        action = policy.propose(context, memory, state, noise)[:, 0]
        return (state + action, policy.remember(context, memory, state, action)), (state + action, action)

    return jax.lax.scan(step, (starts, memory), noise)[1]


@cache
def by_kernel(dtype=jnp.float32, interpret=True):
    def rollout(policy, starts, labels, noise):
        prepared, _ = policy.begin(labels, jnp.full(len(starts), STEPS), jax.random.key(3))
        return rollout_kernel.rollout(policy.decoder, prepared, starts, noise, dtype=dtype, interpret=interpret)

    return rollout


@partial(jax.jit, static_argnums=0)
def results(function, policy, starts, labels, noise):
    """The states and actions of a rollout, and the gradients of a function of them by weights and starts."""
    weights, statistics = eqx.partition(policy, trainable(policy))

    def score(inputs):
        states, actions = function(eqx.combine(inputs[0], statistics), inputs[1], labels, noise)
        return jnp.sum(jnp.sin(states)) + jnp.sum(actions**2), (states, actions)

    gradients, outputs = jax.grad(score, has_aux=True)((weights, starts))
    return outputs, gradients


def trainable(policy):
    flags = jax.tree.map(lambda _: True, policy)
    return eqx.tree_at(lambda p: p.decoder.statistics, flags, jax.tree.map(lambda _: False, policy.decoder.statistics))


def assert_close(one, other, tolerance):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(jnp.abs(a).max()))


def test_a_rollout_and_its_gradients_are_those_of_its_steps(policy):
    assert_close(results(by_steps, *arguments(policy)), results(by_kernel(), *arguments(policy)), 1e-4)


def test_the_kernel_can_be_mapped_over_runs():
    first = build("padded sizes")
    runs = jax.tree.map(lambda *x: jnp.stack(x), first, perturb(first, 2))
    one, other = (
        jax.vmap(lambda run, function=function: results(function, *arguments(run)))(runs)
        for function in (by_steps, by_kernel())
    )
    assert_close(one, other, 1e-4)


def test_bfloat16_stays_close_to_float32(policy):
    exact, exact_gradients = results(by_steps, *arguments(policy))
    rounded, rounded_gradients = results(by_kernel(jnp.bfloat16), *arguments(policy))
    assert_close(exact, rounded, 1e-2)
    one, other = (
        jnp.concatenate([x.ravel() for x in jax.tree.leaves(tree)]) for tree in (exact_gradients, rounded_gradients)
    )
    assert jnp.linalg.norm(one - other) < 0.05 * jnp.linalg.norm(one)


def test_a_clipped_log_sigma_has_no_gradient():
    log_sigmas = jnp.array([0.0, 0.0, -20.0, 20.0])
    policy = eqx.tree_at(lambda p: p.decoder.body.layers[2].bias, build("padded sizes"), log_sigmas)
    exact, clipped = results(by_steps, *arguments(policy)), results(by_kernel(), *arguments(policy))
    assert_close(exact, clipped, 1e-4)
    assert not clipped[1][0].decoder.body.layers[2].bias[2:].any()


def lowered_for_cuda(traced) -> str:
    try:
        return traced.lower(lowering_platforms=("cuda",)).as_text()
    except RuntimeError as error:  # JAX 0.11
        pytest.skip(f"this version of JAX lowers for a GPU only where there is one: {error}")


@pytest.mark.parametrize(("batch", "size"), [(128, 128), (20, 20)])
def test_the_kernels_lower_for_a_gpu(batch, size):
    statistics, network = Statistics.of(wander(50)), Network(hidden=size, layers=(size, size))
    policies = jax.vmap(lambda key: RNN(statistics, SPACE, network, key=key))(jax.random.split(jax.random.key(0), 2))
    function = by_kernel(jnp.bfloat16, interpret=False)
    traced = jax.jit(jax.vmap(lambda policy: results(function, *arguments(policy, batch)))).trace(policies)
    assert "rollout_backward_kernel" in lowered_for_cuda(traced)


def test_the_kernel_supports_narrow_recurrent_decoders_on_a_gpu(monkeypatch):
    statistics = Statistics.of(wander(50))

    def supports(**network):
        return rollout_kernel.supports(RNN(statistics, SPACE, Network(**network), key=jax.random.key(0)).decoder)

    assert not supports(hidden=8, layers=(8, 8))  # there is no GPU
    monkeypatch.setattr(rollout_kernel, "available", lambda: True)
    assert supports(hidden=8, layers=(8, 8))
    assert not supports(hidden=8, layers=(8,))
    assert not supports(hidden=8, layers=(8, 8), decoder="markov")
    assert not supports(hidden=8, layers=(8, 300))
