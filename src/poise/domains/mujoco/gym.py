"""The Cheetah for Gymnasium: importing this module registers "poise/Cheetah-v0".

    import gymnasium
    import poise.domains.mujoco.gym

    cheetah = gymnasium.make("poise/Cheetah-v0")

An observation is the state, an action is 6 numbers between -1 and 1, and the reward is the forward velocity in m/s
after the step. An episode is truncated after 200 steps (5 s) and never terminates before. With
`render_mode="rgb_array"`, `render()` returns MuJoCo's own picture of the state; that needs OpenGL, but no display.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import PoiseError
from .. import cheetah
from .physics import require
from .rendering import Renderer

require("gymnasium", "mujoco", "dm_control")

import gymnasium  # noqa: E402  (after the line that names the missing extra)

NAME = "poise/Cheetah-v0"


class CheetahEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """The Cheetah, one step at a time, with the physics and the resets of the domain."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": cheetah.HZ}  # noqa: RUF012  (as in Gymnasium)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (cheetah.STATES,), np.float64)
    action_space = gymnasium.spaces.Box(*cheetah.MOTORS, (cheetah.ACTIONS,), np.float32)

    def __init__(self, render_mode: str | None = None):
        """`render_mode` is "rgb_array", or None for no pictures."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise PoiseError(f"a render_mode is 'rgb_array' or None; got {render_mode!r}")
        self.render_mode = render_mode
        self._renderer: Renderer | None = None
        self._state: np.ndarray | None = None

    @property
    def state(self) -> np.ndarray:
        """The state after the last reset or step."""
        if self._state is None:
            raise PoiseError("an episode begins with a reset; call reset() before step() and render()")
        return self._state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A first state. The seed determines this reset and the following ones."""
        super().reset(seed=seed)
        self._state = cheetah.resets(1, int(self.np_random.integers(2**31)))[0]
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """The next state, and its forward velocity as the reward."""
        self._state = cheetah.in_threads().step(self.state[None], np.asarray(action)[None])[0]
        return self.state.copy(), float(self.state[cheetah.VELOCITY]), False, False, {}

    def render(self) -> np.ndarray | None:
        """A picture [height, width, 3] of the state; None without a render_mode."""
        if self.render_mode is None:
            return None
        state = self.state
        if self._renderer is None:
            self._renderer = Renderer(cheetah.model())
        return self._renderer.render(state[None])[0]

    def close(self) -> None:
        """Ends the process that renders, if there is one."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


gymnasium.register(NAME, f"{__name__}:{CheetahEnvironment.__name__}", max_episode_steps=cheetah.STEPS)
