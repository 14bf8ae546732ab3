"""Writes every measured number in README.md and docs/ from the files under results/.

    python experiments/write_results.py            (--check: only says which pages would change)

A page names a block, and this script fills it:  <!-- results: demo -->  ...  <!-- end -->
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from results_blocks import BLOCKS
from results_blocks.text import ROOT, relative_links

BLOCK = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str, page: Path) -> str:
    """The text of a page with all of its blocks written anew; `page` is its path in the repository."""

    def write(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            raise SystemExit(f"{page} names the block {found[2]!r}, which does not exist; one of {', '.join(BLOCKS)}")
        return f"{found[1]}{relative_links(BLOCKS[found[2]](), page)}\n{found[3]}"

    if text.count("<!-- results:") != len(BLOCK.findall(text)):
        raise SystemExit(f"{page} has a block without a name or an end; write <!-- results: NAME --> ... <!-- end -->")
    return BLOCK.sub(write, text)


def pages() -> list[Path]:
    """The pages that may have blocks, relative to the root of the repository."""
    return [path.relative_to(ROOT) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


def main(check: bool) -> int:
    """Writes the pages that changed; with `check`, only prints their names, and returns 1 if there are any."""
    stale = False
    for page in pages():
        before = (ROOT / page).read_text()
        after = filled(before, page)
        if after != before:
            stale = True
            print(f"{'stale' if check else 'written'}: {page}")
            if not check:
                (ROOT / page).write_text(after)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
