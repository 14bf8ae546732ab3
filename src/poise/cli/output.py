"""What commands print."""

from __future__ import annotations

import json
from typing import Any


def show(value: Any, as_json: bool) -> None:
    """Prints a value as text, or as JSON for machines."""
    plain = value.to_json() if as_json and hasattr(value, "to_json") else value
    print(json.dumps(plain, indent=1) if as_json else plain)


def plural(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
