"""Nobody who writes to the tables invents a rule, terms or a member: both verifiers notice it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.utils import timezone

from examples import verify as second
from ledger import execution, states
from ledger.errors import LedgerError
from ledger.events import four_eyes
from ledger.models import Event, GroupMember, RuleSet, Transaction
from ledger.principals import POLICY, system
from ledger.proof.audit import decision_records, exports, verification
from ledger.proof.audit.verification import Broken
from ledger.proof.log import checkpoints
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import read, sets
from ledger.transactions import coordinator
from ledger.transactions.transitions import advance
from ledger.workers import sweeper
from tests.forgery import forge, reseal
from tests.ledger.test_log_witness import LOG
from tests.rules.conftest import LARGE_TAKE_TWO, SMALL_PASS

pytestmark = pytest.mark.django_db
KEY = Ed25519PrivateKey.from_private_bytes(bytes.fromhex("11" * 32)).public_key()
RULES = (
    SMALL_PASS,
    LARGE_TAKE_TWO,
    {
        "when": {"arguments.country": "CH"},
        "then": {"verdict": "ask", "seats": {"finance": 1}, "note": True, "strength": "typed"},
    },
    {"when": {"agent": "helpdesk", "amount": {"at_least": "3000 EUR"}}, "then": "deny"},
)


def faults_of_both() -> tuple[list[str], list[str]]:
    try:
        verification.verify()
        ours: list[str] = []
    except Broken as broken:
        ours = broken.faults
    theirs = second.verify(exports.export_lines(), [KEY.public_bytes_raw()], 3600.0)
    return ours, list(theirs)


@pytest.fixture
def by_rules(activated, a_transaction, alice, bob, olga, otto) -> dict[str, Transaction]:
    """Transactions that passed, took two, took a group, were denied, and were judged again."""
    before = a_transaction("refund", order="before", amount="2000")
    finance = groups.make("acme", "finance", by=olga, via="web")
    waiting = groups.add(
        finance, alice, starts_at=timezone.now(), ends_at=None, in_place_of=None, by=olga, via="web"
    )
    four_eyes.confirm(waiting, seen=waiting.sha256, by=otto, via="web")
    activated(*RULES)
    sweeper.renew_terms()
    rows = {
        "before": before,
        "passed": a_transaction("refund", order="passed", amount="12"),
        "two": a_transaction("refund", order="two", amount="1500"),
        "finance": a_transaction("refund", order="finance", amount="60", country="CH"),
    }
    with pytest.raises(Exception, match="Rule 4 of set 1 denies it"):
        a_transaction("refund", order="denied", amount="3000")
    for name, approvers in {
        "before": (alice, bob),
        "two": (alice, bob),
        "finance": (alice,),
    }.items():
        row = Transaction.objects.get(pk=rows[name].pk)
        for approver in approvers:
            coordinator.approve(
                row.pk, digest=row.intent_digest, by=approver, via="web", reason="so", typed=True
            )
    for row in rows.values():
        execution.commit(row.pk)
    return {name: Transaction.objects.get(pk=row.pk) for name, row in rows.items()}


def test_an_untouched_ledger_is_whole_to_both(by_rules):
    assert [row.state for row in by_rules.values()] == ["committed"] * 4
    assert faults_of_both() == ([], [])


def test_the_records_of_what_rules_decided_prove_themselves(by_rules):
    checkpoints.make()

    for row in by_rules.values():
        record = json.loads(decision_records.as_file(decision_records.of_transaction(row)))
        assert list(second.record_faults(record, [second.Key(str(LOG))], [])) == []


def terms_of(name: str, **changed: object) -> Callable[[dict[str, Transaction]], str]:
    """The row's terms and the sealed ones, with a chain of right hashes after it."""

    def tamper(rows: dict[str, Transaction]) -> str:
        row = rows[name]
        terms = {**row.terms, **changed}
        event = Event.objects.filter(subject=row.pk, details__contains='"terms"').last()
        says = json.loads(event.details)
        says["sets"]["terms"] = second.canonical(terms)
        columns = {
            "terms": json.dumps(terms),
            "quorum": second.quorum_by(terms),
            "required_approver": second.required_by(terms),
        }
        forge(
            "UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk
        )
        for column, value in columns.items():
            forge(f"UPDATE ledger_transaction SET {column} = %s WHERE id = %s", value, row.pk)
        reseal(row.pk)
        return str(row.pk)

    return tamper


def rule_invented(rows: dict[str, Transaction]) -> str:
    event = Event.objects.get(kind="rules_activated")
    says = json.loads(event.details)
    says["rules"][1]["when"]["amount"]["at_least"] = "9000 EUR"
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk)
    reseal(event.subject)
    return str(rows["two"].pk)


def member_invented(rows: dict[str, Transaction]) -> str:
    event = Event.objects.get(subject=rows["finance"].pk, kind="approved")
    says = json.loads(event.details)
    forge(
        "UPDATE ledger_event SET details = %s WHERE id = %s",
        second.canonical({**says, "groups": ["finance", "legal"]}),
        event.pk,
    )
    reseal(event.subject)
    return f"event {event.pk}"


def member_added_by_one_alone(rows: dict[str, Transaction]) -> str:
    event = Event.objects.get(kind="group_member_added")
    says = {name: value for name, value in json.loads(event.details).items() if name != "asked_by"}
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk)
    reseal(event.subject)
    return f"event {Event.objects.get(subject=rows['finance'].pk, kind='approved').pk}"


def member_taken_from_the_events(rows: dict[str, Transaction]) -> str:
    forge("DELETE FROM ledger_event WHERE kind = %s", "group_member_added")
    return f"event {Event.objects.get(subject=rows['finance'].pk, kind='approved').pk}"


def vote_in_no_group(rows: dict[str, Transaction]) -> str:
    event = Event.objects.get(subject=rows["finance"].pk, kind="approved")
    says = {name: value for name, value in json.loads(event.details).items() if name != "groups"}
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk)
    reseal(event.subject)
    return f"event {event.pk}"


def vote_that_was_not_typed(rows: dict[str, Transaction]) -> str:
    event = Event.objects.get(subject=rows["finance"].pk, kind="approved")
    says = {name: value for name, value in json.loads(event.details).items() if name != "typed"}
    forge("UPDATE ledger_event SET details = %s WHERE id = %s", second.canonical(says), event.pk)
    reseal(event.subject)
    return f"event {event.pk}"


def column_only(rows: dict[str, Transaction]) -> str:
    row = rows["two"]
    forge("UPDATE ledger_transaction SET quorum = 1 WHERE id = %s", row.pk)
    return str(row.pk)


TAMPERINGS = {
    "the quorum": column_only,
    "fewer people": terms_of("two", seats={"approvers": 1}),
    "no rule matched": terms_of("two", rules=[]),
    "another set": terms_of("two", set=7),
    "no set": terms_of("two", set=0),
    "a set that could not be read": terms_of("two", unreadable=True, rules=[]),
    "a rule": rule_invented,
    "a member": member_invented,
    "a member whom one operator added": member_added_by_one_alone,
    "a member who was never added": member_taken_from_the_events,
    "the group of a vote": vote_in_no_group,
    "an approval that was not typed": vote_that_was_not_typed,
    "terms of one who let it pass": terms_of("before", seats={}),
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_both_verifiers_notice(by_rules, tamper):
    named = tamper(by_rules)

    ours, theirs = faults_of_both()

    assert any(named in fault for fault in ours), ours
    assert any(named in fault for fault in theirs), theirs


def test_a_worker_does_not_begin_what_the_rules_do_not_allow(activated, a_transaction, alice):
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="o1", amount="1500")
    terms_of("row", seats={"approvers": 1})({"row": row})
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    execution.commit(row.pk)

    row.refresh_from_db()
    assert (row.state, "its terms are not what rules 1 make of it" in row.error) == (
        "rolling_back",
        True,
    )


def test_terms_renewed_to_nothing_are_not_carried_out(activated, a_transaction, the_world):
    """As the application's role can: one appended event, and the columns of the row."""
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="x", amount="500")
    terms = {"set": 1, "rules": [], "contract": {}, "floor": {}}
    columns = {"terms": terms, "required_approver": "NONE", "quorum": 1}
    advance(row.pk, states.RENEW_TERMS, by=POLICY, via="system", **columns)
    coordinator.approve_by_policy(row.pk, row.intent_digest, terms)  # as the sweeper does

    execution.commit(row.pk)

    checkpoints.make()
    ours, theirs = faults_of_both()
    assert (the_world.effects, bool(ours), bool(theirs)) == ({}, True, True)


def test_terms_that_were_renewed_never_lose_what_was_asked(activated, a_transaction):
    activated(LARGE_TAKE_TWO)
    row = a_transaction("refund", order="before", amount="1500")
    activated(SMALL_PASS)
    sweeper.renew_terms()
    row.refresh_from_db()
    assert row.terms["seats"] == {"approvers": 2}
    terms_of("row", seats={"approvers": 1})({"row": row})  # and the chain is whole again

    ours, theirs = faults_of_both()
    assert (bool(ours), bool(theirs)) == (True, True)


def test_a_writer_does_not_slip_a_rule_into_what_one_operator_activates(
    activated, acme, olga, a_transaction, the_world
):
    """The rows of sets are not sealed: neither what is activated, nor what it is compared with."""
    activated({"when": {"tool": "refund"}, "then": "ask"})
    seen = [{"when": {"tool": "refund"}, "then": "ask"}, LARGE_TAKE_TWO]  # tightens
    draft = sets.edit("acme", seen, seen="", by=olga)
    slipped = read(0, [SMALL_PASS]).rules[0].as_json()
    RuleSet.objects.filter(number=1).update(rules=[slipped])
    RuleSet.objects.filter(pk=draft.pk).update(rules=[slipped])

    try:
        rules.activate("acme", seen=draft.sha256, by=olga, via="web")
    except LedgerError:
        return
    row = a_transaction("refund", order="small", amount="12")
    execution.commit(row.pk)
    checkpoints.make()
    ours, theirs = faults_of_both()
    assert (the_world.effects, bool(ours), bool(theirs)) == ({}, True, True)


def test_the_row_of_the_active_set_is_compared_with_its_event(activated):
    activated(LARGE_TAKE_TWO)
    RuleSet.objects.update(rules=[])  # what people are shown, and what loosening is measured by
    assert faults_of_both()[0]


def test_a_member_that_nobody_added_is_found_before_they_sign(acme, alice):
    by = system("command", "Olga on the server")
    finance = groups.make("acme", "finance", by=by, via="command")
    GroupMember.objects.create(
        group=finance,
        person=str(alice),
        person_name="Alice",
        starts_at=timezone.now(),
        added_by="user:9",
    )
    assert faults_of_both()[0]
