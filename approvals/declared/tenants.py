"""Tenants: their names, what their agents may ask for, and their limits."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from approvals.declared.kinds import Edits, Reference, Run, Spec
from ledger import contracts, limits
from ledger.agents import enrolment
from ledger.limits import Limit
from ledger.models import Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.tools import is_handed_over


def _zone(name: str) -> str:
    if name not in zoneinfo.available_timezones():
        raise ValueError("there is no such time zone; write one as Europe/Berlin")
    return name


def _settable(numbers: dict[Limit, int]) -> dict[Limit, int]:
    if fixed := sorted(set(numbers) - set(limits.SETTABLE)):
        raise ValueError(f"{fixed[0]} is set for the whole installation alone: ASSENT_LIMITS")
    return numbers


Number = Annotated[int, Field(ge=1, le=limits.MOST)]
Limits = Annotated[dict[Limit, Number], AfterValidator(_settable)]
ToolName = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9_.:/-]{1,100})$")]


def tools_needed(names: Iterable[str]) -> Iterator[Reference]:
    """Those that tenants register: a misspelled name would allow nothing."""
    known = {*contracts.tools, *contracts.readonly_tools, ALL_TOOLS}
    return (("tool", name) for name in names if name not in known and not is_handed_over(name))


def flat(edits: Edits) -> Edits:
    """Each limit by its name, as the desk's pages seal it."""
    before, after = edits.get("limits", ({}, {}))
    numbers = {name: [before.get(name), after.get(name)] for name in sorted({*before, *after})}
    rest = {name: edit for name, edit in edits.items() if name != "limits"}
    return rest | {f"limit_{name}": [a, b] for name, (a, b) in numbers.items() if a != b}


class TenantSpec(Spec):
    kind = "tenant"
    identity = ()
    paths = {"tenant": "slug"}

    name: Annotated[str, Field(min_length=1, max_length=200)]
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    tools: list[ToolName] = []
    demands_sender: bool = False
    demands_scopes: bool = False
    fast_approvals: Annotated[int, Field(ge=0, le=1_000)] = 5
    undo_seconds: Annotated[int, Field(ge=0, le=60)] = 5
    signing_key_hours: Annotated[int, Field(ge=0, le=720)] = 24
    limits: Limits = {}

    @classmethod
    def rows(cls, tenant: str) -> Any:
        return Tenant.objects.filter(pk=tenant)

    def needs(self) -> Iterable[Reference]:
        return tools_needed(self.tools)

    def make(self, run: Run) -> None:
        enrolment.tenant_named(self.tenant, self.name, **run.origin)
        self.bring_in_line(run)

    def change(self, before: TenantSpec, edits: Edits, run: Run) -> None:
        """Raises ``NotPossible``."""
        if "time_zone" in edits:
            enrolment.check_time_zone(self.tenant, self.time_zone)
        self.rows(self.tenant).update(**self.columns(edits))
        enrolment.tenant_was_changed(self.row(), flat(edits), **run.origin)

    def is_removable(self) -> bool:
        return False
