import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from poise.models import loops
from poise.models.layers import Linear


class Weights(eqx.Module):
    memory: Linear
    inputs: Linear
    scale: jax.Array


def step(weights, memory, now):
    """One linear is called twice; one weight is no linear; and some values of x are not differentiated."""
    x, real = now
    new = jnp.tanh(weights.memory(memory) + weights.inputs(x) * weights.scale + weights.memory(memory * memory))
    return jnp.where(real[:, None], new, memory), 2 * new


def scanned(step, weights, memory, xs):
    def body(memory, x):
        memory, y = step(weights, memory, x)
        return memory, (memory, y)

    return jax.lax.scan(body, memory, xs)[1]


def loss(run, weights, memory, x):
    memories, ys = run(step, weights, memory, (x, REAL))
    return jnp.sum(jnp.sin(ys)) + jnp.sum(memories[-1] ** 2)


REAL = jax.random.uniform(jax.random.key(9), (7, 4)) > 0.3
GIVEN = (
    Weights(Linear(9, 9, key=jax.random.key(0)), Linear(3, 9, key=jax.random.key(1)), jnp.linspace(0.5, 1.5, 9)),
    jax.random.normal(jax.random.key(2), (4, 9)),
    jax.random.normal(jax.random.key(3), (7, 4, 3)),
)


@pytest.fixture(params=["kept on the way", "computed again"])
def way(request, monkeypatch):
    """Both ways of going back, whatever this machine has."""
    monkeypatch.setattr(loops, "on_cpu", lambda: request.param == "kept on the way")


@pytest.mark.parametrize("argument", [0, 1, 2])
def test_a_loop_has_the_values_and_gradients_of_a_scan(way, argument):
    ours, plain = (jax.value_and_grad(loss, argnums=1 + argument)(run, *GIVEN) for run in (loops.loop, scanned))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_loop_may_be_mapped_over_runs(way):
    runs = jax.tree.map(lambda x: jnp.stack([x, 0.5 * x]), GIVEN[0])
    ours, plain = (
        jax.vmap(jax.grad(lambda w, run=run: loss(run, w, *GIVEN[1:])))(runs) for run in (loops.loop, scanned)
    )
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_going_back_has_no_product_for_a_matrix_inside_of_its_loop(way):
    """The point of it all: the gradient of a matrix is one product over all steps."""
    assert (9, 9) in products(scanned)
    assert (9, 9) not in products(loops.loop)


def products(run):
    """Shapes of all products within the loops of a gradient."""
    program = jax.make_jaxpr(jax.grad(lambda weights: loss(run, weights, *GIVEN[1:])))(GIVEN[0])
    dots = [e for loop in _scans(program.jaxpr) for e in loop.eqns if e.primitive.name == "dot_general"]
    return {tuple(e.outvars[0].aval.shape) for e in dots}


def _scans(jaxpr):
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation.params["jaxpr"].jaxpr
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr")):
            if hasattr(inner, "jaxpr") and equation.primitive.name != "scan":
                yield from _scans(inner.jaxpr)
