"""Rollouts of a recurrent decoder through next state = state + action, as one GPU kernel there and one back.

As in `kernels`: a program takes some rows of a batch through all steps, and their state and memory never leave it but
to be kept. Products between layers take bfloat16; those that read states or actions or make them are finer.

A kernel can neither slice nor concatenate, so columns are placed beforehand. What a step reads is one row: the
standardised state, the standardised action, zeros, and a one whose weights are the biases. An action is drawn twice in
such a row: where the state stands, in order to move it, and where the action stands, in order to be read.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ..errors import PoiseError
from ..trajectories import Array
from .kernels import available, block, dot, fill, gate, gate_back, launch, rows_of, width_of
from .layers import LOG_SIGMA
from .policies import Decoder, Ready

LONGEST = 16  # state or action
WIDEST = 128  # of a layer: four matrices must fit into the memory of a program
FINE = None  # what a matrix unit makes of float32: TF32


def fits(decoder: Decoder) -> bool:
    """Whether `roll` takes this decoder here: recurrent, narrow, two hidden layers, as many actions as states and no
    range for them."""
    if not available() or decoder.recurrence is None or len(decoder.body.layers) != 3 or decoder.statistics.limits:
        return False
    states, actions = decoder.statistics.state.mean.shape[-1], decoder.statistics.action.mean.shape[-1]
    widths = [layer.bias.shape[-1] for layer in decoder.body.layers[:2]]
    return states == actions <= LONGEST and max(decoder.recurrence.size, *widths) <= WIDEST


def roll(
    decoder: Decoder,
    ready: Ready,
    starts: Float[Array, "batch states"],
    noise: Float[Array, "time batch states"],
    *,
    low: Any = jnp.bfloat16,
    interpret: bool = False,
) -> tuple[Float[Array, "time batch states"], Float[Array, "time batch states"]]:
    """States after each step and actions, as `decoder.draw` and next state = state + action give them, from no memory.

    Gradients flow to all weights, to the context and to the starts; not to statistics or noise.
    """
    batch, states = starts.shape
    padded = batch + -batch % rows_of(batch)
    matrices, columns = _place(decoder, ready)
    row, width = matrices.of_row.shape[1:]
    twice = fill(jnp.concatenate([noise, noise], axis=-1), {1: padded, 2: row})
    rows = partial(fill, mode="edge")  # rows like others, so that nothing overflows in them
    context = fill(rows(ready.context, {0: padded}), {1: width})
    starts = fill(rows(starts, {0: padded}), {1: row})
    made: Any = _roll(matrices, columns, context, starts, twice, low, interpret)
    return tuple(x[:, :batch, :states] for x in made)


class Matrices(NamedTuple):
    """A decoder's weights where the kernels read them, sizes filled up to powers of two."""

    of_memory: Float[Array, "4 width width"]
    """From the memory to the first layer, and to the gates reset, update and new."""
    of_row: Float[Array, "5 row width"]
    """From a row to new, first layer, reset and update; last the bias of what new takes from the memory."""
    second: Float[Array, "width width"]
    second_bias: Float[Array, " width"]
    out: Float[Array, "2 width row"]
    """From the second layer to mean and log sigma, twice each."""
    out_bias: Float[Array, "2 row"]


def _place(decoder: Decoder, ready: Ready) -> tuple[Matrices, Float[Array, "6 row"]]:
    """The decoder's weights, and six numbers for each column of a row.

    These are: the state's mean and the inverse of its deviation, the action's deviation and its mean, whether the
    column is read as an action, and whether it is the one.
    """
    if ready.memory is None or ready.inputs is None:
        raise PoiseError("only recurrent decoders roll out in a kernel; this one is markov: take the loop")
    (_, second, last), (states, first) = decoder.body.layers, ready.state.weight.shape
    size = len(ready.memory.weight)
    row, width = width_of(2 * states + 1), width_of(max(size, first, second.bias.size))
    ends = [first, first + size, first + 2 * size]
    of_memory, memory_bias = jnp.split(ready.memory.weight, ends, axis=1), jnp.split(ready.memory.bias, ends)
    (reset, update, new), bias = jnp.split(ready.inputs.weight, 3, axis=1), jnp.split(ready.inputs.bias, 3)
    of_row = [
        (new, bias[2]),
        (ready.state.weight, ready.state.bias + memory_bias[0]),
        (reset, bias[0] + memory_bias[1]),
        (update, bias[1] + memory_bias[2]),
        (jnp.zeros_like(new), memory_bias[3]),
    ]
    if decoder.log_sigma is None:
        out, out_bias = jnp.split(last.weight, 2, axis=1), jnp.split(last.bias, 2)
    else:
        out, out_bias = [last.weight, jnp.zeros_like(last.weight)], [last.bias, decoder.log_sigma]
    matrices = Matrices(
        jnp.stack([fill(weight, {0: width, 1: width}) for weight in of_memory]),
        jnp.stack([fill(jnp.concatenate([fill(x, {0: row - 1}), one[None]]), {1: width}) for x, one in of_row]),
        fill(second.weight, {0: width, 1: width}),
        fill(second.bias, {0: width}),
        jnp.stack([fill(jnp.concatenate([x, x], axis=1), {0: width, 1: row}) for x in out]),
        jnp.stack([fill(jnp.concatenate([x, x]), {0: row}) for x in out_bias]),
    )
    state, action, at = decoder.statistics.state, decoder.statistics.action, jnp.arange(row)
    columns = [fill(x, {0: row}) for x in (state.mean, 1 / state.deviation, action.deviation, action.mean)]
    columns += [((at >= states) & (at < 2 * states)).astype(jnp.float32), (at == row - 1).astype(jnp.float32)]
    return matrices, jax.lax.stop_gradient(jnp.stack(columns))


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _roll(matrices, columns, context, starts, noise, low, interpret):
    return _there(matrices, columns, context, starts, noise, low, interpret)[0]


def _there(matrices, columns, context, starts, noise, low, interpret):
    (steps, batch, row), width = noise.shape, context.shape[-1]
    matrices = matrices._replace(of_memory=matrices.of_memory.astype(low), second=matrices.second.astype(low))
    rows, wide = (jax.ShapeDtypeStruct((steps, batch, size), low) for size in (row, width))
    narrow = jax.ShapeDtypeStruct((steps, batch, row), jnp.float32)
    gates = jax.ShapeDtypeStruct((steps, 4, batch, width), low)
    states, actions, spreads, rows, *kept = launch(
        _roll_there,
        (batch // rows_of(batch),),
        [narrow, narrow, narrow, rows, wide, wide, wide, gates],
        interpret,
        fine=_fine(interpret),
    )(matrices, columns, context, starts, noise)
    return (states, actions), (matrices, columns, rows, spreads, *kept)


def _back(low, interpret, residuals, backs):
    matrices, columns, rows, spreads, befores, firsts, seconds, gates = residuals
    (steps, batch, row), width = rows.shape, befores.shape[-1]
    turned = [jnp.swapaxes(x, -1, -2) for x in (matrices.of_memory, matrices.of_row, matrices.second, matrices.out)]
    back, back_second, back_out, back_context, back_starts = launch(
        _roll_back,
        (batch // rows_of(batch),),
        [
            jax.ShapeDtypeStruct((steps, batch, 5, width), low),
            jax.ShapeDtypeStruct((steps, batch, width), low),
            jax.ShapeDtypeStruct((steps, batch, 2, row), low),
            jax.ShapeDtypeStruct((batch, width), jnp.float32),
            jax.ShapeDtypeStruct((batch, row), jnp.float32),
        ],
        interpret,
        fine=_fine(interpret),
    )(turned, columns, spreads, befores, firsts, seconds, gates, *backs)
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)  # of whole arrays: a slice would be a copy
    of_matrices = Matrices(
        product("tbh,tbgk->ghk", befores, back)[1:],
        product("tbi,tbgk->gik", rows, back),
        product("tbh,tbk->hk", firsts, back_second),
        back_second.sum(axis=(0, 1), dtype=jnp.float32),
        product("tbh,tbgi->ghi", seconds, back_out),
        back_out.sum(axis=(0, 1), dtype=jnp.float32),
    )
    return of_matrices, None, back_context, back_starts, None


_roll.defvjp(_there, _back)


def _roll_there(
    matrices, columns, context, starts, noise, states, actions, spreads, rows, befores, firsts, seconds, gates, *, fine
):
    """Some rows of a batch through all steps."""
    (steps, batch, row), width = noise.shape, context.shape[-1]
    at = block(batch, axis=0)
    mean, inverse, deviation, middle, is_action, is_one = (columns[i][None] for i in range(6))

    def step(t, now):
        memory, state = now
        befores[t, at] = memory.astype(befores.dtype)
        seen = (state - mean) * inverse + is_one
        to_first, *of_memory = (dot(memory, matrices.of_memory[i]) for i in range(4))
        first = jnp.maximum(context[at] + to_first + fine(seen, matrices.of_row[1]), 0.0)
        second = jnp.maximum(dot(first, matrices.second[...]) + matrices.second_bias[...][None], 0.0)
        firsts[t, at], seconds[t, at] = first.astype(firsts.dtype), second.astype(seconds.dtype)

        center, log_sigma = (fine(second, matrices.out[i]) + matrices.out_bias[i][None] for i in range(2))
        clipped = jnp.clip(log_sigma, *LOG_SIGMA)
        spread = jnp.exp(clipped) * noise[t, at]
        spreads[t, at] = jnp.where(clipped == log_sigma, spread, 0.0)
        drawn = center + spread
        action = drawn * deviation + middle
        state = state + action
        states[t, at], actions[t, at] = state, action

        seen = seen + drawn * is_action
        rows[t, at] = seen.astype(rows.dtype)
        of_memory[2] = of_memory[2] + matrices.of_row[4, row - 1][None]
        reset, update, new = gate([fine(seen, matrices.of_row[i]) for i in (2, 3, 0)], of_memory)
        for i, value in enumerate((reset, update, new, of_memory[2])):
            gates[t, i, at] = value.astype(gates.dtype)
        return new + update * (memory - new), state

    jax.lax.fori_loop(0, steps, step, (jnp.zeros((at.size, width), jnp.float32), starts[at]))


def _roll_back(
    turned, columns, spreads, befores, firsts, seconds, gates, of_states, of_actions,
    backs, backs_second, backs_out, back_context, back_starts, *, fine,
):  # fmt: skip
    """The same rows through all steps from the last, with what came back to each state and action."""
    of_memory, of_row, to_second, to_out = turned
    (steps, batch, row), width = spreads.shape, befores.shape[-1]
    at = block(batch, axis=0)
    _, inverse, deviation, _, is_action, _ = (columns[i][None] for i in range(6))

    def step(i, now):
        (back, back_state, total), t = now, steps - 1 - i
        reset, update, new, of_new = (gates[t, i, at].astype(jnp.float32) for i in range(4))
        before = befores[t, at].astype(jnp.float32)
        back_reset, back_update, back_new = gate_back(back, before, reset, update, new, of_new)
        back_row = fine(back_new, of_row[0]) + fine(back_reset, of_row[2]) + fine(back_update, of_row[3])

        back_state = back_state + of_states[t, at]
        back_drawn = (back_state + of_actions[t, at]) * deviation + back_row * is_action
        back_spread = back_drawn * spreads[t, at]
        back_second = fine(back_drawn, to_out[0]) + fine(back_spread, to_out[1])
        back_second = jnp.where(seconds[t, at].astype(jnp.float32) > 0, back_second, 0.0)
        back_first = jnp.where(firsts[t, at].astype(jnp.float32) > 0, dot(back_second, to_second[...]), 0.0)
        back_state = back_state + (back_row + fine(back_first, of_row[1])) * inverse

        back = back * update
        for i, value in enumerate((back_first, back_reset, back_update, back_new * reset)):
            backs[t, at, i + 1] = value.astype(backs.dtype)
            back = back + dot(value, of_memory[i])
        backs[t, at, 0] = back_new.astype(backs.dtype)
        backs_second[t, at] = back_second.astype(backs_second.dtype)
        for i, value in enumerate((back_drawn, back_spread)):
            backs_out[t, at, i] = value.astype(backs_out.dtype)
        return back, back_state, total + back_first

    empty = [jnp.zeros((at.size, columns), jnp.float32) for columns in (width, row, width)]
    _, back_starts[at], back_context[at] = jax.lax.fori_loop(0, steps, step, tuple(empty))


def _fine(interpret: bool):
    """Products that read states or actions or make them."""
    return partial(dot, precision=None if interpret else FINE)
