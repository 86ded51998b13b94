"""The log is where everybody may read it, and outside where nobody can take it back."""

from __future__ import annotations

import base64
import hashlib
import json
import logging

import pymerkle
import pytest
from django.test import Client

from ledger.foundation.crypto import merkle
from ledger.foundation.crypto.signed_notes import Note, NoteRefused, TreeHead, VerifierKey
from ledger.models import Checkpoint, Event
from ledger.proof.log import checkpoint_proof, checkpoints, publishing
from ledger.proof.log.checkpoint_proof import Broken
from ledger.proof.log.keeper import Keeper
from tests.ledger.log_leaves import leaves
from tests.processes import until


@pytest.fixture
def anybody():
    return Client()


@pytest.fixture
def log_file(tmp_path, settings):
    settings.LOG_FILE = str(tmp_path / "checkpoints.txt")
    return tmp_path / "checkpoints.txt"


def test_the_newest_checkpoint_is_published_and_verifies(events, anybody):
    events(3)
    checkpoints.make()
    events(1)
    checkpoints.make()

    answer = anybody.get("/log/checkpoint")

    key = VerifierKey.parse(anybody.get("/log/key").content.decode())
    note = Note.parse(answer.content.decode())
    assert note.by([key]) == (key,)
    assert TreeHead.parse(note.text).size == 4
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Cache-Control"] == "public, max-age=5"


def test_before_the_first_checkpoint_there_is_nothing_to_read(db, anybody):
    for path in ("/log/checkpoint", "/log/key", "/log/tile/0/000"):
        assert anybody.get(path).status_code == 404


def test_a_stranger_rebuilds_the_root_from_the_tiles_alone(events, anybody):
    events(600)
    point = checkpoints.make()

    def tile(place: str) -> list[bytes]:
        answer = anybody.get(f"/log/tile/{place}")
        assert answer.status_code == 200
        assert answer["Cache-Control"] == "public, max-age=31536000, immutable"
        raw = answer.content
        return [raw[i : i + 32] for i in range(0, len(raw), 32)]

    hashes = [*tile("0/000"), *tile("0/001"), *tile("0/002.p/88")]

    assert hashes == [merkle.leaf_hash(leaf) for leaf in leaves()]
    another = pymerkle.InmemoryTree(algorithm="sha256")
    for leaf in leaves():
        another.append_entry(leaf)
    assert another.get_state().hex() == point.root
    assert tile("1/000.p/2") == [another.get_state(256), merkle.fold(hashes[256:512])]


@pytest.mark.parametrize(
    "place",
    [
        "0/000",
        "0/000.p/6",
        "0/000.p/0",
        "0/000.p/256",
        "0/0",
        "0/x000/000",
        "00/000.p/5",
        "0/000.p/05",
        "64/000.p/1",
        "0/001.p/1",
        "1/000.p/1",
        "entries/000.p/5",
        "0/-01",
        "",
        "0/x999/x999/x999/x999/x999/999",
    ],
)
def test_a_tile_has_one_address_and_ends_with_the_log(place, events, anybody):
    events(5)
    checkpoints.make()

    assert anybody.get("/log/tile/0/000.p/5").status_code == 200
    assert anybody.get(f"/log/tile/{place}").status_code == 404


def test_nothing_but_hashes_is_public(events, anybody):
    """Neither the events nor whose they are can be read from the log."""
    events(2)
    checkpoints.make()

    tile = anybody.get("/log/tile/0/000.p/2").content

    sealed = Event.objects.order_by("pk").values_list("hash", flat=True)
    assert tile == b"".join(
        hashlib.sha256(b"\x00" + bytes.fromhex(text)).digest() for text in sealed
    )


def test_an_event_is_proved_to_a_stranger(events, anybody):
    events(300)
    checkpoints.make()
    event = Event.objects.order_by("pk")[17]

    answer = anybody.get(f"/api/v1/log/inclusion?event={event.pk}").json()

    assert (answer["leaf_index"], answer["size"]) == (17, 300)
    leaf = hashlib.sha256(b"\x00" + bytes.fromhex(event.hash)).digest()
    assert base64.b64decode(answer["leaf_hash"]) == leaf
    path = [base64.b64decode(node) for node in answer["path"]]
    root = merkle.implied_root(leaf, 17, 300, path)
    assert TreeHead.parse(Note.parse(answer["checkpoint"]).text).root == root


def test_that_the_log_only_grew_is_proved_to_a_stranger(events, anybody):
    events(300)
    checkpoints.make()

    answer = anybody.get("/api/v1/log/consistency?old=100&new=300").json()

    roots = [base64.b64decode(answer[name]) for name in ("old_root", "new_root")]
    assert roots == [merkle.root_of(leaves()[:100]), merkle.root_of(leaves())]
    path = [base64.b64decode(node) for node in answer["path"]]
    assert merkle.is_consistent(100, 300, *roots, path)


@pytest.mark.parametrize(
    "query",
    [
        "inclusion?event=99999999",
        "consistency?old=5&new=6",
        "consistency?old=4&new=2",
        "inclusion?event=1&size=99",
    ],
)
def test_what_is_not_in_the_log_has_no_proof(query, events, anybody):
    events(5)
    checkpoints.make()

    answer = anybody.get(f"/api/v1/log/{query}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


# --- the file and the line outside ---------------------------------------------------------


def test_every_checkpoint_is_in_the_file_once(events, log_file):
    for count in (2, 3):
        events(count)
        checkpoints.make()
        publishing.catch_up()
        publishing.catch_up()

    notes = publishing.notes_of(log_file.read_text())
    assert [str(note) for note in notes] == [
        point.note for point in Checkpoint.objects.order_by("size")
    ]


def test_a_file_that_was_torn_in_the_middle_of_a_note_is_mended(events, log_file):
    events(2)
    checkpoints.make()
    publishing.catch_up()
    with log_file.open("a") as file:
        file.write("localhost:8000/log\n7\nhalf of a")
    events(1)
    checkpoints.make(publishing.published())

    publishing.catch_up()

    notes = publishing.notes_of(log_file.read_text())
    assert [TreeHead.parse(note.text).size for note in notes] == [2, 3]


def test_a_file_that_holds_something_else_is_not_written_to(events, log_file):
    log_file.write_text("minutes of the meeting\n")
    events(1)
    checkpoints.make()

    with pytest.raises(NoteRefused, match="something else"):
        publishing.catch_up()

    assert log_file.read_text() == "minutes of the meeting\n"


def test_the_line_in_the_log_is_as_good_as_the_file(events, forge, trusted, caplog):
    logger = logging.getLogger("assent.log")
    events(3)
    point = checkpoints.make()
    logger.addHandler(caplog.handler)
    try:
        publishing.announce(point)
    finally:
        logger.removeHandler(caplog.handler)
    (line,) = caplog.messages
    outside = f"Nov 21 22:00:00 host assent[7]: something else\nNov 21 host assent[7]: {line}\n"
    checkpoint_proof.verify(trusted, against=[outside])
    assert json.loads(line)["checkpoint"]["size"] == 3

    forge("DELETE FROM ledger_checkpoint")
    forge("DELETE FROM ledger_tile")

    with pytest.raises(Broken, match="published outside, is not here"):
        checkpoint_proof.verify(trusted, against=[outside])


def test_the_keeper_makes_publishes_and_signs_nothing_that_contradicts_the_file(
    transactional_db,
    events,
    forge,
    log_file,
    caplog,
):
    events(3)
    keeper = Keeper()
    keeper.round()
    until(lambda: log_file.exists() and log_file.read_text().endswith("\n\n"))
    keeper.finish()
    for table in ("checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    forge("UPDATE ledger_event SET hash = repeat('cd', 32)")

    another = Keeper()
    another.round()
    until(lambda: "No checkpoint is signed" in caplog.text)
    another.finish()

    assert not Checkpoint.objects.exists()
