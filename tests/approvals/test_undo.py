"""The desk offers to undo an approval for some seconds; by other ways it is carried out at once."""

from __future__ import annotations

import re
import time
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from approvals.desk import decisions
from approvals.desk.operations import charts
from ledger import execution
from ledger.models import Decision, Event, Tenant, Transaction, UsageDay, UsageDecider
from ledger.principals import Surface
from ledger.reporting.usage import counting
from ledger.states import State
from tests.conftest import Maker

FRAGMENT = {"HX-Request": "true"}
UNDO = "data-undo-until"
WITHDRAWN = "You withdrew your approval. Nothing was carried out."


@pytest.fixture
def acme(acme: Tenant) -> Tenant:
    acme.undo_seconds = 30
    acme.save(update_fields=["undo_seconds"])
    return acme


def post(client: Client, row: Transaction, verb: str, **fields: str):
    fields |= {"digest": row.intent_digest} if verb == "approve" else {}
    return client.post(f"/transactions/{row.pk}/{verb}", fields, headers=FRAGMENT)


def page(client: Client, row: Transaction) -> str:
    """Without the words that scripts write."""
    text = client.get(f"/transactions/{row.pk}/").content.decode()
    return text.partition('<script id="words"')[0]


def now(row: Transaction) -> Transaction:
    return Transaction.objects.get(pk=row.pk)


def test_an_approval_can_be_undone_on_the_item(as_alice, a_payment: Maker):
    row = a_payment()

    answer = post(as_alice, row, "approve").content.decode()
    assert "It begins in a few seconds" in answer
    until = re.search(rf'{UNDO}="([^"]+)"', answer)[1]
    assert timedelta(seconds=25) < timezone.datetime.fromisoformat(until) - timezone.now()
    undone = post(as_alice, row, "undo")

    assert undone.status_code == 200
    assert WITHDRAWN in undone.content.decode()
    assert UNDO not in undone.content.decode()
    assert "Waiting for you" in undone.content.decode()
    assert now(row).state == State.PREPARED
    assert "Approval withdrawn" in page(as_alice, row)


def test_it_can_be_approved_again_and_is_then_history(as_alice, a_payment):
    row = a_payment()
    for verb in ("approve", "undo", "approve"):
        assert post(as_alice, row, verb).status_code == 200

    assert now(row).state == State.APPROVED
    assert WITHDRAWN not in page(as_alice, row)
    assert [vote.is_withdrawn for vote in Decision.with_withdrawn.order_by("pk")] == [True, False]


def test_a_page_without_scripts_has_the_form_too(as_alice, a_payment):
    row = a_payment()
    as_alice.post(f"/transactions/{row.pk}/approve", {"digest": row.intent_digest})
    assert f'action="/transactions/{row.pk}/undo"' in page(as_alice, row)

    answer = as_alice.post(f"/transactions/{row.pk}/undo")

    assert (answer.status_code, answer["Location"]) == (302, f"/transactions/{row.pk}/")
    assert WITHDRAWN in page(as_alice, row)


def test_others_see_that_it_begins_soon_and_cannot_undo_it(as_alice, as_bob, a_payment):
    row = a_payment()
    post(as_alice, row, "approve")

    seen = page(as_bob, row)
    assert "It begins in a few seconds" in seen
    assert UNDO not in seen
    assert post(as_bob, row, "undo").status_code == 403
    assert now(row).state == State.APPROVED

    post(as_alice, row, "undo")
    assert "<bdi>Alice Moreau</bdi> withdrew the approval" in page(as_bob, row)


def test_who_comes_too_late_is_told_in_words(as_alice, acme, a_payment):
    acme.undo_seconds = 1
    acme.save()
    row = a_payment()
    post(as_alice, row, "approve")
    time.sleep(1.1)
    assert UNDO not in page(as_alice, row)

    late = post(as_alice, row, "undo")
    assert late.status_code == 409
    assert "The time to undo it is over. Nothing was undone." in late.content.decode()

    execution.commit(row.pk)
    late = post(as_alice, row, "undo")
    assert late.status_code == 409
    assert "It had begun already. Nothing was undone." in late.content.decode()
    assert now(row).state == State.COMMITTED


def test_what_cannot_be_undone_is_not_offered(as_alice, a_transaction):
    row = a_transaction("launch", rocket="Vega")

    answer = post(as_alice, row, "approve", typed="Vega").content.decode()

    assert UNDO not in answer
    assert now(row).next_attempt_at is None


def test_a_tenant_may_do_without(as_alice, acme, a_payment):
    acme.undo_seconds = 0
    acme.save()
    row = a_payment()

    assert UNDO not in post(as_alice, row, "approve").content.decode()
    assert now(row).next_attempt_at is None


def test_an_approval_from_slack_is_carried_out_at_once(alice_user, a_payment):
    row = a_payment()

    decisions.approve(alice_user, row.pk, digest=row.intent_digest, via=Surface.SLACK)

    assert "undo_seconds" not in Event.objects.get(subject=row.pk, kind="approved").details
    assert execution.claim(row.pk) is not None


def test_an_approval_over_rest_is_carried_out_at_once(
    acme, supervisor, agent_client, a_transaction
):
    row = a_transaction("order", item="chair")

    boss = agent_client(supervisor, ("decide", "read_all"))
    answer = boss.post(f"/transactions/{row.pk}/approve", {"intent_digest": row.intent_digest})

    assert answer.status_code == 200
    assert execution.claim(row.pk) is not None


def test_another_tenants_approval_is_not_found(as_alice, as_carol, a_payment):
    row = a_payment()
    post(as_alice, row, "approve")

    assert post(as_carol, row, "undo").status_code == 404


def test_an_agent_reads_approved_and_then_prepared(as_alice, as_helpdesk):
    token = as_helpdesk.propose().json()
    row = Transaction.objects.get(pk=token["transaction_id"])

    def status() -> str:
        answer = as_helpdesk.get(f"/transactions/{row.pk}").json()
        assert answer["outcome"]["kind"] == "pending"
        return str(answer["status"])

    post(as_alice, row, "approve")
    approved = status()
    post(as_alice, row, "undo")

    assert (approved, status()) == ("approved", "prepared")


def test_a_withdrawn_approval_is_counted_nowhere(as_alice, acme, a_payment):
    acme.undo_seconds = 1
    acme.save()
    row, other = a_payment(), a_payment()
    post(as_alice, row, "approve")
    post(as_alice, other, "approve")
    counting.count_batch()
    assert not UsageDecider.objects.exists()  # both may still be withdrawn

    post(as_alice, row, "undo")
    time.sleep(1.1)
    counting.count_batch()
    approvals = UsageDay.objects.filter(kind="approved").values_list("number", flat=True)
    counted = list(approvals)
    counting.rebuild_usage()

    assert counted == list(approvals) == [1]
    assert UsageDecider.objects.get(kind="approved").number == 1
    assert charts.stacked(charts.decisions_by_hour(frozenset({"acme"}))).totals["approved"] == 1
