"""Requests that wait, held back as coroutines; who answers in the end is the ordinary view.

Everything unusual goes to the ordinary view at once, which never waits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs
from uuid import UUID

from django.http import HttpResponse

from a2a.rest import claims, long_polls as task_polls
from a2a.rest.claims import ClaimWait
from approvals.http.admission.answers import send_response
from approvals.http.admission.pages import refuse
from ledger.api import long_polls as transaction_polls
from ledger.api.http import HAS_WAITED, database_away, parse_json, problem_of, token_in
from ledger.api.http.polling import POLL_INTERVAL_S
from ledger.api.waiting import LONGEST_WAIT_S, ClientGone, LongPolls, Poll, unless_gone
from ledger.errors import LedgerError
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.limits import network_of

Application = Callable[[Any, Any, Any], Awaitable[None]]
Query = dict[str, list[str]]
Headers = dict[bytes, bytes]

NOTHING = UUID(int=0)
UUID_ = "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
CLAIM = "/api/v1/work/claim"
CLAIM_MEMBERS = {"skills", "wait_s"}
LONGEST_SKILL = 200
# Of all polls that one event wakes, so many are answered at a time; ``Pages`` has room for more.
ANSWERS_AT_ONCE = 200
SMALL_BODY = 16 * 1024  # bytes; a claim that is larger is not a usual one


class PollRequest(NamedTuple):
    """The polls that a request belongs to, and the arguments of their ``until_changed``."""

    polls: LongPolls
    arguments: tuple[Poll, float, str]


class Route(NamedTuple):
    """Addresses with ``?wait=``. ``detail`` is what the poll also needs of path and headers."""

    path: re.Pattern[str]
    polls: LongPolls
    detail: Callable[[re.Match[str], Query, Headers], Any]


def _known_etag(match: re.Match[str], query: Query, headers: Headers) -> str:
    return headers.get(b"if-none-match", b"").decode("latin-1").removeprefix("W/")


def _page_of_pending(match: re.Match[str], query: Query, headers: Headers) -> Any:
    after = _only(query, "after")
    page = transaction_polls.PageRequest(
        limit=int(_only(query, "limit", str(transaction_polls.PAGE))),
        after=UUID(after) if after else None,
    )
    if not 1 <= page.limit <= transaction_polls.PAGE_MOST:
        raise ValueError
    return _known_etag(match, query, headers), page


def _cursor(match: re.Match[str], query: Query, headers: Headers) -> int:
    return int(_only(query, "cursor", "0"))


ROUTES = (
    Route(re.compile(f"/api/v1/transactions/{UUID_}"), transaction_polls.transactions, _known_etag),
    Route(re.compile("/api/v1/pending"), transaction_polls.pending, _page_of_pending),
    Route(re.compile(f"/api/v1/tasks/{UUID_}"), task_polls.tasks, lambda *_: None),
    Route(re.compile(f"/api/v1/work/{UUID_}/messages"), task_polls.messages, _cursor),
    Route(
        re.compile(f"/api/v1/work/{UUID_}/questions/{UUID_}"),
        task_polls.questions,
        lambda match, *_: UUID(match[2]),
    ),
)


class Waits:
    """``inside``, with the requests that wait held back until there is something to answer."""

    def __init__(self, inside: Application, *, body_within_s: float) -> None:
        self._inside, self._within_s = inside, body_within_s
        self._answers = asyncio.Semaphore(ANSWERS_AT_ONCE)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        poll = _poll_of(scope)
        is_claim = scope["method"] == "POST" and scope["path"] == CLAIM
        is_claim = is_claim and bool(_token(scope))
        if poll is None and not is_claim:
            await self._inside(scope, receive, send)
            return
        request = Received(receive)
        try:
            async with asyncio.timeout(self._within_s):
                is_small = await request.has_small_body()
        except TimeoutError:
            await refuse(send, HTTPStatus.REQUEST_TIMEOUT)
        except ClientGone:
            return
        else:
            claim = _claim_of(scope, request.body) if is_claim and is_small else None
            await self._wait(poll if is_small else None, claim, scope, request, send)

    async def _wait(
        self,
        poll: PollRequest | None,
        claim: ClaimWait | None,
        scope: Any,
        request: Received,
        send: Any,
    ) -> None:
        try:
            if claim is not None:
                await self._claim(claim, scope, request, send)
                return
            has_waited = poll is not None and await unless_gone(
                request.receive, poll.polls.until_changed(*poll.arguments)
            )
        except ClientGone:
            return
        except LedgerError as refusal:
            await send_response(scope, send, problem_of(refusal))
        except CONNECTION_LOST as failure:
            # While it only waited. Whatever a claim does is answered by its view.
            away = database_away(failure, f"{scope['method']} {scope['path']}", is_read=True)
            await send_response(scope, send, problem_of(away))
        else:
            if poll is not None:
                is_no_poll = has_waited and poll.arguments[1] >= POLL_INTERVAL_S
                scope = {**scope, HAS_WAITED: is_no_poll}
            answer = self._in_turn if has_waited else self._inside
            await answer(scope, request.replayed(), send)

    async def _in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request whose whole body has come. It keeps its place for no slow reader."""
        answer: list[Any] = []

        async def keep(message: Any) -> None:
            answer.append(message)

        async with self._answers:
            await self._inside(scope, receive, keep)
        for message in answer:
            await send(message)

    async def _claim(self, claim: ClaimWait, scope: Any, request: Received, send: Any) -> None:
        async def claim_now() -> bool:
            """False if there was no task; then nothing was sent."""
            answer = _Unless204(send)
            await self._inside(scope, request.replayed(), answer.send)
            return not answer.is_nothing

        waiting = claims.claim_when_there_is_work(claim, claim_now)
        if not await unless_gone(request.receive, waiting):
            await send_response(scope, send, HttpResponse(status=HTTPStatus.NO_CONTENT))


class _Unless204:
    """Passes an answer on, unless it is an empty 204."""

    def __init__(self, send: Any) -> None:
        self._send, self.is_nothing = send, False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.is_nothing = message["status"] == HTTPStatus.NO_CONTENT
        if not self.is_nothing:
            await self._send(message)


class Received:
    """The part that a client has sent so far, to be read again by the application that answers."""

    def __init__(self, receive: Any) -> None:
        self.receive = receive
        self._messages: list[Any] = []
        self._size = 0

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._messages)

    def replayed(self) -> Any:
        """A ``receive`` that begins with the first message again."""
        messages = iter(list(self._messages))

        async def receive() -> Any:
            return next(messages, None) or await self.receive()

        return receive

    async def has_small_body(self) -> bool:
        """Read the body; false, and not all is read, if it is larger than ``SMALL_BODY``."""
        while self._size <= SMALL_BODY:
            if not (await self._next()).get("more_body"):
                return True
        return False

    async def _next(self) -> Any:
        message = await self.receive()
        if message["type"] != "http.request":
            raise ClientGone
        self._messages.append(message)
        self._size += len(message.get("body", b""))
        return message


def _poll_of(scope: Any) -> PollRequest | None:
    """``None`` for a request that does not wait, and for an unusual one."""
    query_string = scope.get("query_string", b"")
    if scope["method"] != "GET" or b"wait=" not in query_string:
        return None
    for route in ROUTES:
        if match := route.path.fullmatch(scope["path"]):
            try:
                return _usual_poll(route, match, parse_qs(query_string.decode()), scope)
            except ValueError:
                return None
    return None


def _usual_poll(
    route: Route, match: re.Match[str], query: dict[str, list[str]], scope: Any
) -> PollRequest | None:
    wait_s, token = float(_only(query, "wait")), _token(scope)
    if not 0 < wait_s <= LONGEST_WAIT_S or not token:
        return None
    subject = UUID(match[1]) if route.path.groups else NOTHING
    poll = Poll(token, subject, route.detail(match, query, dict(scope["headers"])))
    return PollRequest(route.polls, (poll, wait_s, address_of_peer(scope)))


def _only(query: dict[str, list[str]], name: str, default: str = "") -> str:
    """The value of a parameter that is sent once. Raises ``ValueError``."""
    (value,) = query.get(name, [default])
    return value


def _claim_of(scope: Any, body: bytes) -> ClaimWait | None:
    """``None`` for a claim that does not wait, and for an unusual one."""
    try:
        members = parse_json(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, dict) or not set(members) <= CLAIM_MEMBERS:
        return None
    wait_s, skills = members.get("wait_s", 0), members.get("skills", [])
    is_number = isinstance(wait_s, int | float) and not isinstance(wait_s, bool)
    are_texts = isinstance(skills, list) and all(_is_usual_skill(skill) for skill in skills)
    token = _token(scope)
    if not is_number or not are_texts or not 0 < wait_s <= LONGEST_WAIT_S or not token:
        return None
    return ClaimWait(token, frozenset(skills), wait_s, address_of_peer(scope))


def _is_usual_skill(skill: Any) -> bool:
    return isinstance(skill, str) and 0 < len(skill) <= LONGEST_SKILL and skill.isprintable()


def _token(scope: Any) -> str:
    return token_in(dict(scope["headers"]).get(b"authorization", b""))


def address_of_peer(scope: Any) -> str:
    """The address that the connection comes from; a proxy's, if there is one."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def network_of_peer(scope: Any) -> str:
    return network_of(address_of_peer(scope))
