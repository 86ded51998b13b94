"""The desk: who sees what, who may decide, and what each is told."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import chain

import pytest
from django.urls import reverse

from ledger import execution
from ledger.models import Transaction
from ledger.states import State
from ledger.transactions import coordinator

FRAGMENT = {"HX-Request": "true"}


def post(client, row, action, **data):
    address = reverse(f"desk:transaction-{action}", args=[row.pk])
    return client.post(address, data, headers=FRAGMENT)


def test_what_waits_is_listed_with_who_what_how_much_and_whether_it_can_be_undone(
    as_alice, a_payment
):
    a_payment(reference="order-77")

    page = as_alice.get("/").content.decode()

    for words in ("Pay 48.20 EUR for order-77", "€48.20", "Helpdesk agent", "compensable", "(1)"):
        assert words in page


def test_the_dialog_that_makes_good_says_what_was_done_and_what_happens_now(as_olga, approved):
    # As proposed there is no currency: what the compensation says comes from the plan.
    row = approved("pay", reference="order-77", amount="48.20")
    execution.commit(row.pk)
    row.refresh_from_db()

    page = as_olga.get(f"/transactions/{row.pk}/").content.decode()

    dialog = page.partition(f'<dialog id="compensate-{row.pk}"')[2].partition("</dialog>")[0]
    for words in (
        "Pay 48.20 EUR for order-77",
        "Take €48.20 back for order-77.",
        "Pay",
        row.receipt,
    ):
        assert words in dialog


def test_an_approver_approves_and_sees_it_signed_off(as_alice, a_payment, alice):
    row = a_payment()

    answer = post(as_alice, row, "approve", digest=row.intent_digest)

    assert answer.status_code == 200
    assert "Approved by <bdi>you</bdi>. It waits for a worker" in answer.content.decode()
    assert Transaction.objects.get().decisions.get().principal == str(alice)


def test_the_late_approver_sees_who_was_faster(as_alice, a_payment, bob):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="slack", reason="Paid.")

    answer = post(as_alice, row, "approve", digest=row.intent_digest)

    assert answer.status_code == 409
    assert "Bob Tanaka rejected it 1 s before you." in answer.content.decode()


@pytest.mark.parametrize("who", ["as_vera", "as_olga"])
def test_who_is_no_approver_cannot_decide_and_is_told_who_can(request, alice_user, a_payment, who):
    client, row = request.getfixturevalue(who), a_payment()

    page = client.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    answer = post(client, row, "approve", digest=row.intent_digest)

    assert "One of: Alice Moreau." in page
    assert "disabled" in page
    assert answer.status_code == 403
    assert Transaction.objects.get().state == State.PREPARED


def test_a_superuser_without_a_role_decides_on_nothing(client, admin_user, a_payment):
    row = a_payment()
    client.force_login(admin_user)

    assert post(client, row, "approve", digest=row.intent_digest).status_code == 403


def test_another_tenants_transaction_is_not_found(as_carol, a_payment):
    row = a_payment()

    assert as_carol.get(reverse("desk:transaction", args=[row.pk])).status_code == 404
    assert post(as_carol, row, "approve", digest=row.intent_digest).status_code == 404
    assert str(row.pk) not in as_carol.get("/").content.decode()
    assert str(row.pk) not in as_carol.get(f"/rows?id={row.pk}").content.decode()
    assert str(row.pk) not in as_carol.get("/history/").content.decode()
    assert str(row.pk) not in b"".join(as_carol.get("/history/export.csv")).decode()


def test_what_cannot_be_undone_has_to_be_typed(as_alice, a_transaction):
    row = a_transaction("launch", rocket="Ariane")

    unsaid = post(as_alice, row, "approve", digest=row.intent_digest)
    wrong = post(as_alice, row, "approve", digest=row.intent_digest, typed="Atlas")
    right = post(as_alice, row, "approve", digest=row.intent_digest, typed=" ariane ")

    assert [unsaid.status_code, wrong.status_code, right.status_code] == [422, 422, 200]


def test_a_rejection_without_reason_is_asked_for_one(as_alice, a_payment):
    row = a_payment()

    answer = post(as_alice, row, "reject", digest=row.intent_digest, reason="")

    assert answer.status_code == 422
    assert "Say why: the agent reads it." in answer.content.decode()


def test_a_get_decides_nothing(as_alice, a_payment):
    row = a_payment()

    for action in ("approve", "reject", "resolve", "compensate"):
        address = reverse(f"desk:transaction-{action}", args=[row.pk])
        assert as_alice.get(address).status_code == 405
        assert as_alice.head(address).status_code == 405


def test_a_forged_form_is_refused(alice_user, a_payment):
    from django.test import Client

    client, row = Client(enforce_csrf_checks=True), a_payment()
    client.force_login(alice_user)

    assert post(client, row, "approve", digest=row.intent_digest).status_code == 403


def test_only_operators_settle_what_is_in_doubt_and_two_where_it_is_grave(
    as_alice, as_olga, as_otto, approved, the_world
):
    def cut():
        raise ConnectionError("cut")

    the_world.before = [cut]
    row = approved("launch", rocket="r1")
    execution.commit(row.pk)
    said = {"outcome": "nothing_happened", "reason": "I looked."}

    refused = post(as_alice, row, "resolve", **said)
    page = as_olga.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    proposed = post(as_olga, row, "resolve", **said)
    assert Transaction.objects.get().state == State.IN_DOUBT
    seen = as_otto.get(reverse("desk:transaction", args=[row.pk])).content.decode()
    accepted = post(as_otto, row, "resolve", **said)

    assert refused.status_code == 403
    assert "Nobody knows yet whether it happened" in page
    assert proposed.status_code == accepted.status_code == 200
    assert "<bdi>Olga Novak</bdi> proposes: nothing happened" in seen
    assert Transaction.objects.get().state == State.ROLLING_BACK


def test_in_doubt_is_at_the_top(as_olga, a_payment, approved, the_world):
    def cut():
        raise ConnectionError("cut")

    a_payment(reference="waits")
    the_world.before = [cut]
    execution.commit(approved("launch", rocket="r1").pk)

    page = as_olga.get("/").content.decode()

    assert page.index("Launch: rocket r1") < page.index("for waits")


def test_search_and_filters_live_in_the_url(as_alice, a_payment, a_transaction):
    a_payment(reference="needle")
    a_transaction("launch", rocket="r1")

    assert "r1" not in as_alice.get("/?q=needle", headers=FRAGMENT).content.decode()
    assert "needle" not in as_alice.get("/?tool=launch", headers=FRAGMENT).content.decode()
    assert "needle" not in as_alice.get("/?risk=CRITICAL", headers=FRAGMENT).content.decode()
    nothing = as_alice.get("/?q=nothing-like-it", headers=FRAGMENT).content.decode()
    assert "Nothing matches." in nothing


def test_text_of_an_agent_is_escaped(as_alice, a_payment):
    row = a_payment(reference="<script>alert(1)</script>")

    for address in ("/", reverse("desk:transaction", args=[row.pk]), "/history/?state=any"):
        page = as_alice.get(address).content.decode()
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


def test_the_export_is_harmless_to_a_spreadsheet(as_alice, a_transaction):
    a_transaction("write_note", text="hello")
    Transaction.objects.update(action_summary='=HYPERLINK("http://evil","x")')

    lines = b"".join(as_alice.get("/history/export.csv")).decode()
    items = json.loads(b"".join(as_alice.get("/history/export.json")))

    (row,) = csv.DictReader(io.StringIO(lines))
    assert row["action_summary"].startswith("'=")
    assert items[0]["action_summary"].startswith("=")


@pytest.mark.slow
def test_of_two_hundred_rows_each_is_on_exactly_one_page(as_alice, a_payment):
    rows = {str(a_payment().pk) for _ in range(200)}
    Transaction.objects.filter(pk=min(rows)).update(action_summary="long " * 600)

    shown, page = [], as_alice.get("/").content.decode()
    while True:
        shown.append(re.findall(r'id="row-([0-9a-f-]{36})"', page))
        further = re.search(r'data-further="([^"]+)"', page)
        if further is None:
            break
        page = as_alice.get("/", {"after": further[1]}, headers=FRAGMENT).content.decode()

    assert [len(part) for part in shown] == [50] * 4
    assert {*chain.from_iterable(shown)} == rows


def test_pages_run_nothing_that_is_not_theirs(as_alice):
    policy = as_alice.get("/")["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy


def test_the_tools_page_shows_every_contract(as_alice):
    page = as_alice.get("/tools/").content.decode()

    for words in ("refund_customer", "Terminate cloud instance", "two managers", "look_up"):
        assert words in page


def test_what_cannot_be_undone_is_never_confirmed_by_nothing(as_alice, a_transaction):
    """The agent chose a blank for the name that would have to be typed."""
    row = a_transaction("launch", rocket="  ")

    answer = as_alice.post(
        f"/transactions/{row.pk}/approve", {"digest": row.intent_digest, "typed": ""}
    )

    row.refresh_from_db()
    assert (answer.status_code, row.state) == (422, "prepared")


def test_a_reason_of_several_lines_is_taken_as_browsers_send_it(as_alice, a_payment):
    row = a_payment()
    said = {"digest": row.intent_digest, "reason": "Wrong customer.\r\nAsk Ana."}

    assert as_alice.post(f"/transactions/{row.pk}/reject", said).status_code == 302

    row.refresh_from_db()
    assert (row.state, row.ending_reason) == ("rolling_back", "Wrong customer.\nAsk Ana.")
