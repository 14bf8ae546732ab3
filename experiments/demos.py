"""How long it takes to make the Cheetah's demonstrations on this machine.

python experiments/demos.py OUT.json
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from poise.domains.cheetah import CHEETAH
from poise.domains.demonstrators.demonstrations import VARIABLE
from poise.system import provenance, storage


def main(out: Path) -> None:
    """Makes the demonstrations of seed 0 as `poise demos cheetah` does, keeps none, and writes the results."""
    os.environ[VARIABLE] = ""
    began, count = time.perf_counter(), CHEETAH.count
    assert CHEETAH.demonstrations is not None
    assert CHEETAH.test is not None
    made = {name: len(make(count, 0)) for name, make in (("train", CHEETAH.demonstrations), ("test", CHEETAH.test))}
    result = {**made, **provenance.provenance(time.perf_counter() - began)}
    storage.write_json(out, result)
    print(result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
