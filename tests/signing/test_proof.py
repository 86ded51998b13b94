"""Nothing counts as signed that a person's key did not sign: verifiers and workers notice it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from fido2.utils import websafe_encode

from approvals.people import begin_enrolling, end_key, enrol, principal_of
from approvals.people.sign_in import passkeys_of
from approvals.people.sign_in.passkeys import answered_with
from examples import verify as second
from ledger import execution, states
from ledger.models import Event, Transaction
from ledger.proof import retention
from ledger.proof.audit import decision_records, verification
from ledger.proof.log import checkpoints
from ledger.seals import as_text
from ledger.sign_off import passkeys
from ledger.sign_off.passkeys import challenge_of
from ledger.transactions import asked_by, links_of, statement_of
from ledger.transactions.transitions import advance
from ledger.workers import sweeper
from tests.authenticators import PRESENT, Authenticator
from tests.conftest import propose
from tests.forgery import end_retention, forge, reseal, rewrite
from tests.ledger.test_log_witness import LOG
from tests.rules.test_proof import faults_of_both
from tests.signing.conftest import SIGNED, let_sign, sign

pytestmark = pytest.mark.django_db
BY_TWO = {"when": {"tool": "refund"}, "then": {"verdict": "ask", "seats": {"approvers": 2}}}


@dataclass
class Scene:
    """Alice signed ``done``, which is carried out, and then ``row``."""

    people: dict[str, User]
    keys: dict[str, Authenticator]
    done: Transaction
    row: Transaction

    def vote(self, row: Transaction | None = None) -> Event:
        votes = Event.objects.filter(subject=(row or self.row).pk)
        return votes.filter(details__contains='"assertion"').latest("id")

    def signed(self, by: str = "alice", row: Transaction | None = None, **said: Any) -> Any:
        """What the key of this person signs of a statement in which something else is said."""
        how = {name: said.pop(name) for name in ("origin", "host", "flags", "kind") if name in said}
        vote = self.vote(row)
        before = [link for link in links_of(vote.subject) if link.id < vote.pk]
        told = {
            "tenant": "acme",
            "transaction": str(vote.subject),
            "revision": 1,
            "intent_digest": json.loads(vote.details)["intent_digest"],
            "verdict": "approve",
            "terms": asked_by(before).as_json(),
            "nonce": "another nonce",
            **said,
        }
        return self.assertion(by, told, **how)

    def assertion(self, by: str, statement: dict[str, Any], **how: Any) -> dict[str, str]:
        options = {"publicKey": {"challenge": websafe_encode(challenge_of(statement))}}
        answer = answered_with(self.keys[by].use(options, **how))
        return {**answer, "nonce": statement["nonce"]}

    def replace(self, **changed: Any) -> str:
        """The vote keeps what its key signs otherwise; its chain is whole again."""
        return rewrite(self.vote(), assertion=self.signed(**changed))


@pytest.fixture
def scene(activated, refund, has_key, as_alice, as_bob, alice_user, bob_user) -> Scene:
    keys = {"alice": has_key(alice_user), "bob": has_key(bob_user)}
    activated(SIGNED)
    done, row = refund(order="done"), refund(order="row")
    for each in (done, row):
        assert sign(as_alice, each, keys["alice"]).status_code == 200
    execution.commit(done.pk)
    people = {"alice": alice_user, "bob": bob_user}
    return Scene(people, keys, done, row)


@pytest.fixture
def signed_by_two(scene, activated, refund, as_alice, as_bob) -> Scene:
    activated(SIGNED, BY_TWO)
    scene.row = refund(order="two", amount="30")
    for client, name in ((as_alice, "alice"), (as_bob, "bob")):
        assert sign(client, scene.row, scene.keys[name]).status_code == 200
    return scene


def record_of(row: Transaction) -> Any:
    return json.loads(decision_records.as_file(decision_records.of_transaction(row)))


def faults_of_record(record: Any) -> list[str]:
    return list(second.record_faults(record, [second.Key(str(LOG))], []))


def test_what_people_signed_is_whole_to_all_verifiers(scene):
    checkpoints.make()

    assert faults_of_both() == ([], [])
    assert [faults_of_record(record_of(row)) for row in (scene.done, scene.row)] == [[], []]


def test_the_verifier_counts_keys_and_those_that_operators_enrolled(scene, capsys):
    checkpoints.make()
    out = StringIO()
    call_command("verify_ledger", stdout=out)

    assert "2 keys of people may sign, or did once; two operators enrolled 2" in out.getvalue()


def test_keys_are_read_once_however_many_signed(scene):
    with CaptureQueriesContext(connection) as queries:
        assert verification.verify().signing_keys == 2

    of_keys = [each for each in queries if "signing_key_enrolled" in each["sql"]]
    assert len(of_keys) == 1


def test_a_key_that_another_one_enrolled_is_proved(scene, as_alice, refund):
    person, new = scene.people["alice"], Authenticator(b"the new one")
    new.add_to(person)
    options, state = begin_enrolling(person, passkeys_of(person).latest("pk").pk)
    enrol(person, state, scene.keys["alice"].use(options))
    row = refund(order="new")
    assert sign(as_alice, row, new).status_code == 200
    checkpoints.make()

    assert faults_of_both() == ([], [])
    record = record_of(row)
    assert faults_of_record(record) == []
    assert any("with a key of theirs" in line for line in second.in_words(record, []))


def test_a_record_says_who_enrolled_the_key(scene):
    checkpoints.make()
    [line] = [line for line in second.in_words(record_of(scene.row), []) if "passkey" in line]

    assert "signed with a passkey, enrolled 20" in line
    assert "Otto" in line
    assert "Olga" in line


def test_what_was_signed_before_the_rules_changed_stays_signed(scene, activated):
    activated(SIGNED, BY_TWO)
    sweeper.renew_terms()

    assert faults_of_both() == ([], [])
    assert Transaction.objects.get(pk=scene.row.pk).quorum == 2


def test_an_erasure_leaves_what_was_signed(scene):
    end_retention(scene.done.pk)
    retention.erase_due()
    checkpoints.make()

    row = Transaction.objects.get(pk=scene.done.pk)
    assert (row.content_erased_at is not None, row.payload) == (True, {})
    assert "assertion" in json.loads(scene.vote(row).details)
    assert faults_of_both() == ([], [])
    assert faults_of_record(record_of(row)) == []


def of_signing(change: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    def changed(record: Any) -> Any:
        change(record["signing_events"])
        return record

    return changed


FORGED_RECORDS = {
    "no history of the key": lambda record: record.pop("signing_events"),
    "no enrolment": of_signing(lambda events: events.pop()),
    "nobody who asked": of_signing(lambda events: events.pop(0)),
    "an enrolment in no log": of_signing(
        lambda events: events[-1].update(leaf_index=None, inclusion=None)
    ),
    "another place": of_signing(lambda events: events[-1].update(leaf_index=0)),
    "another order": of_signing(lambda events: events[0].update(id=events[-1]["id"] + 1)),
    "a key from later": of_signing(lambda events: events[-1].update(id=10**9)),
    "another key": of_signing(
        lambda events: [
            each.update(details=each["details"].replace("localhost", "elsewhere"))
            for each in events
        ]
    ),
    "an event of something else": lambda record: record["signing_events"].append(
        record["events"][0]
    ),
}


@pytest.mark.parametrize("forge_record", FORGED_RECORDS.values(), ids=FORGED_RECORDS)
def test_a_record_with_another_history_of_the_key_proves_nothing(scene, forge_record):
    checkpoints.make()
    record = record_of(scene.row)
    forge_record(record)

    assert faults_of_record(record)


# --- what is tampered with ----------------------------------------------------------------------

Tampering = Callable[[Scene], str]


def with_(**changed: Any) -> Tampering:
    return lambda scene: scene.replace(**changed)


def key_of_somebody_else(scene: Scene) -> str:
    scene.keys["bob"].counter = 50
    assertion = {**scene.signed("bob"), "credential": scene.keys["alice"].credential}
    return rewrite(scene.vote(), assertion=assertion)


def copied_from_another(scene: Scene) -> str:
    assertion = json.loads(scene.vote(scene.done).details)["assertion"]
    return rewrite(scene.vote(), assertion=assertion)


def without(member: str) -> Tampering:
    def tamper(scene: Scene) -> str:
        assertion = json.loads(scene.vote().details)["assertion"]
        del assertion[member]
        return rewrite(scene.vote(), assertion=assertion)

    return tamper


def no_assertion(scene: Scene) -> str:
    return rewrite(scene.vote(), assertion=None)


def key_enrolled_later(scene: Scene) -> str:
    late = scene.keys["late"] = Authenticator(b"late")
    late.add_to(scene.people["alice"])
    operators = User.objects.filter(username__in=("olga", "otto")).order_by("username")
    let_sign(scene.people["alice"], late, *operators)
    return rewrite(scene.vote(), assertion=scene.signed("late"))


def enrolment(scene: Scene) -> Event:
    credential = scene.keys["alice"].credential
    return Event.objects.get(kind="signing_key_enrolled", details__contains=credential)


def key_that_waits(scene: Scene) -> str:
    rewrite(enrolment(scene), waits_s=86_400)
    return f"event {scene.vote().pk}"


def key_that_nobody_enrolled(scene: Scene) -> str:
    event = enrolment(scene)
    forge("DELETE FROM approvals_notice WHERE event_id = %s", event.pk)
    forge("DELETE FROM ledger_event WHERE id = %s", event.pk)
    reseal(event.subject)
    return f"event {scene.vote().pk}"


def key_that_one_operator_enrolled(scene: Scene) -> str:
    event = enrolment(scene)
    return rewrite(event, asked_by=event.principal)


def key_that_was_not_asked_for(scene: Scene) -> str:
    event = enrolment(scene)
    asked = Event.objects.filter(subject=event.subject, kind="change_requested")
    forge("DELETE FROM ledger_event WHERE id = %s", asked.get().pk)
    reseal(event.subject)
    return f"event {event.pk}"


def another_public_key(scene: Scene) -> str:
    """Both operators' events name a key that somebody else has."""
    event, other = enrolment(scene), passkeys.keys_of(str(principal_of(scene.people["bob"])))
    [bobs] = other.values()
    key = {**json.loads(event.details)["key"], "public_key": bobs.public_key}
    rewrite(Event.objects.get(subject=event.subject, kind="change_requested"), key=key)
    rewrite(event, key=key)
    return f"event {scene.vote().pk}"


def inserted(scene: Scene, **details: Any) -> str:
    """An approval in the name of Alice, as the application's role can append it."""
    row, by = scene.row, principal_of(scene.people["alice"])
    details |= {"verdict": "approve", "intent_digest": row.intent_digest}
    details |= {"decision_at": as_text(row.created_at)}
    advance(row.pk, states.APPROVE, by=by, via="web", details=details)
    return f"event {Event.objects.get(subject=row.pk, kind='approved').pk}"


def approved_by_the_application(scene: Scene) -> str:
    scene.row = propose("refund", order="inserted", amount="20")
    return inserted(scene)


def key_that_had_ended(scene: Scene) -> str:
    alice = scene.people["alice"]
    end_key(alice, passkeys_of(alice).get().pk, by=principal_of(alice), via="web")
    scene.row = propose("refund", order="ended", amount="20")
    said = {"intent_digest": scene.row.intent_digest, "verdict": "approve"}
    statement = statement_of(said, links_of(scene.row.pk), "nonce")
    return inserted(scene, assertion=scene.assertion("alice", statement))


TAMPERINGS: dict[str, Tampering] = {
    "another digest": with_(intent_digest="0" * 64),
    "another revision": with_(revision=2),
    "another verdict": with_(verdict="reject"),
    "other terms": with_(terms={"seats": {"approvers": 1}}),
    "another transaction": with_(transaction="00000000-0000-0000-0000-000000000000"),
    "another tenant": with_(tenant="globex"),
    "another address": with_(origin="https://elsewhere.example"),
    "another installation": with_(host="elsewhere.example"),
    "a person who was not verified": with_(flags=PRESENT),
    "a signature for something else": with_(kind="webauthn.create"),
    "the key of somebody else": with_(by="bob"),
    "the signature of somebody else": key_of_somebody_else,
    "copied from another transaction": copied_from_another,
    "no nonce": without("nonce"),
    "no signature": without("signature"),
    "no assertion": no_assertion,
    "an approval that was inserted": approved_by_the_application,
    "a key that was enrolled later": key_enrolled_later,
    "a key that has to wait": key_that_waits,
    "a key that had ended": key_that_had_ended,
    "a key that nobody enrolled": key_that_nobody_enrolled,
    "a key that one operator enrolled": key_that_one_operator_enrolled,
    "a key that was not asked for": key_that_was_not_asked_for,
    "another public key": another_public_key,
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_both_verifiers_notice_and_no_worker_begins(scene, tamper, the_world):
    before = dict(the_world.effects)
    named = tamper(scene)

    ours, theirs = faults_of_both()
    execution.commit(scene.row.pk)

    assert any(named in fault for fault in ours), ours
    assert any(named in fault for fault in theirs), theirs
    assert the_world.effects == before


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_no_record_proves_it(scene, tamper):
    tamper(scene)
    checkpoints.make()

    assert faults_of_record(record_of(scene.row))


def test_a_nonce_counts_once(signed_by_two, the_world):
    before = dict(the_world.effects)
    first = Event.objects.filter(subject=signed_by_two.row.pk, kind="approval_recorded").get()
    nonce = json.loads(first.details)["assertion"]["nonce"]
    assert faults_of_both() == ([], [])

    named = rewrite(signed_by_two.vote(), assertion=signed_by_two.signed("bob", nonce=nonce))

    ours, theirs = faults_of_both()
    execution.commit(signed_by_two.row.pk)
    assert any(named in fault for fault in ours), ours
    assert any(named in fault for fault in theirs), theirs
    assert the_world.effects == before


def test_a_counter_that_goes_back_is_noticed(scene):
    scene.keys["alice"].counter = 0
    named = scene.replace()

    ours, theirs = faults_of_both()

    assert [named in fault and "went back" in fault for fault in ours] == [True]
    assert [named in fault and "went back" in fault for fault in theirs] == [True]
