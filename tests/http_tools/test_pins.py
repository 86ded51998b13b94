"""What owners publish is pinned; a change holds the tool until an operator has looked at it."""

from __future__ import annotations

import copy
import importlib
from contextlib import suppress
from threading import Barrier, Thread
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, connections
from django.db.models.functions import Now

from approvals import metrics
from approvals.desk import decisions
from approvals.desk.strength import confirmation_word
from ledger import execution
from ledger.errors import LedgerError, NotPossible, Paused
from ledger.events import brakes
from ledger.models import Brake, Event, RegisteredTool, Transaction, Watched
from ledger.principals import Principal, Surface
from ledger.proof.audit import verification
from ledger.proof.audit.stops import Stops
from ledger.proof.log import checkpoints
from ledger.states import State
from ledger.tools import pinned_contracts, watched
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.conftest import propose
from tests.http_tools.conftest import OPERATOR, manifest
from tests.http_tools.test_tool_admin import operator

pytestmark = pytest.mark.django_db
BY: dict[str, Any] = {"by": OPERATOR, "via": Surface.COMMAND}
ALICE = Principal("user", "4711", "Alice")
CONTRACT: dict[str, Any] = {
    "name": "refund_invoice",
    "version": "2026-11-01",
    "json_schema": manifest("")["arguments"],
    "promises": {"reversible": True, "idempotent": True, "receipt_lookup": True, "plan": False},
    "description": "Refunds an invoice.",
}


def with_promise(**promises: bool) -> dict[str, Any]:
    return {**copy.deepcopy(CONTRACT), "promises": {**CONTRACT["promises"], **promises}}


@pytest.fixture
def tool(service, registered):
    """A tool whose owner publishes a contract, which is pinned."""
    service.answers["contract"] = (200, CONTRACT, {})
    registered(routes=[])
    row = RegisteredTool.objects.select_related("tenant").get()
    pinned_contracts.pin_contract(row, pinned_contracts.read_contract(row), **BY)
    return row


def read_again() -> RegisteredTool:
    """As the sweeper does in time."""
    Watched.objects.update(read_again_at=Now())
    (pk,) = watched.due()
    watched.read_again(pk)
    return RegisteredTool.objects.select_related("tenant", "watched").get()


def proposed(invoice: str = "1") -> Transaction:
    return propose("refund_invoice", invoice=invoice, amount=1)


def approve(row: Transaction, **how: Any) -> Transaction:
    return coordinator.approve(
        row.pk, digest=row.intent_digest, **{"by": ALICE, "via": Surface.WEB, **how}
    )


def test_what_is_published_as_it_was_pinned_holds_nothing(tool, service):
    row = read_again()

    assert (row.is_held, row.watched.error) == (False, "")
    assert row.watched.read_at is not None
    assert watched.due() == []
    assert service.verbs() == ["contract", "contract"]
    assert approve(proposed()).state == State.APPROVED


def test_a_change_holds_the_tool_until_an_operator_has_accepted_it(tool, service):
    pending = proposed()
    service.answers["contract"] = (200, with_promise(idempotent=False), {})
    row = read_again()

    with pytest.raises(Paused, match=r"refund_invoice is held\. What its owner publishes"):
        proposed("2")
    with pytest.raises(Paused):
        approve(pending)
    assert Transaction.objects.get().state == State.PREPARED
    held = Event.objects.get(kind="brake_put")
    assert (held.principal, held.via) == ("system:pins", "system")

    pinned_contracts.accept_contract(row, sha256=_sha256(with_promise(idempotent=False)), **BY)

    assert approve(pending).state == State.APPROVED
    assert proposed("2").state == State.PREPARED
    assert Event.objects.get(kind="brake_lifted").principal_name == "olga on the server"


def _sha256(contract: dict[str, Any]) -> str:
    from ledger.tools.http import published

    return published.digest_of(contract)


def test_what_is_held_can_be_rejected(tool, service):
    pending = proposed()
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()

    row = coordinator.reject(
        pending.pk, digest=pending.intent_digest, by=ALICE, via=Surface.WEB, reason="No."
    )

    assert row.state == State.ROLLING_BACK


@pytest.mark.django_db(transaction=True)
def test_what_was_signed_off_before_the_hold_waits_until_the_change_is_accepted(tool, service):
    signed_off = approve(proposed())
    changed = with_promise(idempotent=False)
    service.answers |= {
        "contract": (200, changed, {}),
        "commit": (200, {"receipt": {"id": "re_7"}}, {}),
    }
    row = read_again()

    execution.commit(signed_off.pk)
    signed_off.refresh_from_db()
    assert signed_off.state == State.APPROVED
    assert "commit" not in service.verbs()

    pinned_contracts.accept_contract(row, sha256=_sha256(changed), **BY)
    execution.commit(signed_off.pk)
    signed_off.refresh_from_db()
    assert (signed_off.state, signed_off.receipt) == (State.COMMITTED, "re_7")


@pytest.mark.django_db(transaction=True)
def test_what_was_sent_before_the_hold_is_still_looked_up(service, registered):
    service.answers["contract"] = (200, CONTRACT, {})
    registered(routes=["find_receipt"])
    row = RegisteredTool.objects.select_related("tenant").get()
    pinned_contracts.pin_contract(row, pinned_contracts.read_contract(row), **BY)
    sent = approve(proposed())
    service.answers["commit"] = (500, {}, {})
    execution.commit(sent.pk)
    service.answers["contract"] = (200, with_promise(idempotent=False), {})
    read_again()
    service.answers["operations"] = (200, {"receipt": {"id": "re_7"}}, {})

    execution.commit(sent.pk)
    sent.refresh_from_db()

    assert (sent.state, sent.receipt) == ("committed", "re_7")
    assert service.verbs().count("commit") == 1


def test_a_repeat_of_an_earlier_request_still_gets_its_answer(tool, service, as_helpdesk):
    asked = {"tool": "refund_invoice", "arguments": {"invoice": "1", "amount": 1}}
    first = as_helpdesk.propose(key="key-1", **asked)
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()

    again = as_helpdesk.propose(key="key-1", **asked)
    other = as_helpdesk.propose(tool="refund_invoice", arguments={"invoice": "2", "amount": 1})

    assert first.status_code == 201
    assert again.json()["transaction_id"] == first.json()["transaction_id"]
    assert other.status_code == 409
    assert other.json()["code"] == "paused"
    assert "is held" in other.json()["detail"]


def test_a_policy_does_not_approve_what_is_held(service, registered):
    service.answers["contract"] = (200, CONTRACT, {})
    registered(
        routes=["compensate"],
        contract={
            "risk_level": "LOW",
            "required_approver": "NONE",
            "consequence_level": "COMPENSABLE",
        },
    )
    row = RegisteredTool.objects.select_related("tenant").get()
    pinned_contracts.pin_contract(row, pinned_contracts.read_contract(row), **BY)
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()

    with pytest.raises(Paused):
        proposed()
    sweeper.sign_off_by_policy()

    assert not Transaction.objects.exists()


def test_once_held_it_stays_held_when_the_owner_changes_it_back(tool, service):
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()
    service.answers["contract"] = (200, CONTRACT, {})

    row = read_again()

    assert row.is_held
    assert Event.objects.filter(kind="brake_put").count() == 1
    pinned_contracts.accept_contract(row, sha256=_sha256(CONTRACT), **BY)
    assert not RegisteredTool.objects.get().is_held


def test_only_what_was_seen_is_accepted_also_if_it_changes_at_every_read(tool, service):
    versions = iter(range(100))
    service.answers["contract"] = lambda _: (200, {**CONTRACT, "version": str(next(versions))}, {})
    first = read_again()
    seen = _sha256(first.watched.seen)
    second = read_again()

    with pytest.raises(pinned_contracts.NotPinned, match="changed again"):
        pinned_contracts.accept_contract(second, sha256=seen, **BY)
    assert RegisteredTool.objects.get().is_held
    pinned_contracts.accept_contract(second, sha256=_sha256(second.watched.seen), **BY)
    assert read_again().is_held


STRANGE = {
    "another name": {**CONTRACT, "name": "pay"},
    "unknown members": {**CONTRACT, "approved": True},
    "text instead of promises": {**CONTRACT, "promises": "all"},
    "a schema from elsewhere": {**CONTRACT, "json_schema": {"$ref": "https://x.example"}},
    "text that runs backwards": {**CONTRACT, "description": "pay \u202eyap"},
    "NUL": {**CONTRACT, "description": "a\x00b"},
    "a number that no double holds": {**CONTRACT, "json_schema": {"maximum": 2**60}},
    "nothing": {},
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_contract_holds_the_tool_and_cannot_be_accepted(what, tool, service):
    service.answers["contract"] = (200, STRANGE[what], {})

    row = read_again()

    assert row.is_held
    with pytest.raises(pinned_contracts.NotPinned):
        pinned_contracts.accept_contract(row, sha256=_sha256(row.watched.seen), **BY)
    assert RegisteredTool.objects.get().is_held


def _drip(handler: Any) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b" " * 65536)


UNREADABLE = {
    "an error": (500, {}, {}),
    "a redirect": (302, {}, {"Location": "https://elsewhere.example"}),
    "a list": (200, [CONTRACT], {}),
    "no JSON": (200, b"<html>", {}),
    "deep JSON": (200, b"[" * 100_000, {}),
    "100 MB": (200, b" " * 100_000_000, {}),
    "an endless stream": _drip,
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cannot_be_read_is_shown_and_holds_nothing(what, tool, service):
    service.answers["contract"] = UNREADABLE[what]

    row = read_again()

    assert row.watched.error
    assert row.watched.failing_since is not None
    assert not row.is_held
    service.answers["contract"] = (200, CONTRACT, {})
    assert read_again().watched.error == ""


def test_operators_are_told_of_a_service_that_is_out_of_reach_until_it_answers(tool, service):
    def failing() -> dict[Any, float]:
        return metrics.gathered()["assent_http_tool_failing"].values

    service.answers["contract"] = (503, {}, {})
    read_again()
    assert failing() == {(("tool", "acme/refund_invoice"),): 1.0}

    service.answers["contract"] = (200, CONTRACT, {})
    read_again()
    assert failing() == {(("tool", "acme/refund_invoice"),): 0.0}


def test_nothing_is_pinned_that_is_no_contract(service, registered):
    registered(routes=[])
    row = RegisteredTool.objects.select_related("tenant").get()
    for answer in (STRANGE["another name"], STRANGE["unknown members"], STRANGE["nothing"]):
        service.answers["contract"] = (200, answer, {})
        with pytest.raises(pinned_contracts.NotPinned):
            pinned_contracts.read_contract(row)

    assert watched.due() == []


# --- people -----------------------------------------------------------------------------------


def test_an_operator_pins_and_releases_in_the_admin_what_they_were_shown(service, registered, acme):
    service.answers["contract"] = (200, CONTRACT, {})
    registered(routes=[])
    row, olga = RegisteredTool.objects.get(), operator("olga2", acme)
    page = f"/tools/{row.pk}/contract/"

    shown = olga.post(page, {"act": "read"})
    service.answers["contract"] = (200, with_promise(plan=True), {})
    olga.post(page, {"act": "pin", "sha256": shown.context["sha256"]})
    assert RegisteredTool.objects.get().watched is None
    service.answers["contract"] = (200, CONTRACT, {})
    olga.post(page, {"act": "pin", "sha256": shown.context["sha256"]})
    assert _sha256(Watched.objects.get().pinned) == shown.context["sha256"]

    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()
    seen = olga.get(page)
    assert "promises.plan" in seen.content.decode()
    olga.post(page, {"act": "accept", "sha256": "0" * 64})
    assert RegisteredTool.objects.get().is_held
    olga.post(page, {"act": "accept", "sha256": seen.context["sha256"]})

    assert not RegisteredTool.objects.get().is_held
    olga.post(page, {"act": "unpin"})
    assert RegisteredTool.objects.get().watched is None
    kinds = Event.objects.filter(principal_name="Olga2").order_by("pk")
    assert [event.kind for event in kinds] == [
        "tool_pinned",
        "tool_pinned",
        "brake_lifted",
        "tool_unpinned",
    ]


def test_the_admin_says_what_of_the_manifest_the_owner_does_not_promise(service, registered, acme):
    contract = with_promise(receipt_lookup=False)
    contract["json_schema"]["properties"].pop("note")
    service.answers["contract"] = (200, contract, {})
    registered(routes=["plan", "find_receipt"])
    page = f"/tools/{RegisteredTool.objects.get().pk}/contract/"

    shown = operator("olga2", acme).post(page, {"act": "read"})

    assert shown.context["not_promised"] == ["plan", "receipt_lookup"]
    assert shown.context["other_arguments"] == ["properties.note"]
    assert "relies on <code>plan</code>, which it does not promise" in shown.content.decode()


def test_the_desk_says_that_the_tool_is_held_and_offers_to_reject(
    tool, service, as_alice, as_olga, alice_user
):
    pending = proposed()
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()

    item = as_alice.get(f"/transactions/{pending.pk}/").content.decode()
    assert "refund_invoice is held. What its owner publishes has changed." in item
    assert "data-approve" not in item
    assert "data-reject" in item
    vote = {"digest": pending.intent_digest, "typed": confirmation_word(pending)}
    answer = as_alice.post(f"/transactions/{pending.pk}/approve", vote)
    assert answer.status_code == 409
    assert "refund_invoice is held" in answer.content.decode()
    with pytest.raises(LedgerError, match="is held"):
        decisions.approve(alice_user, pending.pk, via=Surface.SLACK, **vote)


def test_every_page_shows_a_hold_and_leads_operators_to_what_has_changed(
    tool, service, as_alice, as_olga
):
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()

    for client in (as_alice, as_olga):
        shown = client.get("/").content.decode()
        assert "What its owner publishes has changed." in shown
        assert "Let it go on" not in shown
    assert f'href="/tools/{tool.pk}/"' in as_olga.get("/").content.decode()
    assert f'href="/tools/{tool.pk}/"' not in as_alice.get("/").content.decode()


def test_nobody_lifts_a_hold_without_having_looked(tool, service, as_olga, olga_user):
    service.answers["contract"] = (200, with_promise(plan=True), {})
    read_again()
    hold = Brake.objects.get()

    for is_superuser in (False, True):
        olga_user.is_superuser = is_superuser
        olga_user.save()
        refused = as_olga.post(f"/brakes/{hold.pk}/lift", follow=True)
        assert "accepting it ends it" in refused.content.decode()
    with pytest.raises(NotPossible, match="accepting it ends it"):
        brakes.lift(hold.pk, **BY)

    assert RegisteredTool.objects.get().is_held


def test_a_hold_is_no_brake_that_people_put_and_both_stand(tool, service):
    scope = brakes.Scope("acme", tool="refund_invoice")
    service.answers["contract"] = (200, with_promise(plan=True), {})
    put = brakes.put(scope, "It pays twice.", **BY)
    row = read_again()

    brakes.lift(put.brake.pk, **BY)
    with pytest.raises(Paused, match="is held"):
        proposed()
    brakes.put(scope, "It pays twice.", **BY)
    pinned_contracts.accept_contract(row, sha256=_sha256(row.watched.seen), **BY)

    with pytest.raises(Paused, match="It pays twice"):
        proposed()


@pytest.mark.django_db(transaction=True)
def test_two_who_hold_a_tool_at_once_put_one_brake(tool):
    barrier, put = Barrier(2), []

    def hold() -> None:
        try:
            barrier.wait()
            put.append(brakes.hold("acme", "refund_invoice", "It changed.", **BY))
        finally:
            connections.close_all()

    threads = [Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(put) == [False, True]
    assert Brake.objects.count() == Event.objects.filter(kind="brake_put").count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_tool_that_was_held_by_an_earlier_version_is_under_a_brake_that_verifies(tool):
    with connection.cursor() as cursor:
        cursor.execute("UPDATE ledger_registeredtool SET held = 'It changed, Ümlaut “so”.'")
    migration = importlib.import_module("ledger.migrations.0020_holds")

    with connection.schema_editor() as editor:
        migration.put_brakes(apps, editor)

    with pytest.raises(Paused, match="It changed, Ümlaut"):
        proposed()
    assert [*Stops().faults()] == []
    verification.verify(checkpoints.own_public_keys())
    Brake.objects.update(lifted_at=Now(), lifted_by="user:1")
    assert [*Stops().faults()]
