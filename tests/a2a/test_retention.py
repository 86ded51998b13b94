"""Retention of tasks: what was asked and said is erased in time; the history still verifies."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection
from django.db.transaction import atomic
from django.utils import timezone

from a2a import submissions, tasks
from a2a.errors import TaskNotPossible
from a2a.models import Artifact, Message, PushConfig, Question, Skill, Task
from a2a.submissions import Submission
from a2a.tasks import questions, retention
from a2a.tasks.records import decision_records
from examples import verify as second
from ledger import contracts, execution
from ledger.errors import InvalidRequest
from ledger.models import Event, Scope
from ledger.principals import Principal
from ledger.proof import retention as ledger_retention
from ledger.proof.audit import decision_records as ledger_records, exports, verification
from ledger.proof.log import checkpoints
from ledger.seals.intents import canonical
from ledger.seals.seals import as_text
from ledger.transactions import coordinator
from tests.a2a.test_protocol import Peer
from tests.forgery import forge, reseal, reseal_row, without_triggers
from tests.ledger.test_retention import PUBLIC_KEY, assert_whole, dump, make_unreadable

pytestmark = pytest.mark.django_db(transaction=True)
OLGA = Principal("user", "olga", "Olga Novak")
SECRET = "Ada Lovelace"


def end_retention(task: Task) -> None:
    """Let a task's retention be over, as if it had been submitted so; nothing is owed."""
    forge("UPDATE ledger_delivery SET state = 'done'")
    forge(
        "UPDATE a2a_task SET retain_until = clock_timestamp() - interval '1 second' WHERE id = %s",
        task.pk,
    )
    task.refresh_from_db()
    until = str(int(task.retain_until.timestamp() * 1_000_000))
    for event in task.events.filter(kind="task_awaits_sign_off"):
        said = json.loads(event.details)
        details = canonical({**said, "retain_until": until}).decode()
        forge("UPDATE ledger_event SET details = %s WHERE id = %s", details, event.pk)
    reseal(task.pk, retain_until=until)


@pytest.fixture
def work(a_claimed_task, worker, alice):
    """A completed task with words of people in every place."""

    def make() -> Task:
        task = a_claimed_task(input={"transcripts": [SECRET]}, metadata={"for": SECRET})
        by = {"agent": worker.principal, "fencing_token": task.fencing_token, "via": "api"}
        tasks.report(task.pk, stage="reading", percent=10, note=f"About {SECRET}", **by)
        question = questions.ask(task.pk, text=f"Is it {SECRET}?", **by)
        questions.answer(question.pk, f"Yes, {SECRET}", by=alice, via="web")
        tasks.add_artifact(task.pk, artifact_id="a", name=SECRET, parts=[{"text": SECRET}], **by)
        tasks.complete(task.pk, result={"summary": SECRET}, note=f"Done: {SECRET}", **by)
        PushConfig.objects.create(task=task, config_id="1", url="https://client.example")
        end_retention(task)
        return Task.objects.get(pk=task.pk)

    return make


def test_both_verifiers_find_the_ledger_whole_before_and_after(work):
    task = work()
    assert_whole()

    assert retention.erase_batch() == 1

    assert_whole()
    erased = Task.objects.get(pk=task.pk)
    assert erased.content_erased_at is not None
    assert {name: getattr(erased, name) for name in retention.EMPTY} == retention.EMPTY
    assert (erased.state, erased.percent, erased.submitted_by) == (
        "completed",
        100,
        task.submitted_by,
    )


def test_no_text_of_anybody_is_left_anywhere(work):
    work()
    assert SECRET in dump()

    retention.erase_due()

    assert SECRET not in dump()
    assert [message.parts for message in Message.objects.all()] == [[]] * Message.objects.count()
    assert Artifact.objects.get(artifact_id="a").parts == []
    assert Question.objects.get().answer is None
    assert not PushConfig.objects.exists()


def test_a_skill_has_a_retention_of_its_own(a_task, consolidate, settings):
    settings.TASK_RETENTION_DAYS = 30
    usual = a_task()
    Skill.objects.update(retention=timedelta(days=2))
    short = a_task()

    def kept(task):
        return round((task.retain_until - task.created_at) / timedelta(days=1), 1)

    usual.refresh_from_db()
    short.refresh_from_db()
    assert (kept(usual), kept(short)) == (30, 2)


def test_an_open_task_is_kept_whatever_its_retention_says(a_claimed_task):
    task = a_claimed_task()
    end_retention(task)

    assert retention.erase_batch() == 0


def test_a_held_task_is_kept_until_the_hold_is_released(work):
    task = work()
    with pytest.raises(InvalidRequest, match="Say why"):
        retention.hold(task.pk, by=OLGA, via="admin", reason="")
    retention.hold(task.pk, by=OLGA, via="admin", reason="A claim.")
    with pytest.raises(TaskNotPossible, match="is under a legal hold"):
        retention.hold(task.pk, by=OLGA, via="admin", reason="A claim.")
    retention.erase_due()
    assert Task.objects.get(pk=task.pk).input == task.input
    assert_whole()

    retention.release(task.pk, by=OLGA, via="admin", reason="Settled.")
    retention.erase_due()

    assert Task.objects.get(pk=task.pk).input is None
    with pytest.raises(TaskNotPossible, match="was erased on"):
        retention.hold(task.pk, by=OLGA, via="admin", reason="A claim.")
    assert_whole()


def test_a_task_whose_input_was_changed_is_held_and_not_erased(work):
    task = work()
    forge("UPDATE a2a_task SET input = '{}' WHERE id = %s", task.pk)

    retention.erase_due()

    kept = Task.objects.get(pk=task.pk)
    assert (kept.content_erased_at, kept.result) == (None, task.result)
    assert "does not verify" in kept.events.get(kind="task_legal_hold_placed").reason


def test_a_task_that_cannot_be_read_is_logged_and_does_not_block_the_others(
    work, monkeypatch, caplog
):
    monkeypatch.setattr(ledger_retention, "_failed_at", {})
    broken, other = work(), work()
    make_unreadable("a2a_task", broken.pk)

    assert retention.erase_batch(most=1) == 1
    assert retention.erase_batch(most=1) == 1

    erased = Task.objects.exclude(content_erased_at=None).values_list("pk", flat=True)
    assert list(erased) == [other.pk]
    assert str(broken.pk) in caplog.text


def assert_held_and_kept(task: Task) -> None:
    retention.erase_due()
    kept = Task.objects.get(pk=task.pk)
    assert (kept.content_erased_at, kept.input, kept.result) == (None, task.input, task.result)
    assert "does not verify" in kept.events.filter(kind="task_legal_hold_placed").last().reason


def test_a_task_whose_retention_was_brought_forward_is_held_and_not_erased(work):
    task = work()
    reseal(task.pk, retain_until=str(2**52))
    assert_held_and_kept(task)


def test_a_task_whose_hold_was_removed_without_an_event_is_held_again(work):
    task = work()
    retention.hold(task.pk, by=OLGA, via="admin", reason="A claim.")
    Task.objects.filter(pk=task.pk).update(legal_hold_at=None)
    assert_held_and_kept(task)


@pytest.mark.parametrize("column", ["text", "answer"])
def test_a_task_whose_question_was_changed_is_held_and_not_erased(work, column):
    task = work()
    with without_triggers():
        Question.objects.filter(task=task).update(**{column: "something else"})
    assert_held_and_kept(task)


@pytest.fixture
def signed_off(client_of, alice, the_world):
    """A task of Assent's own that stands for a committed transaction."""
    caller = replace(client_of, scopes=frozenset({*client_of.scopes, Scope.PROPOSE}))
    said = {"tool": "pay", "arguments": {"reference": "order-1", "amount": "5.00"}}
    task = submissions.submit(
        Submission(skill="prepare_transaction", input=said), caller=caller, via="a2a"
    ).task
    task.refresh_from_db()
    row = task.transaction
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
    execution.commit(row.pk)
    task.refresh_from_db()
    row.refresh_from_db()
    return task, row


class TestATaskThatStandsForATransaction:
    def test_has_the_retention_of_that_one(self, signed_off):
        task, row = signed_off

        assert task.retain_until == row.retain_until

    def test_is_kept_while_that_one_is_held(self, signed_off):
        task, row = signed_off
        end_retention(task)
        ledger_retention.hold(row.pk, by=OLGA, via="admin", reason="A claim.")
        assert retention.erase_batch() == 0

        ledger_retention.release(row.pk, by=OLGA, via="admin", reason="Settled.")
        forge("UPDATE ledger_delivery SET state = 'done'")

        assert retention.erase_batch() == 1

    def test_is_held_when_its_row_no_longer_names_that_one(self, signed_off):
        task, _ = signed_off
        end_retention(task)
        Task.objects.filter(pk=task.pk).update(transaction=None)
        assert_held_and_kept(task)

    def test_is_held_when_the_hold_of_that_one_was_removed_without_an_event(self, signed_off):
        task, row = signed_off
        end_retention(task)
        ledger_retention.hold(row.pk, by=OLGA, via="admin", reason="A claim.")
        forge("UPDATE ledger_delivery SET state = 'done'")
        forge("UPDATE ledger_transaction SET legal_hold_at = NULL WHERE id = %s", row.pk)
        assert_held_and_kept(task)

    def test_is_kept_when_that_one_is_being_held_at_this_moment(self, signed_off):
        """The sweeper passes over the locked transaction; a moment later it finds it held."""
        task, row = signed_off
        end_retention(task)
        placed, swept = threading.Event(), threading.Event()

        def hold():
            with atomic():
                ledger_retention.hold(row.pk, by=OLGA, via="admin", reason="A claim.")
                placed.set()
                assert swept.wait(20)
            connection.close()

        thread = threading.Thread(target=hold)
        thread.start()
        assert placed.wait(20)
        retention.erase_batch()
        swept.set()
        thread.join(20)
        forge("UPDATE ledger_delivery SET state = 'done'")
        retention.erase_batch()

        kept = Task.objects.get(pk=task.pk)
        assert (kept.content_erased_at, kept.legal_hold_at) == (None, None)


def propose_payment(client_of, **arguments: str) -> Task:
    caller = replace(client_of, scopes=frozenset({*client_of.scopes, Scope.PROPOSE}))
    value = {"tool": "pay", "arguments": arguments}
    submission = Submission(skill="prepare_transaction", input=value)
    return Task.objects.get(pk=submissions.submit(submission, caller=caller, via="a2a").task.pk)


def test_a_task_of_an_older_transaction_is_kept_for_the_tools_term_from_its_own_start(
    signed_off, client_of
):
    _, row = signed_off
    forge(
        "UPDATE ledger_transaction SET created_at = created_at - interval '8 years', "
        "retain_until = retain_until - interval '8 years' WHERE id = %s",
        row.pk,
    )
    reseal_row(row.pk)

    task = propose_payment(client_of, reference="order-1", amount="5.00")

    assert (task.transaction_id, task.state) == (row.pk, "completed")
    assert task.retain_until - task.created_at == contracts.tools["pay"].contract.retention
    assert_whole()


@pytest.mark.parametrize("days", [-1, 0, 36_501])
def test_a_retention_of_a_skill_that_cannot_be_meant_is_refused(consolidate, days):
    consolidate.retention = timedelta(days=days)

    with pytest.raises(ValidationError) as refusal:
        consolidate.full_clean()

    assert set(refusal.value.message_dict) == {"retention"}


class TestTampering:
    def faults(self) -> tuple[str, str]:
        checkpoints.make()
        try:
            verification.verify(frozenset({PUBLIC_KEY.hex()}))
        except verification.Broken as broken:
            ours = " ".join(broken.faults)
        else:
            ours = ""
        return ours, " ".join(second.verify(exports.export_lines(), [PUBLIC_KEY]))

    def named(self, task: Task) -> None:
        ours, theirs = self.faults()
        assert str(task.pk) in ours
        assert str(task.pk) in theirs

    @pytest.mark.parametrize("is_erased", [False, True], ids=["kept", "erased"])
    @pytest.mark.parametrize(
        ("change", "part"),
        [
            ("UPDATE a2a_task SET input = '{\"x\": 1}' WHERE id = %s", "input"),
            ("UPDATE a2a_task SET result = '{\"x\": 1}' WHERE id = %s", "result"),
            ("UPDATE a2a_question SET text = 'Not that?' WHERE task_id = %s", "question "),
            ("UPDATE a2a_question SET form = '{\"enum\": [1]}' WHERE task_id = %s", "question "),
            ("UPDATE a2a_question SET answer = '\"No\"' WHERE task_id = %s", "answer to "),
            (
                "UPDATE a2a_question SET answered_by = 'user:9' WHERE task_id = %s",
                "answerer of ",
            ),
            ("DELETE FROM a2a_question WHERE task_id = %s", "answer to "),
        ],
        ids=["input", "result", "text", "form", "answer", "answerer", "deleted"],
    )
    def test_content_that_is_not_the_sealed_one(self, work, change, part, is_erased):
        task = work()
        if is_erased:
            retention.erase_due()
        forge(change, task.pk)

        for faults in self.faults():
            assert re.search(rf"task {task.pk}: its {part}\S* ?is not the sealed one", faults)

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE a2a_task SET input = '1' WHERE id = %s",
            "UPDATE a2a_task SET result = '1' WHERE id = %s",
            "UPDATE a2a_task SET result = NULL WHERE id = %s",
            "UPDATE a2a_question SET text = 'x' WHERE task_id = %s",
            "UPDATE a2a_question SET answer = '1' WHERE task_id = %s",
            "UPDATE a2a_question SET answered_by = 'user:9' WHERE task_id = %s",
            "UPDATE a2a_question SET state = 'open', answered_by = '' WHERE task_id = %s",
            "UPDATE a2a_question SET text = '', form = '{}', evidence = '[]', answer = NULL"
            " WHERE task_id = %s",
        ],
    )
    def test_the_database_refuses_another_question_answer_or_result(self, work, change):
        task = work()

        with (
            pytest.raises(IntegrityError, match="is refused"),
            atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(change, [task.pk])

    def test_a_task_that_says_it_was_erased_without_an_event(self, work):
        task = work()
        forge("UPDATE a2a_task SET content_erased_at = now() WHERE id = %s", task.pk)
        self.named(task)

    def test_an_erased_task_that_does_not_say_so(self, work):
        task = work()
        retention.erase_due()
        forge("UPDATE a2a_task SET content_erased_at = NULL WHERE id = %s", task.pk)
        self.named(task)

    @pytest.mark.parametrize(
        ("by", "is_over"), [("system:sweeper", False), ("user:9", True)], ids=["early", "by hand"]
    )
    def test_an_erasure_against_the_rules(self, work, by, is_over):
        task = work()
        if not is_over:
            reseal(task.pk, retain_until=str(2**52))
        details = canonical({"erased": {}}).decode()
        Event.objects.create(
            subject=task.pk,
            tenant=task.tenant,
            kind="task_content_erased",
            to_state=task.state,
            principal=by,
            principal_name=by,
            via="system",
            details=details,
        )
        self.named(task)

    def erase_by_hand(self, task: Task, at: datetime | None, **changes: object) -> Event:
        """An erasure as the application's own role can write it; lawful without ``changes``."""
        details = {
            "erased": retention._digests_of(task),
            "content_erased_at": as_text(at),
            **changes,
        }
        event = self.append(task, "task_content_erased", "system:sweeper", details)
        with without_triggers():
            Task.objects.filter(pk=task.pk).update(content_erased_at=at, **retention.EMPTY)
        retention._erase_related([task.pk])
        ledger_retention.erase_reasons([task.pk])
        return event

    def append(self, task: Task, kind: str, by: str, details: dict[str, object]) -> Event:
        return Event.objects.create(
            subject=task.pk,
            tenant=task.tenant,
            kind=kind,
            to_state=task.state,
            principal=by,
            principal_name=by,
            via="system",
            details=canonical(details).decode(),
        )

    def both_name(self, event: Event) -> None:
        ours, theirs = self.faults()
        assert f"event {event.pk} of task" in ours
        assert f"event {event.pk} of task" in theirs

    def test_the_same_by_hand_within_the_rules_is_no_fault(self, work):
        self.erase_by_hand(work(), timezone.now())
        assert self.faults() == ("", "")

    def test_an_erasure_that_brings_its_own_term(self, work):
        task = work()
        reseal(task.pk, retain_until=str(2**52))
        self.both_name(self.erase_by_hand(task, timezone.now(), retain_until="0"))

    def test_a_term_in_an_event_that_may_not_set_it(self, work):
        task = work()
        reseal(task.pk, retain_until=str(2**52))
        self.append(task, "task_legal_hold_placed", "user:9", {"retain_until": "0"})
        self.append(task, "task_legal_hold_released", "user:9", {"retain_until": "0"})
        self.both_name(self.erase_by_hand(task, timezone.now()))

    def test_a_result_in_an_event_that_may_not_set_it(self, work):
        task, other = work(), "0" * 64
        self.append(task, "task_legal_hold_placed", "user:9", {})
        self.append(task, "task_legal_hold_released", "user:9", {"result_digest": other})
        erased = retention._digests_of(task) | {"result": other}
        self.both_name(self.erase_by_hand(task, timezone.now(), erased=erased))

    def test_an_erasure_without_its_time(self, work):
        self.both_name(self.erase_by_hand(work(), None))

    def test_an_erasure_whose_time_is_where_that_of_a_transaction_is(self, work):
        sets = {"content_erased_at": as_text(timezone.now())}
        self.both_name(self.erase_by_hand(work(), None, sets=sets))

    @pytest.mark.parametrize(
        "erased",
        [
            {"input": "0" * 64},
            {"result": "0" * 64},
            {"more": "0" * 64},
            {"errors": None},
        ],
        ids=["another input", "another result", "a name too many", "a name too few"],
    )
    def test_an_erasure_of_something_else(self, work, erased):
        task = work()
        named = retention._digests_of(task) | erased
        named = {name: digest for name, digest in named.items() if digest is not None}
        self.both_name(self.erase_by_hand(task, timezone.now(), erased=named))

    @pytest.mark.parametrize("by", ["system:sweeper", "agent:acme/helpdesk"])
    def test_a_hold_that_no_person_released(self, work, by):
        task = work()
        retention.hold(task.pk, by=OLGA, via="admin", reason="A claim.")
        released = self.append(task, "task_legal_hold_released", by, {})
        Task.objects.filter(pk=task.pk).update(legal_hold_at=None)
        self.both_name(released)

    def test_a_reason_put_back(self, work):
        task = work()
        retention.erase_due()
        forge("UPDATE ledger_event SET reason = 'x' WHERE kind = 'task_completed'")
        self.named(task)


def test_the_decision_record_still_proves_itself(work):
    task = work()
    retention.erase_due()
    checkpoints.make()

    record = json.loads(ledger_records.as_file(decision_records.of_task(task)))

    key = second.Key(record["keys"]["log"])
    assert list(second.record_faults(record, [key], [])) == []
    record["task"]["input"] = '"something"'
    assert list(second.record_faults(record, [key], []))


class TestWhatPeopleAndAgentsSee:
    def test_rest_says_when_the_content_was_erased(self, work, as_orchestrator):
        task = work()
        retention.erase_due()

        body = as_orchestrator.get(f"/api/v1/tasks/{task.pk}").json()

        assert body["content_erased_at"]
        assert (body["result"], body["state"]) == (None, "completed")

    def test_a2a_says_it_in_the_status_of_the_task(self, work, orchestrator):
        task = work()
        retention.erase_due()

        answer = Peer(orchestrator, Scope.SUBMIT).rpc("GetTask", {"id": str(task.pk)})

        [part] = answer["result"]["status"]["message"]["parts"]
        assert part["text"].startswith("The content of this task was erased on ")
        assert SECRET not in json.dumps(answer)

    def test_a2a_serves_no_content_that_it_rendered_before_the_erasure(self, work, orchestrator):
        task, peer = work(), Peer(orchestrator, Scope.SUBMIT)
        assert SECRET in json.dumps(peer.rpc("GetTask", {"id": str(task.pk)}))
        retention.erase_due()

        assert SECRET not in json.dumps(peer.rpc("GetTask", {"id": str(task.pk)}))

    @pytest.mark.parametrize("page", ["", "record/"])
    def test_the_desk_says_it_in_a_sentence(self, work, as_alice, page):
        task = work()
        retention.erase_due()

        answer = as_alice.get(f"/tasks/{task.pk}/{page}")

        assert answer.status_code == 200
        assert "content was erased on" in answer.content.decode()

    def test_the_page_of_a_question_says_it_too(self, work, as_alice):
        work()
        retention.erase_due()

        answer = as_alice.get(f"/questions/{Question.objects.get().pk}/")

        assert answer.status_code == 200
        assert "erased under retention" in answer.content.decode()


def test_readers_find_the_texts_of_events_where_they_were(work, as_orchestrator):
    """They are kept where they can be erased, and told as ever."""
    task = work()

    told = as_orchestrator.get(f"/api/v1/tasks/{task.pk}/events").json()

    by_kind = {event["kind"]: event for event in told}
    assert by_kind["task_progressed"]["details"]["message"] == f"About {SECRET}"
    assert by_kind["task_answered"]["details"]["answer"] == f"Yes, {SECRET}"
    assert by_kind["task_answered"]["reason"] == ""


def test_a_task_that_was_rejected_at_once_loses_its_content_as_well(consolidate, client_of):
    submission = Submission(skill="consolidate", input={"transcripts": SECRET})
    task = submissions.submit(submission, caller=client_of, via="api").task
    assert task.state == "rejected"
    assert SECRET in str(Task.objects.get(pk=task.pk).input)
    end_retention(task)

    retention.erase_due()

    task.refresh_from_db()
    assert task.content_erased_at is not None
    assert (
        SECRET not in f"{task.input} {task.errors} {[each.parts for each in task.messages.all()]}"
    )
    assert_whole()
