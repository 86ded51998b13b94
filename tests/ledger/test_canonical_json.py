"""Canonical JSON is RFC 8785, also where Python's own encoder writes it."""

from __future__ import annotations

import hashlib

import pytest
import rfc8785
from hypothesis import example, given, strategies as st

from ledger.errors import InvalidRequest
from ledger.seals import seals
from ledger.seals.intents import EXACT_MAX, canonical, canonical_as_stored

EXACT = st.integers(-EXACT_MAX, EXACT_MAX)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(-1e15, 1e15, allow_nan=False)
JSON = st.recursive(
    st.none() | st.booleans() | EXACT | FLOATS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


@given(JSON)
@example({"b": 1, "a": [True, None, {"ä": '\x7f\x1f\b\t\n\f\r"\\/\u2028'}]})
@example({"\ue000": 1, "\U0001f600": 2})  # sorted by UTF-16, not by character
@example({"a": [1.0, -0.0, 1e-7]})
def test_it_is_what_rfc_8785_says(value):
    assert canonical(value) == canonical_as_stored(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", ["\ud800", {"\ud800": 1}, {1: "a"}, {"a": EXACT_MAX + 1}, [float("nan")], 2.0**60]
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(InvalidRequest):
        canonical(value)


@given(st.lists(TEXTS, min_size=11, max_size=11))
@example(["ä", "€"] + [""] * 9)
def test_the_hash_of_an_event_counts_bytes(texts):
    names = (
        "previous_hash",
        "tenant",
        "kind",
        "from_state",
        "to_state",
        "principal",
        "principal_name",
        "via",
        "reason_digest",
        "details",
        "at",
    )
    event = _Event(subject="s", seq=1, **dict(zip(names, texts, strict=True)))
    order = ("previous_hash", "subject", "seq", *names[1:])
    fields = [str(getattr(event, name)).encode() for name in order]
    netstrings = b"".join(str(len(field)).encode() + b":" + field for field in fields)

    assert seals.hash_of(event) == hashlib.sha256(netstrings).hexdigest()


class _Event:
    def __init__(self, **columns: object) -> None:
        self.__dict__ |= columns
