"""A decision record proves itself offline, and nothing in it can be changed unnoticed."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from a2a import tasks
from a2a.tasks import questions
from a2a.tasks.records.decision_records import of_task
from examples import verify
from ledger import execution
from ledger.models import Scope, Transaction
from ledger.principals import Principal
from ledger.proof.audit import decision_records
from ledger.proof.log import checkpoints, witnesses
from ledger.seals import seals
from ledger.transactions import coordinator
from tests.forgery import forge, reseal
from tests.ledger.test_log_witness import HOSTILE, LOG, answer, answering, cosign, text_of
from tests.processes import ROOT

KEY = verify.Key(str(LOG))
WITNESS = verify.Key(str(HOSTILE))
# A reference, a hint for people and a promise; nothing depends on them.
WITHOUT_MEANING = {"id", "how_to_verify", "next_checkpoint_within_s"}


@pytest.fixture
def cosigned(settings):
    """The newest checkpoint, with the cosignature of a witness."""

    def make() -> None:
        def honest(handler, body, over):
            answer(handler, 200, cosign(text_of(body), 1_700_000_000))

        assert checkpoints.make() is not None
        with answering(honest) as witness:
            settings.WITNESSES = [f"{witness.url} {witness.key}"]
            witnesses.ask(witness)

    return make


@pytest.fixture
def a_committed_payment(approved, cosigned):
    row = approved(reference="order-4711")
    execution.commit(row.pk)
    cosigned()
    row.refresh_from_db()
    assert row.receipt
    return row


def faults(record: dict[str, Any], *witnesses_: verify.Key) -> list[str]:
    return list(verify.record_faults(record, [KEY], list(witnesses_)))


def test_the_record_of_a_transaction_proves_itself(a_committed_payment):
    record = json.loads(
        decision_records.as_file(decision_records.of_transaction(a_committed_payment))
    )

    assert faults(record, WITNESS) == []
    assert record["summary"]["outcome"]["receipt"] == a_committed_payment.receipt
    assert [vote["principal_name"] for vote in record["summary"]["decisions"]] == ["Alice Moreau"]
    assert json.loads(record["shown"])["action_summary"] == a_committed_payment.action_summary
    assert record["not_in_checkpoint"] == []


def test_it_verifies_offline_with_nothing_but_one_script(a_committed_payment, tmp_path):
    """No import of ours, no network, no database: the script alone, elsewhere."""
    shutil.copy(ROOT / "examples/verify.py", tmp_path / "verify.py")
    file = tmp_path / "record.json"
    file.write_text(decision_records.as_file(decision_records.of_transaction(a_committed_payment)))
    command = [sys.executable, "-I", "verify.py", "record", "record.json"]
    options = ["--key", str(LOG), "--witness", str(HOSTILE)]

    done = subprocess.run(
        [*command, *options], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "approved by 'Alice Moreau'" in done.stdout
    assert f"receipt '{a_committed_payment.receipt}'" in done.stdout
    assert "cosigned by hostile.example" in done.stdout
    file.write_text(file.read_text().replace("48.20", "4820.00"))
    again = subprocess.run(
        [*command, *options], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert again.returncode == 1
    assert "proves nothing" in again.stdout


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a value that can be changed."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))
    else:
        yield path


def changes(value: Any) -> list[Any]:
    """What somebody could put there instead."""
    if isinstance(value, str):
        spots = {0, len(value) // 2, len(value) - 1} if value else set()
        swapped = [value[:i] + ("0" if value[i] != "0" else "1") + value[i + 1 :] for i in spots]
        return [*swapped, f"{value}x", *([""] if value else [])]
    if isinstance(value, int) and not isinstance(value, bool):
        return [value + 1]
    return ["x", 0]


def put(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(record)
    here = changed
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    return changed


def unnoticed(record: dict[str, Any]) -> list[tuple[Any, ...]]:
    found = []
    for path in places(record):
        is_free = path[0] in WITHOUT_MEANING or (path[0] == "events" and path[-1] == "id")
        value = record
        for step in path:
            value = value[step]
        for other in [] if is_free else changes(value):
            changed = put(record, path, other)
            try:
                seen = faults(changed)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, SystemExit):
                continue
            if not seen:
                found.append((*path, other))
    return found


def test_no_byte_of_meaning_can_be_changed(a_committed_payment):
    record = json.loads(
        decision_records.as_file(decision_records.of_transaction(a_committed_payment))
    )
    assert faults(record) == []

    assert unnoticed(record) == []


@pytest.mark.parametrize("what", ["event", "decision", "path", "member"])
def test_nothing_can_be_left_out_or_put_in(what, a_committed_payment):
    record = json.loads(
        decision_records.as_file(decision_records.of_transaction(a_committed_payment))
    )
    if what == "event":
        del record["events"][1]
    elif what == "decision":
        del record["summary"]["decisions"][0]
    elif what == "path":
        del record["events"][1]["inclusion"][0]
    else:
        record["approved_by_the_board"] = True

    assert faults(record)


def test_a_record_signed_by_another_key_proves_nothing(a_committed_payment, settings):
    record = decision_records.of_transaction(a_committed_payment)
    stranger = verify.Key(str(WITNESS.text))

    assert list(verify.record_faults(record, [stranger], []))


def test_a_witness_that_must_have_cosigned_is_asked_for(a_payment):
    row = a_payment()
    checkpoints.make()

    record = decision_records.of_transaction(row)

    assert faults(record) == []
    assert faults(record, WITNESS) == ["witness hostile.example did not cosign this checkpoint."]


def test_a_record_says_plainly_what_is_under_no_checkpoint_yet(a_payment, alice, tmp_path):
    row = a_payment()
    checkpoints.make()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    record = decision_records.of_transaction(row)

    (late,) = record["not_in_checkpoint"]
    assert (late, record["next_checkpoint_within_s"]) == (record["events"][-1]["id"], 60)
    assert faults(record) == []
    file = tmp_path / "record.json"
    file.write_text(decision_records.as_file(record))
    assert verify.verify_record([str(file), "--key", str(LOG)]) == 2


def test_before_the_first_checkpoint_there_is_a_record_as_well(a_payment):
    record = decision_records.of_transaction(a_payment())

    assert (record["checkpoint"], record["keys"]["log"]) == (None, None)
    assert faults(record) == []


def test_a_rejection_has_its_record_too(a_payment, bob):
    row = a_payment()
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="slack", reason="Não.")
    checkpoints.make()

    record = json.loads(decision_records.as_file(decision_records.of_transaction(row)))

    assert faults(record) == []
    (vote,) = record["summary"]["decisions"]
    assert (vote["kind"], vote["via"], vote["reason"]) == ("rejected", "slack", "Não.")


# --- tasks ---------------------------------------------------------------------------------------


def test_the_record_of_a_task_proves_question_answer_and_result(
    a_claimed_task, worker, alice, cosigned
):
    task = a_claimed_task()
    by = {"agent": _principal(worker), "fencing_token": task.fencing_token, "via": "api"}
    question = questions.ask(
        task.pk, text="Which date is right?", evidence=[{"text": "1 May or 2 May"}], **by
    )
    questions.answer(question.pk, "The second.", by=alice, via="web")
    tasks.complete(task.pk, result={"summary": "short", "of": [1, 2.5]}, **by)
    cosigned()

    record = json.loads(decision_records.as_file(of_task(task)))

    assert faults(record, WITNESS) == []
    (asked,) = record["questions"]
    assert json.loads(asked["asked"])["text"] == "Which date is right?"
    assert json.loads(asked["answer"]) == "The second."
    assert unnoticed(record) == []


def _principal(agent):
    return Principal("agent", f"{agent.tenant_id}/{agent.slug}", agent.name)


# --- who may have it -------------------------------------------------------------------------


def test_the_proposing_agent_gets_the_record(as_helpdesk, helpdesk):
    transaction = as_helpdesk.propose().json()["transaction_id"]
    checkpoints.make()

    answer = as_helpdesk.get(f"/transactions/{transaction}/record")

    assert faults(answer.json()) == []
    assert answer["Content-Disposition"].startswith('attachment; filename="decision-record-')
    assert answer["Cache-Control"] == "private, no-store"


def test_another_agent_needs_read_all(as_helpdesk, supervisor, stranger, agent_client):
    transaction = as_helpdesk.propose().json()["transaction_id"]
    path = f"/transactions/{transaction}/record"

    assert agent_client(supervisor).get(path).status_code == 404
    assert agent_client(supervisor, [Scope.DECIDE]).get(path).status_code == 404
    assert agent_client(supervisor, [Scope.READ_ALL]).get(path).status_code == 200
    assert agent_client(stranger, [Scope.READ_ALL]).get(path).status_code == 404


def test_the_desk_has_the_record_as_a_page_and_as_a_file(a_committed_payment, as_alice, as_vera):
    page = as_vera.get(f"/transactions/{a_committed_payment.pk}/record/")
    file = as_alice.get(f"/transactions/{a_committed_payment.pk}/record.json")

    assert faults(file.json()) == []
    text = page.content.decode()
    assert a_committed_payment.receipt in text
    assert "Alice Moreau" in text
    assert "hostile.example" in text
    item = as_alice.get(f"/transactions/{a_committed_payment.pk}/").content.decode()
    assert f"/transactions/{a_committed_payment.pk}/record/" in item


def test_another_tenant_has_no_record(a_committed_payment, as_carol, client):
    for end in ("record/", "record.json"):
        path = f"/transactions/{a_committed_payment.pk}/{end}"
        assert as_carol.get(path).status_code == 404
        assert client.get(path).status_code == 302


def test_the_records_of_tasks_are_for_their_own(a_task, as_orchestrator, as_alice, as_carol):
    task = a_task()
    checkpoints.make()

    assert faults(as_orchestrator.get(f"/api/v1/tasks/{task.pk}/record").json()) == []
    assert faults(as_alice.get(f"/tasks/{task.pk}/record.json").json()) == []
    assert "consolidate" in as_alice.get(f"/tasks/{task.pk}/record/").content.decode()
    assert as_carol.get(f"/tasks/{task.pk}/record/").status_code == 404


def test_what_agents_wrote_is_text_on_the_page(a_payment, as_alice):
    row = a_payment(reference="<script>alert(1)</script>")

    text = as_alice.get(f"/transactions/{row.pk}/record/").content.decode()

    assert "<script>alert" not in text
    assert Transaction.objects.get(pk=row.pk).arguments["reference"].startswith("<script>")


# --- forged records ----------------------------------------------------------------------------


@pytest.fixture
def proved(tmp_path, capsys):
    """Exit status of the script for a record, and what it prints."""

    def prove(text: str, *options: str) -> tuple[int, str]:
        file = tmp_path / "forged.json"
        file.write_text(text)
        status = verify.verify_record([str(file), "--key", str(LOG), *options])
        return status, capsys.readouterr().out

    return prove


def test_a_member_that_is_there_twice_proves_nothing(a_committed_payment, proved):
    """Other readers may take the first of the two."""
    text = decision_records.as_file(decision_records.of_transaction(a_committed_payment))
    twice = text.replace("{", '{"result": "{}", ', 1)

    assert proved(text)[0] == 0
    assert proved(twice)[0] == 1


def test_an_event_has_no_members_that_nothing_proves(a_committed_payment):
    record = decision_records.of_transaction(a_committed_payment)
    record["events"][2]["countersigned_by"] = "the board"

    assert faults(record)


def test_what_nobody_signed_yet_is_not_said_to_be_proved(a_payment, alice, proved):
    """Anybody can write such events, with right hashes."""
    row = a_payment()
    checkpoints.make()
    coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")

    status, printed = proved(decision_records.as_file(decision_records.of_transaction(row)))

    assert status == 2
    assert "is prepared, as its events prove" in printed
    assert "approved by 'Alice Moreau' (user:" in printed.partition("not proved")[2]


def test_a_record_that_nobody_signed_proves_nothing_yet(a_payment, proved):
    status, printed = proved(decision_records.as_file(decision_records.of_transaction(a_payment())))

    assert status == 2
    assert "as its events prove" not in printed


def test_a_cosignature_counts_only_of_a_witness_that_is_trusted(a_committed_payment, proved):
    text = decision_records.as_file(decision_records.of_transaction(a_committed_payment))

    assert "cosigned by nobody" in proved(text)[1]
    assert "cosigned by hostile.example" in proved(text, "--witness", str(HOSTILE))[1]


@pytest.mark.parametrize("at", ["0" * 400, "9" * 30])
def test_odd_numbers_and_control_characters_are_no_way_out(at, a_committed_payment, proved):
    record = decision_records.of_transaction(a_committed_payment)
    record["events"][0] |= {"at": at, "id": "\x1b[2J\nIt proves itself."}

    status, printed = proved(json.dumps(record))

    assert status == 1
    assert "\x1b" not in printed
    assert "\nIt proves itself" not in printed


def test_nesting_without_end_is_no_way_out(proved):
    assert proved("[" * 100_000)[0] == 1


def test_the_amount_that_was_shown_is_the_one_that_was_prepared(a_committed_payment):
    shown = decision_records.of_transaction(a_committed_payment)["shown"]
    forge("UPDATE ledger_transaction SET amount = 4820 WHERE id = %s", str(a_committed_payment.pk))
    a_committed_payment.refresh_from_db()
    digest = seals.row_digest(a_committed_payment)
    reseal(a_committed_payment.pk, row_digest=digest)
    record = decision_records.of_transaction(a_committed_payment) | {"shown": shown}
    for event in record["events"]:  # as under a checkpoint that was made afterwards
        event["leaf_index"] = event["inclusion"] = None
    record |= {
        "checkpoint": None,
        "keys": {"log": None, "witnesses": []},
        "not_in_checkpoint": [event["id"] for event in record["events"]],
    }

    assert faults(record) == ["what was shown and what was prepared differ: amount."]
