"""Docstrings of the product begin with the thing they name, not with a question word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.source import SCOPES, Module, product

QUESTION_WORD = re.compile(r"(what|who|whom|which|how|whether|where|when|whose)\b", re.IGNORECASE)
# Schemas and operations of the API, whose docstrings clients read in its description, and a model.
EXCEPTIONS = {
    "ledger.api.http.schemas.OutcomeOut",
    "ledger.api.pending.list_pending",
    "ledger.api.permits.introspect",
    "ledger.api.schemas.ProposalIn",
    "ledger.api.schemas.ReceiptBody",
    "ledger.api.schemas.ReceiptIn",
    "ledger.api.schemas.Standing",
    "ledger.api.schemas._AnyTool",
    "ledger.tools.manifests.arguments.SchemaArguments",
}


def test_no_docstring_begins_with_a_question_word():
    asked = {(name, text) for module in product() for name, text in _questions(module)}
    assert {(name, text) for name, text in asked if name not in EXCEPTIONS} == set()


def test_every_exception_is_still_needed():
    asked = {name for module in product() for name, _ in _questions(module)}
    assert asked >= EXCEPTIONS


def test_question_words_are_found():
    text = (
        '"""Whether."""\nclass C:\n    def f():\n        """\n        What\'s new.\n        """\n'
    )
    more = 'def g():\n    """Whole."""\n'
    found = set(_questions(Module("m", "m.py", text + more, ast.parse(text + more))))
    assert found == {("m", "Whether."), ("m.f", "What's new.")}


def _questions(module: Module) -> Iterator[tuple[str, str]]:
    """The name and first line of each docstring that begins with a question word."""
    for node in ast.walk(module.tree):
        if isinstance(node, SCOPES) and QUESTION_WORD.match(text := ast.get_docstring(node) or ""):
            name = "" if isinstance(node, ast.Module) else f".{node.name}"
            yield f"{module.name}{name}", text.partition("\n")[0]
