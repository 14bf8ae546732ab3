"""`python -m poise.cli` is `poise`."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
