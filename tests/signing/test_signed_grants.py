"""What was signed in advance, as both verifiers and a record prove it."""

from __future__ import annotations

import pytest

from examples import verify as second
from ledger.models import Event
from ledger.proof.log import checkpoints
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
