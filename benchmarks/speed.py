"""Measures speed, in one command, and writes results/speed/<hardware>.json.

    make bench                                        all sections, on this machine
    python benchmarks/speed.py --sections step        some of them; the others keep their last results

Each measurement is saved at once, so an interrupted benchmark loses nothing. `page.py` draws the results.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from steps import CHEETAH, Shape, Work, build, machine, measure, name_of
from time_to_style import time_to_style

import poise
from poise.config import PRESETS
from poise.system import provenance, storage
from poise.training.state import one_run, start

MAIN = Shape()
PAIRS = 7
ON_GPU = [
    *(replace(MAIN, runs=runs) for runs in (64, 1, 256)),
    CHEETAH,
    *(replace(MAIN, runs=runs) for runs in (16, 4)),
    replace(CHEETAH, runs=64),
    *(replace(MAIN, styles=styles, runs=64) for styles in (3, 5)),
    *(replace(MAIN, hidden=hidden, runs=64) for hidden in (64, 256)),
    *(replace(MAIN, batch=batch, runs=64) for batch in (32, 512)),
    *(replace(MAIN, steps=steps, runs=64) for steps in (12, 48)),
]
ON_CPU = [
    *(replace(MAIN, runs=runs) for runs in (1, 2, 4, 8)),
    *(replace(MAIN, styles=styles) for styles in (3, 5)),
    *(replace(MAIN, hidden=hidden) for hidden in (64, 256)),
    *(replace(MAIN, batch=batch) for batch in (32, 64, 256)),
    *(replace(MAIN, steps=steps) for steps in (12, 48)),
    replace(MAIN, algorithm="ctvae"),
    replace(MAIN, algorithm="rnn-style"),
    replace(MAIN, stage="labeler"),
    CHEETAH,
]


@dataclass
class Arguments:
    """Measures the speed of Poise on this machine."""

    sections: tuple[str, ...] = ("step", "pairs", "labeling", "sampling", "streaming", "start", "style")
    """Which of: step, pairs, labeling, sampling, streaming, start, style."""
    out: Path = Path("results/speed")
    rows: int | None = None
    """Only this many shapes of a step, the most important first."""
    baseline: bool = True
    """Whether eager PyTorch is measured as well (it must be installed)."""
    missing: bool = False
    """Only shapes that were never measured on this hardware, at whatever commit."""


def main(arguments: Arguments) -> None:
    """Measures section by section, saving as it goes."""
    path = arguments.out / f"{file_name()}.json"
    arguments.out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = storage.read_json(path) if path.exists() else {"rows": []}
    began = time.perf_counter()

    def save(**more: Any) -> None:
        seconds = time.perf_counter() - began
        found = {key: {**value, "commit": provenance.commit()} for key, value in more.items() if key != "rows"}
        rows = {"rows": more["rows"]} if "rows" in more else {}
        result.update(
            {"machine": machine(), "load": os.getloadavg()[0], **rows, **found, **provenance.provenance(seconds)}
        )
        storage.write_json(path, result)

    for section in arguments.sections:
        if section not in SECTIONS:
            raise poise.PoiseError(f"unknown section {section!r}; known: {', '.join(SECTIONS)}")
        print(f"# {section}", flush=True)
        SECTIONS[section](arguments, result, save)


def file_name() -> str:
    """The hardware as a file's name."""
    return re.sub(r"\W+", "-", provenance.hardware().lower()).strip("-")


Save = Callable[..., None]


def step(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """One optimiser step for many shapes, and of eager PyTorch for each shape of one run."""
    shapes = (ON_CPU if jax.default_backend() == "cpu" else ON_GPU)[: arguments.rows]
    commit = provenance.commit() or ""
    rows = {row["name"]: row for row in result["rows"]}
    for shape in shapes:
        known = rows.get(name_of(shape), {}).get("commit")
        if known and (arguments.missing or (known == commit and not commit.endswith("+"))):
            continue  # measured before this benchmark was interrupted
        work = build(shape)
        row = {**measure(work), "commit": commit}
        alone = rows.get(name_of(replace(shape, runs=1)), {})
        if arguments.baseline and (shape.runs == 1 or alone.get("commit") != commit):
            alone = eager_in_its_own_process(shape)
        row |= {key: alone.get(key) for key in ("baseline_ms", "baseline_whole_ms")}
        rows[row["name"]] = row
        save(rows=list(rows.values()))
        kept = ("name", "ms_per_step", "ms_per_step_and_run", "floor_ms", "baseline_ms", "compile_s")
        print({key: row[key] for key in kept}, flush=True)


ALONE = """
import json, sys
from speed import Shape, build, eager, measure
print(json.dumps({name}(build(Shape(**json.loads(sys.argv[1]))))))
"""


def in_its_own_process(name: str, shape: Shape, **environment: str) -> dict[str, Any]:
    """`eager` or `measure` of a shape in a new process, undisturbed by this one."""
    words = [sys.executable, "-c", ALONE.format(name=name), json.dumps(asdict(shape))]
    given = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **environment}
    done = subprocess.run(words, cwd=Path(__file__).parent, env=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def eager_in_its_own_process(shape: Shape) -> dict[str, float | None]:
    """`eager` in a new process: the threads of JAX's devices would slow PyTorch down, to our advantage."""
    return in_its_own_process("eager", replace(shape, runs=1), POISE_CORES="1")


def pairs(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """One style step of Poise and of eager PyTorch in turn, several times: the spread of their ratio."""
    ours, theirs = [], []
    for _ in range(PAIRS if arguments.baseline else 0):
        ours.append(in_its_own_process("measure", MAIN)["ms_per_step"])
        theirs.append(eager_in_its_own_process(MAIN)["baseline_ms"])
        ratios = sorted(round(b / a, 3) for a, b in zip(ours, theirs, strict=True) if b is not None)
        save(pairs=_shown({"poise_ms": ours, "eager_ms": theirs, "ratios": ratios}))


def eager(work: Work) -> dict[str, float | None]:
    """Milliseconds of the same step in eager PyTorch: with the published loop, and with whole sequences."""
    try:
        import eager as torch_baseline
        from eager_losses import Work as torch_work  # noqa: N813
    except (ImportError, SystemExit):  # PyTorch is not installed
        return {"baseline_ms": None, "baseline_whole_ms": None}
    stage, settings = work.algorithm.stage(work.shape.stage), work.shape.settings
    parts = one_run(start(work.algorithm, work.problem, np.arange(1)).parts, 0)
    given = torch_work(parts, stage, settings, work.demonstrations, work.labels)
    device = "cpu" if jax.default_backend() == "cpu" else "cuda"
    few = {"warmup": 2, "count": 3, "repeats": 3} if work.shape.steps > 100 else {}
    times = {
        structure: torch_baseline.measure(torch_baseline.make_step(given, structure, device), device, **few)
        for structure in ("published", "whole")
    }
    return {"baseline_ms": round(times["published"], 3), "baseline_whole_ms": round(times["whole"], 3)}


def labeling(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """Five traced styles over a million trajectories, and NumPy styles."""
    import labeling as section

    save(labeling=_shown(section.measure()))


def sampling(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """Rollouts per second, and the latency of one rollout and of one step, in a process that only samples."""
    script = Path(__file__).with_name("sampling.py")
    words = [sys.executable, str(script), *(["--eager"] if arguments.baseline else [])]
    given = {**os.environ, "POISE_CORES": "1"}  # one device, as after `load_run`
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=True)
    save(sampling=_shown(json.loads(done.stdout)))


def streaming(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """Five million trajectories on disk: labelled, streamed and trained on, in seconds and memory."""
    script = Path(__file__).with_name("streaming.py")  # in a new process, whose memory is measured
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    save(streaming=_shown(json.loads(done.stdout)))


START = """
import time
began = time.perf_counter()
from dataclasses import replace
import poise
from poise import PRESETS
from poise.runs import train as training
fit = training.fit
def watched(*given, **more):
    for now in fit(*given, **more):
        if now.losses:
            print(now.stage, time.perf_counter() - began)
        yield now
training.fit = watched
settings = PRESETS["basketball"]
short = replace(settings.training, policy_steps=1, labeler_steps=1, chunk=1)
poise.train("ctvae-style", styles=["destination"], settings=replace(settings, training=short), progress=False)
"""


def start_up(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """Seconds from the start of Python to the first trained step, with an empty and with a full compile cache."""
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "POISE_PROGRAM_CACHE": folder}
        for _ in range(3):
            done = subprocess.run(
                [sys.executable, "-c", START], env=environment, capture_output=True, text=True, check=True
            )
            starts.append(
                {stage: round(float(seconds), 2) for stage, seconds in map(str.split, done.stdout.splitlines())}
            )
    first, second = starts[0], min(starts[1:], key=lambda one: one["labeler"])
    save(
        start=_shown(
            {
                "first_s": first["labeler"],
                "second_s": second["labeler"],
                "first_all_stages_s": first["policy"],
                "second_all_stages_s": second["policy"],
            }
        )
    )


def style(arguments: Arguments, result: dict[str, Any], save: Save) -> None:
    """Seconds of training until DESTINATION, 3 classes, is right in 95 % of rollouts from validation starts."""
    cpu = jax.default_backend() == "cpu"
    settings = PRESETS["small" if cpu else "basketball"]
    save(style=_shown(time_to_style(settings, goal=0.95)))


def _shown(found: dict[str, Any]) -> dict[str, Any]:
    print(found, flush=True)
    return found


SECTIONS: dict[str, Callable[[Arguments, dict[str, Any], Save], None]] = {
    "step": step,
    "pairs": pairs,
    "labeling": labeling,
    "sampling": sampling,
    "streaming": streaming,
    "start": start_up,
    "style": style,
}

if __name__ == "__main__":
    main(tyro.cli(Arguments))
