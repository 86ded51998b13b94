"""Where code writes a column named ``state``: by attribute, by QuerySet, by name, or in SQL."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.source import constants, docstrings, name_of

STATE = "state"
# Methods that write rows from their keyword arguments.
WRITES_KEYWORDS = frozenset(
    {
        "update",
        "create",
        "update_or_create",
        "get_or_create",
        "update_returning",
        "compile_update",
        "compile_once",
    }
)
# Arguments of those, and of bulk_create and save, that hold columns.
HOLDS_COLUMNS = frozenset({"defaults", "create_defaults"})
NAMES_COLUMNS = frozenset({"update_fields"})
MODELS = frozenset({"Transaction", "Task", "Question", "Delivery", "ChangeRequest"})
SQL = re.compile(r"\b(UPDATE\s+\S+\s+SET|INSERT\s+INTO)\b.*\bstate\b", re.S)


def state_writes(tree: ast.AST) -> Iterator[int]:
    """The line of each statement that writes a state."""
    texts = docstrings(tree)
    for node in ast.walk(tree):
        if (
            _is_assigned(node)
            or (isinstance(node, ast.Call) and _is_write(node))
            or (node not in texts and _is_sql(node))
        ):
            yield getattr(node, "lineno", 0)


def dynamic_writes(tree: ast.AST) -> Iterator[int]:
    """The line of each ``setattr`` whose attribute is not a constant: it may be the state."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in {"setattr", "__setattr__"}:
            attribute = node.args[-2] if len(node.args) > 1 else None
            if not isinstance(attribute, ast.Constant):
                yield node.lineno


def _is_assigned(node: ast.AST) -> bool:
    """``row.state`` or ``columns["state"]`` as a target, also within a tuple or a loop."""
    if isinstance(node, ast.Attribute):
        return node.attr == STATE and not isinstance(node.ctx, ast.Load)
    return (
        isinstance(node, ast.Subscript)
        and not isinstance(node.ctx, ast.Load)
        and _is_state(node.slice)
    )


def _is_write(call: ast.Call) -> bool:
    name = name_of(call.func)
    if name in {"setattr", "__setattr__"}:
        return any(_is_state(argument) for argument in call.args)
    if name.removeprefix("a") == "bulk_update":
        columns = [*call.args[1:], *(keyword.value for keyword in call.keywords)]
        return any(_names_state(argument) for argument in columns)
    writes_keywords = name in MODELS or name.removeprefix("a") in WRITES_KEYWORDS
    return _lists_state(call) or (writes_keywords and _is_given_state(call))


def _is_given_state(call: ast.Call) -> bool:
    """``state=…``, ``**{"state": …}``, ``defaults={"state": …}`` or a dictionary with a state."""
    return any(
        keyword.arg == STATE
        or ((keyword.arg is None or keyword.arg in HOLDS_COLUMNS) and _has_key(keyword.value))
        for keyword in call.keywords
    ) or any(_has_key(argument) for argument in call.args)


def _lists_state(call: ast.Call) -> bool:
    return any(
        keyword.arg in NAMES_COLUMNS and _names_state(keyword.value) for keyword in call.keywords
    )


def _has_key(value: ast.expr) -> bool:
    """A dictionary with the key ``state``, or ``dict(state=…)``."""
    for node in ast.walk(value):
        if isinstance(node, ast.Dict) and any(key and _is_state(key) for key in node.keys):
            return True
        if isinstance(node, ast.Call) and name_of(node.func) == "dict" and _is_given_state(node):
            return True
    return False


def _names_state(value: ast.expr) -> bool:
    return STATE in constants(value)


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == STATE


def _is_sql(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return bool(SQL.search("".join(constants(node))))
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and bool(SQL.search(node.value))  # type: ignore[attr-defined]
