"""What every module of the product keeps to."""

from __future__ import annotations

import ast

import pytest

from tests.house.source import Module, imports, modules_of_tests, product

LONGEST = 400  # lines
# To be split; nothing may be added here.
STILL_TOO_LONG: set[str] = set()
SAYS_NOTHING = {"utils", "util", "helpers", "common", "misc", "services", "managers", "selectors"}
# The SDK shares the package name with our hub of tasks (docs/decisions/a2a-name.md).
SDK = (
    "a2a.auth",
    "a2a.client",
    "a2a.compat",
    "a2a.extensions",
    "a2a.server",
    "a2a.types",
    "a2a.utils",
    "a2a.a2a_db_cli",
    "a2a.migrations.env",
    "google.protobuf",
)
KNOWS_SDK = "a2a.wire.sdk"
# What works on the SDK's objects takes their types from there. Nothing may be added here.
USES_SDK_TYPES = {
    "a2a.protocol.operations",
    "a2a.protocol.bindings.v03",
    "a2a.cards.cards",
    "a2a.cards.views",
    "a2a.wire.remote",
}


def names(modules):
    return {module.name for module in modules}


def test_every_module_says_what_it_is_for():
    assert {m.path for m in product() if m.text.strip() and not ast.get_docstring(m.tree)} == set()


def test_no_module_is_longer_than_a_person_reads_in_one_go():
    lines = {m.path: len(m.text.splitlines()) for m in product()}

    assert {path for path, count in lines.items() if count > LONGEST} <= STILL_TOO_LONG


def test_no_file_has_a_name_that_says_nothing():
    parts = {m.path: set(m.name.split(".")) for m in (*product(), *modules_of_tests())}
    empty = {path for path, words in parts.items() if words & SAYS_NOTHING}

    assert empty == {"tests/services.py"}  # PostgreSQL and Redis: services in the plain sense


def test_no_module_imports_a_private_name_of_another():
    assert {m.name: found for m in product() if (found := list(private_imports(m)))} == {}


def private_imports(module: Module):
    """``from other import _name``, ``import a._b``, and ``other._name`` of an imported module."""
    modules = set()
    for origin, name in imports(module):
        if any(is_private(part) for part in (*origin.split("."), name)):
            yield f"{origin}.{name}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            modules |= {
                alias.asname or alias.name
                for alias in node.names
                if f"{node.module}.{alias.name}" in names(product())
            }
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and is_private(node.attr)
        ):
            yield f"{node.value.id}.{node.attr}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize(
    "code",
    [
        "from ledger.states import _move",
        "from ledger.states import FINAL, _S as states",
        "import ledger._inner",
        "from ledger import states\nstates._move('x')",
        "def late():\n    from ledger.states import _move",
    ],
)
def test_each_way_to_reach_a_private_name_is_seen(code):
    assert list(private_imports(a_module(code)))


def test_only_one_module_imports_the_sdk():
    importers = {m.name for m in product() if any(is_sdk(*pair) for pair in imports(m))}

    assert importers == {KNOWS_SDK}


def is_sdk(origin: str, name: str) -> bool:
    full = f"{origin}.{name}".rstrip(".")
    return any(full == part or full.startswith(f"{part}.") for part in SDK)


@pytest.mark.parametrize(
    "code",
    [
        "from a2a.types import a2a_pb2 as pb",
        "import a2a.types",
        "from a2a import types",
        "from google.protobuf.json_format import ParseDict",
        "from google import protobuf",
        "if TYPE_CHECKING:\n    from a2a.client.client import Client",
    ],
)
def test_each_way_to_import_the_sdk_is_seen(code):
    assert any(is_sdk(*pair) for pair in imports(a_module(code)))


def test_the_sdks_types_stay_where_the_protocol_is_spoken():
    users = {m.name for m in product() if uses_sdk_types(m)} - {KNOWS_SDK}

    assert users <= USES_SDK_TYPES


def uses_sdk_types(module: Module) -> bool:
    """``from a2a.wire.sdk import pb``, or ``sdk.pb``."""
    return ("a2a.wire.sdk", "pb") in imports(module) or any(
        isinstance(node, ast.Attribute) and node.attr == "pb" for node in ast.walk(module.tree)
    )


def a_module(code: str) -> Module:
    return Module("approvals.example", "approvals/example.py", code, ast.parse(code))
