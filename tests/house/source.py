"""The source of the product and of its tests, parsed once for every test of the house."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("ledger", "a2a", "approvals")
SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """One module: its dotted name, its path below the root, its text and its syntax tree."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")


@cache
def product() -> tuple[Module, ...]:
    """All modules of the three rooms, without migrations."""
    modules = tuple(module for room in ROOMS for module in _modules_below(room))
    assert len(modules) > 200
    return modules


@cache
def modules_of_tests() -> tuple[Module, ...]:
    return tuple(_modules_below("tests"))


def _modules_below(folder: str) -> Iterator[Module]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        relative = path.relative_to(ROOT)
        if "migrations" not in relative.parts:
            yield _parsed(relative, path.read_text())


def _parsed(path: Path, text: str) -> Module:
    parts = path.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return Module(name, str(path), text, parsed(text))


def parsed(text: str) -> ast.Module:
    """The syntax tree; CPython 3.11 fails where a collection runs within ``ast.parse``."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


def imports(module: Module) -> Iterator[tuple[str, str]]:
    """``(module, name)`` of each import, also in functions; ``import x`` has an empty name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((_absolute(module, node), alias.name) for alias in node.names)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    """The full name of the module that ``from … import`` names, with its leading dots resolved."""
    if not node.level:
        return node.module or ""
    above = module.name.split(".")
    kept = above[: len(above) - node.level + module.is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def docstrings(tree: ast.AST) -> set[ast.Constant]:
    """The constants that are docstrings."""
    return {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, SCOPES)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }


def name_of(function: ast.expr) -> str:
    """``update`` for ``rows.filter(…).update``, ``setattr`` for ``setattr``; empty for others."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def constants(tree: ast.AST) -> Iterator[str]:
    """Every string in the expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
