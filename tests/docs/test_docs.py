"""README and docs: programs run, commands parse, links and names lead somewhere, words are those of the word list."""

import dataclasses
import importlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_pages import FENCE, find_blocks

import poise
from poise.cli import parse

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
SOURCES = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".html"))

LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

PRIVATE_WORDS = [
    r"\bastray\b",
    r"joint_inside",
    r"labels of others",
    r"\bbeliev(ed|es)\b",
    r"too sure",
    r"\bwiden(s|ed|ing)?\b",
    r"\bfading\b",
    r"\btold\b",
    r"\bthere and back\b",
    r"goes back fast",
    r"turned around",
    r"(leaves?|left) the finite numbers",
    r"room for the labels",
    r"(figures|metrics) say little",
    r"\b(one row|a row) a (frame|step|player)\b",
    r"\ba rollout a start\b",
    r"\b(Skill|Course|Recipe)\b",
    r"\bChecked\b",
    r"\bstands still\b",
    r"\bgoes on\b",
    r"\bsay little\b",
    r"\bjudge\(",
    r"\bexplain\(",
]
"""Words that a reader of the paper would stop at; CONTRIBUTING.md lists what to say instead."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def navigation() -> list[str]:
    """The pages of the site, in order."""
    listed = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    return re.findall(r"(\S+\.md)$", listed, re.M)


def in_order(pages: list[Path]) -> list[Path]:
    """README, then pages as the navigation lists them: later pages use runs of earlier ones."""
    order = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / entry for entry in navigation())]
    return sorted(pages, key=order.index)


@pytest.mark.slow
def test_programs_run_as_printed(tmp_path):
    """All pages in one process, in the order of the navigation, where presets and built-in domains are tiny."""
    have_bodies = importlib.util.find_spec("dm_control") and importlib.util.find_spec("gymnasium")
    bodies = () if have_bodies else ("cheetah", "own-body")
    pages = [page for page in PAGES if find_blocks(page, "python") and page.stem not in bodies]
    trust = {"POISE_TRUST": str(tmp_path / "trust")}
    command = [sys.executable, str(Path(__file__).with_name("run_pages.py")), *map(str, in_order(pages))]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **trust}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(pages)
    failed = [f"{page}\n{result['failed']}" for page, result in found.items() if result["failed"]]
    assert not failed, "\n".join(failed)


def test_few_programs_are_left_out():
    left_out = [block for page in PAGES for block in find_blocks(page, "python") if block.why_not is not None]
    assert len(left_out) <= 2


@pytest.mark.parametrize("page", [page for page in PAGES if find_blocks(page, "bash")], ids=name)
def test_commands_parse(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in find_blocks(page, "python"):
        if block.title:
            Path(block.title).write_text(block.code)  # a command may name it
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    for block in find_blocks(page, "bash"):
        for line in block.code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if not words:
                continue
            command, *rest = words
            if command == "poise":
                parse(rest)
            elif command == "make":
                assert set(rest) <= set(targets), line
            elif command == "python":
                assert (ROOT / rest[0]).exists(), line
            else:
                assert command in ("pip", "source"), line


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text()
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) < 1_000  # the lines of tables are no words
    assert len(text.splitlines()) <= 140


def test_the_readmes_own_data_take_ten_lines():
    code = find_blocks(ROOT / "README.md", "python")[1].code
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 10


def slugs(page: Path) -> set[str]:
    """The anchors of a page: those of its headings, and of the names that mkdocstrings documents there."""
    text, found = page.read_text(), set(re.findall(r"^::: (\S+)$", page.read_text(), re.M))
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = heading.replace("`", "").strip().lower()
        on_github = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        on_site = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip())
        if on_github == on_site:  # a heading whose anchors differ cannot be linked to
            found.add(on_site)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_images_lead_somewhere(page):
    for match in LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if target.startswith(("http://", "https://")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), match["target"]
        assert page not in DOCS or path.is_relative_to(ROOT / "docs"), f"{match['target']} is not on the site"
        assert not anchor or anchor in slugs(path), match["target"]


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    assert sorted(navigation()) == [path.relative_to(ROOT / "docs").as_posix() for path in DOCS]


def test_every_public_name_is_in_the_reference():
    documented = re.findall(r"^::: poise\.(\w+)$", (ROOT / "docs" / "api" / "index.md").read_text(), re.M)
    assert sorted(documented) == sorted(poise.__all__)


def is_name(dotted: str) -> bool:
    """Whether a dotted name exists in the package: a module, or something in it."""
    parts = dotted.split(".")
    for count in range(len(parts), -1, -1):
        try:
            value: Any = importlib.import_module(".".join(["poise", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            fields = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
            if not hasattr(value, part) and part not in fields:
                return False
            value = getattr(value, part, None)
        return True
    return False


ROOMS = [path.stem for path in (ROOT / "src" / "poise").iterdir() if path.suffix == ".py" or path.is_dir()]
PARTS = {field.name: getattr(poise.Settings(), field.name) for field in dataclasses.fields(poise.Settings)}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_and_settings_exist(page):
    for words in INLINE.findall(prose(page)):
        room, _, rest = words.partition(".")
        if not re.fullmatch(r"[\w.]+", words) or not rest or rest == "py":
            continue
        if room in PARTS and hasattr(PARTS[room], rest):
            continue
        if room == "poise":
            assert is_name(rest), words
        elif room in ROOMS:
            assert is_name(words), words


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_exist(page):
    tops = {"src", "tests", "experiments", "benchmarks", "examples", "docs", "results", *ROOMS} - {"runs"}
    for words in INLINE.findall(prose(page)):
        if re.fullmatch(r"[a-z_0-9./*-]+", words) and "/" in words and words.split("/")[0] in tops:
            assert any(list(base.glob(words)) for base in (ROOT, ROOT / "src" / "poise")), words


def test_doctests_stand_under_examples():
    """The site renders the section `Examples:` as code, and any other title as prose."""
    assert not [name(path) for path in SOURCES if re.search(r"^ +Example:$", path.read_text(), re.M)]


@pytest.mark.parametrize("page", DOCS, ids=name)
def test_what_can_be_unfolded_is_rendered_on_the_site(page):
    """Without the attribute, Markdown inside of an HTML element stays as it is."""
    assert "<details>" not in page.read_text()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_variables_of_the_environment_are_read(page):
    source = "".join(path.read_text() for path in SOURCES)
    for variable in re.findall(r"\bPOISE_[A-Z_]+", page.read_text()):
        assert f'"{variable}"' in source, variable


@pytest.mark.parametrize("path", [ROOT / "README.md", *DOCS, *SOURCES], ids=name)
def test_no_private_word_is_left(path):
    """Except in the commands that results were made by, which are kept as they were."""
    text = re.sub(r"<!-- results:.*?<!-- end -->", lambda block: INLINE.sub("", block[0]), path.read_text(), flags=re.S)
    found = [match[0] for pattern in PRIVATE_WORDS for match in re.finditer(pattern, text)]
    assert not found, f"say it as the word list of CONTRIBUTING.md does: {sorted(set(found))}"
