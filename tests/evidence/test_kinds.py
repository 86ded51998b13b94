"""What a plan may carry as evidence, its limits, and the digest over it."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ledger.contracts.evidence import (
    Difference,
    Evidence,
    File,
    Table,
    Text,
    from_json,
    media_type_of,
    seal,
)
from ledger.errors import PlanFailed
from tests.evidence.conftest import EACH_KIND
from tests.evidence.files import GIF, HTML, JPEG, PDF, SVG, WEBP, of_size, png

MIB = 1024 * 1024
PLAIN = st.text(st.characters(codec="ascii", categories=["L", "N", "Zs"]), max_size=40)
NAMES = PLAIN.filter(lambda text: bool(text.strip()))
PIECES = st.one_of(
    st.builds(Text, NAMES, PLAIN),
    st.builds(Difference, NAMES, PLAIN, PLAIN),
    st.builds(
        lambda name, cells: Table(name, ["a"], [[cell] for cell in cells]), NAMES, st.lists(PLAIN)
    ),
    st.builds(
        lambda name, tail: File(name, "application/pdf", PDF + tail), NAMES, st.binary(max_size=40)
    ),
)


def refusal(*pieces: Evidence) -> str:
    with pytest.raises(PlanFailed) as failure:
        seal(pieces)
    assert "Nothing was prepared" in failure.value.hint
    return str(failure.value.detail)


@given(st.lists(PIECES, max_size=8))
def test_what_is_sealed_is_the_sha256_of_what_is_stored(pieces):
    sealed, contents = seal(pieces)

    assert [each["name"] for each in sealed] == [piece.name for piece in pieces]
    assert [each["sha256"] for each in sealed] == [
        hashlib.sha256(content).hexdigest() for content in contents
    ]
    assert seal(pieces) == (sealed, contents)


@given(PIECES, PIECES)
def test_two_pieces_that_differ_have_different_seals(one_piece, other):
    assert (seal([one_piece])[0] == seal([other])[0]) == (one_piece == other)


def test_texts_are_stored_composed_and_with_one_kind_of_line_break():
    (sealed,), (content,) = seal([Text("Cafe\u0301", "a\r\nCafe\u0301")])

    assert (sealed["name"], content.decode()) == ("Caf\xe9", "a\nCaf\xe9")


def test_cells_are_stored_as_text():
    _, (content,) = seal([Table("T", ["a", "b"], [[1, None]])])

    assert json.loads(content) == {"columns": ["a", "b"], "rows": [["1", ""]]}


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (png(), "image/png"),
        (GIF, "image/gif"),
        (JPEG, "image/jpeg"),
        (WEBP, "image/webp"),
        (PDF, "application/pdf"),
        (SVG, ""),
        (HTML, ""),
        (b"", ""),
    ],
)
def test_a_file_is_what_its_first_bytes_say(content, media_type):
    assert media_type_of(content) == media_type
    if media_type:
        assert seal([File("f", media_type, content)])[1] == [content]


HOSTILE: dict[str, tuple[Evidence, str]] = {
    "an SVG named png": (File("a.png", "image/png", SVG), "its bytes are not image/png"),
    "an SVG": (File("a.svg", "image/svg+xml", SVG), "a PNG, JPEG, GIF, WebP or PDF"),
    "HTML named txt": (File("a.txt", "text/plain", HTML), "a PNG, JPEG, GIF, WebP or PDF"),
    "HTML before a PDF": (File("a.pdf", "application/pdf", HTML + PDF), "not application/pdf"),
    "a PNG that is called a PDF": (File("a.pdf", "application/pdf", png()), "not application/pdf"),
    "a huge PNG": (File("a", "image/png", of_size("png", 50_000, 50_000)), "12000 pixels"),
    "a huge GIF": (File("a", "image/gif", of_size("gif", 60_000, 60_000)), "12000 pixels"),
    "a huge JPEG": (File("a", "image/jpeg", of_size("jpeg", 60_000, 60_000)), "12000 pixels"),
    "a huge WebP": (File("a", "image/webp", of_size("webp", 60_000, 60_000)), "12000 pixels"),
    "many pixels": (File("a", "image/png", of_size("png", 11_000, 11_000)), "25 million"),
    "no pixels": (File("a", "image/png", of_size("png", 0, 5)), "names no size"),
    "a PNG that breaks off": (File("a", "image/png", png()[:15]), "names no size"),
    "a JPEG without a frame": (File("a", "image/jpeg", JPEG[:20] + b"\xff\xd9"), "no size"),
    "5 MiB": (File("a", "application/pdf", PDF + bytes(5 * MIB)), "more than 1048576 bytes"),
    "a long text": (Text("a", "x" * 100_001), "at most 100000 characters"),
    "a long difference": (Difference("a", "x\n" * 1001, ""), "at most 1000 lines"),
    "a ragged table": (Table("a", ["b", "c"], [["d"]]), "as many cells"),
    "a long table": (Table("a", ["b"], [["c"]] * 501), "at most 500 rows"),
    "a wide table": (Table("a", ["b"] * 21, []), "1 to 20 columns"),
    "no name": (Text(" ", "x"), "1 to 120 characters"),
    "a name of two lines": (Text("a\nb", "x"), "on one line"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_could_harm_a_reader_is_refused_in_words(what):
    piece, why = HOSTILE[what]

    assert why in refusal(piece)


def test_many_pieces_and_much_together_are_refused():
    assert "more than 8 pieces" in refusal(*[Text("a", "b")] * 9)
    large = File("a", "application/pdf", PDF + bytes(MIB - len(PDF)))
    assert len(seal([large] * 4)[1]) == 4
    assert "bytes together" in refusal(*[large] * 4, Text("a", "b"))


@pytest.mark.parametrize("kind", ["png", "gif", "jpeg", "webp"])
def test_the_size_of_a_picture_stands_in_its_header(kind):
    media_type = f"image/{kind}"

    assert seal([File("a", media_type, of_size(kind, 12_000, 2_000))])
    assert "pixels" in refusal(File("a", media_type, of_size(kind, 12_001, 2)))


@given(st.sampled_from(["png", "gif", "jpeg", "webp"]), st.binary(max_size=60), st.integers(0, 60))
def test_no_bytes_make_the_reader_of_headers_fail(kind, noise, at):
    broken = of_size(kind, 100, 100)[:at] + noise

    if (media_type := media_type_of(broken)) and media_type != "application/pdf":
        with suppress(PlanFailed):
            seal([File("a", media_type, broken)])


AS_JSON: list[dict[str, Any]] = [
    {"kind": "text", "name": "Letter", "text": "Dear all,\nplease pay."},
    {
        "kind": "table",
        "name": "Lines",
        "columns": ["item", "price"],
        "rows": [["Lamp", "48.20"], ["Postage", 5]],
    },
    {
        "kind": "difference",
        "name": "Contract",
        "before": "Section 1\nTwo years.\n",
        "after": "Section 1\nThree years.\n",
    },
]


def test_a_service_writes_evidence_as_json():
    assert from_json(AS_JSON) == list(EACH_KIND[:3])


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"kind": "page", "name": "a"}, "0"),
        ({"kind": "text", "name": "a", "text": 5}, "0.text.text"),
        ({"kind": "text", "name": "a", "text": "b", "html": "c"}, "0.text.html"),
        (
            {"kind": "file", "name": "a", "media_type": "image/png", "content": "%"},
            "0.file.content",
        ),
    ],
)
def test_json_that_is_none_is_refused_with_its_place(wrong, where):
    with pytest.raises(PlanFailed, match=f"its plan: {where}: "):
        from_json([wrong])
