"""A grant signs in advance what has to be signed only if it was given with a passkey."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from ledger import execution
from ledger.errors import NotAllowed
from ledger.models import Event, Grant
from ledger.sign_off import grants
from ledger.states import State
from ledger.transactions import links_of, sign_off_faults
from tests.forgery import rewrite
from tests.grants.conftest import wanted
from tests.grants.test_allow_pages import address, form_of
from tests.rules.test_pages import text_of
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED

pytestmark = pytest.mark.django_db


def allow(client, row, key, **changed):
    """Ask for the options of both, have the key sign them one after the other, and allow."""
    form = form_of(client, row)
    options = client.post(address(row), form | {"sign": "1"}).json()
    signed = {}
    for name, prefix in (("approve", ""), ("grant", "grant_")):
        if name in options:
            signed[f"{prefix}credential"] = key.use(options[name])
            signed[f"{prefix}nonce"] = options[name]["nonce"]
    return client.post(address(row), form | signed | changed)


@pytest.fixture
def key(activated, alice_user, has_key):
    activated(SIGNED)
    return has_key(alice_user)


def test_a_person_signs_twice_and_what_is_like_it_is_carried_out(as_alice, key, refund):
    assert allow(as_alice, refund(), key).status_code == 302

    later = refund(order="o2")

    assert later.state == State.APPROVED
    [vote] = [link for link in links_of(later.pk) if link.via == "grant"]
    assert vote.says["signed_in_advance"] is True
    execution.commit(later.pk)
    later.refresh_from_db()
    assert later.state == State.COMMITTED
    assert faults_of_both() == ([], [])


def test_what_such_a_grant_signed_says_so(as_alice, key, refund):
    allow(as_alice, refund(), key)
    later = refund(order="o2")

    shown = text_of(as_alice.get(f"/transactions/{later.pk}/"))

    assert "signed in advance , with a passkey," in shown


def test_the_page_has_the_passkey_sign_in_place_of_typing(as_alice, key, refund):
    page = as_alice.get(address(refund())).content.decode()

    assert "Your passkey signs twice" in page
    assert 'name="grant_credential"' in page
    assert 'name="typed"' not in page


def test_what_was_signed_already_can_be_allowed_by_one_touch_more(as_alice, key, refund, alice):
    row = refund()
    allow(as_alice, row, key)
    grants.end(Grant.objects.get().pk, by=alice, via="web")

    assert allow(as_alice, row, key).status_code == 302

    assert Grant.objects.live().count() == 1
    assert faults_of_both() == ([], [])


def test_a_grant_that_was_not_signed_does_not_sign_it(key, refund, alice):
    grants.give(wanted(names=None), by=alice, via="web")

    assert refund().state == State.PREPARED


def test_without_the_second_touch_nothing_is_approved_or_allowed(as_alice, key, refund):
    row = refund()

    answer = allow(as_alice, row, key, grant_credential="", grant_nonce="")

    assert answer.status_code >= 400
    row.refresh_from_db()
    assert (row.state, Grant.objects.count()) == (State.PREPARED, 0)


def test_other_bounds_than_those_that_were_signed_are_refused(as_alice, key, refund):
    answer = allow(as_alice, refund(), key, times="11")

    assert answer.status_code == 403
    assert not Grant.objects.exists()


def test_it_ends_when_the_person_signed_that_it_does(as_alice, key, refund):
    allow(as_alice, refund(), key)

    event = Event.objects.get(kind="grant_given")

    assert json.loads(event.details)["ends_at"].isdecimal()
    assert Grant.objects.get().ends_at - event.at < timedelta(days=1)


def test_one_touch_gives_one_grant(as_alice, key, refund, alice):
    allow(as_alice, refund(), key)
    given = Event.objects.get(kind="grant_given")
    grants.end(Grant.objects.get().pk, by=alice, via="web")
    assertion = json.loads(given.details)["assertion"]
    until = Grant.objects.get().ends_at

    again = wanted_of(Grant.objects.get())
    with pytest.raises(NotAllowed, match="counted before"):
        grants.give_signed(again, until, assertion, by=alice, via="web")


def wanted_of(grant):
    """What gives the same grant once more."""
    when = {name: test for name, test in grant.when.items() if name not in {"agent", "tool"}}
    return wanted(
        when=when,
        budgets=grant.budgets,
        names=grant.names,
        tool_version=grant.tool_version,
        transaction_id=grant.transaction_id,
    )


TAMPERINGS = {
    "nobody signed it": lambda says: {"assertion": None},
    "it ends at another time": lambda says: {"ends_at": str(int(says["ends_at"]) + 1)},
    "by nobody's key": lambda says: {"assertion": says["assertion"] | {"credential": "bm9ib2R5"}},
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_no_worker_and_no_verifier_takes_a_grant_that_nobody_signed(
    as_alice, key, refund, tampering
):
    allow(as_alice, refund(), key)
    later = refund(order="o2")
    event = Event.objects.get(kind="grant_given")
    rewrite(event, **TAMPERINGS[tampering](json.loads(event.details)))

    assert [*sign_off_faults(later, links_of(later.pk))]
    execution.commit(later.pk)
    later.refresh_from_db()
    assert later.state == State.ROLLING_BACK
    ours, theirs = faults_of_both()
    assert any("grant" in fault for fault in ours)
    assert any("grant" in fault for fault in theirs)
