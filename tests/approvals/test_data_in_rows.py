"""Data of agents shown in rows: only where nothing reads as something else without its JSON."""

from __future__ import annotations

import pytest

from approvals.templatetags.items import MOST_ROWS, rows_of


def test_texts_and_numbers_of_an_object_are_rows():
    data = {"venue": "old harbour hall", "people": 12, "days": ["3 May", "5 May"]}

    assert rows_of(data) == [
        ("venue", "old harbour hall"),
        ("people", "12"),
        ("days[0]", "3 May"),
        ("days[1]", "5 May"),
    ]


@pytest.mark.parametrize(
    "value", [True, None, "true", "yes", "null", "5", "1e3", "", "  ", [], {}, "{}", "[1]"]
)
def test_what_could_be_taken_for_something_else_stays_json(value):
    assert rows_of({"a": "text", "b": value}) == []


def test_large_data_and_what_is_no_object_stays_json():
    assert rows_of([1]) == rows_of({}) == rows_of("text") == []
    assert rows_of({f"n{number}": "x" for number in range(MOST_ROWS + 1)}) == []
