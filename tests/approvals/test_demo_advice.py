"""The first step that the demo's terminal names, and what its log leaves out."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from django.utils import timezone

from approvals.local.management.commands.demo import first_step
from ledger.models import Transaction
from ledger.transactions import coordinator

pytestmark = pytest.mark.django_db


def test_the_demo_names_a_request_that_waits(alice_user, alice, a_payment):
    assert "Ana Ruiz" in first_step()

    done, soon, next_one = a_payment(), a_payment(), a_payment()
    coordinator.reject(done.pk, digest=done.intent_digest, by=alice, via="web", reason="No.")
    expires_at = timezone.now() + timedelta(seconds=30)
    Transaction.objects.filter(pk=soon.pk).update(expires_at=expires_at)

    assert first_step() == f"Then decide this: {next_one.headline}"

    Transaction.objects.update(expires_at=expires_at)
    assert "what comes next" in first_step()


def test_who_asks_for_what_is_not_theirs_fills_no_log(as_alice, caplog):
    with caplog.at_level(logging.WARNING, logger=""):
        assert as_alice.get("/people/").status_code == 403
        assert as_alice.get("/nowhere/").status_code == 404

    assert caplog.records == []
