"""A loop over time that goes back fast. Values and gradients are those of `jax.lax.scan`.

Differentiated as it stands, a loop adds a small product to the gradient of each of its matrices at every step back.
Here a loop back only takes what depends on the step after, and the gradient of each `Linear` is one large product over
all steps, after that loop.

What a step back needs is kept on the way on a CPU, whose caches hold it. On an accelerator the way keeps its carries
alone, and the rest is computed once more for all steps at once: cheaper there than many small writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from ..trajectories import Array
from .layers import Linear, on_cpu

Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def _unroll() -> int:
    return 1 if on_cpu() else 4  # launches count on an accelerator, compilation on a CPU


def loop(step: Step, weights: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
    """The carries after each `step(weights, carry, x) -> (carry, y)`, and the ys, both stacked.

    The step must not close over values that are differentiated: they come in as weights, or as one x a step.
    """
    leaves, tree = jax.tree.flatten(weights, is_leaf=_is_linear)
    linears = {i: leaf for i, leaf in enumerate(leaves) if _is_linear(leaf)}
    others = {i: leaf for i, leaf in enumerate(leaves) if not _is_linear(leaf)}

    def with_leaves(linears, others, carry, x):
        return step(jax.tree.unflatten(tree, [{**linears, **others}[i] for i in range(len(leaves))]), carry, x)

    return _loop((linears, others, carry, xs), with_leaves)


@eqx.filter_custom_vjp
def _loop(given, step):
    *weights, carry, xs = given

    def body(carry, x):
        carry, y = step(*weights, carry, x)
        return carry, (carry, y)

    return jax.lax.scan(body, carry, xs, unroll=_unroll())[1]


@_loop.def_fwd
def _forward(perturbed, given, step):
    if not on_cpu():
        made = _loop(given, step)
        return made, (made, None)
    back = _Back(perturbed, given, step)

    def body(carry, x):
        made, kept = back.keep(carry, x)
        return made[0], (made, kept)

    made, kept = jax.lax.scan(body, *given[2:], unroll=_unroll())[1]
    return made, (made, kept)


@_loop.def_bwd
def _backward(residuals, cotangent, perturbed, given, step):
    made, kept = residuals
    back = _Back(perturbed, given, step)
    linears, _, carry, xs = given
    before = jax.tree.map(lambda first, after: jnp.concatenate([first[None], after[:-1]]), carry, made[0])
    if kept is None:
        kept = jax.vmap(lambda *at: back.keep(*at)[1])(before, xs)
    known = jax.tree.leaves((before, xs)), kept
    cotangents = jax.tree.map(lambda x, back: jnp.zeros_like(x) if back is None else back, made, cotangent)

    def body(now, at):
        (carry, total), (known, (after, y)) = now, at
        more, carry, x, probes = back.through(known)((jax.tree.map(jnp.add, carry, after), y))
        return (carry, jax.tree.map(jnp.add, total, more)), (x, probes)

    empty = jax.tree.map(jnp.zeros_like, (carry, back.others))
    (carry, others), (xs, probes) = jax.lax.scan(body, empty, (known, cotangents), reverse=True, unroll=_unroll())
    inputs = back.inputs(known)
    gradients = {i: _gradient(linears[i], inputs[i], probes[i]) for i in inputs}
    return {i: gradients.get(i, _nothing(linear)) for i, linear in linears.items()}, others, carry, xs


class _Back:
    """The way back through one step: what must be kept of the step for it, and the function that goes it.

    The step is traced once, and its program looked at: what the way back needs was either given to the step, or made by
    it, or is the same for all steps (the matrices).
    """

    def __init__(self, perturbed, given, step):
        linears, others, carry, xs = given
        late = {i: linears[i] for i, flags in perturbed[0].items() if flags.weight or flags.bias}
        self.others, fixed = eqx.partition(others, perturbed[1])

        def one_step(carry, x):
            x, fixed_x = eqx.partition(x, perturbed[3])

            def taped(others, carry, x, probes):
                tape = {i: _Taped(linear, [], probes and probes[i]) for i, linear in late.items()}
                made = step({**linears, **tape}, eqx.combine(others, fixed), carry, eqx.combine(x, fixed_x))
                return made, {i: each.calls for i, each in tape.items()}

            calls = eqx.filter_eval_shape(lambda: taped(self.others, carry, x, None)[1])
            probes = {i: [jnp.zeros(y.shape) for _, y in each] for i, each in calls.items()}
            made, back, calls = jax.vjp(taped, self.others, carry, x, probes, has_aux=True)
            return made, (back, {i: [x for x, _ in each] for i, each in calls.items()})

        first = carry, jax.tree.map(lambda x: x[0], xs)
        program, (made, needed) = jax.make_jaxpr(one_step, return_shape=True)(*first)
        self.program, self.made, self.needed = (
            jaxpr_as_fun(program),
            jax.tree.structure(made),
            jax.tree.structure(needed),
        )
        self.same = self.program(*jax.tree.leaves(first))
        self.sources = _sources(program.jaxpr, self.made.num_leaves)

    def keep(self, carry, x) -> tuple[Any, list[Array]]:
        """A step's results, and what of it the way back needs that is not known otherwise."""
        leaves = self.program(*jax.tree.leaves((carry, x)))
        made, needed = leaves[: self.made.num_leaves], leaves[self.made.num_leaves :]
        kept = {number: leaf for leaf, (kind, number) in zip(needed, self.sources, strict=True) if kind == "made"}
        return jax.tree.unflatten(self.made, made), [kept[number] for number in sorted(kept)]

    def through(self, known: tuple[list[Array], list[Array]]) -> Callable[[Any], Any]:
        """Takes the cotangents of a step's results to those of (others, carry, x, probes)."""
        return self._needed(known)[0]

    def inputs(self, known: tuple[list[Array], list[Array]]) -> dict[int, list[Array]]:
        """What each linear whose gradient comes late has read, at all steps."""
        return self._needed(known)[1]

    def _needed(self, known):
        given, made = known
        sources = {"given": given, "made": made, "same": self.same}
        return jax.tree.unflatten(self.needed, [sources[kind][number] for kind, number in self.sources])


def _sources(program: Any, first: int) -> list[tuple[str, int]]:
    """Where each result of a program comes from, beginning with the first that counts.

    ("given", i) is the i-th array that it was given; ("made", i) is computed from those, the same number for the same
    value; ("same", i), the i-th result, depends on none of them.
    """
    given_as = {id(variable): number for number, variable in enumerate(program.invars)}
    varies = set(given_as)
    for equation in program.eqns:
        if any(id(variable) in varies for variable in equation.invars):
            varies |= {id(variable) for variable in equation.outvars}
    found, made = [], {}
    for place, variable in enumerate(program.outvars[first:], start=first):
        if id(variable) in given_as:
            found.append(("given", given_as[id(variable)]))
        elif id(variable) in varies:
            found.append(("made", made.setdefault(id(variable), len(made))))
        else:
            found.append(("same", place))
    return found


def _gradient(linear: Linear, inputs: list[Array], backs: list[Array]) -> Linear:
    """What all calls of a `Linear`, over all steps, add to its gradient."""
    if not inputs:
        return _nothing(linear)
    several = "g" * (linear.weight.ndim - 2)
    rows = f"a{several}b"  # einsum contracts in the order of names; another order than this would be a copy
    # the narrower array first: XLA turns that one around on a CPU
    weights = [jnp.einsum(f"{rows}i,{rows}o->{several}io", x, back) for x, back in zip(inputs, backs, strict=True)]
    biases = [jnp.einsum(f"{rows}o->{several}o", back) for back in backs]
    return Linear.of(sum(weights[1:], start=weights[0]), sum(biases[1:], start=biases[0]))


def _nothing(linear: Linear) -> Linear:
    return jax.tree.map(lambda _: None, linear)


class _Taped(eqx.Module):
    """Stands in for a `Linear` inside of a step: keeps what it reads and returns; a probe catches what comes back."""

    linear: Linear
    calls: list[tuple[Array, Array]]
    probes: list[Array] | None

    def __call__(self, x: Array) -> Array:
        y = self.linear(x)
        if self.probes is not None:
            y = _catch(y, self.probes[len(self.calls)])
        self.calls.append((x, y))
        return y


@jax.custom_vjp
def _catch(y: Array, probe: Array) -> Array:
    return y


_catch.defvjp(lambda y, probe: (y, None), lambda _, back: (back, back))


def _is_linear(leaf: Any) -> bool:
    return isinstance(leaf, Linear)
