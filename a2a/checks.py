"""System checks for sharing the package name with the A2A SDK (docs/decisions/a2a-name.md)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

import a2a

HERE = Path(__file__).resolve().parent
# The modules of a2a-sdk 1.3, if the distribution is not installed.
TAKEN = frozenset(
    {
        "auth",
        "client",
        "compat",
        "extensions",
        "helpers",
        "server",
        "types",
        "utils",
        "_base",
        "a2a_db_cli",
    }
)
OURS_IN_ANY_CASE = {"__init__", "migrations"}


@register()
def check_name(**_: Any) -> list[CheckMessage]:
    ours = {path.stem for path in HERE.iterdir() if path.suffix == ".py" or path.is_dir()}
    clash = (ours - OURS_IN_ANY_CASE - {"__pycache__"}) & taken_by_sdk()
    return [
        *_import_order_errors(),
        *(_clash(name) for name in sorted(clash)),
    ]


def _clash(name: str) -> Error:
    return Error(
        f"a2a/ and the A2A SDK both have a module named {name}.",
        hint="Rename ours: ours would hide the SDK's.",
        id="a2a.E001",
    )


def _import_order_errors() -> list[CheckMessage]:
    first = Path(a2a.__path__[0]).resolve()
    if first == HERE == Path(settings.BASE_DIR) / "a2a":
        return []
    return [
        Error(
            f"The package a2a is looked for in {first} first, not in the project.",
            hint="Start from the project's root, and do not install the project as a package.",
            id="a2a.E002",
        )
    ]


def taken_by_sdk() -> frozenset[str]:
    try:
        files = metadata.files("a2a-sdk") or []
    except metadata.PackageNotFoundError:
        return TAKEN
    tops = {file.parts[1].removesuffix(".py") for file in files if file.parts[0] == "a2a"}
    return TAKEN | tops
