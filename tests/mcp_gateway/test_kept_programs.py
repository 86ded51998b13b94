"""Programs that are kept running: for the next call of the same server, as long as all is well."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger import execution
from ledger.tools.mcp import client, kept_programs
from tests.mcp_gateway.conftest import gateway
from tests.processes import ROOT, until

PROGRAM = Path(__file__).with_name("programs.py")
OWNER = "acme/files"


@pytest.fixture
def name(settings, tmp_path):
    """The name of a program that answers each call with the id of its process."""

    def command(how="process", *further):
        settings.MCP_COMMANDS = {"files": [sys.executable, "-I", str(PROGRAM), how, *further]}

    command("process", str(tmp_path / "did"))
    return command


async def _call(talk, text=""):
    await talk.tools()
    meta = {"assent/operation-key": "key"}
    result = await talk.call("write", {"text": text}, meta)
    return int(result["structuredContent"]["id"])


def process_of_a_call(owner=OWNER, say=_call, **options):
    """The id of the process that answered."""
    return client.talk("stdio:files", say, owner=owner, timeout_s=20, **options)


def runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_next_call_is_answered_by_the_same_process(name):
    assert process_of_a_call() == process_of_a_call()


def test_a_program_of_before_is_kept_as_well_and_its_pings_are_answered(name, monkeypatch):
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 0.1)
    name("old")
    pids = []

    async def say(talk):
        pids.append(talk._connection._process.pid)
        return await talk.tools()

    process_of_a_call(say=say)
    process_of_a_call(say=say, revision="2025-06-18")

    assert len(set(pids)) == 1


def test_no_other_server_and_no_other_tenant_is_given_it(name):
    owners = (OWNER, "acme/other", "globex/files")

    assert len({process_of_a_call(owner) for owner in owners}) == 3


def test_a_command_that_was_changed_starts_another(name, tmp_path):
    before = process_of_a_call()

    name("process", str(tmp_path / "elsewhere"))

    assert process_of_a_call() != before


def test_one_that_died_or_stands_still_meanwhile_is_replaced_before_the_call(name):
    for number in (signal.SIGKILL, signal.SIGSTOP):
        before = process_of_a_call()
        os.kill(before, number)

        assert process_of_a_call() != before
        assert not runs(before)


def test_one_whose_talk_failed_is_not_used_again(name):
    async def silent(talk):
        process = await _call(talk)
        failed.append(process)
        raise TimeoutError

    failed: list[int] = []
    with pytest.raises(TimeoutError):
        process_of_a_call(say=silent)

    assert not runs(failed[0])
    assert process_of_a_call() != failed[0]


def test_one_that_was_spoken_to_in_another_revision_than_its_own_is_not_used_again(name, tmp_path):
    """Its revision was noted before somebody replaced it by an older one."""
    name("formal", str(tmp_path / "did"))

    async def say(talk):
        await talk.tools()
        return talk.revision

    assert process_of_a_call(say=say, revision="2026-07-28") == "2025-06-18"


def test_a_refusal_is_an_answer_and_the_program_is_used_again(name, tmp_path):
    name("refuses", str(tmp_path / "did"))
    before = process_of_a_call()

    async def refused(talk):
        await _call(talk, "no")

    with pytest.raises(kept_programs.ServerError, match=f"Process {before} refuses"):
        process_of_a_call(say=refused)

    assert process_of_a_call() == before


def test_two_calls_at_once_never_share_a_process(name):
    both = threading.Barrier(2)

    async def at_once(talk):
        process = await _call(talk)
        await asyncio.to_thread(both.wait, 20)
        return process

    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(process_of_a_call, say=at_once) for _ in range(2)]
        processes = {call.result() for call in calls}

    assert len(processes) == 2
    assert {process_of_a_call() for _ in range(3)} <= processes, "both are kept"


def test_it_ends_when_nobody_has_talked_with_it_for_a_while(name, monkeypatch):
    monkeypatch.setattr(kept_programs, "IDLE_S", 0.1)
    process = process_of_a_call()

    until(lambda: not runs(process), 90, "it has ended")
    assert process_of_a_call() != process


def test_one_that_is_used_all_the_time_is_started_anew_after_a_while(name, monkeypatch):
    monkeypatch.setattr(kept_programs, "AGE_S", 0.0)
    process = process_of_a_call()

    until(lambda: not runs(process), 90, "it has ended")


def test_few_are_kept_the_last_ones_used(name):
    processes = [process_of_a_call(f"acme/{number}") for number in range(kept_programs.MOST + 2)]

    until(lambda: not runs(processes[0]) and not runs(processes[1]), 90, "the first have ended")
    assert all(runs(process) for process in processes[2:])


@pytest.mark.slow
def test_they_end_with_the_process_that_keeps_them(tmp_path):
    text = f"""
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "approvals.settings"
import django
django.setup()
from django.conf import settings
settings.MCP_COMMANDS = {{"files": {[sys.executable, "-I", str(PROGRAM), "process"]!r}}}
from tests.mcp_gateway.test_kept_programs import process_of_a_call
print(process_of_a_call())
"""
    ran = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not runs(int(ran.stdout))


@pytest.mark.django_db(transaction=True)
def test_two_signed_off_calls_are_carried_out_by_one_process(settings, acme, signed_off, tmp_path):
    command = [sys.executable, "-I", str(PROGRAM), "process", str(tmp_path / "did")]
    settings.MCP_COMMANDS = {"files": command}
    gateway("add", "files", "stdio:files")
    gateway("release", "files", "write")
    receipts = set()
    for text in ("one", "two"):
        row = signed_off("files_write", text=text)
        execution.commit(row.pk)
        row.refresh_from_db()
        receipts.add(row.receipt)

    assert len(receipts) == 1
    assert len((tmp_path / "did").read_text().splitlines()) == 2
