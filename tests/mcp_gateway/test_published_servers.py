"""Servers that others wrote and published, unchanged: over HTTP and as programs."""

from __future__ import annotations

import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from django.core.management import CommandError

from ledger import execution
from ledger.models import McpUpstream, UpstreamTool
from ledger.tools.mcp import kept_programs
from tests.mcp_gateway.conftest import gateway
from tests.peers import PEERS, installed, python_with
from tests.processes import free_port

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.timeout(600),  # the first test installs the servers
]
npm = pytest.mark.skipif(not shutil.which("npm"), reason="needs Node.js (Debian: nodejs npm)")
PACKAGES = "@modelcontextprotocol"


def javascript(name: str) -> list[str]:
    """The command of a server of npm."""
    folder = installed("mcp_servers", f"{PACKAGES}/server-{name}")
    script = folder / f"node_modules/{PACKAGES}/server-{name}/dist/index.js"
    return [shutil.which("node") or "node", str(script)]


def python(name: str) -> str:
    """The command of a server of PyPI."""
    interpreter = python_with("mcp_servers", PEERS / "mcp_servers" / "requirements.txt")
    return str(interpreter.with_name(f"mcp-server-{name}"))


@pytest.fixture
def program(settings, acme):
    def add(name: str, *command: str) -> None:
        settings.MCP_COMMANDS = {name: list(command)}
        gateway("add", name, f"stdio:{name}")

    return add


@pytest.fixture
def everything():
    """The reference server over Streamable HTTP."""
    port = free_port()
    process = subprocess.Popen(
        [*javascript("everything"), "streamableHttp"],
        env={"PORT": str(port), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    address = f"http://127.0.0.1:{port}/mcp"
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(address)
            break
        except httpx.TransportError:
            assert process.poll() is None
            assert time.monotonic() < deadline
    yield address, process
    process.kill()
    process.communicate()


def kill_once_called(process):
    """It logs each request: four to read its list, and four to call a tool."""
    logged = (line for line in process.stdout if "POST" in line)
    for _ in zip(range(8), logged, strict=False):
        pass
    process.kill()


def committed(row):
    execution.commit(row.pk)
    row.refresh_from_db()
    return row


def read(as_helpdesk, tool, **arguments):
    answer = as_helpdesk.post(f"/tools/{tool}/call", {"arguments": arguments})
    assert answer.status_code == 200, answer.json()
    return answer.json()["result"]


@npm
def test_the_reference_server_over_http_is_listed_read_and_called(
    everything, acme, signed_off, as_helpdesk
):
    gateway("add", "every", everything[0])
    gateway("release", "every", "echo", read_only=True)
    gateway("release", "every", "get-sum")

    row = committed(signed_off("every_get_sum", a=2, b=3))

    assert read(as_helpdesk, "every_echo", message="hello") == "Echo: hello"
    assert row.state == "committed", row.error_detail
    assert row.receipt.startswith("sha256:")
    assert McpUpstream.objects.get().revision == "2025-11-25"


@npm
def test_the_reference_server_that_is_killed_while_it_works_is_in_doubt(
    everything, acme, signed_off
):
    address, process = everything
    gateway("add", "every", address)
    gateway("release", "every", "trigger-long-running-operation")
    row = signed_off("every_trigger_long_running_operation", duration=600, steps=2)
    with ThreadPoolExecutor() as threads:
        threads.submit(kill_once_called, process)
        committed(row)

    assert row.state == "in_doubt", row.error_detail


@npm
def test_the_reference_server_as_a_program_is_listed_read_and_called(
    program, signed_off, as_helpdesk
):
    program("every", *javascript("everything"))
    gateway("release", "every", "echo", read_only=True)
    gateway("release", "every", "get-sum")

    row = committed(signed_off("every_get_sum", a=2, b=3))

    assert read(as_helpdesk, "every_echo", message="hello") == "Echo: hello"
    assert row.state == "committed", row.error_detail


@npm
def test_the_memory_server_keeps_what_was_signed_off(program, signed_off, as_helpdesk):
    program("memory", *javascript("memory"))
    gateway("release", "memory", "create_entities")
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}

    row = committed(signed_off("memory_create_entities", entities=[entity]))

    assert row.state == "committed", row.error_detail
    assert row.receipt.startswith("sha256:")


@npm
def test_the_thinking_server_is_called_after_the_sign_off(program, signed_off):
    program("thinking", *javascript("sequential-thinking"))
    gateway("release", "thinking", "sequentialthinking")
    thought = {"thought": "One.", "nextThoughtNeeded": False, "thoughtNumber": 1}

    row = committed(signed_off("thinking_sequentialthinking", **thought, totalThoughts=1))

    assert row.state == "committed", row.error_detail


@npm
def test_the_file_servers_file_is_written_only_after_the_sign_off(
    program, signed_off, as_helpdesk, tmp_path
):
    program("files", *javascript("filesystem"), str(tmp_path))
    gateway("release", "files", "write_file")
    gateway("release", "files", "read_text_file", read_only=True)
    note = tmp_path / "note.txt"

    row = signed_off("files_write_file", path=str(note), content="Signed.")
    assert not note.exists()
    committed(row)

    assert row.state == "committed", row.error_detail
    assert row.receipt.startswith("sha256:")
    assert read(as_helpdesk, "files_read_text_file", path=str(note)) == {"content": "Signed."}


@npm
@pytest.mark.parametrize(("is_proof", "state"), [(False, "in_doubt"), (True, "rolling_back")])
def test_a_file_that_the_file_server_refuses_is_in_doubt_unless_its_errors_are_proof(
    program, signed_off, apply, tmp_path, is_proof, state
):
    program("files", *javascript("filesystem"), str(tmp_path))
    apply("files", "write_file", errors_mean_nothing_happened=is_proof)

    row = committed(signed_off("files_write_file", path="/nowhere/note.txt", content="No."))

    assert row.state == state, row.error_detail


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        done = subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, text=True)
        return done.stdout

    git("init", "-q")
    git("config", "user.name", "Assent")
    git("config", "user.email", "assent@example.org")
    (tmp_path / "a").write_text("a")
    git("add", "a")
    return git


def git_commit(program, signed_off, folder):
    program("git", python("git"), "--repository", str(folder))
    gateway("release", "git", "git_commit")
    return signed_off("git_git_commit", repo_path=str(folder), message="Signed off.")


def test_the_git_servers_commit_is_made_once_and_only_after_the_sign_off(
    program, signed_off, repository, tmp_path
):
    row = git_commit(program, signed_off, tmp_path)
    assert repository("log", "--oneline") == ""

    committed(row)
    committed(row)

    assert row.state == "committed", row.error_detail
    assert repository("log", "--format=%s").split("\n") == ["Signed off.", ""]


def test_the_git_server_that_is_killed_while_it_works_is_in_doubt_and_not_called_again(
    program, signed_off, repository, tmp_path
):
    hook = tmp_path / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    row = git_commit(program, signed_off, tmp_path)

    committed(row)
    committed(row)

    assert row.state == "in_doubt", row.error_detail
    assert repository("log", "--format=%s").split("\n") == ["Signed off.", ""]


def test_the_git_server_that_starts_late_is_waited_for(
    program, signed_off, repository, tmp_path, monkeypatch
):
    monkeypatch.setattr(kept_programs, "PROGRAM_ANSWERS_S", 0)

    row = committed(git_commit(program, signed_off, tmp_path))

    assert row.state == "committed", row.error_detail


def test_the_time_server_is_listed_and_read(program, as_helpdesk):
    program("time", python("time"), "--local-timezone", "UTC")
    gateway("release", "time", "convert_time", read_only=True)

    told = read(
        as_helpdesk,
        "time_convert_time",
        source_timezone="UTC",
        time="12:00",
        target_timezone="Asia/Tokyo",
    )

    assert "21:00" in str(told)
    assert McpUpstream.objects.get().revision


def test_a_server_that_does_not_start_tells_operators_why(program, tmp_path):
    with pytest.raises(CommandError, match="Error"):
        program("sqlite", python("sqlite"), "--db-path", str(tmp_path / "db"))

    assert "Error" in McpUpstream.objects.get().stderr
    assert not UpstreamTool.objects.exists()
