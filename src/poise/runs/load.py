"""Loading a run from its folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..algorithms import Algorithm, find_algorithm, fit_to
from ..data.trajectories import Trajectories
from ..domains import Domain, find_domain, recognise_integrator
from ..errors import PoiseError, check_list, unknown
from ..styles.labeling_functions import label_space, load_style
from ..system import storage
from ..system.compile_cache import use_compile_cache
from ..system.trust import is_trusted
from .folder import WEIGHTS, Restore, read_config, refuse_foreign
from .prepare import as_style
from .run import Run
from .shapes import shapes_of_parts


def load_run(
    folder: str | Path,
    styles: Sequence[str | Callable] = (),
    domain: str | Domain | None = None,
    algorithm: str | Algorithm | None = None,
    trust: bool = False,
) -> Run:
    """The run that a folder holds.

    A file is never imported because the folder names it, since that would run its sender's code: styles, domains and
    algorithms from files are imported only if you name them here, if you say `trust=True`, or if you trained the folder
    on this machine yourself. Reading weights, settings and reports needs no trust.

    Args:
        folder: The run folder.
        styles: Styles of the run that come from files or from memory: file.py:function, or functions.
        domain: The domain of the run, if it is one of your own: file.py:NAME, or a `Domain`.
        algorithm: The algorithm of the run, if it is one of your own: file.py:NAME, or an `Algorithm`.
        trust: Imports the files that the folder names.

    Returns:
        The run, equal to the one that was saved.

    Raises:
        PoiseError: The folder is not a finished run of this version, is damaged, or needs something to be named.

    Examples:
        >>> import tempfile
        >>> import poise
        >>> untrained = poise.Settings(training=poise.Training(policy_steps=0))
        >>> run = poise.train("rnn", styles=["speed"], count=40, settings=untrained, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = run.save(folder)
        ...     poise.load_run(folder).seeds
        [0]
    """
    styles = check_list("styles", styles, "[depth]", lambda style: isinstance(style, str) or callable(style))
    if not isinstance(domain, str | Domain | None) or not isinstance(algorithm, str | Algorithm | None):
        raise PoiseError("domain is a poise.Domain or file.py:NAME, and algorithm a poise.Algorithm or file.py:NAME")
    use_compile_cache()  # but not one device per core: a single device answers a single call faster
    folder = Path(folder)
    if not folder.is_dir():
        raise PoiseError(f"no such run folder: {folder}")
    written = read_config(folder)
    if not (folder / WEIGHTS).exists():
        raise PoiseError(f"{folder} is not trained to its end yet; start the same `poise train` again to resume it")
    try:
        return _load(folder, written, styles, domain, algorithm, trust)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise PoiseError(f"{folder} is damaged: its files do not fit together ({error!r})") from error


def _load(
    folder: Path,
    written: dict[str, Any],
    styles: Sequence[str | Callable],
    domain: str | Domain | None,
    algorithm: str | Algorithm | None,
    trusted: bool,
) -> Run:
    refuse_foreign(folder, WEIGHTS)
    restore = Restore(folder, written, trusted or is_trusted(folder))
    experiment, starts = restore.experiment(), Trajectories.load(folder / "starts.npz")
    summary = storage.read_json(folder / "summary.json")
    if domain is None:
        domain = restore.domain(starts.states.shape[-1])
    elif isinstance(domain, str):
        domain = find_domain(domain)
    domain = recognise_integrator(domain, starts)
    if algorithm is None:
        algorithm = restore.algorithm(experiment.algorithm)
    elif isinstance(algorithm, str):
        algorithm = find_algorithm(algorithm)
    given = [load_style(style, domain.styles) if isinstance(style, str) else as_style(style) for style in styles]
    names = [kept["name"] for kept in written["styles"]]
    for style in given:
        if style.name not in names:
            raise unknown("style of this run", style.name, names)
    fitted = tuple(restore.style(kept, domain, given) for kept in written["styles"])
    algorithm = fit_to(algorithm, domain, fitted)
    steps = summary.get("steps", starts.steps)
    like = shapes_of_parts(experiment, algorithm, domain, label_space(fitted), starts, steps)
    return Run(
        experiment=experiment,
        algorithm=algorithm,
        domain=domain,
        styles=fitted,
        parts=storage.read_tree(folder / WEIGHTS, like),
        starts=starts,
        stopped=tuple(summary["stopped"]),
        best=summary["best"],
        seconds=summary["seconds"],
        steps=steps,
        fingerprint=written["data"],
        folder=folder,
    )
