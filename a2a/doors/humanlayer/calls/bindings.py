"""Which functions of agents Assent carries out, and with which of its tools.

A client that knows nothing of two phases (``a2a.humanlayer``) asks for a function of its agent's
own. An operator may bind the function to a tool here. A binding under which people look less
closely than before takes a second operator, as changes of tools do (``ledger.tool_changes``).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import handed_over
from ledger.catalogue import last_named, tool_named
from ledger.contracts import Contract, Tool
from ledger.errors import InvalidRequest, NotAllowed, NotFound
from ledger.events import account_changes
from ledger.events.account_changes import ChangeKind
from ledger.loosening import fewer_eyes
from ledger.models import Agent, Binding, Tenant
from ledger.permits import PermitTool
from ledger.principals import Principal, Surface
from ledger.sentences import Sentence

VALID = timedelta(days=3)


def tool_for(by: Principal, tenant: str, function: str) -> str:
    """The tool that carries out this function of the agent; empty if the agent does."""
    of_agent = Q(agent=None) | Q(agent__tenant=tenant, agent__slug=by.slug)
    rows = Binding.objects.filter(of_agent, tenant=tenant, function=function).exclude(tool="")
    # The agent's own goes before that of all agents.
    return rows.order_by("agent_id").values_list("tool", flat=True).first() or ""


# --- changing them --------------------------------------------------------------------------------


def bind(
    tenant: Tenant, agent: Agent | None, function: str, tool: str, *, by: Principal, via: Surface
) -> Binding:
    """Have the tool carry the function out; an empty tool leaves it to the agent again.

    What loosens waits for a second operator, and is ``wanted`` until then. Raises
    ``InvalidRequest``.
    """
    handed_over.name_of(function)
    check_tool(tenant, tool)
    if agent is not None and agent.tenant_id != tenant.pk:
        raise InvalidRequest(Sentence("The agent is of another tenant."))
    with atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = Binding.objects.get_or_create(tenant=tenant, agent=agent, function=function)[0]
        row.loosens = fewer_eyes(*compared(row, tool))
        if row.loosens:
            _ask(row, tool, by, via)
        else:
            _set(row, tool, by, via)
    return row


def check_tool(tenant: Tenant, name: str) -> None:
    """Raises ``InvalidRequest`` for a tool that cannot carry anything out here."""
    tool = tool_named(tenant.slug, name) if name else None
    if name and tool is None:
        raise InvalidRequest(
            Sentence("{tenant} has no tool named {tool}.", tenant=tenant.slug, tool=name[:100])
        )
    if isinstance(tool, PermitTool):
        raise InvalidRequest(
            Sentence("{tool} is carried out by the agent too, with a permit.", tool=name)
        )


def compared(row: Binding, tool: str) -> tuple[Contract, Contract]:
    """The terms that calls of the function fall under now, and with this tool."""
    wide = Binding.objects.filter(tenant=row.tenant, agent=None, function=row.function)
    for_all = wide.values_list("tool", flat=True).first() or "" if row.agent else ""
    tenant = row.tenant_id
    return _terms(tenant, row.tool or for_all), _terms(tenant, tool or for_all)


def _terms(tenant: str, tool: str) -> Contract:
    """Those of a tool that is held or was withdrawn, too: one operator can do that. Where there is
    none, the terms of the agent's own calls."""
    found: Tool[Any, Any] | None = last_named(tenant, tool) if tool else None
    return found.contract if found is not None else handed_over.contract()


def _ask(row: Binding, tool: str, by: Principal, via: Surface) -> None:
    row.wanted, row.asked_by, row.asked_by_name = tool, str(by), by.display_name
    row.expires_at = Now() + VALID
    row.save()
    row.refresh_from_db()
    details = {"tool": tool, "in_place_of": row.tool, "loosens": row.loosens}
    _record(row, ChangeKind.FUNCTION_BINDING_ASKED, by, via, **details)


def _set(row: Binding, tool: str, by: Principal, via: Surface, **told: Any) -> None:
    before, row.tool = row.tool, tool
    if row.wanted not in {None, tool}:  # what waited is replaced by this
        _record(row, ChangeKind.FUNCTION_BINDING_DECLINED, by, via, tool=row.wanted)
    _forget_wanted(row)
    if before != tool:
        kind = ChangeKind.FUNCTION_BOUND if tool else ChangeKind.FUNCTION_UNBOUND
        _record(row, kind, by, via, tool=tool, in_place_of=before, **told)


def _forget_wanted(row: Binding) -> None:
    row.wanted, row.loosens, row.expires_at = None, [], None
    row.asked_by = row.asked_by_name = ""
    row.save()


def confirm(pk: int, *, tool: str, in_place_of: str, by: Principal, via: Surface) -> None:
    """Bind what somebody else has asked for, as it was looked at.

    Raises ``NotFound, NotAllowed, InvalidRequest``; nothing was changed then.
    """
    with atomic():
        row = _waiting(pk, tool=in_place_of, wanted=tool)
        if row.asked_by == str(by):
            raise NotAllowed(
                Sentence("You asked for it: another operator has to confirm it."),
                hint=Sentence("Nothing was changed."),
            )
        check_tool(row.tenant, tool)
        asked = {"asked_by": row.asked_by, "asked_by_name": row.asked_by_name}
        _set(row, tool, by, via, loosens=row.loosens, **asked)


def decline(pk: int, *, by: Principal, via: Surface) -> None:
    """Decline it, or take back one's own. Raises ``NotFound``."""
    with atomic():
        row = _waiting(pk)
        declined = row.wanted
        _forget_wanted(row)
        _record(row, ChangeKind.FUNCTION_BINDING_DECLINED, by, via, tool=declined)


def _waiting(pk: int, **seen: str) -> Binding:
    rows = Binding.objects.select_for_update(of=("self",)).select_related("tenant", "agent")
    row = rows.filter(pk=pk, expires_at__gt=Now(), wanted__isnull=False, **seen).first()
    if row is None:
        raise NotFound(
            Sentence("No such change waits: it was settled, replaced, or its time was up.")
        )
    return row


def _record(row: Binding, kind: ChangeKind, by: Principal, via: Surface, **details: Any) -> None:
    agent = row.agent.slug if row.agent else "*"
    account_changes.record(
        f"function:{row.tenant_id}/{agent}/{row.function}",
        kind,
        tenant=row.tenant_id,
        by=by,
        via=via,
        name=row.function,
        details={"agent": agent, **details},
    )
