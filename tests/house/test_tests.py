"""What every test keeps to: it can fail, and it swallows nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house.source import modules_of_tests, name_of

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Of pytest and pytest-django, of the browser; ``until`` fails when its time is over.
ASSERTS = {"raises", "warns", "fail", "expect", "until", "django_assert_max_num_queries"}
RULES = "a state machine of Hypothesis, whose rules assert"
# These fail by an exception of what they call.
CALLED_IS_ENOUGH = {
    "test_whatever_happens_while_it_plans_a_task_never_says_otherwise_than_its_transaction": RULES,
    "test_whatever_happens_in_whatever_order_the_promises_hold": RULES,
    "test_the_document_is_openapi_as_its_specification_has_it": "the validator raises",
    "test_good_blocks_are_posted": "the client raises where the fake refuses",
}


def test_no_test_swallows_every_exception():
    swallows = [
        f"{module.path}:{handler.lineno}"
        for module in modules_of_tests()
        for handler in swallowed(module.tree)
    ]

    assert swallows == []


def swallowed(tree: ast.AST) -> Iterator[ast.ExceptHandler]:
    """``except Exception`` (or wider) that does nothing about it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and _is_idle(node.body):
            yield node
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                call = item.context_expr
                is_suppress = isinstance(call, ast.Call) and name_of(call.func) == "suppress"
                if is_suppress and any(_is_wide(argument) for argument in call.args):
                    yield ast.ExceptHandler(lineno=node.lineno)


def _catches_all(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_is_wide(kind) for kind in types)


def _is_wide(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}


def _is_idle(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(node, ast.Pass | ast.Continue | ast.Break)
        or (isinstance(node, ast.Return) and node.value is None)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in body
    )


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept Exception: continue",
        "try: f()\nexcept: pass",
        "try: f()\nexcept (ValueError, BaseException) as error: ...",
        "with suppress(Exception): f()",
    ],
)
def test_each_way_to_swallow_is_seen(code):
    assert list(swallowed(ast.parse(f"for x in y:\n    {code.replace(chr(10), chr(10) + '    ')}")))


def test_every_test_asserts_something():
    silent = {
        function.name
        for module in modules_of_tests()
        for function in _tests_in(module.tree)
        if not _asserts(function) and not calls(function) & asserting()
    }

    assert silent == set(CALLED_IS_ENOUGH)


def _tests_in(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


def _asserts(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function)) or bool(
        calls(function) & ASSERTS
    )


def calls(function: ast.AST) -> set[str]:
    """The functions that it calls by name, and those of ``pytest``."""
    functions = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return {
        name_of(called)
        for called in functions
        if isinstance(called, ast.Name) or ast.unparse(called).startswith("pytest.")
    }


@cache
def asserting() -> frozenset[str]:
    """Module-level functions of the tests that assert, or that call one which does."""
    functions: dict[str, list[Function]] = {}
    for module in modules_of_tests():
        for node in module.tree.body:
            if isinstance(node, Function):
                functions.setdefault(node.name, []).append(node)
    names = {name for name, nodes in functions.items() if any(map(_asserts, nodes))}
    while more := {
        name
        for name, nodes in functions.items()
        if name not in names and any(calls(node) & names for node in nodes)
    }:
        names |= more
    return frozenset(names)


def test_a_test_without_an_assertion_is_seen():
    (silent,) = _tests_in(ast.parse("def test_it():\n    row = prepare()\n    row.save()"))

    assert not _asserts(silent)
    assert not calls(silent) & asserting()
