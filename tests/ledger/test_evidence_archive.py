"""An archive for auditors proves itself offline, and nothing in it can be changed unnoticed."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from a2a.tasks import questions
from examples import verify
from ledger import execution
from ledger.principals import Principal, Surface, user
from ledger.proof import retention
from ledger.proof.archive import Archive, NotYetSigned, Period, contents, summaries
from ledger.proof.log import checkpoints
from ledger.sign_off import groups
from ledger.sign_off.rules import sets
from ledger.transactions import coordinator
from tests.forgery import end_retention
from tests.ledger.test_log_witness import LOG

pytestmark = pytest.mark.django_db

KEY = verify.Key(str(LOG))
OPERATORS = Principal("user", "101", "Olga"), Principal("user", "102", "Otto")
ASKS = [{"when": {"tool": {"is": ["pay"]}}, "then": {"verdict": "ask"}}]


def period_of(tenant: str) -> Period:
    now = timezone.now()
    return Period(tenant, now - timedelta(days=1), now)


def made(tenant: str = "acme", sample: int = 2, **options: Any) -> bytes:
    checkpoints.make()
    file = BytesIO()
    with Archive(file, period_of(tenant), sample) as archive:
        archive.write(with_ledger=options.get("with_ledger", False))
        event = archive.record(user(101, "Olga"))
        checkpoints.make()
        archive.seal(event)
    return file.getvalue()


def faults(raw: bytes, **wanted: str) -> list[str]:
    with zipfile.ZipFile(BytesIO(raw)) as file:
        archive = verify.EvidenceArchive(file, [KEY], [])
        return list(verify.evidence_faults_of(archive, wanted))


def files_of(raw: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(raw)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(files: dict[str, bytes]) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


def table(raw: bytes, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(files_of(raw)[name].decode(), newline="")))


@pytest.fixture
def decisions(approved, a_payment, alice, globex):
    """One carried out, one rejected, one that waits, and one of another tenant."""
    rows = [approved(reference="order-of-nobody"), a_payment()]
    execution.commit(rows[0].pk)
    coordinator.reject(
        rows[1].pk, digest=rows[1].intent_digest, by=alice, via="web", reason='=cmd, "quoted"'
    )
    a_payment()
    return rows


@pytest.fixture
def rules(acme):
    draft = sets.edit("acme", ASKS, seen="", by=OPERATORS[0])
    sets.activate("acme", seen=draft.sha256, by=OPERATORS[0], via=Surface.WEB)


def test_it_has_the_decisions_of_the_period_and_proves_itself(decisions, rules, alice):
    raw = made()

    assert faults(raw, tenant="acme") == []
    shown = {row["id"]: row for row in table(raw, "decisions.csv")}
    assert shown.keys() == {str(row.pk) for row in decisions}
    assert shown[str(decisions[0].pk)]["state"] == "committed"
    assert shown[str(decisions[1].pk)]["decided_by"].startswith("rejected:user:")
    in_force = [json.loads(line) for line in files_of(raw)["rules.jsonl"].splitlines()]
    assert [(each["number"], each["confirmed_by_name"]) for each in in_force] == [(1, "Olga")]
    held = {(row["what"], row["name"], row["principal"]) for row in table(raw, "holders.csv")}
    assert ("role", "approver", str(alice)) in held


def test_it_has_what_people_answered_agents(a_claimed_task, worker, alice):
    task = a_claimed_task()
    agent = Principal("agent", f"{worker.tenant_id}/{worker.slug}", worker.name)
    by: dict[str, Any] = {"agent": agent, "fencing_token": task.fencing_token, "via": "api"}
    question = questions.ask(task.pk, text="Which date is right?", evidence=[], **by)
    questions.answer(question.pk, "The second.", by=alice, via="web")

    raw = made()

    assert faults(raw) == []
    (row,) = table(raw, "decisions.csv")
    assert (row["type"], row["id"]) == ("task", str(task.pk))
    assert row["decided_by"] == f"task_answered:{alice}"
    assert "The second." in files_of(raw)["records.jsonl"].decode()


def test_who_was_in_a_group_and_until_when_is_told(decisions, acme):
    groups.make("acme", "finance", by=OPERATORS[0], via=Surface.WEB)
    group = groups.Group.objects.get(name="finance")
    system = Principal("system", "command", "root on the server")
    groups.add(
        group,
        user(7, "-Ann"),
        starts_at=timezone.now(),
        ends_at=None,
        in_place_of=None,
        by=system,
        via=Surface.COMMAND,
    )
    groups.remove(group.members.get(), by=OPERATORS[1], via=Surface.WEB)

    raw = made()

    assert faults(raw) == []
    (row,) = [row for row in table(raw, "holders.csv") if row["what"] == "group"]
    assert (row["name"], row["principal"], row["person"]) == ("finance", "user:7", "'-Ann")
    assert row["ended_by"] == "user:102"
    assert row["since"] < row["until"]


def test_the_sample_is_chosen_by_chance_and_is_the_same_each_time(decisions):
    raw, again = made(sample=1), made(sample=1)

    (row,) = table(raw, "sample.csv")
    assert (row["looked_at_by"], row["result"]) == ("", "")
    assert files_of(again)["sample.csv"] == files_of(raw)["sample.csv"]
    chance = json.loads(files_of(raw)["manifest.json"])["sample"]["chance"]
    order = sorted(
        (hashlib.sha256(f"{chance}{each.pk}".encode()).hexdigest(), str(each.pk))
        for each in decisions
    )
    assert row["id"] == order[0][1]


def test_every_file_is_noticed_that_is_changed_missing_or_added(decisions, rules):
    files = files_of(made())
    assert faults(packed(files)) == []

    for name, content in files.items():
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        command = [{**files, name: flipped}, {k: v for k, v in files.items() if k != name}]
        for changed in command:
            assert is_refused(packed(changed)), name
    assert is_refused(packed({**files, "more.txt": b"!"}))


def is_refused(raw: bytes) -> bool:
    try:
        return bool(faults(raw))
    except verify.UNREADABLE_ARCHIVE:
        return True


def test_nothing_is_hidden_beside_the_files(decisions):
    """A program that reads from the front, or by other entries, would show something else."""
    raw = made()
    linked, commented = BytesIO(), BytesIO(raw)
    with zipfile.ZipFile(linked, "w") as archive:
        for name, content in files_of(raw).items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, content)
    with zipfile.ZipFile(commented, "a") as archive:
        archive.comment = b"PK"
    other = packed({"decisions.csv": b"another"})[:-22]

    assert faults(packed(files_of(raw))) == []
    for forged in (other + raw, raw + other, linked.getvalue(), commented.getvalue()):
        assert "there is more in it" in str(faults(forged))


def test_a_file_that_grows_without_end_is_not_unpacked(decisions):
    files = files_of(made())
    for name in ("manifest.json", "seal.json"):
        bomb = packed(files | {name: b" " * (verify.MOST_OF_ONE + 1)})
        with pytest.raises(ValueError, match=f"{name} is larger"):
            faults(bomb)


def test_a_manifest_that_fits_changed_files_is_not_the_sealed_one(decisions):
    files = files_of(made())
    manifest = json.loads(files["manifest.json"])
    for each in manifest["files"]:
        if each["name"] == "README.txt":
            each |= {"bytes": 1, "sha256": hashlib.sha256(b"!").hexdigest()}

    changed = {**files, "README.txt": b"!", "manifest.json": json.dumps(manifest).encode()}

    assert faults(packed(changed)) == ["the manifest is not the one that was sealed."]


@pytest.mark.parametrize("member", ["tenant", "from", "to"])
def test_it_passes_for_no_other_tenant_or_period(decisions, member):
    raw = made()
    files = files_of(raw)
    manifest = {**json.loads(files["manifest.json"]), member: "2026-01-01T00:00:00.000000Z"}

    assert is_refused(packed({**files, "manifest.json": json.dumps(manifest).encode()}))
    assert len(faults(raw, **{member: "globex"})) == 1


def test_files_of_another_archive_are_noticed(decisions, approved):
    files = files_of(made())
    approved()
    later = files_of(made())

    for name in ("records.jsonl", "decisions.csv", "sample.csv", "seal.json", "changes.jsonl"):
        assert files[name] == later[name] or is_refused(packed({**files, name: later[name]})), name


def sample_of_its_choice(right: Any) -> Any:
    return lambda self: [*reversed(right(self))]


def none_of_them(right: Any) -> Any:
    return lambda *args: []


def first_only(right: Any) -> Any:
    return lambda *args: list(right(*args))[1:]


def of_all_tenants(right: Any) -> Any:
    def records(period: Period) -> Any:
        yield from right(period)
        yield from right(replace(period, tenant="globex"))

    return records


def later_chance(right: Any) -> Any:
    def head_of(period: Period) -> Any:
        groups.make("acme", "later", by=OPERATORS[0], via=Surface.WEB)
        return checkpoints.make()

    return head_of


def as_if_undone(right: Any) -> Any:
    return lambda *args: {**right(*args), "state": "aborted"}


@pytest.mark.parametrize(
    ("where", "name", "wrong", "told"),
    [
        (summaries, "decision_of", as_if_undone, "decisions.csv does not say"),
        (summaries.Sample, "rows", sample_of_its_choice, "sample.csv is not what chance"),
        (summaries, "rules_in_force", none_of_them, "rules.jsonl is not what the events say"),
        (summaries, "holdings", first_only, "holders.csv is not what the events say"),
        (contents, "records", of_all_tenants, "is of another tenant"),
        (contents, "head_of", later_chance, "the chance for the sample is not that of the log"),
    ],
)
def test_whoever_makes_it_cannot_seal_what_the_events_do_not_say(
    decisions, rules, a_transaction, monkeypatch, where, name, wrong, told
):
    """As changed code would write it: the verifier makes all of it again."""
    other = a_transaction(tenant="globex", agent="robot")
    coordinator.reject(
        other.pk, digest=other.intent_digest, by=user(9, "Carol"), via="web", reason="no"
    )
    checkpoints.make()
    monkeypatch.setattr(where, name, wrong(getattr(where, name)))

    assert any(told in fault for fault in faults(made()))


def test_with_the_ledger_a_decision_that_was_left_out_is_noticed(decisions, monkeypatch):
    assert faults(made(with_ledger=True)) == []
    right = contents.records
    monkeypatch.setattr(contents, "records", lambda period: list(right(period))[:1])

    assert faults(made()) == []
    assert faults(made(with_ledger=True)) == [
        "the archive leaves out decisions or changes that the ledger has."
    ]


def test_content_that_was_erased_stays_erased(decisions):
    row = decisions[0]
    text = f"EUR for {row.arguments['reference']}"
    end_retention(row.pk)
    assert text in files_of(made())["records.jsonl"].decode()

    assert retention.erase_batch() == 1

    raw = made()
    assert faults(raw) == []
    assert text not in b"".join(files_of(raw).values()).decode()


def test_nothing_is_sealed_before_its_events_are_signed(decisions):
    archive = Archive(BytesIO(), period_of("acme"), 1)
    with pytest.raises(NotYetSigned):
        archive.write(with_ledger=False)
    checkpoints.make()
    assert archive.write(with_ledger=False) == 2
    event = archive.record(user(101, "Olga"))

    with pytest.raises(NotYetSigned):
        archive.seal(event)


def test_a_tenant_without_decisions_has_an_archive_too(globex, a_payment):
    a_payment()

    raw = made("globex")

    assert faults(raw, tenant="globex") == []
    assert table(raw, "sample.csv") == []


def options(out: Any, tenant: str = "acme", first: str = "2026-01-01") -> dict[str, Any]:
    last = f"{timezone.now() + timedelta(days=1):%Y-%m-%d}"
    return {"args": ["--tenant", tenant, "--from", first, "--to", last, "--out", str(out)]}


@pytest.mark.django_db(transaction=True)
def test_the_command_waits_for_the_log_and_its_archive_verifies_offline(decisions, tmp_path):
    out, is_done = tmp_path / "archive.zip", threading.Event()
    (tmp_path / "archive.zip.new").touch(0o666)  # of somebody who would read it

    def sign() -> None:
        while not is_done.wait(0.2):
            checkpoints.make()
        connection.close()

    signing = threading.Thread(target=sign)
    signing.start()
    try:
        call_command("evidence", *options(out)["args"])
    finally:
        is_done.set()
        signing.join()

    assert out.stat().st_mode & 0o777 == 0o600
    (tmp_path / "verify.py").write_bytes(files_of(out.read_bytes())["verify.py"])
    command = [sys.executable, "-I", "verify.py", "evidence", "archive.zip", "--key", str(LOG)]
    done = subprocess.run(
        command, cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 decisions of acme" in done.stdout


def test_without_checkpoints_the_command_writes_nothing_and_says_why(
    decisions, tmp_path, monkeypatch, settings
):
    from ledger.management.commands import evidence

    monkeypatch.setattr(evidence, "LEAST_PATIENCE_S", 0.0)
    settings.CHECKPOINT_EVERY_S = 0

    with pytest.raises(CommandError, match="Look whether a sweeper runs"):
        call_command("evidence", *options(tmp_path / "archive.zip")["args"])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tenant", "first", "why"),
    [("nobody", "2026-01-01", "no tenant nobody"), ("acme", "2126-01-01", "period is empty")],
)
def test_a_period_that_cannot_be_is_refused(acme, tmp_path, tenant, first, why):
    with pytest.raises(CommandError, match=why):
        call_command("evidence", *options(tmp_path / "a.zip", tenant, first)["args"])

    assert list(tmp_path.iterdir()) == []
