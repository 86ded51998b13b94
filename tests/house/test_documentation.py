"""What people and programs may meet is written down: pages, commands, checks, error codes."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest
from django.core.management import get_commands

from a2a.protocol import app as a2a_app
from approvals.http import middleware
from approvals.http.admission import pages
from approvals.management.commands.write_docs import pages as drawn_pages
from tests.house.source import ROOMS, ROOT, constants, name_of, product

DOCS = "\n".join(
    path.read_text() for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
)
CHECK_ID = re.compile(r"^(ledger|a2a|assent)\.([EW])(\d{3})$")
RANGE = re.compile(r"`(ledger|a2a|assent)\.([EW])(\d{3})`\u2013`[EW](\d{3})`")


@pytest.mark.parametrize("name", drawn_pages())
def test_the_pages_drawn_from_the_code_are_up_to_date(name):
    assert (ROOT / "docs" / name).read_text() == drawn_pages()[name], "run `make docs`"


def test_every_command_is_documented():
    commands = {name for name, app in get_commands().items() if app in ROOMS}

    assert len(commands) > 15
    assert {name for name in commands if f"manage.py {name}" not in DOCS} == set()


def test_every_check_is_documented():
    ids = set(check_ids())

    assert len(ids) > 25
    assert {name for name in ids if f"`{name}`" not in DOCS} - set(ids_in_ranges()) == set()


def check_ids():
    """Ids as they stand in the code; the ledger's checks of contracts leave their prefix out."""
    for module in product():
        for text in constants(module.tree):
            if CHECK_ID.match(text):
                yield text
            elif re.fullmatch(r"[EW]\d{3}", text):
                yield f"{module.name.partition('.')[0]}.{text}"


def ids_in_ranges():
    """``ledger.E001`` to ``E014`` written as a range."""
    for room, kind, first, last in RANGE.findall(DOCS):
        yield from (f"{room}.{kind}{number:03}" for number in range(int(first), int(last) + 1))


def test_every_error_code_is_documented():
    codes = set(error_codes())

    assert len(codes) > 40
    assert {code for code in codes if not re.search(rf"[`:]{code}`", DOCS)} == set()


def error_codes():
    """Of the errors' classes, of ``problem(status, code, …)``, and of the tables of surfaces."""
    for module in product():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield from (code for statement in node.body for code in _code_of(statement))
            if isinstance(node, ast.Call) and name_of(node.func) == "problem":
                code = node.args[1]
                if isinstance(code, ast.Constant):
                    yield code.value
    yield from (code for code, *_ in middleware.ProblemsForMachines.PROBLEMS.values())
    yield from (code for code, *_ in pages.REFUSALS.values())
    yield from (refusal["error"] for refusal in a2a_refusals())


def _code_of(statement: ast.stmt):
    if (
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "code"
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ):
        yield statement.value.value


def a2a_refusals():
    """What the A2A endpoint answers before the protocol is spoken."""
    tables = [value for value in vars(a2a_app).values() if isinstance(value, dict)]
    refusals = [value for value in tables if isinstance(value.get("error"), str)]
    assert len(refusals) > 2
    return refusals


def test_the_glossary_defines_each_word_once():
    text = (ROOT / "docs/glossary.md").read_text()
    again = "| lease, notice | another meaning |\n"

    assert len(words_of(text)) > 80
    assert twice(words_of(text)) == set()
    assert twice(words_of(text + again)) == {"lease", "notice"}


def words_of(glossary: str) -> list[str]:
    """The defined words; a row that defines several separates them by commas."""
    cells = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", glossary, re.M)
    rows = [cell.casefold() for cell in cells if cell not in {"word", "---"}]
    return [word.strip() for row in rows for word in row.split(",")]


def twice(words: list[str]) -> set[str]:
    return {word for word, times in Counter(words).items() if times > 1}


@pytest.mark.parametrize(("page", "least"), [("SECURITY.md", 40), ("docs/compatibility.md", 15)])
def test_every_line_of_threats_and_of_promises_has_its_test(page, least):
    named = re.findall(r"`([\w/]+\.py)(?:::(test_\w+))?`", (ROOT / page).read_text())
    tests = [(ROOT / "tests" / file, test) for file, test in named if "/test_" in f"/{file}"]
    missing = [
        f"{file}::{test}"
        for file, test in tests
        if not file.exists() or (test and f"def {test}(" not in file.read_text())
    ]

    assert len(tests) > least
    assert not missing
