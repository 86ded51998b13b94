"""The SDK and we share the name ``a2a``; this keeps the two apart (docs/decisions/a2a-name.md)."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from django.core.checks import CheckMessage, Error, register

HERE = Path(__file__).resolve().parent
# What a2a-sdk 1.3 has; asked of the distribution itself where it is installed.
TAKEN = frozenset(
    {"auth", "client", "compat", "extensions", "helpers", "server", "types", "utils", "_base",
     "a2a_db_cli"}
)  # fmt: skip
OURS_IN_ANY_CASE = {"__init__", "migrations"}


@register()
def check_name(**_: Any) -> list[CheckMessage]:
    ours = {path.stem for path in HERE.iterdir() if path.suffix == ".py" or path.is_dir()}
    clash = (ours - OURS_IN_ANY_CASE - {"__pycache__"}) & taken_by_sdk()
    if not clash:
        return []
    return [
        Error(
            f"a2a/ and the A2A SDK both have a module named {name}.",
            hint="Rename ours: ours would hide the SDK's.",
            id="a2a.E001",
        )
        for name in sorted(clash)
    ]


def taken_by_sdk() -> frozenset[str]:
    try:
        files = metadata.files("a2a-sdk") or []
    except metadata.PackageNotFoundError:
        return TAKEN
    tops = {file.parts[1].removesuffix(".py") for file in files if file.parts[0] == "a2a"}
    return TAKEN | tops
