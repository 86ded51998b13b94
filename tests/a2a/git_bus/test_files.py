"""The files of a bus: which are understood, and that nothing in a file is more than an error."""

from __future__ import annotations

import json
import string
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as some

from a2a.doors.git_bus.repository import files
from a2a.doors.git_bus.repository.files import Attachment, BusUnusable, Folders, RequestInvalid

# --- as other participants write them -------------------------------------------------------------

# The forms that the public repository of the protocol has in its finished tasks, participant files
# and examples: methods with dots, free params, times with milliseconds, members that nobody
# specified.
REQUESTS: list[dict[str, Any]] = [
    {
        "jsonrpc": "2.0",
        "method": "task.enqueue",
        "params": {"title": "Пост про проект", "outbox": {"envelope_required": True}},
        "id": "0b6b1c5e-5f3a-4c86-9d0e-2c5f3f0e7a11",
        "sender_id": "human",
        "timestamp": "2026-05-20T07:50:41.000Z",
    },
    {
        "$schema_comment": "A revision",
        "jsonrpc": "2.0",
        "method": "content.post.refine",
        "params": {"comment": "Longer.", "change_request": {"preserve": ["title"]}},
        "id": "5d0a7e0c-8c7b-4f4f-a8de-1c8b1d4a4c22",
        "parent_id": "req-98765",
        "sender_id": "human_pm",
        "timestamp": "2026-05-20T18:00:00+00:00",
    },
    {
        "jsonrpc": "2.0",
        "method": "product.scope",
        "params": {},
        "id": "req_1.2-x",
        "sender_id": "orchestrator_main",
        "timestamp": "2026-05-20T14:30:00Z",
    },
]


@pytest.mark.parametrize("fields", REQUESTS)
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b"\n  "])
def test_requests_of_others_are_understood(fields, before):
    text = before + json.dumps(fields, ensure_ascii=False, indent=2).encode() + b"\n"

    request = files.request_of(f"{fields['id']}.json", text)

    assert (request.id, request.method, request.params, request.parent_id) == (
        fields["id"],
        fields["method"],
        fields["params"],
        fields.get("parent_id", ""),
    )


@pytest.mark.parametrize(
    "result",
    [
        {"method_executed": "task.enqueue", "envelope": {"path": "outbox/x/"}},
        {"artifact_files": ["x/a.md"], "completed_at": "2026-05-20T07:48:03.076Z"},
        {"iteration_notes": {"inherited_from_parent": ["a"], "changed_in_this_iteration": []}},
        {"ab_test": {"recommendation": False}, "page_outline": [{"block": "hero"}]},
    ],
)
def test_answers_of_others_are_understood(result):
    fields = {"jsonrpc": "2.0", "result": result, "error": None, "id": "x", "processed_by": "pm"}

    response = files.response_of("x", json.dumps(fields).encode())

    assert (response.result, response.error, response.processed_by) == (result, None, "pm")


def test_participant_files_of_others_are_understood():
    fields = {
        "agent_id": "data_analyst",
        "role": "DataAnalyst",
        "capabilities": ["sql_analysis", "data_profiling"],
        "version": "1.0",
        "inbox_path": "inbox/",
        "description": "Аналитические запросы.",
    }

    participant = files.read_participant("data_analyst.json", json.dumps(fields).encode())

    assert participant is not None
    assert (participant.role, participant.methods) == (
        "DataAnalyst",
        ("sql_analysis", "data_profiling"),
    )


def test_lists_of_attachments_of_others_are_understood():
    listed = [{"name": "prd-outline.md", "type": "text/markdown", "description": "Черновик"}]
    fields = {"jsonrpc": "2.0", "id": "x", "processed_by": "pm", "summary": "s", "files": listed}

    assert files.attachments_in(json.dumps(fields).encode()) == {"prd-outline.md": "text/markdown"}


def test_the_environment_of_others_is_understood():
    fields = {
        "a2a_environment_version": "1.0",
        "jsonrpc_version": "2.0",
        "directories_relative_to_repo_root": {"inbox": "queue/in", "outbox": "outbox/"},
        "file_naming": {"request_extension": ".json"},
        "commit_message_processed_template": "Processed {request_id}",
        "notes": ["…"],
    }

    assert files.folders_of(json.dumps(fields).encode()) == Folders(inbox="queue/in")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"a2a_environment_version": "2.0"},
        {"a2a_environment_version": 10},
        *(
            {"a2a_environment_version": "1.0", "directories_relative_to_repo_root": {"inbox": path}}
            for path in ("..", "a/../b", "/", "", ".git", "a/.GIT/b", "a b", "a\nb", 7, None)
        ),
        {"a2a_environment_version": "1.0", "commit_message_processed_template": "Done"},
        {"a2a_environment_version": "1.0", "commit_message_processed_template": "{request_id}\nx"},
    ],
)
def test_an_environment_that_leads_astray_makes_no_bus(fields):
    with pytest.raises(BusUnusable):
        files.folders_of(json.dumps(fields).encode())


# --- whatever is in a file ------------------------------------------------------------------------

texts = some.text(max_size=20)
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | texts,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
NAMES = (
    *(
        "jsonrpc",
        "method",
        "params",
        "id",
        "sender_id",
        "timestamp",
        "parent_id",
        "result",
        "error",
    ),
    *("processed_by", "agent_id", "methods", "capabilities", "role", "description", "files"),
    *("a2a_environment_version", "directories_relative_to_repo_root"),
    "commit_message_processed_template",
)
usual = some.sampled_from(["2.0", "1.0", "x", {}, [], None, "2026-05-20T14:30:00Z", "{request_id}"])
objects = some.dictionaries(some.sampled_from(NAMES), usual | values)
contents = some.binary(max_size=200) | (objects | values).map(lambda it: json.dumps(it).encode())


@given(contents)
def test_no_file_raises_anything_but_the_documented_errors(text):
    with suppress(RequestInvalid):
        files.request_of("x.json", text)
    with suppress(RequestInvalid):
        files.names_a_folder(files.response_of("x", text))
    with suppress(RequestInvalid):
        files.attachments_in(text)
    with suppress(BusUnusable):
        files.folders_of(text)
    files.read_participant("x.json", text)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 100_000,
        b'{"id": NaN}',
        b'{"id": 1e999}',
        b'{"id": "\\u0000"}',
        b'{"id": "\\ud800"}',
        b"{}{}",
        b"\xff\xfe{\x00}\x00",
        b"",
    ],
)
def test_text_that_breaks_parsers_is_no_request(text):
    with pytest.raises(RequestInvalid):
        files.request_of("x.json", text)
    assert files.read_participant("x.json", text) is None


@given(some.dictionaries(texts, values), some.sampled_from(["", "p-1"]))
def test_a_request_that_we_write_is_one_that_we_read(params, parent_id):
    at = datetime(2026, 11, 22, 12, tzinfo=UTC)
    try:
        text = files.request_file("x", "m", params, sender_id="s", at=at, parent_id=parent_id)
        request = files.request_of("x.json", text)
    except (RequestInvalid, ValueError):
        return  # what JSON cannot say: infinity, half a character
    assert request.params == params
    assert request.parent_id == parent_id


# --- names ----------------------------------------------------------------------------------------

DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{name}{n}" for name in ("com", "lpt") for n in "0123456789"
}
SOME_IDS = some.text(
    some.sampled_from(string.ascii_letters + string.digits + "._- /\\:~"), max_size=6
)
SOME_IDS |= some.sampled_from(sorted(DEVICES)).map(lambda name: f"{name}.x") | some.text(
    max_size=200
)


@given(SOME_IDS)
def test_an_accepted_id_is_a_file_name_on_linux_macos_and_windows(text):
    if not files.is_usable_id(text):
        return
    folders = Folders()
    paths = (folders.request(text), folders.response(text), folders.attachment(text, "a.txt"))
    for name in (part for path in paths for part in path.split("/")):
        assert 0 < len(name.encode()) <= 255
        assert name.isascii()
        assert name.isprintable()
        assert not set(name) & set('<>:"/\\|?*')
        assert name[-1] not in ". "
        assert name not in {".", ".."}
        assert name.partition(".")[0].lower() not in DEVICES
        assert name.lower() != ".git"


@pytest.mark.parametrize(
    "text", ["CON", "con.x", "Lpt1", "a.", ".a", "a/b", "a\\b", "a:b", "a\n", ""]
)
def test_ids_that_cannot_be_names_everywhere_are_refused(text):
    assert not files.is_usable_id(text)


def test_a_list_of_attachments_that_we_write_is_one_that_we_read():
    written = files.metadata_file(
        "x",
        [Attachment("a.txt", "text/plain", "A", b"abc")],
        processed_by="assent",
        at=datetime(2026, 11, 22, tzinfo=UTC),
        summary="One file.",
    )

    assert files.attachments_in(written) == {"a.txt": "text/plain"}
