"""Functions of agents that Assent carries out, and the tools with which it does so.

A client that knows nothing of two phases asks for a function of its agent's own. An operator may
bind the function to a tool here. A binding under which people look less closely than before takes a
second operator, as changes of tools do.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.db.transaction import atomic

from a2a.doors.humanlayer.calls import tool as handed_over
from a2a.doors.humanlayer.changes import BindingChange
from a2a.doors.humanlayer.models import Binding
from ledger.contracts import Contract, Tool
from ledger.errors import InvalidRequest, NotFound, Sentence
from ledger.events import four_eyes, record_change
from ledger.models import Agent, ChangeRequest, Tenant
from ledger.principals import Principal, Surface
from ledger.tools import last_named, tool_named
from ledger.tools.permits import PermitTool
from ledger.tools.registrations import loosened_terms

KIND = "function"
EVENTS = (BindingChange.ASKED, BindingChange.DECLINED)


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

    What loosens waits for a second operator: ``waiting_for``. Raises ``InvalidRequest``.
    """
    handed_over.tool_name_of(function)
    check_tool(tenant, tool)
    if agent is not None and agent.tenant_id != tenant.pk:
        raise InvalidRequest(Sentence("The agent is of another tenant."))
    with atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        row = Binding.objects.get_or_create(tenant=tenant, agent=agent, function=function)[0]
        if loosens := loosened_terms(*compared(row, tool)):
            asked: dict[str, Any] = {"in_place_of": row.tool, "loosens": loosens}
            asked |= {"tenant": tenant.slug, "by": by, "via": via}
            four_eyes.ask(KIND, str(row.pk), {"tool": tool}, **asked)
        else:
            _end_waiting(row, tool, by, via)
            _set(row, tool, by, via)
    return row


def _end_waiting(row: Binding, tool: str, by: Principal, via: Surface) -> None:
    """Replace what waits by what counts at once: declined, if it is something else."""
    request = waiting_for(row)
    if request is not None and request.after["tool"] != tool:
        four_eyes.decline(request, by=by, via=via)
    else:
        four_eyes.overtake(KIND, row.tenant_id, str(row.pk))


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
    """Those of a tool that was withdrawn, too: one operator can do that. Where there is
    none, the terms of the agent's own calls."""
    bound_tool: Tool[Any, Any] | None = last_named(tenant, tool) if tool else None
    return bound_tool.contract if bound_tool is not None else handed_over.contract()


def waiting_for(row: Binding) -> ChangeRequest | None:
    """The change of this binding that waits for a second operator."""
    return four_eyes.waiting_for(KIND, row.tenant_id, str(row.pk))


def _set(row: Binding, tool: str, by: Principal, via: Surface, **told: Any) -> None:
    before, row.tool = row.tool, tool
    row.save()
    if before != tool:
        kind = BindingChange.BOUND if tool else BindingChange.UNBOUND
        _record(row, kind, by, via, tool=tool, in_place_of=before, **told)


# --- what waits for a second operator -------------------------------------------------------------


def _apply(request: ChangeRequest, by: Principal, via: Surface) -> None:
    """Raises ``NotFound, InvalidRequest``."""
    row, tool = _row_of(request), request.after["tool"]
    if row.tool != request.in_place_of:
        raise NotFound(four_eyes.NO_SUCH_CHANGE)
    check_tool(row.tenant, tool)
    _set(row, tool, by, via, loosens=request.loosens, **request.asker)


def _record_request(
    request: ChangeRequest, kind: BindingChange, by: Principal, via: Surface, **details: Any
) -> None:
    _record(_row_of(request), kind, by, via, **request.after, **details)


def _row_of(request: ChangeRequest) -> Binding:
    rows = Binding.objects.select_for_update(of=("self",)).select_related("tenant", "agent")
    return rows.get(pk=request.subject)


def register() -> None:
    four_eyes.register(four_eyes.Kind(*EVENTS, _record_request, _apply), KIND)


def _record(row: Binding, kind: BindingChange, by: Principal, via: Surface, **details: Any) -> None:
    agent = row.agent.slug if row.agent else "*"
    record_change(
        f"function:{row.tenant_id}/{agent}/{row.function}",
        kind,
        tenant=row.tenant_id,
        by=by,
        via=via,
        name=row.function,
        details={"agent": agent, **details},
    )
