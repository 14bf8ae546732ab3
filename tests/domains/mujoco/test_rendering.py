"""MuJoCo's own pictures: what they show, and the message where there is no OpenGL."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from poise import PoiseError
from poise.domains import cheetah
from poise.domains.mujoco import rendering

for name in ("mujoco", "dm_control"):
    pytest.importorskip(name, reason="the extra is missing: pip install 'poise[cheetah]'")


def standing(x: float = 0.0, z: float = 0.0) -> np.ndarray:
    state = np.zeros(cheetah.STATES)
    state[:2] = x, z
    return state


def body_pixels(picture: np.ndarray) -> np.ndarray:
    """Rows and columns of the body, the only orange object."""
    red, _, blue = np.moveaxis(picture.astype(int), -1, 0)
    return np.argwhere(red > blue + 60)


def test_the_camera_follows_the_body_along_the_track_but_not_up(opengl):
    pictures = cheetah.render(np.stack([standing(), standing(x=8.0), standing(z=0.2)]))
    assert pictures.shape == (3, rendering.HEIGHT, rendering.WIDTH, 3)
    here, there, above = (body_pixels(picture) for picture in pictures)
    assert len(here) > 500
    np.testing.assert_allclose(here.mean(axis=0), there.mean(axis=0), atol=1.0)
    assert abs(here[:, 1].mean() - rendering.WIDTH / 2) < 0.05 * rendering.WIDTH
    assert above[:, 0].mean() < here[:, 0].mean() - 20


def test_x_points_right_as_in_stick_figures(opengl):
    columns = body_pixels(cheetah.render(standing()[None])[0])
    highest = columns[columns[:, 0].argmin()]  # the head, which is in front
    assert highest[1] > columns[:, 1].mean()


def test_a_renderer_can_be_used_again_until_it_is_closed(opengl):
    states = np.stack([standing(), standing(z=0.1)])
    with rendering.Renderer(cheetah.model()) as renderer:
        both, first = renderer.render(states), renderer.render(states[:1])
        np.testing.assert_array_equal(both[:1], first)
        assert len(renderer.render(states[:0])) == 0
        with pytest.raises(PoiseError, match="a state is finite"):
            renderer.render(states * np.nan)
    renderer.close()
    with pytest.raises(PoiseError, match="has ended"):
        renderer.render(states)


def test_the_next_backend_is_tried_where_one_fails(opengl, monkeypatch):
    working = os.environ.get("MUJOCO_GL") or rendering.BACKENDS
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(rendering, "BACKENDS", ("off", *([working] if isinstance(working, str) else working)))
    assert len(cheetah.render(standing()[None])) == 1


def test_missing_opengl_is_one_clear_line(monkeypatch):
    cheetah.model()
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(
        PoiseError, match=r"cannot render here \(off: .*\): install OpenGL .* stick figures need"
    ) as error:
        cheetah.render(standing()[None])
    assert "\n" not in str(error.value)


def test_a_graphics_driver_that_crashes_is_one_clear_line(monkeypatch):
    model = cheetah.model()
    monkeypatch.setattr(sys, "executable", "false")  # a program that ends at once
    with pytest.raises(PoiseError, match="its process crashed"):
        rendering.render(model, standing()[None])


def test_the_next_backend_is_tried_where_one_hangs(monkeypatch, tmp_path):
    model, hanging = cheetah.model(), tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 100\n")
    hanging.chmod(0o755)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(sys, "executable", str(hanging))
    monkeypatch.setattr(rendering, "TIMEOUT", 0.1)
    monkeypatch.setattr(rendering, "BACKENDS", ("one", "two"))
    with pytest.raises(PoiseError, match=r"\(one: it did not start within 0.1 s; two: it did not start within 0.1 s\)"):
        rendering.render(model, standing()[None])


def test_a_bad_backend_is_one_clear_line_on_the_command_line():
    words = [sys.executable, "-m", "poise.cli", "demos", "cheetah", "--count", "1"]
    environment = {**os.environ, "MUJOCO_GL": "bogus", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("poise: MuJoCo cannot be imported with MUJOCO_GL=bogus")
    assert done.stderr.count("\n") == 1
