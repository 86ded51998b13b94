"""Preparing, reading and approving a transaction without Django: nearly all traffic of agents.

Only requests of the usual form are answered here, many in one statement. Everything else, and
everything that is refused, is left to the views, which render every error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpResponse

from ledger import contracts
from ledger.api.fast import batched_approve, batched_prepare, batched_read
from ledger.api.fast.batched_approve import NewApproval
from ledger.api.fast.batched_prepare import NewProposal
from ledger.api.fast.batched_read import Reading
from ledger.api.http import address_of, database_away, parse_json, problem_of, unquoted
from ledger.api.transactions import trace_of
from ledger.foundation.postgres import sessions
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import AgentToken
from ledger.transactions.coordinator import Proposal, is_for_batch

TRANSACTIONS = "/api/v1/transactions"
ONE = re.compile(
    f"{TRANSACTIONS}/([0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}})"
)
APPROVAL = re.compile(f"{ONE.pattern}/approve")
# The members of a proposal, and how long a text may be: as ``ProposalIn`` has them.
MOST_CHARACTERS = {"tool": 100, "reason": 2000, "run_id": 200, "step_id": 200}
MEMBERS = frozenset({*MOST_CHARACTERS, "arguments", "ttl_s"})

Headers = Mapping[bytes, bytes]


class Response(NamedTuple):
    """A response without the headers that middleware adds."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Request(NamedTuple):
    """``headers`` have names in lower case, each once.

    A long-poll that ``has_waited`` does not count for the limit on polls.
    """

    method: str
    path: str
    headers: Headers
    body: bytes
    has_waited: bool = False


async def respond(request: Request) -> Response | None:
    """The response, or ``None``, and nothing was done: then the request has to go to its view.

    Raises what a batch raises. The view finds out by the key of the request what was done.
    """
    method, path, headers, body, has_waited = request
    token = _token(headers)
    if not token:
        return None
    try:
        if method == "POST" and path == TRANSACTIONS:
            return await _prepare(token, headers, body)
        if method == "POST" and (match := APPROVAL.fullmatch(path)):
            return await _approve(token, UUID(match[1]), headers, body)
        if method == "GET" and not body and (match := ONE.fullmatch(path)):
            return await _read(token, UUID(match[1]), headers, has_waited)
    except CONNECTION_LOST as failure:
        if not sessions.is_standstill(failure):
            raise
        # The view would wait for the database once more.
        away = database_away(failure, f"{method} {path}", is_read=method == "GET")
        return _response(problem_of(away))
    return None


def _response(response: HttpResponse) -> Response:
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    return Response(response.status_code, headers, response.content)


def is_ours(path: str) -> bool:
    return path.startswith(TRANSACTIONS)


def _token(headers: Headers) -> str:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return token if scheme.lower() == "bearer" else ""


async def _prepare(token: str, headers: Headers, body: bytes) -> Response | None:
    proposal = _proposal(headers, body)
    if proposal is None:
        return None
    key = unquoted(headers.get(b"idempotency-key", b"").decode("latin-1"))
    new = NewProposal(proposal, key, AgentToken.hash_of(token))
    answer = await batched_prepare.prepares.ask(new)
    if answer is None:
        return None
    location = address_of(f"{TRANSACTIONS}/{answer.transaction_id}")
    headers_out = [(b"content-type", b"application/json"), (b"location", location.encode())]
    return Response(answer.status, headers_out, answer.text.encode())


async def _approve(
    token: str, transaction_id: UUID, headers: Headers, body: bytes
) -> Response | None:
    members = _members(headers, body)
    if members is None or members.keys() - {"reason"} != {"intent_digest"}:
        return None
    digest, reason = members["intent_digest"], members.get("reason", "")
    if not (isinstance(digest, str) and isinstance(reason, str)):
        return None
    approval = NewApproval(AgentToken.hash_of(token), transaction_id, digest, reason)
    answer = await batched_approve.approvals.ask(approval)
    if answer is None:
        return None
    text, etag = answer
    headers_out = [(b"content-type", b"application/json"), (b"etag", etag.encode())]
    return Response(200, headers_out, text.encode())


def _members(headers: Headers, body: bytes) -> dict[str, Any] | None:
    """Those of the body, if it is a JSON object."""
    if not headers.get(b"content-type", b"").startswith(b"application/json"):
        return None
    try:
        members = parse_json(body)
    except (ValueError, RecursionError):
        return None
    return members if isinstance(members, dict) else None


def _proposal(headers: Headers, body: bytes) -> Proposal | None:
    """The proposal, if it is of the usual form and its tool needs no plan."""
    members = _members(headers, body)
    if members is None or not _is_usual(members):
        return None
    tool = contracts.tools.get(members["tool"])
    if tool is None or not is_for_batch(tool):
        return None
    trace = trace_of(headers.get(b"traceparent", b"").decode("latin-1"))
    return Proposal(**(members | {"traceparent": trace}))


def _is_usual(members: dict[str, Any]) -> bool:
    """True if ``ProposalIn`` takes it as it is; a time to live is left to it."""
    return (
        "tool" in members
        and isinstance(members.get("arguments"), dict)
        and members.keys() <= MEMBERS
        and "ttl_s" not in members
        and all(
            isinstance(text := members.get(name, ""), str) and len(text) <= most
            for name, most in MOST_CHARACTERS.items()
        )
    )


async def _read(
    token: str, transaction_id: UUID, headers: Headers, has_waited: bool
) -> Response | None:
    known = headers.get(b"if-none-match", b"").decode("latin-1")
    reading = Reading(AgentToken.hash_of(token), transaction_id, known, has_waited)
    answer = await batched_read.reads.ask(reading)
    return None if answer is None else Response(*answer)
