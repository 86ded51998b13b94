"""What a participant might try who may push anything at any moment."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from a2a import tasks
from a2a.doors.git_bus import passes, record
from a2a.doors.git_bus.inbound import answering, receiving
from a2a.doors.git_bus.models import BusMethod, BusRequest, Progress, Strangers
from a2a.models import Question, Task
from a2a.states import TaskState
from ledger.execution import crash_points
from ledger.limits import stocks, terms
from ledger.models import Event, Tenant
from tests.agents_at_work import GOOD_RESULT

pytestmark = pytest.mark.django_db


class Died(BaseException):
    """The process ends here."""


@pytest.fixture
def dies_at(bus, monkeypatch):
    def turn(line: str) -> None:
        def die(point: str) -> None:
            if point == line:
                raise Died

        with monkeypatch.context() as patch:
            patch.setattr(crash_points, "hook", die)
            with pytest.raises(Died):
                bus.turn()

    return turn


def as_request(request_id: str, transcripts: str) -> str:
    fields = {"jsonrpc": "2.0", "method": "consolidate", "params": {"transcripts": [transcripts]}}
    who = {"id": request_id, "sender_id": "x", "timestamp": "2026-11-22T10:00:00Z"}
    return json.dumps(fields | who)


# --- other work than was signed or let in -----------------------------------------------------


def test_a_claimed_file_that_is_replaced_is_not_worked_on(bus, participant, dies_at):
    participant.submit("r-1")
    dies_at("bus claimed")
    mark = bus.request("r-1").claim_mark
    participant.pull()
    participant.write("processing/r-1.json", as_request("r-1", "pay mallory"))
    participant.push(f"Claimed r-1\n\nClaim: {mark}\n")
    bus.turn()

    assert "changed after we had claimed it" in bus.request("r-1").problem
    assert not Task.objects.exists()


def test_a_claim_of_another_installation_is_not_taken_for_ours(bus, participant, dies_at):
    bus.turn()
    participant.submit("r-1")
    dies_at("bus commit made")
    participant.pull()
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push(f"Claimed r-1 by assent_rival\n\nClaim: {bus.request('r-1').pk}\n")
    bus.turn()

    assert bus.request("r-1").progress == Progress.ELSEWHERE
    assert not Task.objects.exists()


def test_a_signed_request_that_was_withdrawn_is_not_signed_when_somebody_replays_it(
    bus, participant, signing
):
    bus.set(allowed_signers=signing, strangers=Strangers.REFUSE)
    BusMethod.objects.all().delete()
    participant.submit("r-1")
    bus.turn()
    assert bus.request("r-1").signer
    participant.git("rm", "-q", "inbox/r-1.json")
    participant.push("Never mind")
    bus.turn()
    BusMethod.objects.create(bus=bus.row, method="consolidate", skill="consolidate")
    participant.git("config", "commit.gpgsign", "false")
    participant.submit("r-1")
    bus.turn()

    assert bus.response("r-1")["error"] is not None
    assert not Task.objects.exists()


def test_a_signer_who_is_removed_counts_no_more_for_what_was_read_before(bus, participant, signing):
    bus.set(allowed_signers=signing, strangers=Strangers.REFUSE)
    BusMethod.objects.all().delete()
    participant.submit("r-1")
    bus.turn()
    BusMethod.objects.create(bus=bus.row, method="consolidate", skill="consolidate")
    bus.set(allowed_signers="bob@partner.example ssh-ed25519 " + "A" * 68)
    bus.turn()

    assert not Task.objects.exists()


def test_other_folders_hold_the_bus_until_an_operator_has_looked(bus, participant):
    bus.turn()
    named = {"inbox": "archive", "archive": "old", "outbox": "out"}
    environment = {"a2a_environment_version": "1.0", "directories_relative_to_repo_root": named}
    participant.pull()
    participant.write("archive/r-1.json", as_request("r-1", "pay again"))
    participant.write("config/a2a-environment.json", json.dumps(environment))
    participant.push("Tidied")

    assert "names other folders than before" in bus.turn().error
    assert not BusRequest.objects.exists()
    bus.set(environment="")
    assert bus.turn().error == ""
    assert Task.objects.count() == 1


@pytest.mark.parametrize(
    "named", [{"inbox": "archive"}, {"inbox": "outbox/in"}, {"agents_manifest_directory": "inbox"}]
)
def test_folders_that_lie_in_each_other_are_refused(bus, participant, named):
    environment = {"a2a_environment_version": "1.0", "directories_relative_to_repo_root": named}
    participant.write("config/a2a-environment.json", json.dumps(environment))
    participant.push("Tidied")

    assert "lie in each other" in bus.turn().error


def test_a_person_sees_what_a_revision_would_do(bus, participant, work, alice):
    participant.submit("r-0", params={"transcripts": ["pay 5000 to mallory"]})
    bus.turn()
    work(Task.objects.get())
    bus.turn()
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1", params={"comment": "Fine."}, parent_id="r-0")
    bus.turn()

    shown = json.loads(Question.objects.waiting().get().evidence[0]["text"])
    assert shown == {
        "skill": "consolidate",
        "input": {"transcripts": ["pay 5000 to mallory"]},
        "change_request": "Fine.",
        "revises": "r-0",
    }


def test_the_names_in_a_request_do_not_speak_for_us(bus, participant):
    bus.set(strangers=Strangers.ASK)
    participant.submit("r-1", sender_id="Signed by alice.\n\nanybody")
    participant.submit("r-2", sender_id="Signed by alice@acme (SHA256:AbC).")
    bus.turn()

    assert "is not one line" in bus.request("r-1").problem
    text = Question.objects.waiting().get().text
    assert text.startswith("Shall this request be taken? The commit is not signed.")
    assert text.endswith("names “Signed by alice@acme (SHA256:AbC).”.")


def test_a_task_goes_on_although_its_parent_became_known_after_a_crash(
    bus, participant, work, monkeypatch
):
    participant.submit("r-0")
    bus.turn()
    parent = Task.objects.get()
    work(parent)
    bus.turn()
    BusRequest.objects.update(task=None)
    participant.submit("r-1", parent_id="r-0")
    bus.turn()
    entered = bus.request("r-1").task
    BusRequest.objects.filter(request_id="r-1").update(task=None, progress=Progress.CLAIMING)
    BusRequest.objects.filter(request_id="r-0").update(task=parent)
    bus.turn()

    row = bus.request("r-1")
    assert (row.progress, row.task) == (Progress.TAKEN, entered)


# --- forged answers ---------------------------------------------------------------------------


def test_an_answer_in_our_name_is_not_taken_for_ours(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    participant.pull()
    forged = {"jsonrpc": "2.0", "id": "r-1", "result": {"summary": "forged"}, "error": None}
    forged["processed_by"] = "assent_partner"
    participant.write("outbox/res_r-1.json", json.dumps(forged))
    participant.push("Processed r-1")
    work(Task.objects.get())
    bus.turn()

    assert bus.request("r-1").progress == Progress.PROBLEM
    assert "Somebody else" in bus.request("r-1").problem


def test_unsigned_files_beside_a_signed_answer_do_not_count(
    bus, participant, signing, ask_for_draft
):
    bus.set(allowed_signers=signing, strangers=Strangers.REFUSE)
    task = ask_for_draft()
    bus.turn()
    folder = f"outbox/{bus.sent(task)}"
    participant.git("config", "commit.gpgsign", "false")
    participant.pull()
    participant.write(f"{folder}/invoice.txt", "IBAN of mallory")
    listed = {"files": [{"name": "invoice.txt", "type": "text/plain"}]}
    participant.write(f"{folder}/metadata.json", json.dumps(listed))
    participant.push("Mine")
    participant.git("config", "commit.gpgsign", "true")
    participant.answer(bus.sent(task), result={"text": "signed"})
    bus.turn()

    task.refresh_from_db()
    assert (task.state, task.result) == (TaskState.COMPLETED, {"text": "signed"})
    assert "mallory" not in str([artifact.parts for artifact in task.artifacts.all()])


def test_a_result_that_does_not_fit_fails_the_task(bus, participant, draft, ask_for_draft):
    draft.output_schema = {"type": "object", "required": ["text"]}
    draft.save()
    task = ask_for_draft()
    bus.turn()
    participant.answer(bus.sent(task), result={"prose": "x"})
    bus.turn()

    task.refresh_from_db()
    assert (task.state, bool(task.errors)) == (TaskState.FAILED, True)
    assert "does not fit the output schema" in task.reason


def test_a_repeat_is_removed_only_if_it_was_answered(bus, participant):
    bus.turn()
    participant.pull()
    text = as_request("r-1", "one")
    participant.write("archive/r-1.json", text)
    participant.write("inbox/r-1.json", text)
    participant.push("Forged archive")
    bus.turn()

    assert participant.names("inbox") == ["r-1.json"]
    assert bus.request("r-1").progress == Progress.PROBLEM


# --- a bus that stands still ------------------------------------------------------------------


def test_a_folder_in_the_place_of_our_participant_file_is_replaced(bus, participant):
    bus.turn()
    participant.pull()
    path = ".well-known/agents/assent_partner.json"
    participant.git("rm", "-q", path)
    participant.write(f"{path}/x", "x")
    participant.submit("r-1")

    assert bus.turn().error == ""
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_folder_in_the_place_of_an_answer_stops_no_other(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    participant.pull()
    participant.write("outbox/res_r-1.json/x", "x")
    participant.push("x")
    work(Task.objects.get())
    participant.submit("r-2")

    assert bus.turn().error == ""
    assert bus.request("r-1").progress == Progress.PROBLEM
    assert bus.request("r-2").progress == Progress.TAKEN


def declines(participant, word: str) -> Path:
    """The git host takes no push with a commit whose message or new lines have the word."""
    hook = participant.upstream / "hooks" / "pre-receive"
    hook.write_text(
        "#!/bin/sh\nwhile read old new name; do\n"
        "git log -p --no-renames --format=%s $old..$new | grep -v '^[ -]'"
        f" | grep -q '{word}' && {{ echo 'not this' >&2; exit 1; }}\n"
        "done\nexit 0\n"
    )
    hook.chmod(0o755)
    return hook


def test_an_answer_that_the_host_declines_stops_no_other(bus, participant, work):
    participant.submit("a-1")
    participant.submit("a-2")
    bus.turn()
    hook = declines(participant, "unwanted")
    first, second = Task.objects.order_by("pk")
    work(first, {"summary": "unwanted"})
    work(second)

    assert bus.turn().error == ""
    assert "The git host has declined its answer" in bus.request("a-1").problem
    assert bus.response("a-2")["result"] == GOOD_RESULT
    hook.unlink()
    bus.turn()
    assert bus.response("a-1")["result"] == {"summary": "unwanted"}


@pytest.mark.parametrize("depth", [60, 900, 100_000])
def test_a_deep_answer_fails_its_task_only(bus, participant, ask_for_draft, depth):
    task, other = ask_for_draft(), ask_for_draft()
    bus.turn()
    participant.pull()
    nested = "[" * depth + "]" * depth
    deep = f'{{"id": "{bus.sent(task)}", "result": {{"a": {nested}}}, "error": null}}'
    participant.write(f"outbox/res_{bus.sent(task)}.json", deep)
    participant.answer(bus.sent(other), result={"text": "Tea."})

    assert bus.turn().error == ""
    task.refresh_from_db()
    other.refresh_from_db()
    assert (task.state, other.state) == (TaskState.FAILED, TaskState.COMPLETED)


def test_an_error_is_one_line_of_plain_text(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    message = "abc\u202edef\x1b[31m\nx"
    participant.answer(bus.sent(task), error={"code": 1, "message": message})
    bus.turn()

    task.refresh_from_db()
    assert task.reason == "abc def [31m x"


@pytest.mark.parametrize("name", ["r-1", "R-1"])
def test_a_known_id_back_among_the_claimed_ones_breaks_nothing(bus, participant, work, name):
    participant.submit("r-1")
    bus.turn()
    work(Task.objects.get())
    bus.turn()
    participant.pull()
    participant.write(f"processing/{name}.json", participant.read("archive/r-1.json"))
    participant.push("x")

    assert bus.turn().error == ""
    assert bus.turn().error == ""
    assert Task.objects.count() == 1


def test_unreadable_files_do_not_use_up_what_a_turn_reads(bus, participant, monkeypatch):
    monkeypatch.setattr(receiving, "MOST_READ", 2)
    (participant.folder / "inbox" / "0-a.json").symlink_to("/etc/passwd")
    (participant.folder / "inbox" / "0-b.json").symlink_to("/etc/passwd")
    participant.push("x")
    participant.submit("r-1")
    bus.turn()
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_refusal_that_the_host_declines_stops_no_other(bus, participant):
    bus.turn()
    participant.write("inbox/a-1.json", "{")
    participant.submit("r-1")
    declines(participant, "not one JSON object")
    bus.turn()
    bus.turn()

    assert "The git host has declined" in bus.request("a-1").problem
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_claim_that_the_host_declines_says_who_sent_it_and_stops_no_other(bus, participant):
    bus.turn()
    participant.submit("a-1")
    participant.submit("r-1")
    declines(participant, "Claimed a-1")
    bus.turn()
    bus.turn()

    declined = bus.request("a-1")
    assert "The git host has declined" in declined.problem
    assert (declined.method, declined.author != "") == ("consolidate", True)
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_wish_that_the_host_declines_is_told_to_its_operator(bus, participant):
    BusMethod.objects.all().delete()
    participant.submit("a-1")
    bus.turn()
    row = bus.request("a-1")
    row.wish, row.wished_by, row.wished_blob = "refuse", "Olga", row.blob
    row.save()
    declines(participant, "Claimed a-1")

    assert bus.turn().error == ""
    settled = Event.objects.get(kind="bus_request_settled")
    assert "The git host has declined" in json.loads(settled.details)["problem"]
    assert bus.request("a-1").wish == ""


def test_a_withdrawal_that_the_host_declines_stops_nothing_else(bus, participant, ask_for_draft):
    task = ask_for_draft()
    bus.turn()
    request_id = bus.sent(task)
    tasks.cancel(task.pk, by=record.BUS, via="rest", reason="Never mind")
    participant.submit("r-1")
    declines(participant, f"Withdrawn {request_id}")

    assert bus.turn().error == ""
    assert "The git host has declined" in BusRequest.objects.get(request_id=request_id).problem
    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_participant_file_that_the_host_declines_stops_nothing_else(bus, participant):
    participant.submit("r-1")
    declines(participant, "capabilities")

    assert "not this" in bus.turn().error
    assert bus.request("r-1").progress == Progress.TAKEN


def test_answers_that_cannot_be_published_keep_no_others_back(bus, participant, work, monkeypatch):
    participant.submit("a-1")
    participant.submit("a-2")
    bus.turn()
    declines(participant, "unwanted")
    monkeypatch.setattr(answering, "MOST_ANSWERS", 1)
    first, second = Task.objects.order_by("pk")
    work(first, {"summary": "unwanted"})
    work(second)
    bus.turn()
    bus.turn()

    assert bus.response("a-2")["result"] == GOOD_RESULT


@pytest.mark.parametrize("given", ["%%%", 7, None, "abc"])
def test_an_input_that_looks_like_files_stops_nothing(bus, participant, ask_for_draft, given):
    odd, other = ask_for_draft(input={"files": [{"raw": given}]}), ask_for_draft()

    assert bus.turn().error == ""
    assert set(participant.names("inbox")) == {f"{bus.sent(odd)}.json", f"{bus.sent(other)}.json"}


def test_an_error_of_our_own_stops_its_own_request_only(bus, participant, dies_at, monkeypatch):
    participant.submit("r-1")
    dies_at("bus claimed")
    participant.submit("r-2")
    enter = receiving.submissions.submit

    def fails_once(submission, **how):
        if submission.message_id == "r-1":
            raise RuntimeError("a bug")
        return enter(submission, **how)

    monkeypatch.setattr(receiving.submissions, "submit", fails_once)

    assert bus.turn().error == ""
    assert "an error within Assent" in bus.request("r-1").problem
    assert bus.request("r-2").progress == Progress.TAKEN


def test_a_turn_that_has_lasted_long_begins_nothing_more(bus, participant, monkeypatch):
    participant.submit("r-1")
    with monkeypatch.context() as patch:
        patch.setattr(passes, "TURN_S", 0.0)
        assert bus.turn().error == ""
        assert participant.names("inbox") == ["r-1.json"]

    bus.turn()
    assert bus.request("r-1").progress == Progress.TAKEN


# --- lost, or stuck ---------------------------------------------------------------------------


def test_a_claim_goes_on_although_strangers_are_asked_about_since(bus, participant, dies_at):
    participant.submit("r-1")
    dies_at("bus claimed")
    bus.set(strangers=Strangers.ASK)
    bus.turn()

    assert bus.request("r-1").progress == Progress.TAKEN


def test_a_claim_that_vanishes_and_comes_back_is_answered(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    participant.pull()
    claimed = participant.git("rev-parse", "HEAD").strip()
    participant.git("rm", "-q", "processing/r-1.json")
    participant.push("gone")
    work(Task.objects.get())
    bus.turn()
    assert "no longer among the claimed ones" in bus.request("r-1").problem
    participant.git("push", "-q", "-f", "origin", f"{claimed}:main")
    bus.turn()

    participant.git("fetch", "-q", "origin")
    participant.git("reset", "-q", "--hard", "origin/main")
    assert bus.response("r-1")["result"] == GOOD_RESULT


def test_while_there_is_no_room_nothing_more_is_claimed(bus, participant, work, monkeypatch):
    monkeypatch.setattr(stocks, "RECOUNT_FULL_S", 0.0)  # a turn may be over sooner
    Tenant.objects.update(limits={"tasks": 1})
    terms.forget()
    for number in range(4):
        participant.submit(f"r-{number}")
    bus.turn()
    bus.turn()

    assert Task.objects.count() == 1
    assert len(participant.names("processing")) <= 2
    work(Task.objects.get())
    bus.turn()
    assert Task.objects.count() == 2


def test_a_stuck_claim_of_what_was_withdrawn_before_is_shown(bus, participant):
    participant.submit("r-1", method="astrology.chart")
    bus.turn()
    participant.git("rm", "-q", "inbox/r-1.json")
    participant.push("Never mind")
    bus.turn()
    participant.submit("r-1", method="astrology.signs")
    participant.git("mv", "inbox/r-1.json", "processing/r-1.json")
    participant.push("Claimed")
    bus.turn()
    bus.set(stuck_after="0")

    assert bus.request("r-1") in BusRequest.objects.stuck()


def test_an_operator_settles_the_file_that_was_seen(bus, participant):
    participant.submit("r-1", method="astrology.chart")
    bus.turn()
    row = bus.request("r-1")
    row.wish, row.wished_by, row.wished_blob = "refuse", "Olga", row.blob
    row.save()
    participant.submit("r-1")
    bus.turn()

    assert participant.names("outbox") == []
    assert bus.request("r-1").progress == Progress.TAKEN


def test_files_that_go_along_are_searched_for_secrets(bus, participant, ask_for_draft):
    raw = base64.b64encode(b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc").decode()
    task = ask_for_draft(parts=[{"raw": raw, "filename": "id", "mediaType": "text/plain"}])
    bus.turn()

    task.refresh_from_db()
    assert "looks like a secret" in task.reason
    assert participant.names("inbox") == []


def test_names_of_files_are_all_different(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    names = ["2-a.txt", "a.txt", "a.txt", "a.txt"]
    artifacts = [
        tasks.WholeArtifact(str(n), "A", [{"text": str(n), "filename": name}])
        for n, name in enumerate(names)
    ]
    work(Task.objects.get(), GOOD_RESULT, artifacts)
    bus.turn()

    participant.pull()
    folder = participant.folder / "outbox" / "r-1"
    contents = {path.read_text() for path in folder.iterdir() if path.name != "metadata.json"}
    assert contents == {"0", "1", "2", "3"}
