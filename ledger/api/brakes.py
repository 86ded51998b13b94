"""REST: what people have stopped. Read only: no agent puts or lifts a brake."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse
from ninja import Field, Router, Schema

from ledger.api.http import AgentBearer, caller_of, json_response, refusals
from ledger.models import Brake, Scope

router = Router(auth=AgentBearer(), tags=["tools"])


class BrakeOut(Schema):
    """Empty parts stand for all of the tenant."""

    id: int
    is_for_all_tenants: bool
    agent: str = Field(description="Its principal; empty: every agent.")
    tool: str = Field(description="Empty: every tool.")
    why: str
    since: datetime
    until: datetime | None = Field(description="Null: until somebody lets it go on.")
    by_name: str
    keeps: bool = Field(
        description="Proposals under it are prepared and wait for its end, where planning them "
        "holds nothing; else they are answered `paused`."
    )
    is_hold: bool = Field(
        description="What the tool's owner publishes has changed; it ends once an operator of the "
        "tenant has looked at it."
    )


class BrakesOut(Schema):
    brakes: list[BrakeOut]


@router.get("", operation_id="listBrakes", response={200: BrakesOut, **refusals(403)})
def standing(request: HttpRequest) -> HttpResponse:
    """The brakes that stand now in the caller's tenant, for the scope `read_all`."""
    caller = caller_of(request, Scope.READ_ALL)
    rows = Brake.objects.uncounted().standing().filter(tenant__in=["", caller.tenant])
    return json_response({"brakes": [rendered(brake) for brake in rows.order_by("pk")]})


def rendered(brake: Brake) -> dict[str, object]:
    return {
        "id": brake.pk,
        "is_for_all_tenants": not brake.tenant,
        "agent": brake.agent,
        "tool": brake.tool,
        "why": brake.why,
        "since": brake.at.isoformat(),
        "until": brake.until.isoformat() if brake.until else None,
        "by_name": brake.by_name,
        "keeps": brake.keeps,
        "is_hold": brake.is_hold,
    }
