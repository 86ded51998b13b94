"""What loosens a tool is judged against the version that it replaces, not an earlier one."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection, connections
from django.db.transaction import atomic

from ledger.errors import NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest, Tenant
from ledger.principals import Surface, system, user
from ledger.tools import manifests, registrations
from tests.http_tools.conftest import OPERATOR, manifest

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "https://payments.example/tools"


def is_somebody_waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_a_loosening_that_overlaps_with_a_tightening_waits_for_a_second_operator(acme):
    loose = manifests.read(manifest(ADDRESS, contract={"risk_level": "LOW"}))
    strict = manifests.read(manifest(ADDRESS))
    looser = manifests.read(manifest(ADDRESS, contract={"risk_level": "LOW", "ttl_s": 600}))
    origin = {"by": OPERATOR, "via": Surface.COMMAND}
    registrations.register(acme, loose, **origin)
    asked = []

    def ask():
        by = user(1, "Olga")
        try:
            asked.append(
                registrations.change(
                    acme, looser, in_place_of=strict.sha256, by=by, via=Surface.ADMIN
                )
            )
        finally:
            connections.close_all()

    thread = threading.Thread(target=ask)
    with atomic():
        registrations.register(acme, strict, **origin)
        thread.start()
        until = time.monotonic() + 30
        while not is_somebody_waiting_for_a_lock() and time.monotonic() < until:
            thread.join(0.05)
    thread.join(30)

    assert asked == [ChangeRequest.objects.get()]
    assert registrations.current(acme, "refund_invoice") == strict


def test_a_request_and_a_confirmation_that_overlap_wait_for_one_another(acme):
    """Both end what waits and write the tool; neither keeps the other from going on."""
    strict = manifests.read(manifest(ADDRESS))
    registrations.register(acme, strict, by=OPERATOR, via=Surface.COMMAND)
    loose, looser = (
        manifests.read(manifest(ADDRESS, contract={"risk_level": "LOW", "ttl_s": seconds}))
        for seconds in (600, 700)
    )
    asked = {"in_place_of": strict.sha256, "by": user(1, "Olga"), "via": Surface.ADMIN}
    first = registrations.change(acme, loose, **asked)

    def confirm():
        by = system("command", "omar on the server")
        try:
            with pytest.raises(NotFound):
                four_eyes.confirm(first, seen=first.sha256, by=by, via=Surface.COMMAND)
        finally:
            connections.close_all()

    thread = threading.Thread(target=confirm)
    with atomic():
        Tenant.objects.select_for_update(no_key=True).get(pk=acme.pk)
        thread.start()
        until = time.monotonic() + 30
        while not is_somebody_waiting_for_a_lock() and time.monotonic() < until:
            thread.join(0.05)
        registrations.change(acme, looser, **asked)
    thread.join(30)

    assert [row.state for row in ChangeRequest.objects.order_by("pk")] == ["overtaken", "waiting"]
    assert registrations.current(acme, "refund_invoice") == strict
