"""Proof of revisions apart: votes in advance, an erasure, and before a worker begins."""

from __future__ import annotations

import json

import pytest

from ledger import execution
from ledger.events import outbox
from ledger.models import Event, Revision, Transaction
from ledger.proof import retention
from ledger.sign_off import grants
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.forgery import end_retention, forge
from tests.grants.conftest import wanted
from tests.requests.conftest import approve
from tests.rules.test_proof import faults_of_both

pytestmark = pytest.mark.django_db


def test_a_vote_in_advance_is_judged_by_what_it_was_on(activated, helpdesk, edited, alice, bob):
    activated({"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}})
    grants.give(wanted(), by=alice, via="web")
    row = propose("refund", order="o1", amount="48.20")
    assert Event.objects.get(subject=row.pk, kind="approval_recorded").via == "grant"

    edited(row, bob, amount="482.00")

    assert faults_of_both() == ([], [])


def test_former_revisions_are_erased_with_the_rest(refund, edited, alice):
    end_retention(refund.pk)
    row = edited(Transaction.objects.get(pk=refund.pk), amount="48.20")
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")
    execution.roll_back(row.pk)
    while owed := outbox.overdue():
        for delivery in owed:
            outbox.deliver(delivery)
    retention.erase_due()
    assert faults_of_both() == ([], [])

    forge("UPDATE ledger_revision SET content = '{\"arguments\": {}}'")

    ours, theirs = faults_of_both()
    assert any(str(row.pk) in fault for fault in ours), ours
    assert any(str(row.pk) in fault for fault in theirs), theirs


def test_a_worker_does_not_begin_what_was_not_proposed_so(refund, edited, alice, the_world):
    row = approve(edited(refund, amount="48.20"), alice)
    content = {**Revision.objects.get(transaction=row).content, "warnings": ["Mind the step."]}
    forge("UPDATE ledger_revision SET content = %s", json.dumps(content))

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (the_world.effects.total(), "revision 1 is not what" in row.error) == (0, True)
