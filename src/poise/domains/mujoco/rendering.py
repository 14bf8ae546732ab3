"""MuJoCo's own pictures of a body, where there is OpenGL. No display is needed.

MuJoCo chooses its OpenGL backend once, at its import, and a broken graphics driver may crash the process. Pictures are
therefore made by a worker process, which receives positions and returns pictures.
"""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from ...errors import PoiseError
from ...system.workers import Message, Worker, WorkerEnded
from .physics import check_states, import_mujoco

WIDTH, HEIGHT = 480, 300  # pixels
DISTANCE, ELEVATION = 1.05, -8.0  # of the camera: in extents of the model, and in degrees
LOOK_AT = 0.7  # the height that the camera looks at, in heights of the model's centre
BACKENDS = ("cgl",) if sys.platform == "darwin" else ("egl", "osmesa", "glfw")  # tried in turn; glfw needs a display
PACKAGES = "libegl1 libopengl0 libgl1-mesa-dri"  # what EGL needs where there is no GPU
TIMEOUT = 60.0  # seconds that a backend has to start


class Renderer:
    """Makes pictures of states, seen from the side by a camera that follows the body."""

    def __init__(self, model: Any):
        """`model` is MuJoCo's model of a body that moves along x. Without MUJOCO_GL, several backends are tried."""
        self.model = model
        self._worker = _start(model)

    def render(self, states: Any) -> UInt8[np.ndarray, "N height width 3"]:
        """The pictures of states [N, S]."""
        positions = check_states(self.model, states)[:, : self.model.nq]
        try:
            pictures = [self._worker.ask({"position": position})["picture"] for position in positions]
        except WorkerEnded as error:
            raise PoiseError("the process that renders has ended; make another renderer") from error
        return np.array(pictures, np.uint8).reshape(-1, HEIGHT, WIDTH, 3)

    def close(self) -> None:
        """Ends the worker process."""
        self._worker.close()

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def render(model: Any, states: Any) -> UInt8[np.ndarray, "N height width 3"]:
    """The pictures of states [N, S], by a renderer that is closed afterwards."""
    with Renderer(model) as renderer:
        return renderer.render(states)


def _start(model: Any) -> Worker:
    """A worker with the first backend that works."""
    named, failed = os.environ.get("MUJOCO_GL", "").strip(), []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.mjb"
        import_mujoco().mj_saveModel(model, str(file), None)
        for backend in (named,) if named else BACKENDS:
            worker = _launch(backend, file)
            reason = _why_not_ready(worker)
            if reason is None:
                return worker
            worker.close()
            failed.append(f"{backend}: {textwrap.shorten(reason, 100)}")
    raise PoiseError(
        f"MuJoCo cannot render here ({'; '.join(failed)}): install OpenGL (Debian: apt install {PACKAGES}) or set "
        "MUJOCO_GL to a backend that works; stick figures need no OpenGL"
    )


def _launch(backend: str, file: Path) -> Worker:
    """A worker with this backend, which may still fail to start."""
    # MuJoCo sets PYOPENGL_PLATFORM for its backend, and refuses to start where it is set for another one
    environment = {"MUJOCO_GL": backend, "PYOPENGL_PLATFORM": ""}
    return Worker(f"{__name__}:{serve.__name__}", str(file), environment=environment, show_errors=False)


def _why_not_ready(worker: Worker) -> str | None:
    """Why a worker cannot render; None if it can. A graphics driver may raise an error, crash or hang."""
    try:
        worker.ready(TIMEOUT)
    except PoiseError as error:
        return str(error)
    except WorkerEnded:
        return "its process crashed"
    except TimeoutError:
        return f"it did not start within {TIMEOUT:g} s"
    return None


def serve(file: str) -> Callable[[Message], Message]:
    """A worker's function from positions to pictures."""
    camera = _Camera(file)
    return lambda question: {"picture": camera.take(question["position"])}


class _Camera:
    """MuJoCo's renderer in the worker process, with the backend that MUJOCO_GL names there."""

    def __init__(self, file: str):
        mujoco = import_mujoco()
        self.model = mujoco.MjModel.from_binary_path(file)
        self._mujoco, self._data, self._view = mujoco, mujoco.MjData(self.model), mujoco.MjvCamera()
        self._renderer = mujoco.Renderer(self.model, HEIGHT, WIDTH)
        self._view.azimuth, self._view.elevation = 90.0, ELEVATION  # from the body's right side: x points right
        self._view.distance = DISTANCE * self.model.stat.extent

    def take(self, position: Float[np.ndarray, " Q"]) -> np.ndarray:
        """A picture of the body in this position."""
        self._data.qpos[:] = position
        self._mujoco.mj_forward(self.model, self._data)
        self._view.lookat[:] = self._data.subtree_com[1, 0], 0.0, LOOK_AT * self.model.stat.center[2]
        self._renderer.update_scene(self._data, self._view)
        return self._renderer.render()
