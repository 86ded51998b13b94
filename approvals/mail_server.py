"""Turns at the mail server: a server that hangs must not hold up what couriers have to do.

One e-mail is sent at a time in each process, and none for a moment after the server failed. So it
holds one thread of the courier, and for a short time.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPSenderRefused

from ledger.events.outbox import NotNow

SERVER_RESTS_S = 30.0  # after it failed


class _Server:
    """The turn at the mail server, and whether it failed a moment ago."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._rests_until = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises ``NotNow`` while another thread has the turn, or the server rests."""
        rest = self._rests_until - time.monotonic()
        if rest > 0:
            raise NotNow(_soon(rest), "The mail server failed a moment ago.")
        if not self._turn.acquire(blocking=False):
            raise NotNow(_soon(1.0), "Another e-mail is being sent.")
        try:
            yield
        except (SMTPRecipientsRefused, SMTPSenderRefused):
            raise  # it answered: it refuses this one
        except (SMTPException, OSError):
            self._rests_until = time.monotonic() + SERVER_RESTS_S
            raise
        finally:
            self._turn.release()

    def forget(self) -> None:
        self._rests_until = 0.0


def _soon(seconds: float) -> timedelta:
    return timedelta(seconds=seconds * random.uniform(1, 2))


_server = _Server()
turn, forget = _server.turn, _server.forget
