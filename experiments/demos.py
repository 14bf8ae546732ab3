"""How long the Cheetah's demonstrations take to be made on this machine.

python experiments/demos.py OUT.json
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from poise import origin, storage
from poise.demonstrators import VARIABLE
from poise.domains.cheetah import CHEETAH


def main(out: Path) -> None:
    """Makes those of seed 0, as `poise demos cheetah` does, and keeps none."""
    os.environ[VARIABLE] = ""
    began, count = time.perf_counter(), CHEETAH.count
    assert CHEETAH.demonstrations is not None
    assert CHEETAH.test is not None
    made = {name: len(make(count, 0)) for name, make in (("train", CHEETAH.demonstrations), ("test", CHEETAH.test))}
    result = {**made, **origin.origin(time.perf_counter() - began)}
    storage.write_json(out, result)
    print(result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
