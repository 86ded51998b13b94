"""The tools of this process, filled by the decorators ``transactional`` and ``readonly``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from ledger.contracts.contract import Contract
from ledger.contracts.tool import ReadonlyTool, Tool

P = ParamSpec("P")
R = TypeVar("R")

tools: dict[str, Tool[Any, Any]] = {}
readonly_tools: dict[str, ReadonlyTool] = {}
# The names of what Assent offers itself, where agents see it beside the tools.
RESERVED = frozenset({"assent_wait", "assent_answer", "assent_cancel", "ask_a_person"})
# Names declared twice; the system checks refuse to start with them.
declared_twice: set[str] = set()


class transactional(Contract):
    """Declare a tool with effects: ``@transactional(owner_service="payments", …)``.

    Takes the fields of ``Contract``, each by its name.
    """

    def __call__(self, function: Callable[P, R]) -> Tool[P, R]:
        _note_if_declared(function.__name__)
        tool = Tool(function, self)
        tools[tool.name] = tool
        return tool


def readonly(
    *, owner_service: str, timeout: timedelta = timedelta(seconds=10)
) -> Callable[[Callable[..., Any]], ReadonlyTool]:
    """Declare a tool without effects."""

    def declare(function: Callable[..., Any]) -> ReadonlyTool:
        _note_if_declared(function.__name__)
        tool = ReadonlyTool(function, owner_service, timeout)
        readonly_tools[tool.name] = tool
        return tool

    return declare


def _note_if_declared(name: str) -> None:
    if name in tools or name in readonly_tools:
        declared_twice.add(name)
