"""Calls that people sign off and that the agent then carries out itself; no receipt comes back.

Clients that know nothing of two phases (``a2a.humanlayer``) wait for a yes and run a function of
their own. No worker ever carries such a transaction out: its sign-off is its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, Protocol

from django.conf import settings
from pydantic import BaseModel, ConfigDict

from ledger.contracts import Context, Contract, NothingHappened, Plan, Role, Tool
from ledger.errors import InvalidRequest

# The dot keeps the names apart from those of all other tools.
PREFIX = "humanlayer."
# In lists of allowed tools: every function of an agent's own.
ALL_OF_THEM = f"{PREFIX}*"
# Stands, sealed, where other tools that are not Python have the hash of their manifest.
VERSION = "handed-over"
NAME_MAX = 80  # characters
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_MAX - 1}}}")


class Row(Protocol):
    @property
    def tool_version(self) -> str | None: ...


def is_for_agent(row: Row) -> bool:
    """Whether the agent carries the transaction out itself."""
    return row.tool_version == VERSION


def is_name(name: str) -> bool:
    """Whether a list of allowed tools may name this: one function, or all of them."""
    function = name.removeprefix(PREFIX)
    return name == ALL_OF_THEM or (name != function and _NAME.fullmatch(function) is not None)


def name_of(function: str) -> str:
    """The name of the tool that stands for an agent's own function. Raises ``InvalidRequest``."""
    if not _NAME.fullmatch(function):
        raise InvalidRequest(
            f"fn has 1 to {NAME_MAX} letters of ASCII, digits and underscores, and begins with no "
            "digit."
        )
    return PREFIX + function


class AnyArguments(BaseModel):
    """Whatever was sent: nobody has told what the agent's own function takes."""

    model_config = ConfigDict(extra="allow", frozen=True)


class HandedOverTool(Tool[..., Any]):
    """A function of the agent's own, under the strictest contract there is."""

    def __init__(self, name: str) -> None:
        super().__init__(_not_here, contract())
        self.name = name
        self.version = VERSION
        self.description = "A function of the agent's own, which the agent carries out itself."

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        return AnyArguments

    def meaning_of(self, arguments: BaseModel) -> dict[str, Any]:
        return arguments.model_dump(mode="json")

    def run(self, role: Role, arguments: BaseModel, context: Context) -> Any:
        """Never: only the agent has the function."""
        raise NothingHappened("The agent carries this out itself; a worker cannot.")


class HandedOverCall(HandedOverTool):
    """One call, to be proposed. ``kept`` is what its client gets back besides the arguments; it
    is sealed as what is held, and nobody acts on it."""

    def __init__(
        self,
        name: str,
        *,
        operation_key: str,
        warnings: Sequence[str],
        kept: Mapping[str, Any],
    ) -> None:
        super().__init__(name)
        self.operation_key, self.warnings, self.kept = operation_key, tuple(warnings), kept

    def operation_key_for(self, tenant: str, arguments: Mapping[str, Any]) -> str:
        return self.operation_key

    def plain_plan(self, arguments: BaseModel) -> Plan:
        """The name of the function and its arguments; the prefix says nothing to people."""
        plain = super().plain_plan(arguments).summary[len(PREFIX) :].removesuffix(": ")
        summary = plain[:1].upper() + plain[1:]
        return Plan(summary=summary, warnings=self.warnings, held=self.kept)


def contract() -> Contract:
    """The terms of all such calls: the strictest there are. They wait as long as is set."""
    ttl = timedelta(seconds=settings.HUMANLAYER_TTL_S)
    return Contract(owner_service="humanlayer", ttl=ttl, max_ttl=ttl)


def _not_here(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("The function is the agent's own.")
