"""The Cheetah for Gymnasium: importing this module registers "poise/Cheetah-v0".

    import gymnasium
    import poise.gym

    cheetah = gymnasium.make("poise/Cheetah-v0")

An observation is the state, an action 6 numbers between -1 and 1, and the reward the forward velocity in m/s after
the step. An episode is cut off after 200 steps (5 s) and never ends before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .domains import cheetah
from .physics import require

require("gymnasium", "mujoco", "dm_control")

import gymnasium  # noqa: E402  (after the line that says what is missing)

NAME = "poise/Cheetah-v0"


class CheetahEnvironment(gymnasium.Env[np.ndarray, np.ndarray]):
    """The Cheetah, one step at a time; the same physics and resets as the domain's."""

    metadata = {"render_modes": [], "render_fps": cheetah.HZ}  # noqa: RUF012  (Gymnasium's own way)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (cheetah.STATES,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (cheetah.ACTIONS,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A first state; the seed decides it and those after it."""
        super().reset(seed=seed)
        self.state = cheetah.resets(1, int(self.np_random.integers(2**31)))[0]
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """The next state, and the forward velocity in it as the reward."""
        self.state = cheetah.in_threads().step(self.state[None], np.asarray(action)[None])[0]
        return self.state.copy(), float(self.state[cheetah.VELOCITY]), False, False, {}


gymnasium.register(NAME, f"{__name__}:{CheetahEnvironment.__name__}", max_episode_steps=cheetah.STEPS)
