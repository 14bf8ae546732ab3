"""The command line: each command is a dataclass of arguments and one short function. `main` runs one."""

from .main import main, parse

__all__ = ["main", "parse"]
