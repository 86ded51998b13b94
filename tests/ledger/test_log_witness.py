"""Witnesses: the one of examples/ as a process of its own, and hostile ones on loopback."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.foundation.backoff import Backoff
from ledger.foundation.crypto import merkle, signed_notes
from ledger.foundation.crypto.signed_notes import (
    COSIGNATURE,
    SIGNATURE,
    Note,
    TreeHead,
    VerifierKey,
)
from ledger.models import Checkpoint, Cosignature, Event
from ledger.proof.log import checkpoint_proof, checkpoints, publishing, witnesses
from ledger.proof.log.checkpoint_proof import Broken
from ledger.proof.log.keeper import Keeper
from ledger.proof.log.witnesses import Witness, WitnessDisagrees, WitnessRefused
from ledger.workers.sweeper import Sweeper
from tests.processes import ROOT, free_port, until

LOG_KEY = Ed25519PrivateKey.from_private_bytes(b"\x11" * 32)
LOG = VerifierKey("localhost:8000/log", SIGNATURE, LOG_KEY.public_key().public_bytes_raw())


class ExampleWitness:
    """examples/witness.py, in a folder of its own; it may be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = str(LOG)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Witness:
        assert self.process is None
        options = [
            "--name",
            "witness.example/w1",
            "--key",
            self.folder / "key.hex",
            "--state",
            self.folder / "state.json",
            "--log",
            self.log,
            "--port",
            str(free_port()),
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(ROOT / "examples/witness.py"), *map(str, options)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        return Witness.parse(self.process.stdout.readline())

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


@pytest.fixture
def example(tmp_path):
    witness = ExampleWitness(tmp_path)
    yield witness
    witness.stop()


@pytest.fixture
def witness(example, settings):
    started = example.start()
    settings.WITNESSES = [f"{started.url} {started.key}"]
    return started


def test_a_witness_cosigns_and_the_cosignature_is_published(
    events, witness, client, settings, tmp_path
):
    settings.LOG_FILE = str(tmp_path / "checkpoints.txt")
    events(3)
    checkpoints.make()
    publishing.catch_up()

    row = witnesses.ask(witness)

    assert row.witness == "witness.example/w1"
    note = Note.parse(client.get("/log/checkpoint").content.decode())
    assert note.by([LOG, witness.key]) == (LOG, witness.key)
    assert abs(note.signatures[1].cosigned_at - time.time()) < 60
    assert publishing.notes_of(Path(settings.LOG_FILE).read_text())[-1] == note
    assert witnesses.ask(witness) is None  # once is enough


def test_a_witness_follows_the_log_as_it_grows(events, witness, trusted):
    for count in (1, 2, 300):
        events(count)
        checkpoints.make()
        witnesses.ask(witness)

    assert [row.checkpoint.size for row in Cosignature.objects.order_by("pk")] == [1, 3, 303]
    checkpoint_proof.verify(trusted)


def test_a_witness_that_was_started_again_remembers(events, example, witness):
    events(3)
    checkpoints.make()
    witnesses.ask(witness)
    example.stop()
    again = example.start()
    events(2)
    checkpoints.make()

    assert witnesses.ask(again).checkpoint.size == 5


def test_where_a_cosignature_got_lost_the_witness_says_what_it_saw(events, forge, witness):
    events(3)
    checkpoints.make()
    witnesses.ask(witness)
    forge("DELETE FROM ledger_cosignature")
    events(2)
    checkpoints.make()

    assert witnesses.ask(witness).checkpoint.size == 5


def test_a_history_made_anew_with_the_own_key_is_not_cosigned(events, forge, witness):
    events(3)
    checkpoints.make()
    witnesses.ask(witness)
    for table in ("cosignature", "checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    forge("UPDATE ledger_event SET hash = repeat('cd', 32)")
    events(2)
    checkpoints.make()

    with pytest.raises(WitnessDisagrees, match="not ours"):
        witnesses.ask(witness)

    assert not Cosignature.objects.exists()


def test_a_log_that_was_set_back_is_told_so(events, forge, witness):
    events(3)
    checkpoints.make()
    witnesses.ask(witness)
    for table in ("cosignature", "checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    newest = Event.objects.order_by("-pk").first()
    forge("DELETE FROM ledger_event WHERE id = %s", newest.pk)
    checkpoints.make()

    with pytest.raises(WitnessDisagrees, match="saw 3 events of this log, which has 2"):
        witnesses.ask(witness)


def test_another_tree_of_the_same_size_is_not_cosigned(events, forge, witness):
    events(3)
    checkpoints.make()
    witnesses.ask(witness)
    for table in ("cosignature", "checkpoint", "tile"):
        forge(f"DELETE FROM ledger_{table}")
    forge("UPDATE ledger_event SET hash = repeat('cd', 32)")
    checkpoints.make()

    with pytest.raises(WitnessDisagrees):
        witnesses.ask(witness)


def test_a_witness_does_not_watch_every_log(events, example, settings):
    example.log = str(VerifierKey("elsewhere.example/log", SIGNATURE, LOG.public))
    stranger = example.start()
    events(1)
    checkpoints.make()

    with pytest.raises(WitnessRefused, match="register its key"):
        witnesses.ask(stranger)


def test_a_witness_does_not_trust_every_key(events, example, settings):
    stranger = example.start()
    settings.AUDIT_KEY = "22" * 32
    events(1)
    checkpoints.make()

    with pytest.raises(WitnessRefused, match="does not trust the key"):
        witnesses.ask(stranger)


def request(
    old: int, head: TreeHead, path: tuple[bytes, ...] | list[bytes] = (), key=LOG_KEY
) -> str:
    proof = "".join(base64.b64encode(node).decode() + "\n" for node in path)
    return f"old {old}\n{proof}\n{signed_notes.signed(str(head), head.origin, key)}"


LEAVES = [bytes([number]) * 32 for number in range(20)]


def head_of(size: int, leaves_=LEAVES) -> TreeHead:
    return TreeHead(LOG.name, size, merkle.root_of(leaves_[:size]))


def path_of(old: int, new: int) -> list[bytes]:
    def read(height: int, index: int) -> bytes:
        return merkle.root_of(LEAVES[index << height : (index + 1) << height])

    return merkle.consistency(old, new, read)


EVIL = Ed25519PrivateKey.from_private_bytes(b"\x66" * 32)
STRICT = {
    "an old size that it never saw": (request(5, head_of(9), path_of(5, 9)), 409),
    "an old size larger than the new one": (request(9, head_of(7)), 400),
    "a tree that is not a continuation": (
        request(7, TreeHead(LOG.name, 9, b"x" * 32), path_of(7, 9)),
        422,
    ),
    "no proof at all": (request(7, head_of(9)), 422),
    "another tree of the same size": (request(7, TreeHead(LOG.name, 7, b"x" * 32)), 409),
    "a stranger's signature": (request(7, head_of(9), path_of(7, 9), EVIL), 403),
    "an unknown log": (request(7, TreeHead("elsewhere", 9, b"x" * 32)), 404),
    "a number with a zero before it": (request(7, head_of(9)).replace("old 7", "old 07"), 400),
    "more hashes than any proof has": (request(7, head_of(9), [b"x" * 32] * 64), 400),
    "a short hash": (request(7, head_of(9), [b"x" * 31]), 400),
    "nothing": ("", 400),
    "not a note": ("old 7\n\nlocalhost:8000/log\n9\n", 400),
}


@pytest.mark.parametrize("name", STRICT)
def test_the_example_witness_refuses(name, example):
    url = example.start().url
    first = httpx.post(f"{url}/add-checkpoint", content=request(0, head_of(7)).encode())
    assert first.status_code == 200
    body, status = STRICT[name]

    answer = httpx.post(f"{url}/add-checkpoint", content=body.encode())

    assert answer.status_code == status
    if name == "an old size that it never saw":
        assert (answer.text, answer.headers["content-type"]) == ("7\n", "text/x.tlog.size")
    honest = request(7, head_of(9), path_of(7, 9)).encode()
    assert httpx.post(f"{url}/add-checkpoint", content=honest).status_code == 200


def test_the_example_witness_reads_no_endless_requests(example):
    url = example.start().url

    answer = httpx.post(f"{url}/add-checkpoint", content=b"x" * 100_000)

    assert answer.status_code == 413


# --- hostile witnesses -------------------------------------------------------------------------

WITNESS_KEY = Ed25519PrivateKey.from_private_bytes(b"\x77" * 32)
HOSTILE = VerifierKey("hostile.example", COSIGNATURE, WITNESS_KEY.public_key().public_bytes_raw())


@contextmanager
def answering(respond):
    """A server on loopback that answers each POST as it is told."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            try:
                respond(self, body, over)
            except OSError:
                return  # the client had enough

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield Witness(f"http://127.0.0.1:{server.server_port}", HOSTILE)
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def answer(handler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def cosign(text: str, at: int, key=WITNESS_KEY) -> bytes:
    raw = at.to_bytes(8, "big") + key.sign(signed_notes.cosigned(text, at))
    return str(signed_notes.Signature(HOSTILE.name, HOSTILE.key_id, raw)).encode()


def text_of(body: str) -> str:
    return Note.parse(body.partition("\n\n")[2]).text


def hangs(handler, body, over) -> None:
    over.wait(30)


def drips(handler, body, over) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not over.wait(0.05):
        handler.wfile.write("—".encode())
        handler.wfile.flush()


def floods(handler, body, over) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not over.is_set():
        handler.wfile.write(b"x" * 65536)


def bombs(handler, body, over) -> None:
    answer(handler, 200, b"\x1f\x8b", Content_Encoding="gzip")


def redirects(handler, body, over) -> None:
    answer(handler, 307, b"", Location="http://169.254.169.254/")


def forges(handler, body, over) -> None:
    answer(handler, 200, cosign(text_of(body), int(time.time()), EVIL))


def signs_something_else(handler, body, over) -> None:
    answer(handler, 200, cosign(str(head_of(3)), int(time.time())))


def signs_in_the_future(handler, body, over) -> None:
    answer(handler, 200, cosign(text_of(body), int(time.time()) + 86_400))


def says_nothing(handler, body, over) -> None:
    answer(handler, 200, b"")


def talks_rubbish(handler, body, over) -> None:
    answer(handler, 200, b"\xff\xfe<html>")


def wants_a_size_for_ever(handler, body, over) -> None:
    answer(handler, 409, b"0\n")


def sends_no_size(handler, body, over) -> None:
    answer(handler, 409, b"nine\n")


def fails(handler, body, over) -> None:
    answer(handler, 500, b"Traceback")


@pytest.mark.parametrize(
    ("respond", "refusal"),
    [
        (hangs, "did not answer within"),
        (drips, "did not answer within"),
        (floods, "more than 16384 bytes"),
        (bombs, "compressed"),
        (redirects, "answered 307"),
        (forges, "not its key's"),
        (signs_something_else, "not its key's"),
        (signs_in_the_future, "in the future"),
        (says_nothing, "no signature line"),
        (talks_rubbish, "no signature line"),
        (wants_a_size_for_ever, "answered 409"),
        (sends_no_size, "another tree"),
        (fails, "answered 500"),
    ],
)
def test_a_hostile_witness_gets_nowhere(respond, refusal, events, monkeypatch):
    monkeypatch.setattr(witnesses, "TIMEOUT_S", 1.0)
    events(3)
    checkpoints.make()

    began = time.monotonic()
    with answering(respond) as hostile, pytest.raises(WitnessRefused, match=refusal):
        witnesses.ask(hostile)
    assert time.monotonic() - began < 10

    assert not Cosignature.objects.exists()


def test_an_honest_answer_among_others_signatures_is_taken(events):
    def crowd(handler, body, over):
        text = text_of(body)
        other = signed_notes.Signature("other.example", b"abcd", bytes(72))
        answer(handler, 200, str(other).encode() + cosign(text, int(time.time())))

    events(3)
    checkpoints.make()

    with answering(crowd) as honest:
        assert witnesses.ask(honest).witness == HOSTILE.name


def test_a_witness_that_hangs_holds_up_nothing(transactional_db, events, settings):
    """Neither the sweeper, nor the next checkpoint, nor the other witnesses."""
    with answering(hangs) as hanging:
        settings.WITNESSES = [f"{hanging.url} {hanging.key}"]
        settings.CHECKPOINT_EVERY_S = 0
        sweeper = Sweeper()
        events(1)
        began = time.monotonic()
        sweeper.sweep()
        took = time.monotonic() - began
        until(lambda: Checkpoint.objects.count() == 1)
        events(1)
        until(lambda: sweeper._log.round() or Checkpoint.objects.count() == 2)
        sweeper._log.finish()

    assert took < witnesses.TIMEOUT_S / 2


def test_the_keeper_asks_again_until_the_witness_is_back(
    transactional_db, events, example, settings, monkeypatch
):
    at_once = Backoff(first=timedelta(milliseconds=20), longest=timedelta(minutes=10))
    monkeypatch.setattr("ledger.proof.log.keeper.BACKOFF", at_once)
    settings.CHECKPOINT_EVERY_S = 0
    started = example.start()
    settings.WITNESSES = [f"http://127.0.0.1:{free_port()} {started.key}"]
    events(1)
    keeper = Keeper()
    until(lambda: keeper.round() or keeper._failures.get(started.key.name, 0) >= 2)

    settings.WITNESSES = [f"{started.url} {started.key}"]
    until(lambda: keeper.round() or Cosignature.objects.exists())
    keeper.finish()


def test_a_stored_cosignature_that_was_changed_is_found(events, forge, trusted, witness):
    events(3)
    checkpoints.make()
    row = witnesses.ask(witness)
    signature = signed_notes.Signature.parse(row.line)
    changed = signed_notes.Signature(signature.name, signature.key_id, bytes(72))
    checkpoint_proof.verify(trusted)

    forge("UPDATE ledger_cosignature SET line = %s", str(changed).removesuffix("\n"))

    with pytest.raises(Broken, match=r"witness\.example/w1"):
        checkpoint_proof.verify(trusted)
