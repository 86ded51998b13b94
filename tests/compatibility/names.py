"""Every name by which others rely on the product, as docs/compatibility.md promises them.

``names-VERSION.txt`` beside this file has those of a release; ``test_record.py`` writes it.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Names = dict[str, set[str]]


def offered() -> Names:
    """By group; what a request has to have is in groups that begin with ``needed``."""
    from a2a import states as task_states
    from approvals.management.entry import USAGE
    from ledger import states
    from ledger.contracts.contract import Contract
    from ledger.events.change_kinds import ChangeKind
    from ledger.sign_off.rules.rules import Comparison, Then
    from ledger.tools.manifests import base
    from ledger.tools.manifests.agent import AgentManifest
    from ledger.tools.manifests.http import HttpManifest
    from ledger.tools.manifests.mcp import McpManifest
    from tests.house.test_documentation import error_codes

    kinds = (states.EventKind, task_states.TaskEventKind, ChangeKind)
    models = {
        "manifest http": HttpManifest,
        "manifest agent": AgentManifest,
        "manifest mcp": McpManifest,
        "manifest contract": base.ContractTerms,
        "rule when": Comparison,
        "rule then": Then,
    }
    return {
        **dict(rest()),
        **{group: set(members(model)) for group, model in models.items()},
        "contract": {field.name for field in dataclasses.fields(Contract)},
        "states": {str(state) for state in (*states.State, *task_states.TaskState)},
        "events": {str(kind) for group in kinds for kind in group},
        "problems": {code for code in error_codes() if re.fullmatch("[a-z_]+", code)},
        "export": set(re.findall(r"^\| `(\w+)` \| ", section("audit.md", "The export"), re.M)),
        "metrics": set(re.findall(r"`(assent_\w+)`", page("monitoring.md"))),
        "settings": set(re.findall(r"^\| `([A-Z0-9_]+)` \|", page("operators-settings.md"), re.M)),
        "commands": set(commands()),
        "assent": set(re.findall(r"^assent (\w+)", USAGE, re.M)),
    }


def commands() -> Iterator[str]:
    """Also of optional apps that are left out; not those that write files of this repository."""
    for room in ("a2a", "approvals", "ledger"):
        for path in (ROOT / room).rglob("management/commands/[!_]*.py"):
            if not path.stem.startswith("write_"):
                yield path.stem


def members(model: Any) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield field.alias or name


def rest() -> Iterator[tuple[str, set[str]]]:
    """Operations with their ids, and the members of what is sent and answered."""
    from approvals.api import api

    document: dict[str, Any] = dict(api.get_openapi_schema())
    operations = {
        f"{method.upper()}:{path}:{operation['operationId']}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    yield "operations", operations
    for name, schema in document["components"]["schemas"].items():
        if properties := schema.get("properties"):
            yield f"members {name}", set(properties)
        if name.endswith("In") and (required := schema.get("required")):
            yield f"needed {name}", set(required)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def section(name: str, heading: str) -> str:
    return page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def written(names: Names) -> str:
    """One group after the other, its names indented below it."""
    return "\n".join(
        f"{group}\n{textwrap.fill(' '.join(sorted(found)), 100, **LAYOUT)}"
        for group, found in sorted(names.items())
    )


LAYOUT: dict[str, Any] = {
    "initial_indent": "  ",
    "subsequent_indent": "  ",
    "break_long_words": False,
    "break_on_hyphens": False,
}


def read(path: Path) -> Names:
    groups = re.split(r"^(?=\S)", path.read_text(), flags=re.M)
    return {
        group: set(names.split())
        for group, _, names in (each.partition("\n") for each in groups)
        if group
    }
