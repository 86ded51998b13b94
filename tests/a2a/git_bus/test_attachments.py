"""Artifacts of a task lie beside its answer as files, within the limits of the bus."""

from __future__ import annotations

import base64
import json
import os
from hashlib import sha256

import pytest

from a2a import tasks
from a2a.doors.git_bus.repository import files
from a2a.models import Task

pytestmark = pytest.mark.django_db

MIB = 1024 * 1024


def artifact(name: str, *parts: dict) -> tasks.WholeArtifact:
    return tasks.WholeArtifact(name, name.title(), list(parts))


def raw(content: bytes, **more: str) -> dict:
    return {"raw": base64.b64encode(content).decode(), **more}


@pytest.fixture
def answered(bus, participant, work):
    """Publishes an answer with these artifacts; returns its result and its metadata."""

    def answer(*artifacts: tasks.WholeArtifact) -> tuple[dict, dict]:
        participant.submit("r-1")
        bus.turn()
        work(Task.objects.get(), {"summary": "Three files."}, artifacts)
        assert bus.turn().error == ""
        result = bus.response("r-1")["result"]
        path = participant.folder / "outbox" / "r-1" / "metadata.json"
        return result, json.loads(path.read_text()) if path.exists() else {}

    return answer


def test_each_part_is_a_file_and_the_metadata_list_them_all(answered, participant):
    picture = b"\x89PNG\0\xff"
    result, metadata = answered(
        artifact("report", {"text": "# Tea\n", "filename": "tea.md", "mediaType": "text/markdown"}),
        artifact("table", {"data": {"rows": [1]}}),
        artifact("map", raw(picture, filename="../../map.png", mediaType="image/png")),
    )

    folder = participant.folder / "outbox" / "r-1"
    names = ["tea.md", "table-1.json", "map.png"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*names, "metadata.json"])
    assert (folder / "map.png").read_bytes() == picture
    assert [each["name"] for each in metadata["files"]] == names
    assert metadata["files"][2] == {
        "name": "map.png",
        "type": "image/png",
        "description": "Map",
        "size": len(picture),
        "sha256": sha256(picture).hexdigest(),
    }
    assert metadata["summary"] == "Three files."
    assert result["envelope"]["artifact_files"] == names


def test_a_result_alone_makes_no_folder(answered, participant):
    result, metadata = answered(artifact("result", {"data": {"summary": "Three files."}}))

    assert result == {"summary": "Three files."}
    assert metadata == {}
    assert participant.names("outbox") == ["res_r-1.json"]


def test_files_of_one_name_are_told_apart(answered, participant):
    answered(
        artifact("a", {"text": "1", "filename": "x.txt"}),
        artifact("b", {"text": "2", "filename": "X.txt"}),
        artifact("c", {"text": "3", "filename": "metadata.json"}),
        artifact("d", {"text": "4", "filename": "con.txt"}),
    )

    folder = participant.folder / "outbox" / "r-1"
    contents = {path.read_text() for path in folder.iterdir() if path.name != "metadata.json"}
    assert contents == {"1", "2", "3", "4"}
    assert len({path.name.lower() for path in folder.iterdir()}) == 5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)  # sending them takes longer than a transaction may be idle
def test_fifty_mebibytes_go_along_and_what_is_more_is_named(answered, participant):
    whole = [artifact(f"part-{n}", raw(os.urandom(10 * MIB))) for n in range(5)]
    result, metadata = answered(
        *whole, artifact("one-more", raw(b"x")), artifact("large", raw(b"y" * (10 * MIB + 1)))
    )

    assert len(metadata["files"]) == 5
    assert sum(each["size"] for each in metadata["files"]) == files.LARGEST_FOLDER
    assert [(each["name"], each["size"]) for each in result["left_out"]] == [
        ("one-more-1.bin", 1),
        ("large-1.bin", 10 * MIB + 1),
    ]


def test_an_answer_with_a_secret_is_kept_back(bus, participant, work):
    participant.submit("r-1")
    bus.turn()
    secret = artifact("log", {"text": "-----BEGIN RSA PRIVATE KEY-----\nMIIE"})
    work(Task.objects.get(), {"summary": "x"}, [secret])
    bus.turn()

    answer = bus.response("r-1")
    assert "looks like a secret (private key)" in answer["error"]["message"]
    assert participant.names("outbox") == ["res_r-1.json"]
    assert Task.objects.get().result == {"summary": "x"}, "here it is kept"
