"""Rights of people that somebody changes in the tables: both verifiers name the account."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from approvals.people import accounts, principal_of
from examples import verify as second
from ledger.events.account_changes import chain_of
from ledger.principals import Principal
from ledger.proof.audit import exports, verification
from ledger.proof.log import checkpoints
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.forgery import forge, reseal

pytestmark = pytest.mark.django_db


def faults() -> tuple[str, str]:
    """Faults that our verifier and the other one find."""
    checkpoints.make()
    keys = checkpoints.own_public_keys()
    ours = ""
    try:
        verification.verify(keys)
    except verification.Broken as broken:
        ours = " ".join(broken.faults)
    return ours, " ".join(second.verify(exports.export_lines(), [*map(bytes.fromhex, keys)]))


@pytest.fixture
def olga(olga_user) -> Principal:
    return principal_of(olga_user)


OF_RIGHTS = {
    "a role given": "INSERT INTO approvals_membership (user_id, tenant_id, role) "
    "VALUES ({alice}, 'acme', 'operator')",
    "a role taken": "DELETE FROM approvals_membership WHERE user_id = {alice}",
    "a role changed": "UPDATE approvals_membership SET role = 'viewer' WHERE user_id = {alice}",
    "made a superuser": "UPDATE auth_user SET is_superuser = true WHERE id = {alice}",
    "let into the admin": "UPDATE auth_user SET is_staff = true WHERE id = {alice}",
    "an account closed": "UPDATE auth_user SET is_active = false WHERE id = {alice}",
    "the event of a role deleted": "DELETE FROM ledger_event WHERE kind = 'role_granted'",
    "all events of an account deleted": "DELETE FROM ledger_event "
    "WHERE kind IN ('user_created', 'role_granted')",
}


@pytest.mark.parametrize("name", OF_RIGHTS)
def test_a_right_that_was_changed_without_an_event_is_noticed_by_both(alice_user, name):
    assert faults() == ("", "")

    forge(OF_RIGHTS[name].format(alice=alice_user.pk))

    chain = str(chain_of(f"user:{alice_user.pk}"))
    ours, theirs = faults()
    assert f"account {chain}" in ours
    assert f"account {chain}" in theirs


def approve(by: Principal) -> str:
    row = propose("pay", reference="order-1")
    coordinator.approve(row.pk, digest=row.intent_digest, by=by, via="web")
    return str(row.events.get(kind="approved").pk)


def test_a_decision_of_an_approver_is_no_fault_after_the_role_was_taken(alice_user, alice, olga):
    approve(alice)
    accounts.take_role(alice_user, "acme", "approver", by=olga, via="admin")
    assert faults() == ("", "")


def test_a_decision_without_the_role_is_noticed_by_both(acme, olga):
    event = approve(olga)
    ours, theirs = faults()
    assert f"event {event} of transaction" in ours
    assert f"event {event} of transaction" in theirs


def test_a_decision_long_before_the_role_or_long_after_it_is_noticed_by_both(alice):
    before = approve(alice)
    forge("UPDATE ledger_event SET at = at + interval '2 minutes' WHERE kind = 'role_granted'")
    reseal(chain_of(str(alice)))
    assert all(f"event {before} of transaction" in text for text in faults())


def test_an_account_made_by_a_command_on_the_server_is_whole(db, monkeypatch):
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long enough password")
    call_command(
        "createsuperuser", "--noinput", "--username", "root", "--email", "root@acme.example"
    )
    assert faults() == ("", "")
