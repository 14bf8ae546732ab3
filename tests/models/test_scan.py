import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise.models import scan as scan_module
from poise.models.layers import Linear
from poise.models.scan import scan


class Weights(eqx.Module):
    memory: Linear
    inputs: Linear
    scale: jax.Array


def step(weights, memory, inputs):
    """One `Linear` is called twice, one weight is not a `Linear`, and one input is not differentiated."""
    x, real = inputs
    new = jnp.tanh(weights.memory(memory) + weights.inputs(x) * weights.scale + weights.memory(memory * memory))
    return jnp.where(real[:, None], new, memory), 2 * new


def plain_scan(step, weights, memory, xs):
    def body(memory, x):
        memory, y = step(weights, memory, x)
        return memory, (memory, y)

    return jax.lax.scan(body, memory, xs)[1]


def loss(scan, weights, memory, x):
    memories, ys = scan(step, weights, memory, (x, REAL))
    return jnp.sum(jnp.sin(ys)) + jnp.sum(memories[-1] ** 2)


REAL = jax.random.uniform(jax.random.key(9), (7, 4)) > 0.3
ARGUMENTS = (
    Weights(Linear(9, 9, key=jax.random.key(0)), Linear(3, 9, key=jax.random.key(1)), jnp.linspace(0.5, 1.5, 9)),
    jax.random.normal(jax.random.key(2), (4, 9)),
    jax.random.normal(jax.random.key(3), (7, 4, 3)),
)


@pytest.fixture(params=["stored residuals", "recomputed residuals"], autouse=True)
def _residuals(request, monkeypatch):
    """Every test runs as on a CPU, which stores residuals, and as on an accelerator, which recomputes them."""
    monkeypatch.setattr(scan_module, "on_cpu", lambda: request.param == "stored residuals")


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_a_scan_has_the_values_and_gradients_of_jax_lax_scan(argument):
    ours, plain = (jax.value_and_grad(loss, argnums=1 + argument)(f, *ARGUMENTS) for f in (scan, plain_scan))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_scan_can_be_mapped_over_runs():
    runs = jax.tree.map(lambda x: jnp.stack([x, 0.5 * x]), ARGUMENTS[0])
    ours, plain = (
        jax.vmap(jax.grad(lambda weights, f=f: loss(f, weights, *ARGUMENTS[1:])))(runs) for f in (scan, plain_scan)
    )
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_the_backward_scan_has_no_product_for_the_gradient_of_a_matrix():
    """The gradient of a matrix is one product over all steps instead."""
    assert (9, 9) in products(plain_scan)
    assert (9, 9) not in products(scan)


def products(scan):
    """The shapes of all matrix products inside of the scans of a gradient."""
    program = jax.make_jaxpr(jax.grad(lambda weights: loss(scan, weights, *ARGUMENTS[1:])))(ARGUMENTS[0])
    dots = [e for body in _scans(program.jaxpr) for e in body.eqns if e.primitive.name == "dot_general"]
    return {tuple(e.outvars[0].aval.shape) for e in dots}


def _scans(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation.params["jaxpr"].jaxpr
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(inner, "jaxpr") and equation.primitive.name != "scan":
                yield from _scans(inner.jaxpr)
