"""Sends the log to a SIEM, one batch after the other, beside the courier.

It is a cursor over the log and not a row per event in the outbox: the order is that of the log, and
what is left to send is what comes after one number. Ids are given out before commit, so only what
is settled is sent: no event with a smaller id can appear later. One batch is under way in the whole
installation; the position moves when the receiver has taken it, so a batch may come twice, and none
is left out. A receiver that hangs or refuses keeps this thread, and nothing else.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from datetime import datetime, timedelta
from functools import cache

import httpx
from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models.functions import Now

from ledger.delivery.siem.forms import FORMS
from ledger.events import last_settled_event
from ledger.foundation import http_out
from ledger.foundation.backoff import Backoff
from ledger.foundation.http_out import NotAccepted
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import Event, SiemPosition
from ledger.seals import Link

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0  # to know which events are settled, writers are kept out for an instant
PATIENCE = timedelta(milliseconds=100)
TIMEOUT_S = 10.0  # for everything: the name, connecting, sending, and the answer
HELD_S = 30  # longer than a batch takes: nobody else sends meanwhile
MOST_EVENTS, MOST_BYTES = 500, 1_000_000
LARGEST_ANSWER = 16 * 1024
BACKOFF = Backoff(first=timedelta(seconds=2), longest=timedelta(minutes=1))
FAILURES = (NotAccepted, TimeoutError, httpx.HTTPError, http_out.AddressRefused, OSError)

_TAKE = """
    INSERT INTO ledger_siemposition AS row (id, upto_event, epoch, held_until, failures)
    VALUES (1, 0, 1, clock_timestamp() + make_interval(secs => %s), 0)
    ON CONFLICT (id) DO UPDATE SET epoch = row.epoch + 1, held_until = excluded.held_until
    WHERE row.held_until <= clock_timestamp()
    RETURNING upto_event, epoch, failures
"""
_GIVE_BACK = """
    UPDATE ledger_siemposition SET upto_event = %s, failures = %s,
        held_until = clock_timestamp() + make_interval(secs => %s)
    WHERE id = 1 AND epoch = %s
"""


class Siem:
    """Sends until ``stopping`` is set, in a thread of its own."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stop = stopping
        self._thread = threading.Thread(target=self._main, name="siem", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, leave_at: float = 0.0) -> None:
        """Leave soon: a batch that is under way then is sent again."""
        self._stop.set()
        self._thread.join(max(0.0, leave_at - time.monotonic()))

    def _main(self) -> None:
        while not self._stop.is_set():
            try:
                settled = last_settled_event(PATIENCE) if _is_due() else None
                while settled and send_batch(settled) and not self._stop.is_set():
                    pass
            except CONNECTION_LOST as failure:
                logger.warning("the SIEM waits for the database: %s", failure)
                connection.close()
            except Exception:
                logger.exception("the log could not be sent to the SIEM; it is tried again")
            close_old_connections()  # of a pool: others have it while this thread waits
            self._stop.wait(LOOK_EVERY_S)


def behind_since() -> datetime | None:
    """Time of the oldest event that the SIEM has not taken."""
    upto = SiemPosition.objects.values_list("upto_event", flat=True).first() or 0
    later = Event.objects.filter(pk__gt=upto).order_by("pk")
    return later.values_list("at", flat=True).first()


def _is_due() -> bool:
    """True if there is something to send, and nobody sends it or leaves the receiver alone."""
    is_held = SiemPosition.objects.filter(held_until__gt=Now()).exists()
    return not is_held and behind_since() is not None


def send_batch(settled: int) -> int:
    """Send the next events, none after ``settled``; how many the receiver took.

    None while another courier sends, or the receiver is left alone after a failure. After one the
    batch is smaller: it may be one event, or the size, that it does not take.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [HELD_S])
        row = cursor.fetchone()
    if row is None:
        return 0
    upto, epoch, failures = row
    links, items = _next(upto, settled, max(1, MOST_EVENTS >> min(failures, 16)))
    try:
        if items:
            _post(items)
    except FAILURES as failure:
        wait = BACKOFF.wait_with_jitter(failures + 1)
        logger.warning("the SIEM did not take the events after %s: %s", upto, _in_words(failure))
        _give_back(upto, failures + 1, wait, epoch)
        return 0
    _give_back(links[-1].id if links else upto, 0, timedelta(0), epoch)
    return len(links)


def _give_back(upto: int, failures: int, wait: timedelta, epoch: int) -> None:
    """Unless another courier has taken over since: then its position counts."""
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_BACK, [upto, min(failures, 32_000), wait.total_seconds(), epoch])


def _next(upto: int, settled: int, most: int) -> tuple[list[Link], list[str]]:
    """The next events and their texts, as many as one request has."""
    rows = Event.objects.filter(pk__gt=upto, pk__lte=settled).order_by("pk")
    form, size = FORMS[settings.SIEM_FORM], 0
    links: list[Link] = []
    items: list[str] = []
    for values in rows.values_list(*Link._fields)[:most]:
        link = Link(*values)
        item = form.item(link, settings.LOG_ORIGIN)
        size += len(item.encode())
        if items and size > MOST_BYTES:
            break
        links.append(link)
        items.append(item)
    return links, items


def _post(items: list[str]) -> None:
    """Raises one of ``FAILURES``. The operator named the address, so any network will do."""
    form, origin = FORMS[settings.SIEM_FORM], settings.LOG_ORIGIN
    headers = {"Content-Type": form.content_type, **form.headers(origin)}
    if settings.SIEM_TOKEN:
        headers["Authorization"] = f"{form.scheme} {settings.SIEM_TOKEN}"
    body = form.body(items, origin).encode()
    answer = http_out.send(
        httpx.Request("POST", http_out.parse(settings.SIEM_URL), content=body, headers=headers),
        timeout_s=TIMEOUT_S,
        largest_answer=LARGEST_ANSWER,
        any_network=True,
        tls=_authorities(settings.SIEM_CA),
    )
    if not 200 <= answer.status_code < 300:
        raise NotAccepted(f"it answered {answer.status_code}.", answer.status_code)
    if settings.SIEM_FORM == "otlp" and (rejected := _rejected_in(answer.content)):
        # The protocol forbids to send them again.
        logger.critical("the SIEM rejected %s of %s events for good", rejected, len(items))


def _rejected_in(answer: bytes) -> int:
    try:
        return int(json.loads(answer)["partialSuccess"]["rejectedLogRecords"])
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return 0


@cache
def _authorities(file: str) -> ssl.SSLContext | None:
    return ssl.create_default_context(cafile=file) if file else None


def _in_words(failure: Exception) -> str:
    """Without the text of others, which may have the token or an event in it."""
    is_ours = isinstance(failure, NotAccepted | http_out.AddressRefused)
    return str(failure) if is_ours else type(failure).__name__
