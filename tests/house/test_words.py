"""Words of the product: docstrings begin with a noun or a verb, names say what the thing is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import SCOPES, Module, product

QUESTION_WORD = re.compile(r"(what|who|whom|which|how|whether|where|when|whose)\b", re.IGNORECASE)
# Schemas and operations of the API, whose docstrings clients read in its description, and a model.
EXCEPTIONS = {
    "ledger.api.http.schemas.OutcomeOut",
    "ledger.api.pending.list_pending",
    "ledger.api.permits.ReceiptBody",
    "ledger.api.permits.ReceiptIn",
    "ledger.api.permits.introspect",
    "ledger.api.schemas.ProposalIn",
    "ledger.api.schemas.Standing",
    "ledger.api.schemas._AnyTool",
    "ledger.tools.manifests.arguments.SchemaArguments",
}

# Names that fit anything, and so say nothing of what they stand for.
EMPTY_NAMES = {"said", "found", "one", "mine", "here"}


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


def test_names_say_what_the_thing_is():
    assert [place for module in product() for place in _empty_names(module)] == []


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "found: int",
        "a, (one, b) = c",
        "for one in a: pass",
        "[b for mine in a]",
        "if said := a: pass",
        "with a as here: pass",
        "def f(here): pass",
        "def _found(): pass",
        "class C:\n    one: int",
        "lambda one: 1",
        "self.found = 1",
        "import a as here",
        "try: pass\nexcept E as found: pass",
        "match a:\n    case [*one]: pass",
    ],
)
def test_an_empty_name_is_found(text):
    assert len(list(_empty_names(Module("m", "m.py", text, ast.parse(text))))) == 1


def test_names_that_others_chose_are_left_alone():
    text = "answer = query.one(found=1)['here']\n\ndef read_one(): pass"
    assert list(_empty_names(Module("m", "m.py", text, ast.parse(text)))) == []


def _questions(module: Module) -> Iterator[tuple[str, str]]:
    """The name and first line of each docstring that begins with a question word."""
    for node in ast.walk(module.tree):
        if isinstance(node, SCOPES) and QUESTION_WORD.match(text := ast.get_docstring(node) or ""):
            name = "" if isinstance(node, ast.Module) else f".{node.name}"
            yield f"{module.name}{name}", text.partition("\n")[0]


def _empty_names(module: Module) -> Iterator[str]:
    """Where the module itself gives such a name, with or without an underscore before it."""
    for node in ast.walk(module.tree):
        for name in _names_given_by(node):
            if name.strip("_") in EMPTY_NAMES:
                yield f"{module.path}:{getattr(node, 'lineno', '')}: {name}"


def _names_given_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.arg(arg=name) | ast.alias(asname=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
