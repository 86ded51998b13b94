"""Long-polls as coroutines: a request is held back until there is something new to answer.

The answer itself is the ordinary view's, which never waits: it authenticates again, and so tells
nothing to an agent whose token was revoked meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from ledger.api.waiting.bells import changes
from ledger.api.waiting.waiters import Kind, Waiter, waiters
from ledger.foundation.batches import Batcher

LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Poll:
    """The wait of one request. ``detail`` is what the kind of poll needs besides; ``resource`` is
    the interface that was asked."""

    token: str
    subject: UUID
    detail: Any = None
    resource: str = ""


class Look(NamedTuple):
    """The view a poll has of its subject. ``is_over``: there is something to answer already."""

    tenant: str
    principal: str
    version: Hashable
    is_over: bool


class LongPolls:
    """The polls of one kind of subject; those that look at the same time share their queries.

    ``look_all`` runs in a thread. It returns for each poll, in the same order, what it sees, or
    ``None`` where the ordinary view refuses the request. ``topic`` names what to wait for where
    the request does not: a tenant's, which only its token tells.
    """

    def __init__(
        self,
        look_all: Callable[[list[Poll]], list[Look | None]],
        topic: Callable[[Poll], Awaitable[UUID | None]] | None = None,
    ) -> None:
        self._looks = Batcher(look_all)
        self._topic = topic

    async def until_changed(self, poll: Poll, wait_s: float, address: str) -> bool:
        """Return when the ordinary view should answer: something is new, or the time is over.

        False if there was something to answer at once: then nothing was waited for. Raises what a
        limit of ``waiters`` raises.
        """
        subject = poll.subject if self._topic is None else await self._topic(poll)
        if subject is None:
            return False
        with changes.of(subject) as bell:
            first = await self._looks.ask(poll)
            if first is None or first.is_over:
                return False
            waiter = Waiter(Kind.LONG_POLL, first.tenant, first.principal, address)
            # Those that came together do not all go, and come again, at one moment.
            deadline = time.monotonic() + wait_s * random.uniform(0.8, 1)
            with waiters.admitted(waiter):
                while await bell.wait(deadline - time.monotonic()):
                    look = await self._looks.ask(poll)
                    if look is None or look.is_over or look.version != first.version:
                        break
        return True
