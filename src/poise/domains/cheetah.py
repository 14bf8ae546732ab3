"""Cheetah: the Control Suite's planar runner at 40 Hz for 5 s. A state is qpos and qvel, in metres and radians.

The physics are MuJoCo's and need an extra: pip install 'poise[cheetah]'. Styles and stick figures do not: the positions
of torso and feet follow from qpos by the geometry below. MuJoCo's own pictures also need OpenGL.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ..config import PRESETS
from ..data.trajectories import Array, Trajectories
from ..styles.labeling_functions import labeling_function
from .base import Domain, Scene
from .demonstrators.demonstrations import cached_demonstrations
from .demonstrators.policies import TaskSpec
from .demonstrators.ppo import RewardSpec
from .mujoco import physics, rendering

HZ = 40  # control steps per second
TIMESTEP, SUBSTEPS = 0.005, 5  # seconds per physics step; physics steps per control step
STEPS = 200  # control steps per trajectory
STATES, ACTIONS = 18, 6  # numbers per state and per action
MOTORS = (-1.0, 1.0)  # the range of each number of an action
SETTLING = 200  # physics steps between random joint angles and the first state
PITCH, VELOCITY, JOINT_RATES = 2, 9, 12  # columns: the torso's pitch, its forward velocity, the first joint's rate
POLICIES = Path(__file__).with_name("demonstrators") / "cheetah.safetensors"

# The geometry of the Control Suite's cheetah.xml, in metres, x forward and z up.
STANDING = 0.7  # the torso's height where qpos is zero
#            parent   x      z     column of its angle
BODIES = {
    "bthigh": ("torso", -0.50, 0.00, 3),
    "bshin": ("bthigh", 0.16, -0.25, 4),
    "bfoot": ("bshin", -0.28, -0.14, 5),
    "fthigh": ("torso", 0.50, 0.00, 6),
    "fshin": ("fthigh", -0.14, -0.24, 7),
    "ffoot": ("fshin", 0.13, -0.18, 8),
}
#            body     centre: x, z  degrees  half its length
CAPSULES = {
    "torso": ("torso", 0.0, 0.0, -90.0, 0.5),
    "head": ("torso", 0.6, 0.1, 50.0, 0.15),
    "bthigh": ("bthigh", 0.1, -0.13, -218.0, 0.145),
    "bshin": ("bshin", -0.14, -0.07, -116.0, 0.15),
    "bfoot": ("bfoot", 0.03, -0.097, -15.0, 0.094),
    "fthigh": ("fthigh", -0.07, -0.12, 30.0, 0.133),
    "fshin": ("fshin", 0.065, -0.09, -34.0, 0.106),
    "ffoot": ("ffoot", 0.045, -0.07, -34.0, 0.07),
}
RADIUS = 0.046  # of every capsule

Frames = dict[str, tuple[Array, Array]]
"""The position [..., 2] and the angle [...] of each body, by name."""


def frames(states: Float[Array, "... S"]) -> Frames:
    """The position and the angle of every body."""
    torso = jnp.stack([states[..., 0], states[..., 1] + STANDING], axis=-1)
    found: Frames = {"torso": (torso, states[..., PITCH])}
    for name, (parent, x, z, column) in BODIES.items():
        found[name] = _to_world(found[parent], x, z), found[parent][1] + states[..., column]
    return found


def centre(found: Frames, name: str) -> Float[Array, "... 2"]:
    """The centre of a capsule."""
    body, x, z, _, _ = CAPSULES[name]
    return _to_world(found[body], x, z)


def stick_figure(states: Float[Array, "... S"]) -> Float[Array, "... capsules 2 2"]:
    """The two ends of every capsule: [..., capsule, end, x and z]."""
    found = frames(states)
    lines = []
    for name, (body, _, _, degrees, half) in CAPSULES.items():
        middle, angle = centre(found, name), found[body][1] + np.deg2rad(degrees)
        along = half * jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1)
        lines.append(jnp.stack([middle - along, middle + along], axis=-2))
    return jnp.stack(lines, axis=-3)


def _to_world(frame: tuple[Array, Array], x: float, z: float) -> Array:
    """The position in the world of a point that is fixed to a body; a positive angle turns z towards x."""
    position, angle = frame
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return position + jnp.stack([x * cos + z * sin, z * cos - x * sin], axis=-1)


@labeling_function(classes=("slow", "fast"), unit="m/s")
def speed(states, actions):
    """Mean forward velocity."""
    return states[:, VELOCITY].mean()


@labeling_function(classes=("low", "high"), unit="m")
def torso_height(states, actions):
    """Mean height of the torso's centre above the ground."""
    return STANDING + states[:, 1].mean()


@labeling_function(classes=("low", "high"), unit="m")
def back_foot_height(states, actions):
    """Mean height of the back foot's centre above the ground."""
    return centre(frames(states), "bfoot")[:, 1].mean()


@labeling_function(classes=("low", "high"), unit="m")
def front_foot_height(states, actions):
    """Mean height of the front foot's centre above the ground."""
    return centre(frames(states), "ffoot")[:, 1].mean()


@functools.cache
def model() -> Any:
    """MuJoCo's model of the Cheetah, at its time step."""
    return physics.suite_model("cheetah", TIMESTEP)


@functools.cache
def in_threads() -> physics.Threads:
    """The Cheetah's physics by MuJoCo in threads."""
    return physics.Threads(model(), SUBSTEPS)


@functools.cache
def compiled(solver: str = "newton", iterations: int = 6, line_search_iterations: int = 8) -> physics.Compiled:
    """The Cheetah's physics by MJX, compiled by JAX."""
    return physics.Compiled(model(), SUBSTEPS, solver, iterations, line_search_iterations)


def resets(count: int, seed: int) -> Float[np.ndarray, "count S"]:
    """First states: those of the Control Suite's first `count` episodes with this seed.

    Joint angles are drawn within their limits, and the body then falls and settles. As in the Control Suite, the first
    physics step applies the forces of the pose before the draw.
    """
    driver, limited = in_threads(), model().jnt_limited == 1
    low, high = model().jnt_range[limited].T
    drawn = np.zeros((count, STATES))
    drawn[:, : model().nq][:, limited] = np.random.RandomState(seed).uniform(low, high, (count, len(low)))
    first = driver.settle(np.zeros((1, STATES)), 1)
    return driver.settle(drawn + first, SETTLING - 1)


def environment(states: Array, actions: Array) -> np.ndarray:
    """The next states by MuJoCo; actions are clipped to the range of the motors, and unstable states are NaN."""
    return in_threads().try_step(states, actions)


def render(states: Array) -> np.ndarray:
    """MuJoCo's own pictures of states, from the side, by a camera that follows the body."""
    return rendering.render(model(), states)


def observe(states: Float[Array, "*batch S"]) -> Float[Array, "*batch O"]:
    """The observations of a demonstrator: a state without the position along the track."""
    return states[..., 1:]


def forward_velocity(states: Float[Array, "*batch S"]) -> Float[Array, "*batch"]:
    """The torso's forward velocity."""
    return states[..., VELOCITY]


def fallen(states: Float[Array, "*batch S"]) -> Bool[Array, "*batch"]:
    """Whether the torso is tilted by more than 53 degrees; few policies get up from there."""
    return jnp.cos(states[..., PITCH]) < 0.6


def upside_down(states: Float[Array, "*batch S"]) -> Bool[Array, "*batch"]:
    """Whether the torso lies on its back."""
    return jnp.cos(states[..., PITCH]) < 0


def below_ground(states: Float[Array, "*batch S"]) -> Bool[Array, "*batch"]:
    """Whether some part of the body is more than 2 cm below the ground."""
    return stick_figure(states)[..., 1].min(axis=(-1, -2)) - RADIUS < -0.02


def jerk(states: Float[Array, "*batch T1 S"]) -> Float[Array, "*batch T"]:
    """How fast the accelerations of the joints change, in rad/s³, the mean over joints."""
    accelerations = jnp.diff(states[..., JOINT_RATES:], axis=-2) * HZ
    changes = jnp.abs(jnp.diff(accelerations, axis=-2)).mean(axis=-1) * HZ
    return jnp.concatenate([changes[..., :1], changes], axis=-1)


def reward(after: Float[Array, "N S"], actions: Float[Array, "N A"], target: Float[Array, ""]) -> Float[Array, " N"]:
    """A reward that grows towards the target speed and peaks there, plus a little for a level torso and low effort."""
    error = jnp.abs(forward_velocity(after) - target)
    speed_reward = 1 - error / (1 + target) + 0.5 * jnp.exp(-jnp.square(error / 0.4))
    return speed_reward + 0.1 * jnp.cos(after[..., PITCH]) - 0.02 * jnp.square(actions).mean(axis=-1)


RUNNING = TaskSpec(
    reward=RewardSpec(observe, reward, fallen, forward_velocity, MOTORS),
    targets=(0.0, 4.0),
    unit="m/s",
    hertz=HZ,
    steps=STEPS,
    resets=resets,
    threads=in_threads,
    compiled=compiled,
    shares={"fallen": fallen, "upside down": upside_down},
    measures={
        "torso height (m)": lambda states: STANDING + states[..., 1],
        "pitch (rad)": lambda states: states[..., PITCH],
    },
)


def demonstrations(count: int, seed: int) -> Trajectories:
    """Demonstrations to train with: rollouts of the demonstrators in turn."""
    return cached_demonstrations(RUNNING, POLICIES, count, seed, "train")


def test_demonstrations(count: int, seed: int) -> Trajectories:
    """Demonstrations to test with: a quarter as many, from other first states and with other noise."""
    return cached_demonstrations(RUNNING, POLICIES, max(1, count // 4), seed, "test")


CHEETAH = Domain(
    name="cheetah",
    demonstrations=demonstrations,
    count=2_500,
    test=test_demonstrations,
    environment=environment,
    sizes=(STATES, ACTIONS),
    actions=MOTORS,
    position=(0,),
    styles={
        style.name: replace(style, source=style.name)
        for style in (speed, torso_height, back_foot_height, front_foot_height)
    },
    default_styles=("speed", "torso_height"),
    settings=PRESETS["cheetah"],
    presets=("cheetah", "cheetah-small"),
    rollouts=500,
    scene=Scene(unit="m", hertz=HZ, body=stick_figure, render=render),
    measures={
        "upside_down": lambda states, actions: upside_down(states[:, 1:]),
        "tilted": lambda states, actions: fallen(states[:, 1:]),
        "below_ground": lambda states, actions: below_ground(states[:, 1:]),
        "effort": lambda states, actions: jnp.square(actions).mean(axis=-1),
        "jerk": lambda states, actions: jerk(states),
    },
    task=RUNNING,
)
