"""Webhooks to agents, to a real receiver on loopback that checks the signature."""

from __future__ import annotations

import socket

import pytest
from django.db.models.functions import Now

from ledger.events import outbox
from ledger.foundation.http_out import safe_http
from ledger.models import Delivery
from ledger.transactions import coordinator
from tests.ledger.webhook_receiver import SECRET


@pytest.fixture
def listening(helpdesk, receiver, settings):
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
    helpdesk.webhook_url, helpdesk.webhook_secret = receiver.url, SECRET
    helpdesk.save()
    return receiver


def deliver_all() -> None:
    while due := outbox.overdue():
        for delivery_id in due:
            outbox.deliver(delivery_id)


def test_the_agent_is_told_of_a_rejection_and_its_reason(listening, a_payment, alice):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="Too much.")

    deliver_all()

    ((_, news),) = listening.taken
    assert news["type"] == "transaction.rolling_back"
    assert news["data"]["ending_reason"] == "Too much."
    outcome = news["data"]["outcome"]
    assert (outcome["kind"], outcome["is_final"], outcome["do_not_retry"]) == (
        "refused",
        True,
        True,
    )


def test_a_receiver_that_fails_is_told_again_later_with_the_same_id(listening, a_payment, alice):
    listening.statuses = [500]
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    deliver_all()
    waiting = Delivery.objects.get(state="waiting")
    assert (waiting.attempts, waiting.error) == (1, "NotAccepted: The receiver answered 500.")

    Delivery.objects.filter(pk=waiting.pk).update(next_attempt_at=Now())
    deliver_all()

    assert [message_id for message_id, _ in listening.taken] == [f"msg_{waiting.pk}"]
    assert not Delivery.objects.exclude(state="done").exists()


def test_an_event_is_addressed_and_sent_once_however_often_the_job_runs(
    listening, a_payment, alice
):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    for delivery_id in list(Delivery.objects.values_list("pk", flat=True)) * 3:
        outbox.deliver(delivery_id)
    deliver_all()
    for delivery_id in Delivery.objects.values_list("pk", flat=True):
        outbox.deliver(delivery_id)

    assert len(listening.taken) == 1


def test_without_a_webhook_nothing_is_owed(a_payment, alice):
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    assert not Delivery.objects.exists()


def test_a_redirect_is_not_followed(listening, a_payment, alice):
    listening.statuses, listening.redirect_to = [302], "http://169.254.169.254/latest/meta-data"
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    deliver_all()

    assert "answered 302" in Delivery.objects.get(state="waiting").error


def test_a_silent_receiver_costs_a_timeout_and_nothing_else(
    helpdesk, settings, a_payment, alice, monkeypatch
):
    monkeypatch.setattr(safe_http, "DELIVERY_TIMEOUT_S", 0.3)
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        helpdesk.webhook_url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        helpdesk.webhook_secret = SECRET
        helpdesk.save()
        row = a_payment()
        row = coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

        deliver_all()

    assert row.state == "approved"
    assert "did not answer within 0.3 s" in Delivery.objects.get(state="waiting").error


def test_without_a_secret_nothing_is_sent(listening, helpdesk, a_payment, alice):
    helpdesk.webhook_secret = ""
    helpdesk.save()
    row = a_payment()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    deliver_all()

    assert "SecretMissing" in Delivery.objects.get(state="waiting").error
    assert listening.taken == []
