"""Runs the programs of pages as a user would: python run_pages.py PAGE ... prints which of them failed, as JSON.

It is a process of its own, so that all pages share what is compiled, and nothing checks types at run time. Presets and
built-in domains are tiny; pages run in the order in which they are named, in one folder.
"""

import gc
import json
import re
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^(?:<!-- no test: (?P<why>[^\n]+) -->\n)?```(?P<head>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A fenced block of code."""

    line: int
    title: str | None
    """The file that it is to be saved as, if any."""
    code: str
    why_not: str | None
    """The reason why it is not run, if it is not."""


def find_blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a language in a page."""
    text, found = page.read_text(), []
    for match in FENCE.finditer(text):
        if match["head"].split()[:1] == [language]:
            title = re.search(r'title="([^"]+)"', match["head"])
            line = text.count("\n", 0, match.start("code"))
            found.append(Block(line, title and title[1], match["code"], match["why"]))
    return found


def make_tiny() -> None:
    """Makes presets and built-in domains tiny. Stages take no steps: compiling them would take most of the time.

    The programs in examples/ and the first program of the README are trained by tests of their own.
    """
    import poise
    from poise.config import FlowNetwork
    from poise.domains import cheetah, walker
    from poise.evaluation import evaluate, realism, scored
    from poise.evaluation.two_sample import ClassifierSize

    tiny = poise.Settings(
        network=poise.Network(
            hidden=8, layers=(8,), dynamics_layers=(8,), flow=FlowNetwork(width=8, blocks=1, steps=2)
        ),
        sampling=poise.Sampling(steps=2, tries=2),
        training=poise.Training(
            policy_steps=0, flow_steps=0, style_steps=0, labeler_steps=0, dynamics_steps=0, batch=8
        ),
    )
    poise.PRESETS.update({"small": tiny, "cheetah-small": tiny})
    scored.MOST_LENGTHS = 1
    setattr(evaluate, "REPEATED", 16)  # noqa: B010  (128 rollouts, as of everything else: one program of each)
    setattr(realism, "SMALL", ClassifierSize(rows=64, hidden=4, steps=4, batch=8, rate=1e-2, reads=5))  # noqa: B010
    cheetah.RUNNING = replace(cheetah.RUNNING, steps=20)
    walker.WALKING = replace(walker.WALKING, steps=20)
    for domain, count, rollouts in (("basketball", 200, 128), ("cheetah", 40, 8), ("walker", 36, 8)):
        poise.DOMAINS[domain] = replace(poise.DOMAINS[domain], count=count, rollouts=rollouts)


def run(page: Path) -> str | None:
    """Runs the programs of a page, one after the other in one namespace; what went wrong, if anything did."""
    namespace: dict[str, Any] = {"__name__": "docs"}
    try:
        for block in find_blocks(page, "python"):
            if block.title:
                Path(block.title).write_text(block.code)
            if block.why_not is None:
                exec(compile("\n" * block.line + block.code, str(page), "exec"), namespace)
    except Exception:
        return traceback.format_exc()
    return None


def main(pages: list[str]) -> None:
    """Prints one JSON object on the last line: the traceback, if any, and the seconds of each page."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)  # much is compiled, and little is computed
    make_tiny()
    gc.set_threshold(100_000, 20, 100)  # tracing makes many objects
    found = {}
    for page in pages:
        began = time.perf_counter()
        failed = run(Path(page))
        found[page] = {"failed": failed, "seconds": round(time.perf_counter() - began, 1)}
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
