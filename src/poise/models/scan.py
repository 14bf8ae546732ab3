"""A scan with batched weight gradients. Its values and gradients are those of `jax.lax.scan`.

The gradient of `jax.lax.scan` adds a small product to the gradient of each weight matrix at every backward step. Here
the backward scan computes only the cotangents that depend on the following step. The gradient of each `Linear` is then
one large product over all steps.

On a CPU, the forward scan stores the residuals of every step: its caches hold them. On an accelerator, the forward scan
stores the carries alone, and the residuals of all steps are recomputed at once, which is cheaper there than many small
writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from ..data.trajectories import Array
from .layers import Linear, on_cpu

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
Source = tuple[Literal["input", "computed", "constant"], int]
StoredValues = tuple[list[Array], list[Array]]
"""The inputs (carry, x) of a step and the residuals that it computed, both flattened."""


def _unroll() -> int:
    return 1 if on_cpu() else 4  # an accelerator saves kernel launches; a CPU would only compile for longer


def scan(step: Step, weights: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
    """The carries after each step and the outputs of each step, both stacked along a new first axis.

    Args:
        step: A function (weights, carry, x) -> (carry, y). It must not close over values that are differentiated: they
            are passed as weights or as xs.
        weights: A pytree that is the same at every step; the gradients of the `Linear` modules in it are batched.
        carry: The carry before the first step.
        xs: A pytree of arrays whose first axis is time.

    Returns:
        The stacked carries and the stacked ys.
    """
    leaves, tree = jax.tree.flatten(weights, is_leaf=_is_linear)
    linears = {i: leaf for i, leaf in enumerate(leaves) if _is_linear(leaf)}
    others = {i: leaf for i, leaf in enumerate(leaves) if not _is_linear(leaf)}

    def step_with_leaves(linears, others, carry, x):
        return step(jax.tree.unflatten(tree, [{**linears, **others}[i] for i in range(len(leaves))]), carry, x)

    return _scan((linears, others, carry, xs), step_with_leaves)


@eqx.filter_custom_vjp
def _scan(inputs, step):
    *weights, carry, xs = inputs

    def body(carry, x):
        carry, y = step(*weights, carry, x)
        return carry, (carry, y)

    return jax.lax.scan(body, carry, xs, unroll=_unroll())[1]


@_scan.def_fwd
def _forward(perturbed, inputs, step):
    if not on_cpu():
        outputs = _scan(inputs, step)
        return outputs, (outputs, None)
    vjp = _StepVJP(perturbed, inputs, step)

    def body(carry, x):
        outputs, computed = vjp.forward(carry, x)
        return outputs[0], (outputs, computed)

    outputs, computed = jax.lax.scan(body, *inputs[2:], unroll=_unroll())[1]
    return outputs, (outputs, computed)


@_scan.def_bwd
def _backward(residuals, cotangents, perturbed, inputs, step):
    outputs, computed = residuals
    vjp = _StepVJP(perturbed, inputs, step)
    linears, _, carry, xs = inputs
    carries = jax.tree.map(lambda first, after: jnp.concatenate([first[None], after[:-1]]), carry, outputs[0])
    if computed is None:
        computed = jax.vmap(lambda carry, x: vjp.forward(carry, x)[1])(carries, xs)
    stored = jax.tree.leaves((carries, xs)), computed
    cotangents = jax.tree.map(lambda x, ct: jnp.zeros_like(x) if ct is None else ct, outputs, cotangents)

    def body(sums, at_step):
        (ct_carry, ct_others), (stored, (ct_after, ct_y)) = sums, at_step
        more, ct_carry, ct_x, ct_probes = vjp.backward(stored)((jax.tree.map(jnp.add, ct_carry, ct_after), ct_y))
        return (ct_carry, jax.tree.map(jnp.add, ct_others, more)), (ct_x, ct_probes)

    zeros = jax.tree.map(jnp.zeros_like, (carry, vjp.others))
    (ct_carry, ct_others), (ct_xs, ct_probes) = jax.lax.scan(
        body, zeros, (stored, cotangents), reverse=True, unroll=_unroll()
    )
    linear_inputs = vjp.linear_inputs(stored)
    gradients = {i: _linear_gradient(linears[i], linear_inputs[i], ct_probes[i]) for i in linear_inputs}
    ct_linears = {i: gradients.get(i, _no_gradient(linear)) for i, linear in linears.items()}
    return ct_linears, ct_others, ct_carry, ct_xs


class _StepVJP:
    """The vector-Jacobian product of one step, as two functions with explicit residuals between them.

    The step is traced once. Its jaxpr shows where each residual comes from: it is an input of the step, it is computed
    by the step, or it is the same at every step (the matrices). Only computed residuals have to be stored.
    """

    def __init__(self, perturbed, inputs, step):
        linears, others, carry, xs = inputs
        batched = {i: linears[i] for i, flags in perturbed[0].items() if flags.weight or flags.bias}
        self.others, fixed = eqx.partition(others, perturbed[1])

        def one_step(carry, x):
            x, fixed_x = eqx.partition(x, perturbed[3])

            def recorded(others, carry, x, probes):
                recorders = {i: _Recorder(linear, [], probes and probes[i]) for i, linear in batched.items()}
                outputs = step({**linears, **recorders}, eqx.combine(others, fixed), carry, eqx.combine(x, fixed_x))
                return outputs, {i: recorder.calls for i, recorder in recorders.items()}

            calls = eqx.filter_eval_shape(lambda: recorded(self.others, carry, x, None)[1])
            probes = {i: [jnp.zeros(y.shape) for _, y in each] for i, each in calls.items()}
            outputs, backward, calls = jax.vjp(recorded, self.others, carry, x, probes, has_aux=True)
            return outputs, (backward, {i: [x for x, _ in each] for i, each in calls.items()})

        first = carry, jax.tree.map(lambda x: x[0], xs)
        jaxpr, (outputs, residuals) = jax.make_jaxpr(one_step, return_shape=True)(*first)
        self._step = jaxpr_as_fun(jaxpr)
        self._outputs, self._residuals = jax.tree.structure(outputs), jax.tree.structure(residuals)
        self._constants = self._step(*jax.tree.leaves(first))
        self._sources = _sources(jaxpr.jaxpr, self._outputs.num_leaves)

    def forward(self, carry: Any, x: Any) -> tuple[Any, list[Array]]:
        """The outputs of a step, and the residuals that it computed."""
        leaves = self._step(*jax.tree.leaves((carry, x)))
        outputs, residuals = leaves[: self._outputs.num_leaves], leaves[self._outputs.num_leaves :]
        computed = {i: leaf for leaf, (kind, i) in zip(residuals, self._sources, strict=True) if kind == "computed"}
        return jax.tree.unflatten(self._outputs, outputs), [computed[i] for i in sorted(computed)]

    def backward(self, stored: StoredValues) -> Callable[[Any], Any]:
        """The function from the cotangents of a step's outputs to those of (others, carry, x, probes)."""
        return self._restore(stored)[0]

    def linear_inputs(self, stored: StoredValues) -> dict[int, list[Array]]:
        """The inputs of each call of each `Linear` whose gradient is batched, at all steps."""
        return self._restore(stored)[1]

    def _restore(self, stored: StoredValues) -> tuple[Callable[[Any], Any], dict[int, list[Array]]]:
        values = {"input": stored[0], "computed": stored[1], "constant": self._constants}
        return jax.tree.unflatten(self._residuals, [values[kind][i] for kind, i in self._sources])


def _sources(jaxpr: Any, first: int) -> list[Source]:
    """Where each output of a jaxpr comes from, beginning with output number `first`.

    ("input", i) is the i-th input. ("computed", i) depends on an input; the same i means the same value.
    ("constant", i) is the i-th output, which depends on no input.
    """
    inputs = {id(variable): i for i, variable in enumerate(jaxpr.invars)}
    varying = set(inputs)
    for equation in jaxpr.eqns:
        if any(id(variable) in varying for variable in equation.invars):
            varying |= {id(variable) for variable in equation.outvars}
    sources: list[Source] = []
    computed: dict[int, int] = {}
    for i, variable in enumerate(jaxpr.outvars[first:], start=first):
        if id(variable) in inputs:
            sources.append(("input", inputs[id(variable)]))
        elif id(variable) in varying:
            sources.append(("computed", computed.setdefault(id(variable), len(computed))))
        else:
            sources.append(("constant", i))
    return sources


def _linear_gradient(linear: Linear, inputs: list[Array], cotangents: list[Array]) -> Linear:
    """The gradient of a `Linear`, summed over all of its calls at all steps."""
    if not inputs:
        return _no_gradient(linear)
    several = "g" * (linear.weight.ndim - 2)
    rows = f"a{several}b"  # einsum contracts axes in the order of their names; any other order would copy the arrays
    # The inputs come first because they are narrower: on a CPU, XLA transposes the first operand.
    weights = [jnp.einsum(f"{rows}i,{rows}o->{several}io", x, ct) for x, ct in zip(inputs, cotangents, strict=True)]
    biases = [jnp.einsum(f"{rows}o->{several}o", ct) for ct in cotangents]
    return Linear.of(sum(weights[1:], start=weights[0]), sum(biases[1:], start=biases[0]))


def _no_gradient(linear: Linear) -> Linear:
    return jax.tree.map(lambda _: None, linear)


class _Recorder(eqx.Module):
    """A `Linear` that records its inputs and outputs; the cotangent of a probe is that of the recorded output."""

    linear: Linear
    calls: list[tuple[Array, Array]]
    probes: list[Array] | None

    def __call__(self, x: Array) -> Array:
        y = self.linear(x)
        if self.probes is not None:
            y = _attach_probe(y, self.probes[len(self.calls)])
        self.calls.append((x, y))
        return y


@jax.custom_vjp
def _attach_probe(y: Array, probe: Array) -> Array:
    """y itself; the probe receives the same cotangent as y."""
    return y


_attach_probe.defvjp(lambda y, probe: (y, None), lambda _, cotangent: (cotangent, cotangent))


def _is_linear(leaf: Any) -> bool:
    return isinstance(leaf, Linear)
