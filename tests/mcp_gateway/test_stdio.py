"""Programs that the settings name: started for each call, bounded, killed when the time is over."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError

from ledger import execution
from ledger.models import McpUpstream
from ledger.tools.mcp import client
from tests.mcp_gateway.conftest import PEER, gateway
from tests.peers import PEERS, installed, python_with

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
    monkeypatch.setattr(client, "PROGRAM_ANSWERS_S", 0.5)
    program("old")

    assert committed(signed_off("files_write")).state == "committed"
    assert McpUpstream.objects.get().revision == "2025-06-18"


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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js (Debian: nodejs npm)")
def test_the_reference_servers_file_is_written_only_after_the_sign_off(
    settings, acme, signed_off, tmp_path, as_helpdesk
):
    folder = installed("mcp_filesystem", "@modelcontextprotocol/server-filesystem")
    script = folder / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    settings.MCP_COMMANDS = {"files": [shutil.which("node"), str(script), str(tmp_path)]}
    gateway("add", "files", "stdio:files")
    gateway("release", "files", "write_file")
    gateway("release", "files", "read_text_file", read_only=True)
    note = tmp_path / "note.txt"

    row = signed_off("files_write_file", path=str(note), content="Signed.")
    assert not note.exists()
    committed(row)

    assert row.state == "committed", row.error_detail
    assert row.receipt.startswith("sha256:")
    assert note.read_text() == "Signed."
    read = as_helpdesk.post("/tools/files_read_text_file/call", {"arguments": {"path": str(note)}})
    assert read.json()["result"] == {"content": "Signed."}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_reference_servers_commit_is_made_only_after_the_sign_off(
    settings, acme, signed_off, tmp_path
):
    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, text=True)
        return done.stdout

    git("init", "-q")
    git("config", "user.name", "Assent")
    git("config", "user.email", "assent@example.org")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    python = python_with("mcp_git", PEERS / "mcp_git" / "requirements.txt")
    command = [str(python), "-m", "mcp_server_git", "--repository", str(tmp_path)]
    settings.MCP_COMMANDS = {"git": command}
    gateway("add", "git", "stdio:git")
    gateway("release", "git", "git_commit")
    row = signed_off("git_git_commit", repo_path=str(tmp_path), message="Signed off.")
    assert git("log", "--oneline") == ""

    committed(row)
    committed(row)

    assert row.state == "committed", row.error_detail
    assert git("log", "--format=%s").split("\n") == ["Signed off.", ""]
