"""Programs that the settings name: started for each call, bounded, killed when the time is over."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError

from ledger import execution
from ledger.models import McpUpstream
from ledger.tools.mcp import client, kept_programs
from tests.mcp_gateway.conftest import PEER, gateway
from tests.peers import python_with

PROGRAM = Path(__file__).with_name("programs.py")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def program(settings, acme, tmp_path):
    def add(how):
        command = [sys.executable, "-I", str(PROGRAM), how, str(tmp_path / "did")]
        settings.MCP_COMMANDS = {"files": command}
        gateway("add", "files", "stdio:files")
        gateway("release", "files", "write")
        return tmp_path / "did"

    return add


def committed(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def test_a_program_is_asked_after_the_sign_off(program, signed_off):
    program("well")

    row = committed(signed_off("files_write"))

    assert (row.state, row.receipt) == ("committed", "w_1")


def test_a_program_sees_nothing_of_our_environment(program, signed_off, monkeypatch):
    monkeypatch.setenv("ASSENT_SECRET_KEY", "secret")
    program("environment")

    row = committed(signed_off("files_write"))

    assert "PATH" in row.receipt.split(",")
    assert not [name for name in row.receipt.split(",") if "ASSENT" in name or "DATABASE" in name]


def test_a_program_that_dies_after_its_effect_is_in_doubt_and_is_not_started_again(
    program, signed_off
):
    did = program("dies")

    row = committed(signed_off("files_write"))
    committed(row)

    assert row.state == "in_doubt"
    assert did.read_text() == f"{row.operation_key}\n"


def test_a_program_that_asks_something_is_refused_and_goes_on(program, signed_off):
    program("asks")

    assert committed(signed_off("files_write")).receipt == "-32601"


def test_a_line_without_an_end_is_in_doubt(program, signed_off):
    program("huge")

    assert committed(signed_off("files_write")).state == "in_doubt"


def test_a_program_that_falls_silent_is_in_doubt_once_its_time_is_over(
    program, signed_off, monkeypatch
):
    program("silent")
    row = signed_off("files_write")
    talk = client.talk
    monkeypatch.setattr(
        "ledger.tools.mcp.tool.client.talk",
        lambda *args, timeout_s, **options: talk(*args, timeout_s=1, **options),
    )

    assert committed(row).state == "in_doubt"


def test_a_program_from_before_is_greeted_as_it_knows_it(program, signed_off, monkeypatch):
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 0.5)
    program("old")

    assert committed(signed_off("files_write")).state == "committed"
    assert McpUpstream.objects.get().revision == "2025-06-18"


def test_a_program_that_starts_late_is_waited_for(program, signed_off, monkeypatch):
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 0)
    program("modern")

    assert committed(signed_off("files_write")).receipt == "w_1"
    assert McpUpstream.objects.get().revision == "2026-07-28"


def test_a_program_that_a_question_of_today_ends_is_begun_anew_and_greeted(program, signed_off):
    program("strict")

    assert committed(signed_off("files_write")).receipt == "w_1"
    assert McpUpstream.objects.get().revision == "2025-06-18"


def test_a_call_speaks_the_revision_that_the_list_was_read_in(program, signed_off, monkeypatch):
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 0.1)
    program("old")
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 600)

    assert committed(signed_off("files_write")).receipt == "w_1"


def test_operators_see_the_end_of_what_a_failed_program_wrote_and_agents_nothing(
    program, signed_off, as_helpdesk
):
    program("dies")
    row = committed(signed_off("files_write"))

    assert "Out of paper." in gateway("list", "files")
    assert McpUpstream.objects.get().stderr == "Out of paper.\n"
    assert "paper" not in as_helpdesk.get(f"/transactions/{row.pk}").content.decode()
    assert "paper" not in row.error_detail


def test_what_a_program_writes_is_kept_to_two_kilobytes_and_cannot_command_a_terminal(
    settings, acme
):
    settings.MCP_COMMANDS = {"files": [sys.executable, "-I", str(PROGRAM), "broken"]}

    with pytest.raises(CommandError, match="Good-bye"):
        gateway("add", "files", "stdio:files")

    kept = McpUpstream.objects.get().stderr
    assert kept.endswith("\N{REPLACEMENT CHARACTER}[2J Good-bye.\n")
    assert len(kept) == 2048


def test_a_program_is_added_in_a_file_while_all_runs_unless_others_may_write_it(
    settings, acme, tmp_path
):
    file = tmp_path / "commands.json"
    settings.MCP_COMMANDS_FILE = str(file)
    file.write_text("{}")
    with pytest.raises(CommandError, match=r"commands\.json names no program 'files'"):
        gateway("add", "files", "stdio:files")

    command = [sys.executable, "-I", str(PROGRAM), "well", str(tmp_path)]
    file.write_text(json.dumps({"files": command}))
    assert "waits for an operator" in gateway("sync", "files")

    file.chmod(0o664)
    with pytest.raises(CommandError, match="Others than its owner may write it"):
        gateway("sync", "files")


@pytest.mark.parametrize("command", [None, ["/nowhere/mcp"]])
def test_a_program_that_is_not_there_was_asked_nothing(settings, acme, command):
    settings.MCP_COMMANDS = {} if command is None else {"files": command}

    with pytest.raises(CommandError, match="could not be read"):
        gateway("add", "files", "stdio:files")


# --- servers that nobody here wrote ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_sdks_server_over_its_standard_input(settings, acme, signed_off, tmp_path):
    python = python_with("mcp_python", PEER / "requirements.txt")
    file = tmp_path / "invoices.jsonl"
    command = [str(python), "-I", str(PEER / "server.py"), "stdio", str(file), "2026-07-28"]
    settings.MCP_COMMANDS = {"invoices": command}
    gateway("add", "invoices", "stdio:invoices")
    gateway("release", "invoices", "refund_invoice")
    row = signed_off("invoices_refund_invoice", invoice="7", amount=5)
    assert not file.exists()

    committed(row)

    assert (row.state, row.receipt) == ("committed", "re_1"), row.error_detail
