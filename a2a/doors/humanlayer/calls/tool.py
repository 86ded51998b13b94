"""Function calls of HumanLayer's clients, as tools that the agent carries out itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from pydantic import BaseModel

from ledger.contracts import Contract, Plan
from ledger.errors import InvalidRequest
from ledger.tools.handed_over_calls import HandedOverTool, Namespace

PREFIX = "humanlayer."
NAME_MAX = 80  # characters
_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{NAME_MAX - 1}}}")


def contract() -> Contract:
    """The terms of all such calls: the strictest there are. They wait as long as is set."""
    ttl = timedelta(seconds=settings.HUMANLAYER_TTL_S)
    return Contract(owner_service="humanlayer", ttl=ttl, max_ttl=ttl)


NAMESPACE = Namespace(PREFIX, _NAME, contract)


def name_of(function: str) -> str:
    """The name of the tool that stands for an agent's own function. Raises ``InvalidRequest``."""
    if not _NAME.fullmatch(function):
        raise InvalidRequest(
            f"fn has 1 to {NAME_MAX} letters of ASCII, digits and underscores, and begins with no "
            "digit."
        )
    return PREFIX + function


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
