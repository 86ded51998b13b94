"""What was signed in advance, as both verifiers and a record prove it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from examples import verify as second
from ledger.models import Event
from ledger.proof.log import checkpoints
from ledger.seals import Link
from ledger.sign_off.grants import giving_faults, signed_vote_faults
from ledger.transactions import links_of
from tests.forgery import rewrite
from tests.rules.test_proof import faults_of_both
from tests.signing.test_grants import allow, key
from tests.signing.test_proof import faults_of_record, record_of

__all__ = ["key"]
pytestmark = pytest.mark.django_db


def test_both_verifiers_and_the_record_prove_what_was_signed_in_advance(as_alice, key, refund):
    allow(as_alice, refund(), key)
    later = refund(order="o2")
    checkpoints.make()

    assert faults_of_both() == ([], [])
    record = record_of(later)
    assert faults_of_record(record) == []
    assert any("signed in advance on 20" in line for line in second.in_words(record, []))
    assert faults_of_record({**record, "signing_events": record["signing_events"][:-1]})


def test_a_vote_by_a_grant_is_of_its_giver_and_while_it_lasts(as_alice, key, refund):
    allow(as_alice, refund(), key)
    [vote] = [link for link in links_of(refund(order="o2").pk) if link.via == "grant"]
    assert [*signed_vote_faults(vote, None)] == []

    for changed, why in (
        ({"principal": "user:0"}, "gave no grant"),
        ({"id": 1}, "gave no grant"),
        ({"at": vote.at + timedelta(days=400)}, "it had ended"),
    ):
        assert why in next(signed_vote_faults(vote._replace(**changed), None))


def test_a_grant_is_given_with_no_key_that_signs_later(as_alice, key, refund):
    allow(as_alice, refund(), key)
    given = Event.objects.filter(kind="grant_given").values_list(*Link._fields).get()
    link = Link(*given)
    assert [*giving_faults(link)] == []

    [fault] = giving_faults(link._replace(at=link.at - timedelta(days=1)))

    assert "no key with which" in fault


def test_a_grant_with_another_bound_is_none_of_its_giver(as_alice, key, refund):
    allow(as_alice, refund(), key)
    later = refund(order="o2")
    given = Event.objects.get(kind="grant_given")
    named = rewrite(given, budgets=[{"most": "900", "per": "total"}])
    checkpoints.make()

    ours, theirs = faults_of_both()
    assert ours
    assert any(named in fault and "of something else" in fault for fault in theirs), theirs
    assert any("of something else" in fault for fault in faults_of_record(record_of(later)))
