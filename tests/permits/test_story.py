"""A tool that its agent carries out itself: signed off, permitted, redeemed, and its receipt."""

from __future__ import annotations

import jwt
import pytest
from django.conf import settings
from django.db.models.functions import Now

from a2a.cards import signatures
from ledger import execution
from ledger.execution import redemption
from ledger.models import Event, Permit, Transaction
from ledger.proof.audit import verification
from ledger.proof.log import checkpoints
from ledger.seals import intents
from ledger.tools import permits
from ledger.transactions import coordinator
from ledger.workers import sweeper
from tests.forgery import forge
from tests.permits.conftest import introspect, redeem_bare

pytestmark = pytest.mark.django_db(transaction=True)


def kinds(row):
    return [event.kind for event in Event.objects.filter(subject=row.pk).order_by("seq")]


def test_what_was_signed_is_carried_out_by_its_agent_and_its_receipt_ends_it(hand, signed_off):
    row = signed_off()
    fetched = hand.fetch(row)
    permit = fetched.json()

    redeemed = hand.redeem(permit["jti"])
    posted = hand.receipt(row, receipt_url="https://accounts.example/del_7", rows=3)

    assert (fetched.status_code, redeemed.status_code, posted.status_code) == (201, 200, 200)
    assert redeemed.json()["operation_key"] == "delete_account:acme:7"
    assert redeemed.json()["attempt"] == 1
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "del_7")
    assert row.receipt_url == "https://accounts.example/del_7"
    assert row.result == {"id": "del_7", "receipt_url": row.receipt_url, "rows": 3}
    assert kinds(row) == ["prepared", "approved", "permit_issued", "claimed", "committed"]
    assert verification.verify(checkpoints.own_public_keys()).faults == []


def test_the_permit_says_what_was_signed_by_whom_and_for_whom(hand, signed_off, tool, alice):
    row = signed_off()
    permit = hand.fetch(row).json()["permit"]

    header = jwt.get_unverified_header(permit)
    (key,) = [key for key in signatures.public_jwks()["keys"] if key["kid"] == header["kid"]]
    claims = jwt.decode(permit, jwt.PyJWK(key), ["EdDSA"], audience="accounts.example")

    assert (header["typ"], header["alg"]) == ("permit+jwt", "EdDSA")
    assert header["kid"].startswith("permit-")
    assert claims["iss"] == settings.PUBLIC_URL
    assert (claims["sub"], claims["tenant"]) == ("agent:acme/helpdesk", "acme")
    assert claims["txn"] == str(row.pk)
    assert claims["exp"] - claims["iat"] == 300
    assert claims["intent_digest"] == f"sha-256:{row.intent_digest}"
    assert claims["operation_key"] == "delete_account:acme:7"
    assert claims["authorization_details"] == [
        {
            "type": "assent_tool_call",
            "tool": "delete_account",
            "version": tool.sha256,
            "arguments_digest": f"sha-256:{intents.digest_of({'account': '7'})}",
            "limits": {"accounts": 1},
        }
    ]
    (approver,) = claims["approvers"]
    assert (approver["sub"], approver["assurance"]) == (str(alice), "web")


def test_no_worker_and_no_sweeper_carries_it_out(signed_off):
    row = signed_off()

    execution.commit(row.pk)
    sweeper.doubt_lapsed_leases()
    sweeper.Sweeper().enqueue_due()

    row.refresh_from_db()
    assert (row.state, row.attempts) == ("approved", 0)
    assert not Transaction.objects.for_workers().begun_by_nobody().exists()


def test_the_agent_is_told_to_fetch_its_permit(hand, signed_off):
    row = signed_off()

    told = hand.get(f"/transactions/{row.pk}").json()
    hand.redeem(hand.fetch(row).json()["jti"])
    acting = hand.get(f"/transactions/{row.pk}").json()

    assert told["links"]["permit"].endswith(f"/api/v1/transactions/{row.pk}/permit")
    assert "Fetch the permit" in told["outcome"]["sentence"]
    assert (told["outcome"]["kind"], told["outcome"]["do_not_retry"]) == ("pending", True)
    assert "post the receipt" in acting["outcome"]["sentence"]
    assert "permit" not in acting["links"]


def test_whoever_was_shown_the_permit_may_redeem_it(hand, signed_off):
    permit = hand.fetch(signed_off()).json()

    assert introspect(permit["permit"])["active"] is True
    assert redeem_bare(permit["permit"], permit["jti"]).status_code == 200
    assert hand.redeem(permit["jti"]).status_code == 409
    assert introspect(permit["permit"]) == {"active": False}


def test_a_permit_is_redeemed_once_and_a_lost_answer_is_given_again(hand, signed_off):
    jti = hand.fetch(signed_off()).json()["jti"]

    first = hand.redeem(jti, idempotency_key="try-1")
    again = hand.redeem(jti, idempotency_key="try-1")
    another = hand.redeem(jti, idempotency_key="try-2")
    without = hand.redeem(jti)

    assert first.status_code == again.status_code == 200
    assert first.json() == again.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (another.status_code, without.status_code) == (409, 409)
    assert another.json()["code"] == "permit_redeemed"


def test_a_lost_answer_is_not_given_again_once_the_time_to_act_is_over(hand, signed_off):
    row = signed_off()
    jti = hand.fetch(row).json()["jti"]
    hand.redeem(jti, idempotency_key="try-1")
    lapse(row)

    assert hand.redeem(jti, idempotency_key="try-1").json()["code"] == "permit_redeemed"


def test_fetching_again_ends_the_permit_before(hand, signed_off):
    row = signed_off()
    old, new = hand.fetch(row).json(), hand.fetch(row).json()

    refused = hand.redeem(old["jti"])

    assert refused.json()["code"] == "permit_ended"
    assert introspect(old["permit"]) == {"active": False}
    assert hand.redeem(new["jti"]).status_code == 200
    assert Permit.objects.filter(transaction=row, replaced_at=None).count() == 1


def test_the_number_of_permits_of_one_transaction_is_limited(hand, signed_off, monkeypatch):
    monkeypatch.setattr(redemption, "MOST_PERMITS", 2)
    row = signed_off()

    assert [hand.fetch(row).status_code for _ in range(3)] == [201, 201, 409]


def test_an_expired_permit_is_not_redeemed_and_a_new_one_is(hand, signed_off):
    row = signed_off()
    old = hand.fetch(row).json()
    forge(
        "UPDATE ledger_permit SET issued_at = now() - interval '10 minutes', "
        "expires_at = now() - interval '5 minutes'"
    )

    assert hand.redeem(old["jti"]).json()["code"] == "permit_ended"
    assert introspect(old["permit"]) == {"active": False}
    assert hand.redeem(hand.fetch(row).json()["jti"]).status_code == 200


def test_an_operator_takes_it_back_until_the_permit_is_redeemed(hand, signed_off, olga):
    row = signed_off()
    permit = hand.fetch(row).json()

    coordinator.resolve(row.pk, outcome="withdraw", by=olga, via="web", reason="Not now.")

    refused = hand.redeem(permit["jti"])
    assert refused.json()["code"] == "permit_ended"
    assert hand.fetch(row).status_code == 409
    execution.roll_back(row.pk)
    row.refresh_from_db()
    assert (row.state, row.ending) == ("aborted", "withdrawn")


def test_nothing_happened_is_a_failure_without_effect(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])

    told = hand.nothing(row)
    again = hand.nothing(row)
    execution.roll_back(row.pk)

    assert told.status_code == again.status_code == 200
    row.refresh_from_db()
    assert (row.state, row.ending_reason) == ("failed", "The account is gone already.")


def test_silence_after_redeeming_is_in_doubt_and_waits_for_a_person(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])
    lapse(row)

    sweeper.doubt_lapsed_leases()
    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, row.next_attempt_at) == ("in_doubt", None)
    assert row.error == "Its agent fell silent after it had redeemed the permit."
    assert hand.get(f"/transactions/{row.pk}").json()["outcome"]["kind"] == "in_doubt"


def test_a_receipt_after_the_time_to_act_waits_for_an_operator(hand, signed_off, olga, otto):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])
    lapse(row)
    sweeper.doubt_lapsed_leases()

    late = hand.receipt(row)
    again = hand.receipt(row)
    another = hand.receipt(row, "del_8")

    assert (late.status_code, again.status_code, another.status_code) == (202, 202, 409)
    row.refresh_from_db()
    assert (row.state, row.late_receipt) == ("in_doubt", "del_7")
    for operator in (olga, otto):
        coordinator.resolve(
            row.pk, outcome="keep_receipt", by=operator, via="web", reason="It is in the books."
        )
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "del_7")
    assert verification.verify(checkpoints.own_public_keys()).faults == []


def test_nothing_happened_after_the_time_to_act_is_for_people_to_say(hand, signed_off):
    row = signed_off()
    hand.redeem(hand.fetch(row).json()["jti"])
    lapse(row)
    sweeper.doubt_lapsed_leases()

    refused = hand.nothing(row)

    assert (refused.status_code, refused.json()["code"]) == (409, "not_possible")
    row.refresh_from_db()
    assert row.state == "in_doubt"


def test_what_nobody_redeems_in_time_is_let_go_of_without_effect(hand, signed_off):
    row = signed_off()
    permit = hand.fetch(row).json()
    forge("UPDATE ledger_transaction SET decided_at = decided_at - interval '61 minutes'")

    sweeper.let_go_of_unused_permits()
    execution.roll_back(row.pk)

    row.refresh_from_db()
    assert row.state in {"aborted", "rolling_back"}
    assert row.ending == "permit_lapsed"
    assert hand.redeem(permit["jti"]).json()["code"] == "permit_ended"


def test_without_a_key_no_permit_is_issued(hand, signed_off, settings):
    row = signed_off()
    settings.PERMIT_KEYS = []

    refused = hand.fetch(row)

    assert (refused.status_code, refused.json()["code"]) == (503, "permits_off")
    assert not Permit.objects.exists()


def test_a_permit_of_a_key_that_was_replaced_is_redeemed(hand, signed_off, settings):
    permit = hand.fetch(signed_off()).json()
    settings.PERMIT_KEYS = ["77" * 32, *settings.PERMIT_KEYS]

    assert permits.verified(permit["permit"], permits.public_keys())["jti"] == permit["jti"]
    assert redeem_bare(permit["permit"], permit["jti"]).status_code == 200


def test_a_key_that_is_replaced_while_the_agent_acts_costs_it_nothing(hand, signed_off, settings):
    row = signed_off()
    permit = hand.fetch(row).json()
    assert hand.redeem(permit["jti"]).status_code == 200
    settings.PERMIT_KEYS = ["77" * 32]

    assert hand.receipt(row).status_code == 200
    row.refresh_from_db()
    assert (row.state, row.receipt) == ("committed", "del_7")


def test_a_key_that_is_not_published_any_more_ends_its_permits_and_a_new_one_is_redeemed(
    hand, signed_off, settings
):
    row = signed_off()
    before = hand.fetch(row).json()
    settings.PERMIT_KEYS = ["77" * 32]

    with pytest.raises(permits.PermitRefused, match="None of the keys"):
        permits.verified(before["permit"], permits.public_keys())
    assert redeem_bare(before["permit"], before["jti"]).status_code == 422

    fresh = hand.fetch(row).json()
    assert redeem_bare(fresh["permit"], fresh["jti"]).status_code == 200


def lapse(row):
    Transaction.objects.filter(pk=row.pk).update(lease_expires_at=Now())
