"""Tenants: their names, what their agents may ask for, and their limits."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from approvals.declared.kinds import Edits, Kind, Reference, Run, Spec
from ledger import contracts, limits
from ledger.agents import enrolment
from ledger.limits import Limit
from ledger.models import Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.tools import is_handed_over, registered_names


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
    """Refers to tools that are not there yet: a misspelled name would allow nothing."""
    known = {*contracts.tools, *contracts.readonly_tools, *registered_names(), ALL_TOOLS}
    for name in names:
        if name not in known and not is_handed_over(name):
            yield "tool", name


def flat(edits: Edits) -> Edits:
    """Each limit by its name, as the desk's pages seal it."""
    before, after = edits.pop("limits", ({}, {}))
    names = sorted({*before, *after})
    numbers = {f"limit_{name}": [before.get(name), after.get(name)] for name in names}
    return edits | {name: edit for name, edit in numbers.items() if edit[0] != edit[1]}


class TenantSpec(Spec):
    identity = ("tenant",)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    time_zone: Annotated[str, AfterValidator(_zone)] = "UTC"
    tools: list[ToolName] = []
    demands_sender: bool = False
    demands_scopes: bool = False
    fast_approvals: Annotated[int, Field(ge=0, le=1_000)] = 5
    undo_seconds: Annotated[int, Field(ge=0, le=60)] = 5
    signing_key_hours: Annotated[int, Field(ge=0, le=720)] = 24
    limits: Limits = {}

    def needs(self) -> Iterable[Reference]:
        present = Tenant.objects.filter(pk=self.tenant).values_list("tools", flat=True).first()
        return tools_needed(set(self.tools) - set(present or []))


class Tenants(Kind[TenantSpec]):
    name = "tenant"
    spec = TenantSpec

    def present(self, tenant: str) -> Iterator[TenantSpec]:
        for row in Tenant.objects.filter(pk=tenant):
            names = TenantSpec.model_fields.keys() - {"tenant"}
            columns = {name: getattr(row, name) for name in names}
            yield TenantSpec.model_construct(tenant=row.pk, **columns)

    def make(self, wanted: TenantSpec, run: Run) -> None:
        tenant = enrolment.tenant_named(wanted.tenant, wanted.name, **run.origin)
        before = next(self.present(tenant.pk))
        if edits := self.edits(before, wanted):
            self.change(before, wanted, edits, run)

    def change(self, before: TenantSpec, wanted: TenantSpec, edits: Edits, run: Run) -> None:
        """Raises ``NotPossible``."""
        if "time_zone" in edits:
            enrolment.check_time_zone(before.tenant, wanted.time_zone)
        columns: dict[str, Any] = {name: wanted.facts()[name] for name in edits}
        Tenant.objects.filter(pk=wanted.tenant).update(**columns)
        row = Tenant.objects.get(pk=wanted.tenant)
        enrolment.tenant_was_changed(row, flat(edits), **run.origin)

    def is_removable(self, before: TenantSpec) -> bool:
        return False
