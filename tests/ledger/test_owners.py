"""The owning service hears of trouble with one of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.db.models.functions import Now

from ledger.delivery.webhooks import channel
from ledger.delivery.webhooks.owners import Owner
from ledger.events import outbox
from ledger.foundation import http_out
from ledger.models import Checkpoint, Delivery, Event, Tenant, Transaction
from ledger.proof.log import checkpoints
from ledger.proof.log.keeper import Keeper
from tests.conftest import propose
from tests.forgery import forge

SECRET = "whsec_" + "A" * 43 + "="


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    """What goes out; how it is sent is tested in test_webhooks and test_couriers."""
    sent: list[tuple[str, dict[str, object]]] = []

    def keep(url: str, body: bytes, headers: Mapping[str, str]) -> None:
        sent.append((url, json.loads(body)))

    monkeypatch.setattr(http_out, "deliver", keep)
    return sent


@pytest.fixture
def payments(acme: Tenant) -> Owner:
    return Owner.objects.create(
        tenant=acme,
        service="payments",
        webhook_url="https://payments.example/alerts",
        webhook_secret=SECRET,
    )


def happened(row: Transaction, kind: str) -> Event:
    """The event as the ledger writes it, with what it owes."""
    event = Event.objects.create(
        subject=row.pk,
        transaction=row,
        tenant=row.tenant,
        kind=kind,
        to_state=row.state,
        principal="system:worker",
        principal_name="worker",
        via="system",
    )
    outbox.put_in_outbox(event)
    return event


def deliver_all() -> None:
    while due := [pk for pk in outbox.overdue() if Delivery.objects.get(pk=pk).channel == "owner"]:
        for pk in due:
            outbox.deliver(pk)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("fell_in_doubt", "owner.in_doubt"),
        ("failed", "owner.failed"),
        ("late_receipt", "owner.late_receipt"),
    ],
)
def test_trouble_reaches_the_service_that_owns_the_tool(payments, told, kind, said):
    row = propose("pay")

    happened(row, kind)
    deliver_all()

    ((url, news),) = told
    assert url == "https://payments.example/alerts"
    assert news["type"] == said
    assert news["data"]["operation_key"] == row.operation_key
    assert news["data"]["desk"].endswith(f"/transactions/{row.pk}/")


def test_another_service_and_another_tenant_hear_nothing(payments, told, globex):
    happened(propose("launch", rocket="Ariane"), "fell_in_doubt")
    happened(propose("pay", tenant="globex"), "fell_in_doubt")
    deliver_all()

    assert told == []


@pytest.mark.parametrize(
    ("state", "attempts", "is_told"),
    [
        ("rolling_back", 3, True),
        ("compensating", 7, True),
        ("rolling_back", 1, False),
        ("aborted", 9, False),
    ],
)
def test_what_is_stuck_is_told_and_what_went_on_is_not(payments, told, state, attempts, is_told):
    row = propose("pay")
    happened(row, "rejected")
    deliver_all()
    assert told == []
    Transaction.objects.filter(pk=row.pk).update(state=state, attempts=attempts)
    owed = Delivery.objects.get(recipient__startswith="stuck:")
    assert owed.next_attempt_at > owed.event.at + timedelta(seconds=100)

    Delivery.objects.filter(pk=owed.pk).update(next_attempt_at=Now())
    deliver_all()

    assert [news["type"] for _, news in told] == (["owner.stuck"] if is_told else [])
    owed.refresh_from_db()
    is_looked_at_again = state == "rolling_back" and not is_told
    assert owed.state == ("waiting" if is_looked_at_again else "done")


def test_the_alert_is_signed(payments):
    with pytest.raises(channel.SecretMissing):
        channel.signed("https://payments.example/alerts", "", "msg_1", {})


def test_a_log_that_is_not_signed_is_told_once_to_every_service_until_it_goes_on(
    transactional_db, payments, told, settings
):
    settings.CHECKPOINT_EVERY_S = 0
    propose("pay")
    bogus = Checkpoint.objects.create(size=1, upto_event=1, root="x", note="", public_key="")

    made_after_two_rounds()
    assert not Checkpoint.objects.exclude(pk=bogus.pk).exists()
    assert [body["type"] for _, body in told] == ["owner.log_not_signed"]
    since = Event.objects.earliest("pk").at.isoformat()
    assert told[0][1]["data"]["uncovered_since"] == since

    forge("DELETE FROM ledger_checkpoint")
    made_after_two_rounds()
    assert checkpoints.uncovered_since() is None
    assert len(told) == 1

    forge("UPDATE ledger_checkpoint SET note = ''")
    propose("pay")
    made_after_two_rounds()
    assert len(told) == 2


def made_after_two_rounds() -> None:
    for _ in range(2):
        keeper = Keeper()
        keeper.round()
        keeper.finish()
    deliver_all()
