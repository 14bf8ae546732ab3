"""The entry point: reads the words of a command, runs it, and turns every error of the user's into one line."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import tyro

from ..errors import PoiseError, unknown
from ..system.compile_cache import use_compile_cache
from ..system.devices import use_cpu_devices
from ..system.interrupts import Terminated, terminable
from ..system.provenance import versions
from ..system.user_code import one_line
from .data import Demonstrators, Demos, Import, Label, demonstrators, demos, import_logs, label
from .output import only_json
from .paper import Demo, Reproduce, demo, reproduce
from .rollouts import Evaluate, Sample, evaluate, sample
from .training import Train, train, train_defaults

ABOUT = "Policies you can dial: learn from demonstrations, ask for a style, get rollouts that show it."
COMMANDS: dict[type, Callable[[Any], None]] = {
    Demo: demo,
    Import: import_logs,
    Label: label,
    Train: train,
    Evaluate: evaluate,
    Sample: sample,
    Reproduce: reproduce,
    Demonstrators: demonstrators,
    Demos: demos,
}
"""The commands by their arguments."""
TRAINING = (Demo, Train, Reproduce)
"""Commands that use each core of a CPU as a device; those that load a run are faster on one device."""


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command; bad input is one line on standard error and exit code 2."""
    words = list(sys.argv[1:] if words is None else words)
    if words == ["--version"]:
        print(f"poise {versions()['poise']}")
        return 0
    try:
        arguments = parse(words)
        use_compile_cache()
        if isinstance(arguments, TRAINING):
            use_cpu_devices()
        with terminable(), only_json() if getattr(arguments, "json", False) else contextlib.nullcontext():
            _run(arguments)
    except PoiseError as error:
        print(f"poise: {one_line(error)}", file=sys.stderr)
        return 2
    except MemoryError:
        print("poise: not enough memory for that many numbers; ask for fewer at a time", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print("poise: interrupted; start the same command again to continue", file=sys.stderr)
        return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)
    except BrokenPipeError:  # the reader of a pipe went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _run(arguments: Any) -> None:
    """Runs a command, which does not end the program by itself."""
    try:
        COMMANDS[type(arguments)](arguments)
    except SystemExit as stop:
        raise PoiseError("code of your own called sys.exit; a function returns, or raises an error") from stop


def parse(words: Sequence[str]) -> Any:
    """The arguments of the command that the words name; the settings of `train` start from those of its domain."""
    names = [kind.__name__.lower() for kind in COMMANDS]
    if words and not words[0].startswith("-") and words[0] not in names:
        raise unknown("command", words[0], names)
    defaults: dict[type, Any] = {Train: train_defaults(words)} if words and words[0] == "train" else {}
    commands = tuple(
        Annotated[
            kind,
            tyro.conf.subcommand(name=kind.__name__.lower(), default=defaults.get(kind, tyro.MISSING_NONPROP)),
        ]
        for kind in COMMANDS
    )
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(
                _union(commands),  # pyright: ignore[reportArgumentType]
                args=list(words),
                prog="poise",
                description=ABOUT,
                config=(tyro.conf.OmitArgPrefixes,) if words and words[0] != "train" else (),
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise PoiseError(_one_line(printed.getvalue(), " ".join(["poise", *words[:1]]))) from None


def _one_line(box: str, command: str) -> str:
    """What tyro prints in a box of several lines, on one: the error, the nearest option, where help is."""
    lines = [line.strip(" │╭╮╰╯|+") for line in box.splitlines()]
    parts = [[]]
    for line in lines[1:]:
        if line.strip("─-") == "":
            parts.append([])
        else:
            parts[-1].append(line)
    parts = [part for part in parts if part] or [["the command could not be read"]]
    meant = [part[1].split()[0] for part in parts if len(part) > 1 and part[0].startswith("Perhaps you meant")]
    hint = f"; did you mean {meant[0]}?" if meant else ""
    return f"{' '.join(parts[0]).rstrip('.')}{hint} (see {command} --help)"


def _union(kinds: tuple[Any, ...]) -> Any:
    from typing import Union

    return Union[kinds]  # noqa: UP007  (a union of a table)
