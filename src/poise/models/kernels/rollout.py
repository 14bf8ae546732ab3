"""Rollouts of a recurrent decoder with next state = state + action in one GPU kernel, with a second for the gradient.

As in `kernels.gru`, one program takes a block of batch rows through all steps, and keeps their state and memory.
Products between layers multiply in bfloat16. Products that read or return states or actions multiply in TF32.

A kernel can neither slice nor concatenate, so the weights are laid out beforehand. The input of a step is one row of
columns: the standardised state, the standardised action, zeros, and a one whose weights are the biases. An action is
computed twice in such a row: in the columns of the state, where it is added to the state, and in the columns of the
action, where the GRU reads it.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ...data.trajectories import Array
from ...errors import PoiseError
from ..layers import LOG_SIGMA
from ..policies import Decoder, PreparedDecoder
from .gru import (
    available,
    dot,
    gru_gates,
    gru_gates_backward,
    launch,
    pad_axes,
    padded_batch,
    padded_width,
    program_rows,
    rows_per_program,
)

MAX_STATE_SIZE = 16
"""The largest state or action."""
MAX_WIDTH = 128
"""The widest layer with which four matrices fit into the memory of a program."""
PRECISION = None
"""The precision of products that read or return states or actions: a matrix unit multiplies float32 as TF32."""


def supports(decoder: Decoder) -> bool:
    """Whether `rollout` can roll out this decoder on this machine.

    The decoder must be recurrent and narrow, with two hidden layers. Its actions must have the size of its states, and
    no limits.
    """
    if not available() or decoder.recurrence is None or len(decoder.body.layers) != 3 or decoder.statistics.limits:
        return False
    states, actions = decoder.statistics.state.mean.shape[-1], decoder.statistics.action.mean.shape[-1]
    widths = [layer.bias.shape[-1] for layer in decoder.body.layers[:2]]
    return states == actions <= MAX_STATE_SIZE and max(decoder.recurrence.size, *widths) <= MAX_WIDTH


def rollout(
    decoder: Decoder,
    prepared: PreparedDecoder,
    starts: Float[Array, "batch states"],
    noise: Float[Array, "time batch states"],
    *,
    dtype: Any = jnp.bfloat16,
    interpret: bool = False,
) -> tuple[Float[Array, "time batch states"], Float[Array, "time batch states"]]:
    """The states after each step and the actions of `decoder.step` with next state = state + action.

    The memory starts at zero. Gradients flow to all weights, to the context and to the starts, but not to the
    statistics or the noise.

    Args:
        decoder: A decoder that the kernel `supports`.
        prepared: The same decoder, prepared for the contexts of all rollouts.
        starts: The first states.
        noise: Standard normal noise.
        dtype: The type in which products between layers multiply and residuals are stored.
        interpret: Whether to interpret the kernels, which works on a CPU.
    """
    batch, states = starts.shape
    padded = padded_batch(batch)
    weights, columns = _lay_out(decoder, prepared)
    row, width = weights.row.shape[1:]
    noise = pad_axes(jnp.concatenate([noise, noise], axis=-1), {1: padded, 2: row})
    pad_rows = partial(pad_axes, mode="edge")  # repeats the last row: other values might overflow
    context = pad_axes(pad_rows(prepared.context, {0: padded}), {1: width})
    starts = pad_axes(pad_rows(starts, {0: padded}), {1: row})
    outputs = cast(tuple[Array, Array], _rollout(weights, columns, context, starts, noise, dtype, interpret))
    return outputs[0][:, :batch, :states], outputs[1][:, :batch, :states]


class Weights(NamedTuple):
    """The weights of a decoder as the kernels read them, padded to powers of two."""

    memory: Float[Array, "4 width width"]
    """From the memory to the first layer and to the gates reset, update and new."""
    row: Float[Array, "5 row width"]
    """From a row to new, first layer, reset and update; the fifth holds the recurrent bias of new."""
    second: Float[Array, "width width"]
    second_bias: Float[Array, " width"]
    out: Float[Array, "2 width row"]
    """From the second layer to mean and log sigma, each laid out twice."""
    out_bias: Float[Array, "2 row"]


def _lay_out(decoder: Decoder, prepared: PreparedDecoder) -> tuple[Weights, Float[Array, "6 row"]]:
    """The weights of the decoder, and six numbers for each column of a row.

    The numbers are: the mean of the state and the inverse of its deviation, the deviation of the action and its mean,
    whether the column belongs to the action, and whether it is the column of ones.
    """
    if prepared.memory is None or prepared.inputs is None:
        raise PoiseError('the kernel rolls out recurrent decoders; this one is "markov": use models.scan instead')
    (_, second, last), (states, first) = decoder.body.layers, prepared.state.weight.shape
    size = len(prepared.memory.weight)
    row, width = padded_width(2 * states + 1), padded_width(max(size, first, second.bias.size))
    ends = [first, first + size, first + 2 * size]
    from_memory, memory_bias = jnp.split(prepared.memory.weight, ends, axis=1), jnp.split(prepared.memory.bias, ends)
    (reset, update, new), bias = jnp.split(prepared.inputs.weight, 3, axis=1), jnp.split(prepared.inputs.bias, 3)
    from_row = [
        (new, bias[2]),
        (prepared.state.weight, prepared.state.bias + memory_bias[0]),
        (reset, bias[0] + memory_bias[1]),
        (update, bias[1] + memory_bias[2]),
        (jnp.zeros_like(new), memory_bias[3]),
    ]
    if decoder.log_sigma is None:
        out, out_bias = jnp.split(last.weight, 2, axis=1), jnp.split(last.bias, 2)
    else:
        out, out_bias = [last.weight, jnp.zeros_like(last.weight)], [last.bias, decoder.log_sigma]
    weights = Weights(
        jnp.stack([pad_axes(weight, {0: width, 1: width}) for weight in from_memory]),
        jnp.stack([pad_axes(jnp.concatenate([pad_axes(x, {0: row - 1}), b[None]]), {1: width}) for x, b in from_row]),
        pad_axes(second.weight, {0: width, 1: width}),
        pad_axes(second.bias, {0: width}),
        jnp.stack([pad_axes(jnp.concatenate([x, x], axis=1), {0: width, 1: row}) for x in out]),
        jnp.stack([pad_axes(jnp.concatenate([x, x]), {0: row}) for x in out_bias]),
    )
    state, action, column = decoder.statistics.state, decoder.statistics.action, jnp.arange(row)
    columns = [pad_axes(x, {0: row}) for x in (state.mean, 1 / state.deviation, action.deviation, action.mean)]
    is_action, is_one = (column >= states) & (column < 2 * states), column == row - 1
    columns += [is_action.astype(jnp.float32), is_one.astype(jnp.float32)]
    return weights, jax.lax.stop_gradient(jnp.stack(columns))


@partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _rollout(weights, columns, context, starts, noise, dtype, interpret):
    return _forward(weights, columns, context, starts, noise, dtype, interpret)[0]


def _forward(weights, columns, context, starts, noise, dtype, interpret):
    (steps, batch, row), width = noise.shape, context.shape[-1]
    weights = weights._replace(memory=weights.memory.astype(dtype), second=weights.second.astype(dtype))
    rows, hidden = (jax.ShapeDtypeStruct((steps, batch, size), dtype) for size in (row, width))
    exact_rows = jax.ShapeDtypeStruct((steps, batch, row), jnp.float32)
    gates = jax.ShapeDtypeStruct((steps, 4, batch, width), dtype)
    states, actions, *residuals = launch(
        _rollout_forward_kernel,
        (batch // rows_per_program(batch),),
        [exact_rows, exact_rows, exact_rows, rows, hidden, hidden, hidden, gates],
        interpret,
        precise_dot=_precise_dot(interpret),
    )(weights, columns, context, starts, noise)
    return (states, actions), (weights, columns, *residuals)


def _backward(dtype, interpret, residuals, cts):
    weights, columns, deviations, rows, memories, firsts, seconds, gates = residuals
    (steps, batch, row), width = rows.shape, memories.shape[-1]
    transposed = [jnp.swapaxes(x, -1, -2) for x in (weights.memory, weights.row, weights.second, weights.out)]
    ct_hidden, ct_second, ct_out, ct_context, ct_starts = launch(
        _rollout_backward_kernel,
        (batch // rows_per_program(batch),),
        [
            jax.ShapeDtypeStruct((steps, batch, 5, width), dtype),
            jax.ShapeDtypeStruct((steps, batch, width), dtype),
            jax.ShapeDtypeStruct((steps, batch, 2, row), dtype),
            jax.ShapeDtypeStruct((batch, width), jnp.float32),
            jax.ShapeDtypeStruct((batch, row), jnp.float32),
        ],
        interpret,
        precise_dot=_precise_dot(interpret),
    )(transposed, columns, deviations, memories, firsts, seconds, gates, *cts)
    product = partial(jnp.einsum, preferred_element_type=jnp.float32)
    ct_weights = Weights(
        product("tbh,tbgk->ghk", memories, ct_hidden)[1:],  # a slice of the operand instead would be a copy
        product("tbi,tbgk->gik", rows, ct_hidden),
        product("tbh,tbk->hk", firsts, ct_second),
        ct_second.sum(axis=(0, 1), dtype=jnp.float32),
        product("tbh,tbgi->ghi", seconds, ct_out),
        ct_out.sum(axis=(0, 1), dtype=jnp.float32),
    )
    return ct_weights, None, ct_context, ct_starts, None


_rollout.defvjp(_forward, _backward)


def _rollout_forward_kernel(
    weights, columns, context, starts, noise,
    states, actions, deviations, rows, memories, firsts, seconds, gates, *, precise_dot,
):  # fmt: skip
    """Takes a block of batch rows through all steps."""
    (steps, batch, row), width = noise.shape, context.shape[-1]
    at = program_rows(batch, axis=0)
    state_mean, state_inverse, action_deviation, action_mean, is_action, is_one = (columns[i][None] for i in range(6))

    def step(t, carry):
        memory, state = carry
        memories[t, at] = memory.astype(memories.dtype)
        inputs = (state - state_mean) * state_inverse + is_one
        to_first, *from_memory = (dot(memory, weights.memory[i]) for i in range(4))
        first = jnp.maximum(context[at] + to_first + precise_dot(inputs, weights.row[1]), 0.0)
        second = jnp.maximum(dot(first, weights.second[...]) + weights.second_bias[...][None], 0.0)
        firsts[t, at], seconds[t, at] = first.astype(firsts.dtype), second.astype(seconds.dtype)

        mean, log_sigma = (precise_dot(second, weights.out[i]) + weights.out_bias[i][None] for i in range(2))
        clipped = jnp.clip(log_sigma, *LOG_SIGMA)
        deviation = jnp.exp(clipped) * noise[t, at]
        deviations[t, at] = jnp.where(clipped == log_sigma, deviation, 0.0)  # derivative by log sigma
        drawn = mean + deviation
        action = drawn * action_deviation + action_mean
        state = state + action
        states[t, at], actions[t, at] = state, action

        inputs = inputs + drawn * is_action
        rows[t, at] = inputs.astype(rows.dtype)
        from_memory[2] = from_memory[2] + weights.row[4, row - 1][None]
        reset, update, new = gru_gates([precise_dot(inputs, weights.row[i]) for i in (2, 3, 0)], from_memory)
        for i, value in enumerate((reset, update, new, from_memory[2])):
            gates[t, i, at] = value.astype(gates.dtype)
        return new + update * (memory - new), state

    jax.lax.fori_loop(0, steps, step, (jnp.zeros((at.size, width), jnp.float32), starts[at]))


def _rollout_backward_kernel(
    transposed, columns, deviations, memories, firsts, seconds, gates, ct_states, ct_actions,
    ct_hidden, ct_seconds, ct_out, ct_context, ct_starts, *, precise_dot,
):  # fmt: skip
    """Takes the same block of rows through all steps in reverse; the weights are transposed."""
    to_memory, to_row, to_first, to_second = transposed
    (steps, batch, row), width = deviations.shape, memories.shape[-1]
    at = program_rows(batch, axis=0)
    _, state_inverse, action_deviation, _, is_action, _ = (columns[i][None] for i in range(6))

    def step(n, carry):
        (ct_memory, ct_state, ct_firsts), t = carry, steps - 1 - n
        reset, update, new, from_memory = (gates[t, i, at].astype(jnp.float32) for i in range(4))
        memory = memories[t, at].astype(jnp.float32)
        ct_reset, ct_update, ct_new = gru_gates_backward(ct_memory, memory, reset, update, new, from_memory)
        ct_row = precise_dot(ct_new, to_row[0]) + precise_dot(ct_reset, to_row[2]) + precise_dot(ct_update, to_row[3])

        ct_state = ct_state + ct_states[t, at]
        ct_drawn = (ct_state + ct_actions[t, at]) * action_deviation + ct_row * is_action
        ct_log_sigma = ct_drawn * deviations[t, at]
        ct_second = precise_dot(ct_drawn, to_second[0]) + precise_dot(ct_log_sigma, to_second[1])
        ct_second = jnp.where(seconds[t, at].astype(jnp.float32) > 0, ct_second, 0.0)
        ct_first = jnp.where(firsts[t, at].astype(jnp.float32) > 0, dot(ct_second, to_first[...]), 0.0)
        ct_state = ct_state + (ct_row + precise_dot(ct_first, to_row[1])) * state_inverse

        ct_memory = ct_memory * update
        for i, value in enumerate((ct_first, ct_reset, ct_update, ct_new * reset)):
            ct_hidden[t, at, i + 1] = value.astype(ct_hidden.dtype)
            ct_memory = ct_memory + dot(value, to_memory[i])
        ct_hidden[t, at, 0] = ct_new.astype(ct_hidden.dtype)
        ct_seconds[t, at] = ct_second.astype(ct_seconds.dtype)
        for i, value in enumerate((ct_drawn, ct_log_sigma)):
            ct_out[t, at, i] = value.astype(ct_out.dtype)
        return ct_memory, ct_state, ct_firsts + ct_first

    zeros = [jnp.zeros((at.size, size), jnp.float32) for size in (width, row, width)]
    _, ct_starts[at], ct_context[at] = jax.lax.fori_loop(0, steps, step, tuple(zeros))


def _precise_dot(interpret: bool):
    """The product that reads or returns states or actions."""
    return partial(dot, precision=None if interpret else PRECISION)
