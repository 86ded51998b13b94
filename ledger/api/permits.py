"""Permits over REST: fetched and used up by agents, redeemed and asked about by whoever has one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Field, Form, Header, Path, Router, Schema
from ninja.errors import AuthenticationError
from pydantic import BaseModel, ConfigDict, model_validator

from ledger import execution
from ledger.api.http import (
    BODY,
    AgentBearer,
    In,
    Reason,
    address_of,
    caller_of,
    json_response,
    refusals,
    unquoted,
)
from ledger.api.rendering import rendered
from ledger.api.schemas import TransactionOut
from ledger.errors import NotFound, PermitInvalid
from ledger.execution import redemption
from ledger.execution.redemption import BEARER, Issued, Redeemed
from ledger.models import Permit, Scope, Transaction
from ledger.principals import Principal, Surface
from ledger.seals import refuse_unsafe_text
from ledger.states import State
from ledger.tools import permits
from ledger.tools.permits import PermitRefused

KEY_MOST = 255
# Of one transaction, for the agent that proposed it.
of_transaction = Router(auth=AgentBearer(), tags=["permits"])


class ReceiptBody(BaseModel):
    """What proves it. Other members are kept beside it as the result."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(min_length=1, max_length=500, pattern=r"\S", examples=["re_1042"])
    receipt_url: str = Field("", max_length=2000)


class ReceiptIn(In):
    """What came of it: a receipt, or the problem `nothing-happened`."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["receipt"]}, {"required": ["problem"]}]}
    )

    receipt: ReceiptBody | None = None
    problem: Literal["nothing-happened"] | None = None
    detail: Reason = Field("", description="Why nothing happened; people read it.")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> ReceiptIn:
        if (self.receipt is None) == (self.problem is None):
            raise ValueError("send a receipt, or a problem")
        return self


class RedeemIn(In):
    permit: str = Field(
        "", max_length=20_000, description="The permit itself, unless an agent's token is sent."
    )


class PermitLinks(Schema):
    redeem: str = Field(description="Where it is used up, just before acting.")
    receipt: str = Field(description="Where its agent says what came of it.")


class PermitOut(Schema):
    """A permit, and what to do with it."""

    permit: str = Field(description="A JWT (docs/permits.md): show it to the audience.")
    jti: UUID
    transaction_id: UUID
    audience: str = Field(description="The service that checks it.")
    issued_at: datetime
    expires_at: datetime = Field(description="Redeem it before, or fetch a new one.")
    links: PermitLinks


class RedeemedOut(Schema):
    """Act now, once."""

    jti: UUID
    transaction_id: UUID
    operation_key: str = Field(description="Names the operation, whatever is repeated.")
    attempt: int = Field(description="The fencing token.")
    redeemed_at: datetime
    act_before: datetime = Field(description="Post the receipt before; then it is in doubt.")
    links: PermitLinks


class IntrospectionOut(Schema):
    """RFC 7662: the claims of the permit while it can be redeemed, else nothing but `active`."""

    model_config = ConfigDict(extra="allow")

    active: bool


# For whoever has the permit itself.
router = Router(tags=["permits"])


@of_transaction.post(
    "/permit",
    operation_id="fetchPermit",
    response={201: PermitOut, **refusals(403, 404, 409, 503)},
)
def fetch(request: HttpRequest, transaction_id: Path[UUID]) -> HttpResponse:
    """Fetch the permit to carry out what was signed off, where the tool is of the kind `agent`.

    It is good for five minutes and for one redeeming. Fetching again ends the one before.
    """
    row = _own(request, transaction_id)
    by = caller_of(request).principal
    return json_response(_issued(redemption.issue(row.pk, by=by, via=Surface.REST)), 201)


@of_transaction.post(
    "/receipt",
    operation_id="postReceipt",
    response={200: TransactionOut, 202: TransactionOut, **refusals(*BODY, 403, 404, 409)},
)
def post_receipt(request: HttpRequest, transaction_id: Path[UUID], body: ReceiptIn) -> HttpResponse:
    """Say what came of it: the receipt, or that nothing happened.

    A receipt that comes after the time to act is kept, and an operator judges it: 202. Posting
    the same again changes nothing.
    """
    row = _own(request, transaction_id)
    by = caller_of(request).principal
    if body.receipt is None:
        row = execution.take_refusal(row.pk, body.detail, by=by, via=Surface.REST)
        return rendered(row)
    receipt = body.receipt.model_dump(exclude_defaults=True)
    row = execution.take_receipt(row.pk, receipt, by=by, via=Surface.REST)
    response = rendered(row)
    is_its_own = row.state == State.COMMITTED and row.receipt == body.receipt.id
    response.status_code = 200 if is_its_own else 202
    return response


def _own(request: HttpRequest, transaction_id: UUID) -> Transaction:
    """Raises ``NotAllowed``, and ``NotFound`` also for what another agent proposed."""
    caller = caller_of(request, Scope.PROPOSE)
    rows = Transaction.objects.proposed_by(caller.principal).filter(tenant=caller.tenant)
    row = rows.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row


@router.post(
    "/introspect",
    operation_id="introspectPermit",
    response={200: IntrospectionOut, **refusals(*BODY, is_open=True)},
)
def introspect(request: HttpRequest, token: Form[str]) -> HttpResponse:
    """Whether a permit could be redeemed now, as RFC 7662 asks. Whoever has its text may ask.

    Of anything else it says `{"active": false}` and no more.
    """
    try:
        permit, claims = _presented(token)
        is_active = redemption.is_redeemable(permit)
    except (PermitInvalid, NotFound):
        is_active, claims = False, {}
    body = {"active": True, "token_type": permits.TYPE, **claims} if is_active else {}
    response = json_response(body or {"active": False})
    response["Cache-Control"] = "no-store"
    return response


@router.post(
    "/{uuid:jti}/redeem",
    operation_id="redeemPermit",
    openapi_extra={"security": [{"AgentBearer": []}, {}]},
    response={200: RedeemedOut, **refusals(*BODY, 403, 404, 409)},
)
def redeem(
    request: HttpRequest,
    jti: UUID,
    body: RedeemIn | None = None,
    idempotency_key: str = Header("", alias="Idempotency-Key", max_length=KEY_MOST),
) -> HttpResponse:
    """Use the permit up, just before acting. It answers 200 once, and 409 from then on.

    For the agent by its token, or for whoever sends the permit itself, as the service does that
    the agent shows it to. An answer that was lost is given again for the same `Idempotency-Key`.
    """
    by = _presenter(request, jti, body.permit if body is not None else "")
    key = unquoted(idempotency_key)
    refuse_unsafe_text(key, "Idempotency-Key")
    redeemed = redemption.redeem(jti, by=by, via=Surface.REST, key=key)
    response = json_response(_redeemed(redeemed))
    if redeemed.is_replay:
        response["Idempotent-Replayed"] = "true"
    return response


def _presenter(request: HttpRequest, jti: UUID, token: str) -> str:
    """The principal that redeems: the proposing agent, or the bearer of the permit.

    Raises ``NotFound``, ``NotAllowed``, ``PermitInvalid`` and ``AuthenticationError``.
    """
    if "Authorization" in request.headers:
        return _proposer(request, jti)
    if not token:
        raise AuthenticationError
    permit, _ = _presented(token)
    if permit.pk != jti:
        raise PermitInvalid("It is another permit than the address names.")
    return BEARER


def _proposer(request: HttpRequest, jti: UUID) -> str:
    caller = AgentBearer()(request)
    if caller is None:
        raise AuthenticationError
    caller.require(Scope.PROPOSE)
    permit = redemption.find(jti)
    if Principal.parse(permit.transaction.proposed_by) != Principal(
        caller.principal.kind, caller.principal.id
    ):
        raise NotFound("There is no such permit.")
    return str(caller.principal)


def _presented(token: str) -> tuple[Permit, dict[str, Any]]:
    """A permit that we signed, and its claims; its times are the database's business."""
    try:
        claims = permits.verified(token, permits.public_keys(), is_timed=False)
        permit = redemption.find(UUID(str(claims["jti"])))
    except (PermitRefused, ValueError) as refusal:
        raise PermitInvalid(str(refusal)) from refusal
    return permit, claims


def _issued(issued: Issued) -> dict[str, Any]:
    permit = issued.permit
    return {
        "permit": issued.token,
        "jti": str(permit.pk),
        "transaction_id": str(permit.transaction_id),
        "audience": issued.audience,
        "issued_at": permit.issued_at.isoformat(),
        "expires_at": permit.expires_at.isoformat(),
        "links": _links(permit),
    }


def _redeemed(redeemed: Redeemed) -> dict[str, Any]:
    permit, row = redeemed.permit, redeemed.row
    assert permit.redeemed_at is not None
    assert row.lease_expires_at is not None
    return {
        "jti": str(permit.pk),
        "transaction_id": str(row.pk),
        "operation_key": row.operation_key,
        "attempt": permit.fencing_token,
        "redeemed_at": permit.redeemed_at.isoformat(),
        "act_before": row.lease_expires_at.isoformat(),
        "links": _links(permit),
    }


def _links(permit: Permit) -> dict[str, str]:
    return {
        "redeem": address_of(f"/api/v1/permits/{permit.pk}/redeem"),
        "receipt": address_of(f"/api/v1/transactions/{permit.transaction_id}/receipt"),
    }
