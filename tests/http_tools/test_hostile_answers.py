"""What a service may send over a socket besides an answer: in doubt, within bounds, asked once."""

from __future__ import annotations

import gzip
import json
import threading
import time
import tracemalloc

import pytest

from ledger import execution
from ledger.transactions import coordinator
from tests.conftest import propose

pytestmark = pytest.mark.django_db(transaction=True)

RECEIPT = b'{"receipt": {"id": "re_7"}}'
MEGABYTE = b"x" * 1_000_000


@pytest.fixture
def commit(service, registered, alice):
    """Has a refund signed off and carried out; ``raw`` writes the answer to the commit."""

    def made(raw, timeout_s=5):
        registered(routes=[], contract={"timeout_s": timeout_s})
        row = propose("refund_invoice", invoice="7", amount=48.2)
        coordinator.approve(row.pk, digest=row.intent_digest, by=alice, via="web")
        service.answers["commit"] = raw
        execution.commit(row.pk)
        row.refresh_from_db()
        return row

    return made


def sends(*parts: bytes):
    """Writes these bytes and closes the connection."""

    def answer(handler):
        handler.close_connection = True
        for part in parts:
            handler.wfile.write(part)

    return answer


def http(body: bytes, *headers: str, status: str = "HTTP/1.1 200 OK") -> bytes:
    lines = [status, f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


DOUBTFUL = {
    "a receipt twice": http(b'{"receipt": {"id": "re_7"}, "receipt": {"id": "re_8"}}'),
    "the id of a receipt twice": http(b'{"receipt": {"id": "re_7", "id": "re_8"}}'),
    "a receipt that is a number": http(b'{"receipt": 7}'),
    "a receipt that is empty": http(b'{"receipt": {}}'),
    "an id that is a list": http(b'{"receipt": {"id": []}}'),
    "an id that is an object": http(b'{"receipt": {"id": {"re": 7}}}'),
    "an id that is only false": http(b'{"receipt": {"id": false}}'),
    "an id that nobody sees": http(b'{"receipt": {"id": "\\u200b \\u2060"}}'),
    "more after the object": http(RECEIPT + b" re_8"),
    "half an object": http(RECEIPT[:-3]),
    "fewer bytes than were said": http(RECEIPT).replace(b"27", b"99"),
    "another character set": http(
        b'{"receipt": {"id": "\xe9\xff"}}', "Content-Type: a/b; charset=x"
    ),
    "a zip bomb": http(gzip.compress(MEGABYTE), "Content-Encoding: gzip"),
    "no HTTP": b"re_7 is done\r\n\r\n",
    "nothing": b"",
    "only what comes before an answer": b"HTTP/1.1 102 Processing\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + RECEIPT,
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"X: " + MEGABYTE,
    "chunks of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + RECEIPT,
}
PROOFS = {
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + RECEIPT,
    "early hints before it": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + http(RECEIPT),
    "a second answer after it": http(RECEIPT) + http(b"{}", status="HTTP/1.1 500 No"),
    "a byte order mark of UTF-16": http(RECEIPT.decode().encode("utf-16")),
    "members that nobody knows": http(
        json.dumps({"receipt": {"id": "re_7", **{f"m{n}": n for n in range(10_000)}}}).encode()
    ),
}


@pytest.mark.parametrize("what", DOUBTFUL)
def test_what_is_no_clear_answer_leaves_the_outcome_unknown(what, commit, service):
    row = commit(sends(DOUBTFUL[what]))

    assert row.state == "in_doubt"
    assert service.verbs() == ["commit"]


@pytest.mark.parametrize("what", PROOFS)
def test_an_unusual_answer_that_is_clear_is_a_proof(what, commit, service):
    row = commit(sends(PROOFS[what]))

    assert (row.state, row.receipt) == ("committed", "re_7")
    assert service.verbs() == ["commit"]


def test_a_receipt_with_a_nul_byte_is_stored_without_it(commit):
    row = commit(sends(http(b'{"receipt": {"id": "re\\u0000_7"}}')))

    assert (row.state, row.receipt) == ("committed", "re\N{REPLACEMENT CHARACTER}_7")


def test_a_receipt_is_kept_without_what_nobody_sees(commit):
    row = commit(sends(http(b'{"receipt": {"id": "re\\u200b_7\\u202e"}}')))

    assert (row.state, row.receipt) == ("committed", "re_7\N{REPLACEMENT CHARACTER}")


def test_a_refusal_is_told_without_what_turns_text_round(commit):
    refusal = b'{"type": "nothing-happened", "detail": "Closed \\u202eyap."}'
    row = commit(sends(http(refusal, status="HTTP/1.1 422 Refused")))

    assert (row.ending, row.ending_reason) == ("failed", "Closed \N{REPLACEMENT CHARACTER}yap.")


def test_an_answer_that_drips_is_cut_off_at_the_timeout(commit):
    over = threading.Event()

    def drip(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not over.wait(0.05):
            handler.wfile.write(b" ")

    def dripping(handler):
        handler.close_connection = True
        try:
            drip(handler)
        except OSError:
            over.set()  # it hung up

    began = time.monotonic()
    row = commit(dripping, timeout_s=1)

    assert row.state == "in_doubt"
    assert time.monotonic() - began < 4
    assert over.wait(5)


def test_an_answer_of_a_hundred_megabytes_is_not_kept_in_memory(commit):
    hung_up = threading.Event()

    def flood(handler):
        handler.close_connection = True
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            for _ in range(100):
                handler.wfile.write(MEGABYTE)
        except OSError:
            hung_up.set()

    tracemalloc.start()
    try:
        row = commit(flood)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert row.state == "in_doubt"
    assert hung_up.wait(5)
    assert most < 30_000_000
