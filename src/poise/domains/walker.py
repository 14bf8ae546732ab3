"""Walker: the Control Suite's planar walker at 40 Hz for 5 s. A state is qpos and qvel, in metres and radians.

The second body in MuJoCo, after the Cheetah: the guide docs/how-to/own-body.md goes through this file. The physics need
the same extra, pip install 'poise[cheetah]'. Styles and stick figures follow from qpos by the geometry below.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
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

HZ = 40  # control steps per second, as in the Control Suite
TIMESTEP, SUBSTEPS = 0.005, 5  # seconds per physics step; physics steps per control step
STEPS = 200  # control steps per trajectory
STATES, ACTIONS = 18, 6  # numbers per state and per action
MOTORS = (-1.0, 1.0)  # the range of each number of an action
HEIGHT, X, PITCH, VELOCITY = 0, 1, 2, 10  # columns: the walker's height comes first, then its place along x
HIP_RATES = (12, 15)  # columns: how fast the hips turn, in rad/s
POLICIES = Path(__file__).with_name("demonstrators") / "walker.safetensors"

# The geometry of the Control Suite's walker.xml, in metres, x forward and z up. A limb turns about its joint.
STANDING = 1.3  # the torso's height where qpos is zero
HIP, KNEE, ANKLE = (0.0, -0.3), (0.0, -0.45), (0.0, -0.5)  # x and z in the frame of the parent
TORSO, THIGH, LEG, FOOT = (  # the ends of their capsules
    ((0.0, -0.3), (0.0, 0.3)),
    ((0.0, -0.45), (0.0, 0.0)),
    ((0.0, -0.5), (0.0, 0.0)),
    ((-0.04, 0.0), (0.16, 0.0)),
)
#   limb          parent, its joint there, the column of its angle, its capsule
LIMBS = {
    "right_thigh": ("torso", HIP, 3, THIGH),
    "right_leg": ("right_thigh", KNEE, 4, LEG),
    "right_foot": ("right_leg", ANKLE, 5, FOOT),
    "left_thigh": ("torso", HIP, 6, THIGH),
    "left_leg": ("left_thigh", KNEE, 7, LEG),
    "left_foot": ("left_leg", ANKLE, 8, FOOT),
}
RADII = np.array([0.07, *(0.05, 0.04, 0.05) * 2])  # of the capsules

# First states: a pitch, and hip, knee and ankle of both legs, are drawn within these limits.
LOW, HIGH = np.array([-0.05, *(-0.1, -0.3, -0.1) * 2]), np.array([0.05, *(0.2, 0.0, 0.1) * 2])


def stick_figure(states: Float[Array, "... S"]) -> Float[Array, "... capsules 2 2"]:
    """The two ends of every capsule: [..., capsule, end, x and z]."""
    place = jnp.stack([states[..., X], states[..., HEIGHT] + STANDING], axis=-1)
    frames: dict[str, tuple[Array, Array]] = {"torso": (place, states[..., PITCH])}
    lines = [_ends(frames["torso"], TORSO)]
    for name, (parent, joint, column, ends) in LIMBS.items():
        turned = frames[parent][1] - states[..., column]  # its joints turn the other way than the torso
        frames[name] = _to_world(frames[parent], joint), turned
        lines.append(_ends(frames[name], ends))
    return jnp.stack(lines, axis=-3)


def _ends(frame: tuple[Array, Array], ends: tuple[tuple[float, float], ...]) -> Array:
    return jnp.stack([_to_world(frame, end) for end in ends], axis=-2)


def _to_world(frame: tuple[Array, Array], point: tuple[float, float]) -> Array:
    """The position in the world of a point that is fixed to a limb; a positive angle turns z towards x."""
    (position, angle), (x, z) = frame, point
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return position + jnp.stack([x * cos + z * sin, z * cos - x * sin], axis=-1)


def torso_heights(states: Float[Array, "*batch S"]) -> Float[Array, "*batch"]:
    """The height of the torso's centre above the ground."""
    return STANDING + states[..., HEIGHT]


@labeling_function(classes=("slow", "fast"), unit="m/s")
def speed(states, actions):
    """Mean forward velocity."""
    return states[:, VELOCITY].mean()


@labeling_function(classes=("back", "forward"), unit="rad")
def lean(states, actions):
    """Mean pitch of the torso; a walker that leans forward has a positive one."""
    return states[:, PITCH].mean()


@functools.cache
def model() -> Any:
    """MuJoCo's model of the walker, at its time step."""
    return physics.suite_model("walker", TIMESTEP)


@functools.cache
def in_threads() -> physics.Threads:
    """The walker's physics by MuJoCo in threads."""
    return physics.Threads(model(), SUBSTEPS)


@functools.cache
def compiled(solver: str = "newton", iterations: int = 6, line_search_iterations: int = 8) -> physics.Compiled:
    """The walker's physics by MJX, compiled by JAX."""
    return physics.Compiled(model(), SUBSTEPS, solver, iterations, line_search_iterations)


def resets(count: int, seed: int) -> Float[np.ndarray, "count S"]:
    """First states: upright, at rest, in random poses whose lowest point touches the ground.

    They are not the Control Suite's, whose walkers are dropped at any angle: getting up is another task.
    """
    states = np.zeros((count, STATES))
    states[:, PITCH : PITCH + 7] = np.random.default_rng(seed).uniform(LOW, HIGH, (count, 7))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):  # the same with and without an accelerator
        states[:, HEIGHT] -= np.asarray(_lowest(states))
    return states


def _lowest(states: Float[Array, "*batch S"]) -> Float[Array, "*batch"]:
    """The height of the lowest point of the body."""
    return (stick_figure(states)[..., 1].min(axis=-1) - RADII).min(axis=-1)


def environment(states: Array, actions: Array) -> np.ndarray:
    """The next states by MuJoCo; actions are clipped to the range of the motors, and unstable states are NaN."""
    return in_threads().try_step(states, actions)


def render(states: Array) -> np.ndarray:
    """MuJoCo's own pictures of states, from the side, by a camera that follows the body."""
    return rendering.render(model(), states)


def observe(states: Float[Array, "*batch S"]) -> Float[Array, "*batch O"]:
    """The observations of a demonstrator: a state without the position along the track."""
    return jnp.delete(states, X, axis=-1)


def forward_velocity(states: Float[Array, "*batch S"]) -> Float[Array, "*batch"]:
    """The torso's forward velocity."""
    return states[..., VELOCITY]


def fallen(states: Float[Array, "*batch S"]) -> Bool[Array, "*batch"]:
    """Whether the torso is lower than 0.8 m or tilted by more than 60 degrees."""
    return (torso_heights(states) < 0.8) | (jnp.cos(states[..., PITCH]) < 0.5)


def reward(after: Float[Array, "N S"], actions: Float[Array, "N A"], target: Float[Array, ""]) -> Float[Array, " N"]:
    """A reward that grows towards the target speed and peaks there, plus some for posture, swing and low effort.

    Without the swing, policies lunge: one leg stays in front, and both feet shuffle.
    """
    error = jnp.abs(forward_velocity(after) - target)
    speed_reward = 1.5 - 1.5 * error / (0.5 + target) + 0.5 * jnp.exp(-jnp.square(error / 0.4))
    posture = 0.3 * jnp.cos(after[..., PITCH]) + 2 * jnp.minimum(torso_heights(after) - 1.15, 0)
    right, left = (after[..., column] for column in HIP_RATES)
    swing = jnp.minimum(target, 1) * jnp.clip(-right * left / 4, -1, 1)  # legs that swing against each other
    return speed_reward + posture + 0.25 * swing - 0.02 * jnp.square(actions).mean(axis=-1)


WALKING = TaskSpec(
    reward=RewardSpec(observe, reward, fallen, forward_velocity, MOTORS),
    targets=(0.0, 2.0),
    unit="m/s",
    hertz=HZ,
    steps=STEPS,
    resets=resets,
    threads=in_threads,
    compiled=compiled,
    shares={"fallen": fallen},
    measures={"torso height (m)": torso_heights, "pitch (rad)": lambda states: states[..., PITCH]},
)


def demonstrations(count: int, seed: int) -> Trajectories:
    """Demonstrations to train with: rollouts of the demonstrators in turn."""
    return cached_demonstrations(WALKING, POLICIES, count, seed, "train")


def test_demonstrations(count: int, seed: int) -> Trajectories:
    """Demonstrations to test with: a quarter as many, from other first states and with other noise."""
    return cached_demonstrations(WALKING, POLICIES, max(1, count // 4), seed, "test")


WALKER = Domain(
    name="walker",
    demonstrations=demonstrations,
    count=900,
    test=test_demonstrations,
    environment=environment,
    sizes=(STATES, ACTIONS),
    actions=MOTORS,
    position=(X,),
    styles={style.name: replace(style, source=style.name) for style in (speed, lean)},
    default_styles=("speed", "lean"),
    settings=PRESETS["cheetah"],
    presets=("cheetah", "cheetah-small"),
    rollouts=500,
    scene=Scene(columns=(X, HEIGHT), unit="m", hertz=HZ, body=stick_figure, render=render),
    measures={
        "fallen": lambda states, actions: fallen(states[:, 1:]),
        "effort": lambda states, actions: jnp.square(actions).mean(axis=-1),
    },
    task=WALKING,
)
