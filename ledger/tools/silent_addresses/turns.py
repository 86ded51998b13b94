"""Turns at an address that does not answer: one call at a time finds out whether it does again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection

from ledger.tools.silent_addresses.addresses import Address, is_silent, read, rows_of

# A turn lasts as long as the call may take, and this: for the claim before and the record after.
MARGIN = timedelta(seconds=15)


@contextmanager
def turn(address: Address, timeout: timedelta) -> Iterator[bool]:
    """True inside if the address may be called: it is not silent, or this call finds out."""
    if not is_silent(address):
        yield True
        return
    until = _take(address, timeout)
    if until is None:
        read()
        yield not is_silent(address)  # it may have answered another process
        return
    try:
        yield True
    finally:
        rows_of(address).filter(called_until=until).update(called_until=None)


def _take(address: Address, timeout: timedelta) -> datetime | None:
    """The end of the turn; ``None`` while another call has it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_silentaddress SET called_until = now() + %s::interval"
            " WHERE tenant = %s AND address = %s AND acts = %s"
            " AND (called_until IS NULL OR called_until <= now()) RETURNING called_until",
            [str(timeout + MARGIN), *address],
        )
        taken = cursor.fetchone()
    return taken[0] if taken else None
