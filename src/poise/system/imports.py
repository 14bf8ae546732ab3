"""Values from the user's own Python files, named as `file.py:NAME`."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import PoiseError, unknown
from .user_code import Stopped, held, one_line


def is_file_spec(text: str) -> bool:
    """Whether a name has the form file.py:NAME."""
    return ":" in text


def split_file_spec(text: str) -> tuple[Path, str]:
    """The file and the name of file.py:NAME."""
    file, _, name = text.rpartition(":")
    return Path(file), name


def import_value(spec: str, candidate: Callable[[Any], bool]) -> Any:
    """The value that file.py:NAME stands for.

    Importing runs the file, so call this only with a name that the user gave.

    Args:
        spec: The file and the name of a value in it, as file.py:NAME.
        candidate: Whether a value of the file may be suggested if there is no value of this name.
    """
    file, name = split_file_spec(spec)
    module = import_file(file)
    if not hasattr(module, name):
        raise unknown(f"name in {file}", name, [key for key, value in vars(module).items() if candidate(value)])
    return getattr(module, name)


def import_file(path: Path) -> ModuleType:
    """The module that a Python file defines; the file may import other files of its folder."""
    if not path.exists():
        raise PoiseError(f"no such file: {path}")
    stat = path.stat()
    key = hashlib.sha256(repr((str(path.resolve()), stat.st_mtime_ns, stat.st_size)).encode()).hexdigest()[:12]
    name = f"poise_file_{path.stem}_{key}"
    if name in sys.modules:  # one file is run once, so that its values are the same wherever they are named
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PoiseError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with held(seconds=0) as holding:
            holding.call(spec.loader.exec_module, module)
    except PoiseError:
        del sys.modules[name]
        raise
    except Stopped as stopped:
        del sys.modules[name]
        raise PoiseError(f"{path} cannot be imported: it {stopped}") from stopped
    except Exception as error:
        del sys.modules[name]
        raise PoiseError(f"{path} cannot be imported: {type(error).__name__}: {one_line(error)}") from error
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.pop(0)
    return module
