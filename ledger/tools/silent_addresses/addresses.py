"""Addresses of tools whose last calls all timed out, as noted by every process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import httpx
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import QuerySet
from django.db.models.functions import Now

from ledger.contracts import ReadonlyTool, Role, Tool
from ledger.foundation.http_out import Silent
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import SilentAddress, Transaction, TransactionRow
from ledger.states import State
from ledger.tools.catalogue import tool_of

logger = logging.getLogger(__name__)

IN_A_ROW = SilentAddress.IN_A_ROW
FORGOTTEN_AFTER = timedelta(hours=1)  # without any call
SILENCE = (TimeoutError, httpx.TimeoutException, Silent)
_ACT: frozenset[Role] = frozenset({"execute", "rollback", "compensate"})
_NEXT: dict[State, Role] = {
    State.APPROVED: "execute",
    State.COMMITTING: "find_receipt",
    State.IN_DOUBT: "find_receipt",
    State.ROLLING_BACK: "rollback",
    State.COMPENSATING: "compensate",
}


class Address(NamedTuple):
    """Host and port, program or Python function that carries out a tenant's tools.

    Calls with an effect count apart from those that plan, look up or read: a service may hang in
    the one and answer the other.
    """

    tenant: str
    address: str
    acts: bool


def is_silence(failure: BaseException | None) -> bool:
    """True of a time-out, and of what was raised from one."""
    while failure is not None and not isinstance(failure, SILENCE):
        failure = failure.__cause__
    return failure is not None


def address_of(tenant: str, tool: Tool[Any, Any] | ReadonlyTool, role: Role | None) -> Address:
    """``role`` is ``None`` for a tool without effects."""
    return Address(tenant, (tool.runs_at or tool.name)[:300], role in _ACT)


def next_call_of(row: Transaction | TransactionRow) -> Address | None:
    """The address of the call that a worker makes next; ``None`` if it makes none."""
    tool, role = tool_of(row), _NEXT.get(State(row.state))
    is_at_work = row.state == State.COMMITTING and not row.is_accepted
    if tool is None or role is None or is_at_work:
        return None
    if role == "find_receipt" and not tool.has(role):
        role = "execute"
    makes_it = role == "execute" or tool.has(role)
    return address_of(row.tenant, tool, role) if makes_it else None


# The time-outs in a row of each address, as this process last read or noted them.
_noted: Mapping[Address, int] = {}


def read() -> frozenset[Address]:
    """Find out what other processes have noted. Returns those that nobody may call at this moment:
    another call is finding out whether they answer."""
    global _noted
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant, address, acts, timeouts, called_until > now() FROM ledger_silentaddress"
        )
        rows = [(Address(*row[:3]), row[3], row[4]) for row in cursor.fetchall()]
    _noted = {address: timeouts for address, timeouts, _ in rows}
    return frozenset(address for address, _, is_called in rows if is_called)


def is_silent(address: Address) -> bool:
    """True if one call of it at a time is made, as far as this process knows."""
    return _noted.get(address, 0) >= IN_A_ROW


def note(address: Address, is_silence: bool) -> None:
    """A call of it timed out, or was answered in time with whatever."""
    if is_silence:
        _note_silence(address)
    elif address in _noted:
        _note_answer(address)


def _note_silence(address: Address) -> None:
    global _noted
    with _unless_database_is_away(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_silentaddress AS noted (tenant, address, acts)"
            " VALUES (%s, %s, %s) ON CONFLICT (tenant, address, acts)"
            " DO UPDATE SET timeouts = noted.timeouts + 1, last_at = now() RETURNING timeouts",
            list(address),
        )
        (timeouts,) = cursor.fetchone()
        _noted = {**_noted, address: timeouts}
        if timeouts == IN_A_ROW:
            logger.warning(
                "%s of tenant %s timed out %s times in a row: one call at a time from now on",
                address.address,
                address.tenant,
                IN_A_ROW,
            )


def _note_answer(address: Address) -> None:
    global _noted
    with _unless_database_is_away():
        rows_of(address).delete()
        if is_silent(address):
            logger.warning("%s of tenant %s answers again", address.address, address.tenant)
        _noted = {noted: timeouts for noted, timeouts in _noted.items() if noted != address}


def forget_old() -> None:
    """An address that is never called any more is said to be silent no longer."""
    SilentAddress.objects.filter(last_at__lte=Now() - FORGOTTEN_AFTER).delete()


def silence_of(row: Transaction) -> SilentAddress | None:
    """For people: the silence that the next call of this row waits for."""
    address = next_call_of(row)
    return None if address is None else silences().filter(**address._asdict()).first()


def silences() -> QuerySet[SilentAddress]:
    """Those of which one call at a time is made, for people."""
    return SilentAddress.objects.filter(timeouts__gte=IN_A_ROW).order_by("since")


def rows_of(address: Address) -> QuerySet[SilentAddress]:
    return SilentAddress.objects.filter(**address._asdict())


@contextmanager
def _unless_database_is_away() -> Iterator[None]:
    """A note that cannot be written is no failure of the call that it is about."""
    try:
        yield
    except (DatabaseError, InterfaceError) as failure:
        logger.warning("not noted whether a tool answered: %s", failure)
        if not connection.in_atomic_block:
            connection.close()
