"""Nobody who writes to the tables changes a revision, the thread or a deadline unnoticed.

Both verifiers name the row, the second one from an export alone.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from examples import verify as second
from ledger import contracts, execution, seals
from ledger.contracts.evidence import Text
from ledger.models import Agent, Decision, Event, Revision, Tenant, Transaction
from ledger.principals import agent, user
from ledger.proof.audit import decision_records
from ledger.proof.log import checkpoints
from ledger.transactions import as_prepared, coordinator, links_of
from tests.conftest import propose, seal_approver
from tests.forgery import forge, reseal, rewrite
from tests.ledger.test_log_witness import LOG
from tests.ledger.test_tampering import append
from tests.requests.conftest import approve
from tests.requests.test_second_looks import aged, released
from tests.rules.test_proof import faults_of_both
from tests.tables import taken_back

pytestmark = pytest.mark.django_db
HELPDESK = agent("acme", "helpdesk", "Helpdesk agent")
ALICE, BOB, DORA = APPROVERS = [user(name, name.title()) for name in ("alice", "bob", "dora")]
Rows = dict[str, Transaction]
Tamper = Callable[[Rows], str]
AN_HOUR = 3600 * 10**6


def filing_tool() -> contracts.Tool[Any, Any]:
    """Its plan has a letter as evidence, which depends on what is changed."""

    def file(title: str, copies: int = 1) -> dict[str, str]:
        return {"receipt_id": f"filed-{title}"}

    terms = {"operation_key": "file:{tenant}:{title}", "compensation": "", "subject": ""}
    tool = contracts.Tool(file, replace(contracts.tools["pay"].contract, **terms))

    @tool.plan
    def plan(title: str, copies: int) -> contracts.Plan:
        return contracts.Plan(f"File {title}", evidence=[Text("Letter", f"{copies} copies")])

    return tool


@pytest.fixture(scope="module")
def untouched(django_db_setup, django_db_blocker) -> Iterator[Rows]:
    """Made once, in a database transaction that stays open until all of them have been tried."""
    with django_db_blocker.unblock(), taken_back(), pytest.MonkeyPatch.context() as patch:
        acme = Tenant.objects.create(slug="acme", name="Acme Travel", tools=["*"])
        Agent.objects.create(tenant=acme, slug="helpdesk", name="Helpdesk")
        for person in APPROVERS:
            seal_approver(person)
        patch.setitem(contracts.tools, "file", filing_tool())
        yield made()


@pytest.fixture
def rows(untouched: Rows, db: None) -> Rows:
    """All that a test does to them is taken back after the test."""
    return copy.deepcopy(untouched)


def made() -> Rows:
    """One of each: changed, signed anew by two others, asked, given time, sent back, looked at."""
    rows = {
        "changed": revised(propose("refund", order="o1", amount="482.00"), amount="48.20"),
        "two": propose("pay_two", reference="p1", amount="482.00"),
        "void": propose("pay_two", reference="p2", amount="482.00"),
        "asked": propose("refund", order="o2", amount="5.00"),
        "timed": propose("refund", order="o3", amount="5.00"),
        "back": propose("refund", order="o4", amount="5.00"),
        "other": propose("refund", order="o6", amount="5.00"),
        "looked": approve(propose("reserve", guest="Ada", room="7", nights=1), ALICE),
        "filed": revised(propose("file", title="t1"), copies=2),
    }
    approve(rows["changed"], ALICE)
    for name in ("two", "void"):
        approve(rows[name], BOB)
        rows[name] = revised(Transaction.objects.get(pk=rows[name].pk), amount="48.20")
    for person in (BOB, DORA):
        approve(rows["two"], person)
    coordinator.ask(rows["asked"].pk, by=ALICE, via="web", text="Which order?")
    coordinator.answer(rows["asked"].pk, by=HELPDESK, via="api", text="o2")
    coordinator.extend(rows["timed"].pk, timedelta(hours=1), by=ALICE, via="web")
    coordinator.note(rows["timed"].pk, by=BOB, via="web", text="Called them.")
    rows["anew"] = proposed_anew(rows["back"])
    aged(rows["looked"])
    for name in ("changed", "looked"):
        execution.commit(rows[name].pk)
    released()
    return {name: Transaction.objects.get(pk=row.pk) for name, row in rows.items()}


def revised(row: Transaction, **arguments: Any) -> Transaction:
    return coordinator.revise(
        row.pk, arguments, digest=row.intent_digest, by=ALICE, via="web", reason=""
    )


def proposed_anew(sent: Transaction) -> Transaction:
    seen = {"digest": sent.intent_digest, "reason": "Less, please."}
    coordinator.send_back(sent.pk, by=ALICE, via="web", **seen)
    execution.roll_back(sent.pk)
    answer = coordinator.prepare(
        coordinator.Proposal("refund", {"order": "o4", "amount": "4.00"}, replaces=sent.pk),
        by=HELPDESK,
        tenant="acme",
        key="anew",
        via="api",
        render=lambda *_: "",
    )
    return Transaction.objects.get(pk=answer.transaction_id)


def event(row: Transaction, kind: str) -> Event:
    found = Event.objects.filter(subject=row.pk, kind=kind).last()
    assert found is not None
    return found


def test_what_was_changed_and_talked_about_is_whole_to_both(rows):
    assert rows["changed"].state == rows["looked"].state == "committed"
    assert rows["two"].state == "approved"

    assert faults_of_both() == ([], [])


def test_the_records_show_what_was_proposed_and_what_was_done(rows):
    checkpoints.make()

    for row in rows.values():
        record = json.loads(decision_records.as_file(decision_records.of_transaction(row)))
        assert list(second.record_faults(record, [second.Key(str(LOG))], [])) == []

    record = decision_records.of_transaction(rows["changed"])
    amounts = [json.loads(text)["arguments"]["amount"] for text in record["revisions"]]
    assert (amounts, json.loads(record["shown"])["arguments"]["amount"]) == (["482.00"], "48.20")


@pytest.mark.parametrize("left", [[], [None], ['{"arguments":{"amount":"4.00"}}']])
def test_a_record_with_another_proposal_proves_nothing(rows, left):
    checkpoints.make()
    record = json.loads(decision_records.as_file(decision_records.of_transaction(rows["changed"])))
    record["revisions"] = left
    try:
        faults = list(second.record_faults(record, [second.Key(str(LOG))], []))
    except (TypeError, KeyError, AttributeError) as failure:  # as the program reports it
        faults = [repr(failure)]
    assert faults


def assert_both_name(named: str) -> None:
    ours, theirs = faults_of_both()
    assert any(named in fault for fault in ours), (named, ours)
    assert any(named in fault for fault in theirs), (named, theirs)


# --- what somebody does to the tables -----------------------------------------------------------


def content_changed(rows: Rows) -> str:
    revision = Revision.objects.get(transaction=rows["changed"])
    content = {**revision.content, "arguments": {"order": "o1", "amount": "48.21"}}
    forge("UPDATE ledger_revision SET content = %s WHERE id = %s", json.dumps(content), revision.pk)
    return f"{rows['changed'].pk}"


def amount_of_former_changed(rows: Rows) -> str:
    revision = Revision.objects.get(transaction=rows["changed"])
    content = {**revision.content, "amount": "482.004"}
    forge("UPDATE ledger_revision SET content = %s WHERE id = %s", json.dumps(content), revision.pk)
    return f"{rows['changed'].pk}"


def content_with_more(rows: Rows) -> str:
    revision = Revision.objects.get(transaction=rows["changed"])
    content = {**revision.content, "note": "approved by the board"}
    forge("UPDATE ledger_revision SET content = %s WHERE id = %s", json.dumps(content), revision.pk)
    return f"{rows['changed'].pk}"


def revision_deleted(rows: Rows) -> str:
    forge("DELETE FROM ledger_revision WHERE transaction_id = %s", rows["changed"].pk)
    return f"{rows['changed'].pk}"


def revision_invented(rows: Rows) -> str:
    content = Revision.objects.get(transaction=rows["changed"]).content
    Revision.objects.create(transaction=rows["asked"], number=1, content=content)
    return f"{rows['asked'].pk}"


def revised_by(who: str) -> Tamper:
    def tamper(rows: Rows) -> str:
        revised = event(rows["changed"], "revised")
        forge("UPDATE ledger_event SET principal = %s WHERE id = %s", who, revised.pk)
        reseal(revised.subject)
        return f"event {revised.pk}"

    return tamper


def void_vote_counts(rows: Rows) -> str:
    vote = Decision.with_withdrawn.get(transaction=rows["void"])
    forge("UPDATE ledger_decision SET is_withdrawn = false WHERE id = %s", vote.pk)
    return f"decision {vote.pk}"


def former_vote_in_place_of_another(rows: Rows) -> str:
    recorded = event(rows["two"], "approval_recorded")
    forge("DELETE FROM ledger_event WHERE id = %s", recorded.pk)
    reseal(recorded.subject)
    return f"event {event(rows['two'], 'approved').pk}"


def maker_signs(rows: Rows) -> str:
    made = event(rows["two"], "revised").principal
    approved = event(rows["two"], "approved")
    for table, pk in (
        ("event", approved.pk),
        ("decision", Decision.objects.get(transaction=approved.subject, principal="user:dora").pk),
    ):
        forge(f"UPDATE ledger_{table} SET principal = %s WHERE id = %s", made, pk)
    reseal(approved.subject)
    return f"event {approved.pk}"


def amount_changed_in_the_row(rows: Rows) -> str:
    forge("UPDATE ledger_transaction SET amount = 4.82 WHERE id = %s", rows["changed"].pk)
    return str(rows["changed"].pk)


def answered_by_another(rows: Rows) -> str:
    answer = event(rows["asked"], "answered")
    forge("UPDATE ledger_event SET principal = 'agent:acme/supervisor' WHERE id = %s", answer.pk)
    reseal(answer.subject)
    return f"event {answer.pk}"


def deadline_without_an_event(rows: Rows) -> str:
    forge(
        "UPDATE ledger_transaction SET expires_at = expires_at + interval '1 hour' WHERE id = %s",
        rows["timed"].pk,
    )
    return str(rows["timed"].pk)


def moved_to(kind: str, name: str, step: int) -> Tamper:
    """The deadline and the row are moved by this, counted from where they were."""

    def tamper(rows: Rows) -> str:
        moved = event(rows[name], kind)
        says = json.loads(moved.details)
        new = int(says["from"]) + step
        named = rewrite(moved, sets={**says["sets"], "expires_at": str(new)})
        forge(
            "UPDATE ledger_transaction SET expires_at = 'epoch'::timestamptz + %s * "
            "interval '1 microsecond' WHERE id = %s",
            new,
            rows[name].pk,
        )
        return named

    return tamper


def asked_twice_as_long(rows: Rows) -> str:
    asked, answer = event(rows["asked"], "asked"), event(rows["asked"], "answered")
    says = json.loads(asked.details)
    later = str(int(says["from"]) + 2 * AN_HOUR)
    rewrite(answer, **{"from": later})
    return rewrite(asked, sets={**says["sets"], "expires_at": later})


def spoken_by_an_agent(kind: str) -> Tamper:
    def tamper(rows: Rows) -> str:
        said = append(rows["other"], kind, "prepared", "agent:acme/supervisor")
        if kind == "asked":
            Transaction.objects.filter(pk=rows["other"].pk).update(asked_at=said.at)
        return f"event {said.pk}"

    return tamper


def asked_by_nobody_with_the_role(rows: Rows) -> str:
    said = append(rows["other"], "asked", "prepared", "user:mallory")
    Transaction.objects.filter(pk=rows["other"].pk).update(asked_at=said.at)
    return f"event {said.pk}"


def question_hidden(rows: Rows) -> str:
    append(rows["other"], "asked", "prepared", "user:alice")
    return str(rows["other"].pk)


def replaces(wanted_of: str) -> Tamper:
    def tamper(rows: Rows) -> str:
        row, other = rows["anew"], rows[wanted_of]
        rewrite(event(row, "prepared"), replaces=str(other.pk))
        forge("UPDATE ledger_transaction SET replaces = %s WHERE id = %s", other.pk, row.pk)
        return str(row.pk)

    return tamper


def replaces_in_the_row_only(rows: Rows) -> str:
    forge(
        "UPDATE ledger_transaction SET replaces = %s WHERE id = %s",
        rows["back"].pk,
        rows["other"].pk,
    )
    return str(rows["other"].pk)


def confirmed_another_intent(rows: Rows) -> str:
    return rewrite(event(rows["looked"], "plan_confirmed"), intent_digest="0" * 64)


def payload_changed_with(name: str, kind: str) -> Tamper:
    """As if the agent had proposed something else, sealed by the event of a later plan."""

    def tamper(rows: Rows) -> str:
        row = rows[name]
        forge("UPDATE ledger_transaction SET stated_reason = 'Other' WHERE id = %s", row.pk)
        new = Transaction.objects.get(pk=row.pk)
        links = links_of(row.pk)
        digest = seals.row_digest(new, first=links[0].says, deadline=as_prepared(links))
        return rewrite(event(row, kind), row_digest=digest)

    return tamper


def evidence_swapped(rows: Rows) -> str:
    forge(
        "UPDATE ledger_evidence SET content = 'another' WHERE revision = 2 AND transaction_id = %s",
        rows["filed"].pk,
    )
    return str(rows["filed"].pk)


def evidence_of_former_swapped(rows: Rows) -> str:
    forge(
        "UPDATE ledger_evidence SET content = 'another' WHERE revision = 1 AND transaction_id = %s",
        rows["filed"].pk,
    )
    return str(rows["filed"].pk)


def counter_forged(rows: Rows) -> str:
    forge("UPDATE ledger_transaction SET revision = 1 WHERE id = %s", rows["changed"].pk)
    return str(rows["changed"].pk)


TAMPERINGS = {
    "content of a revision": content_changed,
    "amount of a revision, a little": amount_of_former_changed,
    "content of a revision, with more": content_with_more,
    "a revision deleted": revision_deleted,
    "a revision invented": revision_invented,
    "changed by the proposer": revised_by("agent:acme/helpdesk"),
    "changed by another agent": revised_by("agent:acme/supervisor"),
    "changed by the worker before it was signed": revised_by("system:worker"),
    "changed by somebody without the role": revised_by("user:mallory"),
    "a vote of before counts in the table": void_vote_counts,
    "a vote of before counts": former_vote_in_place_of_another,
    "who made it signs": maker_signs,
    "the amount of the row": amount_changed_in_the_row,
    "what changed": lambda rows: rewrite(event(rows["changed"], "revised"), changed=["warnings"]),
    "what changed, left out": lambda rows: rewrite(event(rows["changed"], "revised"), changed=None),
    "the number of a revision": lambda rows: rewrite(event(rows["changed"], "revised"), revision=3),
    "the agent's reason, with a change": payload_changed_with("changed", "revised"),
    "the agent's reason, with a second plan": payload_changed_with("looked", "plan_confirmed"),
    "the hold that was replaced": lambda rows: rewrite(
        event(rows["looked"], "plan_confirmed"), replaced_hold=None
    ),
    "what was replaced": lambda rows: rewrite(event(rows["changed"], "revised"), replaces="0" * 64),
    "the revision counter": counter_forged,
    "an answer by another agent": answered_by_another,
    "a deadline that nobody moved": deadline_without_an_event,
    "more time that is less": moved_to("extended", "timed", -1),
    "a question that rests too long": asked_twice_as_long,
    "an answer that takes too much": moved_to("answered", "asked", -AN_HOUR - 10 * 60 * 10**6),
    "an answer that gives time": moved_to("answered", "asked", AN_HOUR),
    "a note by an agent": spoken_by_an_agent("noted"),
    "a question by an agent": spoken_by_an_agent("asked"),
    "a question by somebody without the role": asked_by_nobody_with_the_role,
    "a question that the row hides": question_hidden,
    "more time by an agent": spoken_by_an_agent("extended"),
    "replaces what was not sent back": replaces("other"),
    "replaces what is of another tool": replaces("looked"),
    "replaces in the row alone": replaces_in_the_row_only,
    "a confirmed plan of something else": confirmed_another_intent,
    "evidence of the new revision": evidence_swapped,
    "evidence of the former revision": evidence_of_former_swapped,
}


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS)
def test_both_verifiers_notice(rows, tamper):
    assert_both_name(tamper(rows))
