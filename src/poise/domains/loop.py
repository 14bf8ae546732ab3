"""The closed loop of a policy and an environment, step by step on the host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

from ..data.trajectories import Array
from ..errors import PoiseError


def closed_loop(
    act: Callable[[int, np.ndarray], Array],
    transition: Callable[[np.ndarray, np.ndarray], Array],
    starts: Shaped[Array, "N S"],
    steps: int,
) -> tuple[Shaped[np.ndarray, "N {steps}+1 S"], Shaped[np.ndarray, "N {steps} A"]]:
    """The states and actions of N rollouts, all of which are stepped together.

    States are never cast to a smaller dtype: where the transition returns float64, the states are float64. Rollouts may
    become NaN or infinite; the others continue.

    Args:
        act: Returns the actions [N, A] for the number of a step, counted from 0, and the states [N, S].
        transition: Returns the next states [N, S] for states [N, S] and actions [N, A].
        starts: The first states.
        steps: The number of steps, at least 1.

    Returns:
        The states, which begin with the starts, and the actions as `act` returned them.

    Raises:
        PoiseError: If the transition returns states of another shape.

    Examples:
        >>> states, actions = closed_loop(lambda step, states: -states / 2, np.add, np.array([[8.0]]), steps=3)
        >>> states.ravel().tolist(), actions.ravel().tolist()
        ([8.0, 4.0, 2.0, 1.0], [-4.0, -2.0, -1.0])
    """
    state = np.array(starts)
    states, actions = [state.copy()], []  # copies: an environment may change the arrays that it is given or returns
    for step in range(steps):
        action = np.asarray(act(step, state))
        actions.append(action.copy())
        state = np.asarray(transition(state, action))
        if state.shape != states[0].shape:
            shapes = list(states[0].shape), list(state.shape)
            raise PoiseError(f"the environment must return states of shape {shapes[0]}; got {shapes[1]}")
        states.append(state.copy())
    return np.stack(states, axis=1), np.stack(actions, axis=1)
