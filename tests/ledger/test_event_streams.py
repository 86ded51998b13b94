"""Server-sent events: the cases of the HTML standard, in one piece, in halves and byte by byte."""

from __future__ import annotations

import pytest

from ledger.foundation.event_streams import Event, EventReader

CASES = {
    "an event": (b"data: one\n\n", ["one"]),
    "some lines of data": (b"data: YHOO\ndata: +2\ndata: 10\n\n", ["YHOO\n+2\n10"]),
    "comments and ids": (
        b": test stream\n\ndata: first event\nid: 1\n\n"
        b"data:second event\nid\n\ndata:  third event\n\n",
        ["first event", "second event", " third event"],
    ),
    "data without a colon, and an event that does not end": (
        b"data\n\ndata\ndata\n\ndata:",
        ["", "\n"],
    ),
    "with and without a space": (b"data:test\n\ndata: test\n\n", ["test", "test"]),
    "carriage returns": (b"data: one\rdata: two\r\rdata: three\r\r", ["one\ntwo", "three"]),
    "both characters": (
        b"data: one\r\ndata: two\r\n\r\ndata: three\r\n\r\n",
        ["one\ntwo", "three"],
    ),
    "all three": (
        b"data: one\rdata: two\ndata: three\r\n\r\n\ndata: four\n\r",
        ["one\ntwo\nthree", "four"],
    ),
    "a byte order mark": (b"\xef\xbb\xbfdata: one\n\n", ["one"]),
    "two byte order marks": (b"\xef\xbb\xbf\xef\xbb\xbfdata: one\n\ndata: two\n\n", ["two"]),
    "letters of more bytes than one": ("data: größer → 你\n\n".encode(), ["größer → 你"]),
    "bytes that are no text": (b"data: \xff\n\n", ["\ufffd"]),
    "fields that nobody knows": (b"datum: x\nDATA: x\n data: x\ndata: one\n\n", ["one"]),
    "a comment between": (b"data: one\n:\n:ping\ndata: two\n\n", ["one\ntwo"]),
    "the priming event of MCP": (b"id: 7_0\ndata: \n\nid: 7_1\ndata: {}\n\n", ["", "{}"]),
    "an id alone": (b"id: 7\n\n", []),
}


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("what", CASES)
def test_a_stream_is_read_as_the_standard_says(what, size):
    stream, expected = CASES[what]
    reader = EventReader()

    assert [event.data for piece in cut(stream, size) for event in reader.read(piece)] == expected


def test_an_event_has_a_kind_of_its_own():
    stream = b"event: endpoint\ndata: /x\n\ndata: y\n\nevent: lost\n\ndata: z\n\n"

    events = list(EventReader().read(stream))

    assert events == [Event("/x", "endpoint"), Event("y"), Event("z")]


@pytest.mark.parametrize(
    ("stream", "last_id", "retry_ms"),
    [
        (b"id: 1\ndata: x\n\n", "1", None),
        (b"id: 1\n\nid\n\n", "", None),
        (b"id: 1\n\nid: a\x00b\n\n", "1", None),
        (b"retry: 500\n\n", "", 500),
        (b"retry: 500\n\nretry: soon\nretry: -1\nretry: 1.5\n\n", "", 500),
        ("retry: ٣\n\n".encode(), "", None),
    ],
)
def test_the_last_id_and_the_pause_are_kept_for_asking_again(stream, last_id, retry_ms):
    reader = EventReader()

    assert [event for event in reader.read(stream) if event.data != "x"] == []
    assert (reader.last_id, reader.retry_ms) == (last_id, retry_ms)


def test_an_event_comes_as_soon_as_its_last_character():
    reader = EventReader()

    assert list(reader.read(b"data: one\r")) == []
    assert list(reader.read(b"\r")) == [Event("one")]
    assert list(reader.read(b"\n")) == []
    assert list(reader.read(b"data: two\n\n")) == [Event("two")]
