"""Holding a call until it is decided, for as long as its client will listen."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from a2a.doors.mcp_server import calls
from a2a.doors.mcp_server.resource import RESOURCE
from a2a.doors.mcp_server.statuses import Standing
from a2a.protocol.threads import quick
from a2a.rest import long_polls as task_polls
from ledger.agents import Caller
from ledger.api import long_polls as transaction_polls
from ledger.api.waiting import Poll
from ledger.errors import LedgerError
from ledger.foundation.postgres.sessions import CONNECTION_LOST

# So often a client that waits is told that it still does.
SIGN_OF_LIFE_S = 10.0


@dataclass(frozen=True, slots=True)
class Client:
    """The caller, and the address that it calls from."""

    caller: Caller
    token: str
    address: str

    @property
    def name(self) -> str:
        return str(self.caller.principal)


async def until_final(
    client: Client,
    standing: Standing,
    seconds: float,
    tell: Callable[[Standing], Awaitable[None]] | None = None,
) -> Standing:
    """The standing once it has ended, or its agent has to act, or after ``seconds``.

    ``tell`` is called now and then.
    """
    deadline = time.monotonic() + seconds
    while not standing.has_news and (left := deadline - time.monotonic()) > 0:
        changed = await _changed(client, standing, min(left, SIGN_OF_LIFE_S))
        if changed is None:
            break
        standing = changed
        if tell is not None and not standing.has_news:
            await tell(standing)
    return standing


async def _changed(client: Client, standing: Standing, seconds: float) -> Standing | None:
    """The standing after a change or that time; ``None``: nothing is to be waited for."""
    polls = task_polls.tasks if standing.is_task else transaction_polls.transactions
    poll = Poll(client.token, standing.subject, standing.etag, RESOURCE)
    try:
        has_waited = await polls.until_changed(poll, seconds, client.address)
        seen = await quick.run(client.name, calls.look, client.token, standing.subject)
    except (LedgerError, *CONNECTION_LOST):
        return None  # too many wait, or the database is away: it is told how it stood
    if seen is None or not (has_waited or seen.etag != standing.etag):
        return None
    return seen
