"""Links lead somewhere, and every page has its place on the documentation site."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.source import ROOT

STAGE = runpy.run_path(str(ROOT / "docs/site/stage.py"))
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)


def test_every_link_leads_to_a_file_and_a_heading():
    found = {page: list(links(page.read_text())) for page in PAGES}

    assert sum(map(len, found.values())) > 300
    assert [
        f"{page.relative_to(ROOT)}: {path}{anchor}"
        for page in PAGES
        for path, anchor in found[page]
        if leads_nowhere(page, path, anchor)
    ] == []


def links(text: str) -> Iterator[tuple[str, str]]:
    """Path and anchor of each link and picture of this repository; what is code links nothing."""
    for link in STAGE["LINK"].finditer(CODE.sub("", FENCED.sub("", text))):
        if not re.match(r"[a-z]+:", link["path"]):
            yield link["path"], link["anchor"] or ""


def leads_nowhere(page: Path, path: str, anchor: str) -> bool:
    target = (page.parent / path) if path else page
    if not target.exists():
        return True
    return bool(anchor) and anchor.removeprefix("#") not in anchors(target)


@cache
def anchors(page: Path) -> set[str]:
    """As code hosts and the site make them of headings; of two alike, nobody links the second."""
    headings = re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text()), re.M)
    words = (re.sub(r"\]\(.*?\)", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}


@pytest.mark.parametrize(
    ("text", "is_noticed"),
    [
        ("[it](glossary.md)", False),
        ("[it](glossary.md#git-buses)", False),
        ("[two\nlines](#the-record-and-its-proof)", False),
        ("`[it](nowhere.md)`", False),
        ("```\n[it](nowhere.md)\n```", False),
        ("[it](https://elsewhere.example/nowhere.md)", False),
        ("[it](nowhere.md)", True),
        ("[it](glossary.md#nothing)", True),
        ("![it](img/nothing.png)", True),
        ('<img src="img/nothing.png">', True),
    ],
)
def test_a_link_that_leads_nowhere_is_noticed(text, is_noticed):
    page = ROOT / "docs/glossary.md"

    assert any(leads_nowhere(page, *link) for link in links(text)) == is_noticed


def test_every_page_is_in_the_navigation_once():
    staged = [STAGE["staged"](page).relative_to(STAGE["STAGE"]).as_posix() for page in PAGES]
    times = Counter(navigation())

    # README.md of the root is the front page of the repository, docs/index.md that of the site.
    assert set(staged) - set(times) == set()
    assert set(times) - set(staged) == set()
    assert {page for page, number in times.items() if number > 1} == set()


def navigation() -> Iterator[str]:
    class Loader(yaml.SafeLoader):
        """Reads over what only the builder of the site understands."""

    Loader.add_multi_constructor("", lambda loader, tag, node: None)
    yield from _pages(yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"])


def _pages(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _pages(each)


def test_blocks_in_lists_are_indented_by_four_as_the_site_wants_them():
    assert {
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for line in indented_otherwise(page.read_text())
    } == set()


def indented_otherwise(text: str) -> list[str]:
    """Blocks in a list that stand less deep: a code host forgives it, the site does not."""
    return re.findall(r"(?<=\n)\n {1,3}(\S.*)|\n {1,3}[-*] .*", FENCED.sub(r"\1\2", text))


@pytest.mark.parametrize(
    ("text", "is_noticed"),
    [
        ("1. One\n   goes on\n2. Two\n\n    and more\n\n    ```\n  x\n    ```\n", False),
        ("1. One\n\n   and more\n", True),
        ("1. One\n\n   ```\n   x\n   ```\n", True),
        ("- one\n  - in it\n", True),
    ],
)
def test_a_block_that_the_site_would_take_out_of_its_list_is_noticed(text, is_noticed):
    assert bool(indented_otherwise(text)) == is_noticed
