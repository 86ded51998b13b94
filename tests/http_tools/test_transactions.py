"""A tool that runs elsewhere: prepared, signed off, carried out over HTTP, with its receipt."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime

import pytest
from django.conf import settings
from django.db.models.functions import Now

from ledger import execution
from ledger.errors import InvalidArguments, InvalidRequest, PlanFailed, PlanRefused, UnknownTool
from ledger.events import brakes
from ledger.models import ToolVersion, Transaction
from ledger.proof.audit import verification
from ledger.proof.log import checkpoints
from ledger.seals import intents
from ledger.tools import catalogue
from ledger.tools.catalogue import tool_of
from ledger.transactions import coordinator
from ledger.workers.sweeper import Sweeper
from tests.conftest import propose
from tests.forgery import forge
from tests.http_tools.conftest import OPERATOR
from tests.processes import until

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = {"plan": {"summary": "Refund 48.20 EUR for invoice 7", "amount": "48.20", "currency": "EUR"}}
CONFLICT = {"type": "conflict", "detail": "It was refunded before."}
NOTHING = {"type": "https://billing.example/problems/nothing-happened", "detail": "Closed."}


def proposed(**arguments):
    return propose("refund_invoice", **({"invoice": "7", "amount": 48.2} | arguments))


@pytest.fixture
def unused_port():
    with socket.socket() as bound:  # bound, and nobody listens: refused
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def signed_off(service, registered, alice):
    def make(**arguments):
        service.answers.setdefault("plan", (200, PLAN))
        row = proposed(**arguments)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        return row

    return make


def committed(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def test_what_was_signed_is_carried_out_once_and_brings_its_receipt(
    service, registered, signed_off
):
    registered()
    service.answers["commit"] = (
        200,
        {"receipt": {"id": "re_7", "receipt_url": "https://b.example/7"}},
    )

    row = committed(signed_off())

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert row.receipt_url == "https://b.example/7"
    assert row.action_summary == PLAN["plan"]["summary"]
    assert service.verbs() == ["plan", "commit"]
    asked = service.asked[-1]
    assert asked.body["operation_key"] == row.operation_key == "refund_invoice:acme:7"
    assert asked.body["arguments"] == {"invoice": "7", "amount": 48.2}
    assert asked.body["tenant"] == "acme"
    assert asked.body["fencing"] == 1
    lease = datetime.fromisoformat(asked.body["lease_until"]) - datetime.now(UTC)
    assert 0 < lease.total_seconds() <= settings.LEASE_S
    assert service.asked[0].body["lease_until"] is None  # nobody has a lease while it is planned
    assert asked.headers["Idempotency-Key"] == '"refund_invoice:acme:7:commit"'
    assert len({one.nonce for one in service.asked}) == 2


def test_members_that_were_not_sent_are_not_sent_on(service, registered, signed_off):
    registered()
    service.answers["commit"] = (200, {"receipt": {"id": "re_7"}})

    committed(signed_off())

    assert "note" not in service.asked[-1].body["arguments"]


def test_arguments_that_do_not_fit_the_schema_are_refused_by_name(service, registered):
    registered()

    with pytest.raises(InvalidArguments) as refusal:
        proposed(amount=-1, extra="?")

    assert {error["field"] for error in refusal.value.extra["errors"]} == {"amount", "arguments"}
    assert service.asked == []


def test_the_version_is_part_of_what_is_signed(service, registered, signed_off):
    first = registered()
    row = signed_off()
    assert intents.intent_of(row)["tool_version"] == first.sha256

    registered(description="Refunds an invoice, and tells the customer.")

    assert tool_of(row).version == first.sha256
    service.answers["commit"] = (200, {"receipt": {"id": "re_7"}})
    assert committed(row).state == "committed"
    assert service.asked[-1].body["version"] == first.sha256


def test_a_version_that_was_changed_in_the_database_is_not_carried_out(
    service, registered, signed_off
):
    registered()
    row = signed_off()
    kept = ToolVersion.objects.get(name="refund_invoice")
    kept.manifest["address"] = "http://127.0.0.1:1"
    kept.save()
    catalogue._kept.cache_clear()

    committed(row)

    assert row.state == "in_doubt"
    assert "commit" not in service.verbs()


def test_the_log_tells_when_the_version_of_a_transaction_was_changed(
    service, registered, signed_off
):
    registered()
    service.answers["commit"] = (200, {"receipt": {"id": "re_7"}})
    row = committed(signed_off())
    other = registered(description="Refunds twice.")
    checkpoints.make()
    verification.verify()

    forge("UPDATE ledger_transaction SET tool_version = %s WHERE id = %s", other.sha256, row.pk)

    with pytest.raises(verification.Broken, match=str(row.pk)):
        verification.verify()


def test_the_tool_of_another_tenant_does_not_exist(service, registered, globex):
    registered()

    with pytest.raises(UnknownTool):
        propose("refund_invoice", tenant="globex", invoice="7", amount=1)


# --- the table of answers ------------------------------------------------------------------------

RECEIPT = {"receipt": {"id": "re_7"}}
COMMITS = {
    "done": ((200, RECEIPT), "committed"),
    "done without a receipt": ((200, {}), "in_doubt"),
    "done with a receipt that is a list": ((200, {"receipt": ["re_7"]}), "in_doubt"),
    "done with an empty receipt": ((200, {"receipt": {"id": ""}}), "in_doubt"),
    "conflict": ((409, CONFLICT), "aborted or failed"),
    "a 409 of something else": ((409, {"detail": "?"}), "in_doubt"),
    "nothing happened": ((422, NOTHING), "aborted or failed"),
    "a 422 of something else": ((422, {"detail": "?"}), "in_doubt"),
    "not authorized, and says that nothing happened": ((401, NOTHING), "aborted or failed"),
    "busy, and says that nothing happened": ((503, NOTHING), "aborted or failed"),
    "busy, and says nothing": ((503, {}), "in_doubt"),
    "not authorized, and says nothing": ((403, {}), "in_doubt"),
    "moved": ((307, {}, {"Location": "/elsewhere"}), "in_doubt"),
    "not found": ((404, {}), "in_doubt"),
    "failed": ((500, {}), "in_doubt"),
    "created": ((201, RECEIPT), "in_doubt"),
    "no JSON": ((200, b"<html>"), "in_doubt"),
    "a list": ((200, b"[1]"), "in_doubt"),
    "deep JSON": ((200, b"[" * 100_000), "in_doubt"),
    "too large": (
        (200, b'{"receipt": {"id": "re_7", "x": "' + b"x" * 300_000 + b'"}}'),
        "in_doubt",
    ),
    "compressed": ((200, b"\x1f\x8b", {"Content-Encoding": "gzip"}), "in_doubt"),
}


@pytest.mark.parametrize("answer", COMMITS)
def test_each_answer_to_a_commit_proves_what_the_table_says(
    answer, service, registered, signed_off
):
    registered(routes=["plan"])
    service.answers["commit"], expected = COMMITS[answer]

    row = committed(signed_off())

    if expected == "aborted or failed":
        assert row.state in {"rolling_back", "failed", "aborted"}
        assert row.ending == "failed"
    else:
        assert row.state == expected
    assert service.verbs().count("commit") == 1


def test_a_service_that_closes_the_connection_leaves_the_outcome_unknown(
    service, registered, signed_off
):
    registered(routes=["plan"])
    service.answers["commit"] = lambda handler: handler.connection.close()

    assert committed(signed_off()).state == "in_doubt"


def test_a_service_that_is_not_there_had_no_effect(service, registered, signed_off, unused_port):
    registered(routes=[], address=f"http://127.0.0.1:{unused_port}")

    row = committed(signed_off())

    assert (row.state, row.ending) == ("rolling_back", "failed")
    assert "Nothing was sent" in row.error


def test_a_silent_service_leaves_the_outcome_unknown(service, registered, signed_off):
    registered(routes=["plan"], contract={"timeout_s": 0.3})
    over = threading.Event()
    row = signed_off()
    service.answers["commit"] = lambda handler: over.wait(20) and None

    assert committed(row).state == "in_doubt"
    over.set()


def asked_again(row):
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=Now())
    return committed(row)


def test_what_was_accepted_is_asked_for_until_it_is_done(service, registered, signed_off):
    registered()
    service.answers["commit"] = (202, {}, {"Retry-After": "0"})
    lookups = iter([(202, {}), (404, {}), (200, RECEIPT)])
    service.answers["operations"] = lambda handler: next(lookups)

    row = committed(signed_off())
    for _ in range(2):
        assert asked_again(row).state == "committing"
    asked_again(row)

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert service.verbs() == ["plan", "commit", "operations", "operations", "operations"]
    assert service.asked[-1].path == "/operations/refund_invoice%3Aacme%3A7"


def test_nothing_is_held_for_what_was_accepted_and_its_page_says_so(
    service, registered, signed_off, as_alice
):
    registered()
    service.answers["commit"] = (202, {}, {"Retry-After": "20"})

    row = committed(signed_off())
    Sweeper().settle()
    row.refresh_from_db()

    assert (row.state, row.lease_expires_at) == ("committing", None)
    assert not Transaction.objects.accepted_due().exists()
    committed(row)  # too early
    assert service.verbs() == ["plan", "commit"]
    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    assert "has accepted it, and is asked until it is done" in page


def test_what_was_accepted_and_is_not_done_in_time_is_in_doubt(service, registered, signed_off):
    registered(contract={"timeout_s": 1.5})
    service.answers["commit"] = service.answers["operations"] = (202, {}, {"Retry-After": "20"})
    row = committed(signed_off())
    assert asked_again(row).state == "committing"

    until(lambda: asked_again(row).state == "in_doubt")

    assert "did not do it in time" in row.error


@pytest.mark.parametrize(
    ("answer", "state"),
    [((422, NOTHING), "rolling_back"), ((500, {}), "committing"), ((404, {}), "committing")],
)
def test_an_answer_about_what_was_accepted(answer, state, service, registered, signed_off):
    registered()
    service.answers["commit"] = (202, {}, {"Retry-After": "0"})
    row = committed(signed_off())
    service.answers["operations"] = answer

    assert asked_again(row).state == state


def test_what_is_still_being_done_is_not_run_again(service, registered, signed_off):
    registered(contract={"retry_safe": True})
    service.answers["commit"] = (500, {})
    row = committed(signed_off())
    service.answers["operations"] = (202, {}, {"Retry-After": "0"})

    assert asked_again(row).state == "in_doubt"
    assert service.verbs() == ["plan", "commit", "operations"]


def test_what_was_accepted_and_cannot_be_asked_for_is_in_doubt_when_its_time_is_over(
    service, registered, signed_off
):
    registered(contract={"timeout_s": 1.5})

    def accepts_and_stops(handler):
        handler.server.shutdown()
        handler.server.server_close()
        return 202, {}, {"Retry-After": "0", "Connection": "close"}

    service.answers["commit"] = accepts_and_stops
    row = committed(signed_off())
    assert row.state == "committing"

    until(lambda: asked_again(row).state == "in_doubt")


FOUND = {
    "the receipt": ((200, RECEIPT), True, "committed"),
    "nothing happened": ((422, NOTHING), False, "failed"),
    "unknown, and its records are complete": ((404, {}), True, "failed"),
    "unknown, and its records are not complete": ((404, {}), False, "in_doubt"),
    "not now": ((503, NOTHING), True, "in_doubt"),
    "still at work": ((202, {}), True, "in_doubt"),
    "no receipt": ((200, {}), True, "in_doubt"),
}


@pytest.mark.parametrize("answer", FOUND)
def test_an_execution_in_doubt_is_looked_up(answer, service, registered, signed_off):
    found, is_complete, expected = FOUND[answer]
    registered(receipts_are_complete=is_complete, routes=["plan", "find_receipt"])
    service.answers["commit"] = (500, {})
    row = signed_off()
    assert committed(row).state == "in_doubt"

    service.answers["operations"] = found
    committed(row)

    assert row.state == expected or (expected == "failed" and row.ending == "failed")


# --- plan, roll back, compensate ---------------------------------------------------------------

PLANS = {
    "a refusal": ((422, NOTHING), PlanRefused),
    "a conflict": ((409, CONFLICT), PlanRefused),
    "a summary that runs backwards": (
        (200, {"plan": {"summary": "pay \u202eyap"}}),
        (PlanFailed, PlanRefused, InvalidRequest),
    ),
    "no summary": ((200, {"plan": {}}), PlanFailed),
    "a list": ((200, {"plan": []}), PlanFailed),
    "warnings that are no list": ((200, {"plan": {"summary": "x", "warnings": "w"}}), PlanFailed),
    "an amount that is none": ((200, {"plan": {"summary": "x", "amount": "much"}}), PlanFailed),
    "a time without a zone": (
        (200, {"plan": {"summary": "x", "hold_expires_at": "2026-01-01T00:00:00"}}),
        PlanFailed,
    ),
    "a failure": ((500, {}), PlanFailed),
}


@pytest.mark.parametrize("answer", PLANS)
def test_a_plan_that_cannot_be_shown_prepares_nothing(answer, service, registered):
    registered()
    service.answers["plan"], error = PLANS[answer]

    with pytest.raises(error):
        proposed()


def test_a_rejection_rolls_back_what_the_plan_held(service, registered, alice):
    registered()
    held = {"plan": {**PLAN["plan"], "held": {"hold": "h1"}}}
    service.answers |= {"plan": (200, held), "rollback": (200, {})}
    row = proposed()
    coordinator.reject(row.pk, digest=row.intent_digest, by=alice, via="web", reason="No.")

    execution.roll_back(row.pk)

    row.refresh_from_db()
    assert row.state == "aborted"
    assert service.asked[-1].body["held"] == {"hold": "h1"}


def test_a_compensation_tells_what_is_made_good(service, registered, signed_off, alice):
    registered(contract={"consequence_level": "COMPENSABLE"})
    service.answers |= {"commit": (200, RECEIPT), "compensate": (200, {"receipt": {"id": "un_7"}})}
    row = committed(signed_off())
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")

    execution.compensate(row.pk)

    row.refresh_from_db()
    assert (row.state, row.compensation_receipt) == ("compensated", "un_7")
    assert service.asked[-1].body["receipt"] == {"id": "re_7"}


def test_nothing_is_made_good_by_a_tool_that_is_held(service, registered, signed_off, alice):
    registered(contract={"consequence_level": "COMPENSABLE"})
    service.answers |= {"commit": (200, RECEIPT), "compensate": (200, {"receipt": {"id": "un_7"}})}
    row = committed(signed_off())
    coordinator.compensate(row.pk, by=alice, via="web", reason="Wrong customer.")
    brakes.hold("acme", "refund_invoice", "It changed.", by=OPERATOR, via="command")

    execution.compensate(row.pk)

    row.refresh_from_db()
    assert row.state == "compensating"
    assert "compensate" not in service.verbs()

    brakes.end_hold("acme", "refund_invoice", by=OPERATOR, via="command")
    Transaction.objects.filter(pk=row.pk).update(next_attempt_at=None)
    execution.compensate(row.pk)

    row.refresh_from_db()
    assert row.state == "compensated"


# --- over REST -----------------------------------------------------------------------------------


def test_agents_find_it_in_the_catalogue_and_propose_it(service, registered, as_helpdesk):
    registered()
    service.answers["plan"] = (200, PLAN)

    tool = as_helpdesk.get("/tools/refund_invoice").json()
    assert tool["input_schema"]["required"] == ["invoice", "amount"]
    assert "refund_invoice" in [one["name"] for one in as_helpdesk.get("/tools").json()]
    answer = as_helpdesk.propose("refund_invoice", arguments={"invoice": "8", "amount": 1})

    assert answer.status_code == 201, answer.json()
    assert answer.json()["action_summary"] == PLAN["plan"]["summary"]
