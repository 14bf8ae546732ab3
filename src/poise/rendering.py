"""MuJoCo's own pictures of a body, where there is OpenGL: no display is needed.

MuJoCo settles at its import which OpenGL it uses, for good, and a driver that fails may take its process along. So
a fresh interpreter makes the pictures and answers over a pipe: a position in, a picture out.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from .errors import PoiseError
from .physics import check_states, import_mujoco

WIDTH, HEIGHT = 480, 300  # pixels
AWAY, DOWN = 1.05, 8.0  # the camera: its distance in the model's extents, and degrees that it looks down
LOOK = 0.7  # how high it looks at, in the heights of the model's centre
BACKENDS = ("cgl",) if sys.platform == "darwin" else ("egl", "osmesa", "glfw")  # tried in turn; glfw needs a display
PACKAGES = "libegl1 libopengl0 libgl1-mesa-dri"  # what EGL loads where there is no GPU
READY = "ready"
PATIENCE = 60.0  # seconds that a backend has to start


class Renderer:
    """Makes pictures of states, seen from the side by a camera that goes along."""

    def __init__(self, model: Any):
        """`model` is MuJoCo's, with a body that moves along x; MUJOCO_GL names the backend, else several are tried."""
        self.model = model
        self._process = _start(model)

    def render(self, states: Any) -> UInt8[np.ndarray, "N height width 3"]:
        """The pictures of states [N, S]."""
        places = check_states(self.model, states)[:, : self.model.nq]
        try:
            pictures = [self._ask(place) for place in places]
        except (BrokenPipeError, EOFError, ValueError) as error:  # ValueError: of a closed pipe
            raise PoiseError("the process that renders has ended; make another renderer") from error
        return np.array(pictures, np.uint8).reshape(-1, HEIGHT, WIDTH, 3)

    def close(self) -> None:
        """Ends the process that renders."""
        _stop(self._process)

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, place: Float[np.ndarray, " Q"]) -> np.ndarray:
        question, answers = self._process.stdin, self._process.stdout
        assert question is not None
        assert answers is not None
        question.write(place.tobytes())
        question.flush()
        pixels = answers.read(HEIGHT * WIDTH * 3)
        if len(pixels) < HEIGHT * WIDTH * 3:
            raise EOFError
        return np.frombuffer(pixels, np.uint8)


def render(model: Any, states: Any) -> UInt8[np.ndarray, "N height width 3"]:
    """The pictures of states [N, S], by a renderer of their own."""
    with Renderer(model) as renderer:
        return renderer.render(states)


def _start(model: Any) -> subprocess.Popen[bytes]:
    """A process that renders, with the first backend that works."""
    named, failed = os.environ.get("MUJOCO_GL", "").strip(), []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.mjb"
        import_mujoco().mj_saveModel(model, str(file), None)
        for backend in (named,) if named else BACKENDS:
            process = _launch(backend, file)
            answer = _first_answer(process)
            if answer == READY:
                return process
            _stop(process)
            failed.append(f"{backend}: {textwrap.shorten(answer, 100)}")
    raise PoiseError(
        f"MuJoCo cannot render here ({'; '.join(failed)}): install OpenGL (Debian: apt install {PACKAGES}) or set "
        "MUJOCO_GL to a backend that works; stick figures need none of it"
    )


def _first_answer(process: subprocess.Popen[bytes]) -> str:
    """What a process says as it starts; a driver may also crash, or hang."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        return f"it did not start within {PATIENCE:g} s"
    return process.stdout.readline().decode(errors="replace").strip() or "its process crashed"


def _launch(backend: str, file: Path) -> subprocess.Popen[bytes]:
    program = "import sys; from poise.rendering import serve; serve(sys.argv[1])"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "MUJOCO_GL": backend,
        "PYOPENGL_PLATFORM": "",  # MuJoCo sets it as its backend needs it, and refuses another's
        "JAX_PLATFORMS": "cpu",  # one process alone may have the accelerator
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def serve(file: str) -> None:
    """What the process does that renders: says that it is ready, or why not, and answers until nobody asks."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a driver that prints does not print into a picture
    try:
        camera = _Camera(file)
    except Exception as error:  # of many kinds, one a backend
        pipe.write(f"{type(error).__name__}: {' '.join(str(error).split())}\n".encode())
        return
    pipe.write(f"{READY}\n".encode())
    pipe.flush()
    while place := sys.stdin.buffer.read(camera.model.nq * 8):
        pipe.write(camera.take(np.frombuffer(place)).tobytes())
        pipe.flush()


class _Camera:
    """Where MuJoCo renders: in a process of its own, with the OpenGL that MUJOCO_GL names there."""

    def __init__(self, file: str):
        mujoco = import_mujoco()
        self.model = mujoco.MjModel.from_binary_path(file)
        self._mujoco, self._data, self._view = mujoco, mujoco.MjData(self.model), mujoco.MjvCamera()
        self._renderer = mujoco.Renderer(self.model, HEIGHT, WIDTH)
        self._view.azimuth, self._view.elevation = 90.0, -DOWN  # from the right, x to the right
        self._view.distance = AWAY * self.model.stat.extent

    def take(self, place: Float[np.ndarray, " Q"]) -> np.ndarray:
        """A picture of the body there."""
        self._data.qpos[:] = place
        self._mujoco.mj_forward(self.model, self._data)
        self._view.lookat[:] = self._data.subtree_com[1, 0], 0.0, LOOK * self.model.stat.center[2]
        self._renderer.update_scene(self._data, self._view)
        return self._renderer.render()
