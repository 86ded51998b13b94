"""Calls that people sign off and that the agent then carries out itself; no receipt comes back.

Clients that know nothing of two phases wait for a yes and run a function of their own. No worker
ever carries such a transaction out: its sign-off is its end. Optional apps bring such clients; each
registers the namespace in which it names their functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from ledger.contracts import Context, Contract, NothingHappened, Role, Tool

# Stands, sealed, where other tools that are not Python have the hash of their manifest.
VERSION = "handed-over"


class Row(Protocol):
    @property
    def tool_version(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Namespace:
    """The functions of one kind of client. ``prefix`` ends with a dot, which no other name has."""

    prefix: str
    name: re.Pattern[str]  # of a function, without the prefix
    contract: Callable[[], Contract]

    @property
    def all(self) -> str:
        """In lists of allowed tools: every function."""
        return f"{self.prefix}*"


_namespaces: list[Namespace] = []


def register_namespace(namespace: Namespace) -> None:
    """Called in ``AppConfig.ready()``."""
    _namespaces.append(namespace)


def is_for_agent(row: Row) -> bool:
    """True if the agent carries the transaction out itself."""
    return row.tool_version == VERSION


def is_handed_over(name: str) -> bool:
    """True if a list of allowed tools may name this: one function, or all of a namespace."""
    namespace = _namespace_of(name)
    if namespace is None:
        return False
    function = name.removeprefix(namespace.prefix)
    return name == namespace.all or namespace.name.fullmatch(function) is not None


def function_in(name: str) -> str:
    """The name as its client says it; other tools have one name only."""
    return name.rpartition(".")[2]


def _namespace_of(name: str) -> Namespace | None:
    return next((each for each in _namespaces if name.startswith(each.prefix)), None)


class AnyArguments(BaseModel):
    """Whatever was sent: nobody has told what the agent's own function takes."""

    model_config = ConfigDict(extra="allow", frozen=True)


class HandedOverTool(Tool[..., Any]):
    """A function of the agent's own, under the strictest contract there is."""

    def __init__(self, name: str) -> None:
        namespace = _namespace_of(name)
        # Without its app, what it left in the ledger can still be read.
        super().__init__(_not_here, namespace.contract() if namespace else Contract())
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


def _not_here(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("The function is the agent's own.")
