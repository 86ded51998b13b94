from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Q

from ledger.foundation.postgres import count_any_of, keyset_page
from ledger.models import Event

pytestmark = pytest.mark.django_db


def pages(rows, limit, by, position_of, **options):
    """The rows of all pages, one after the other."""
    before = None
    while True:
        page = keyset_page(rows, limit, before=before, by=by, **options)
        assert len(page.rows) <= limit
        yield page.rows
        if page.last is None:
            return
        assert page.last == page.rows[-1]
        before = position_of(page.last)


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 100])
def test_the_pages_together_are_the_list_newest_first_and_each_row_stands_once(limit, events):
    events(6)

    read = [
        row
        for page in pages(Event.objects.all(), limit, ("pk",), lambda row: (row.pk,))
        for row in page
    ]

    assert read == list(Event.objects.order_by("-pk"))


def test_rows_of_the_same_time_are_told_apart_by_the_second_field(events, forge):
    events(7)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    moments = iter([at, at, at, at + timedelta(1), at + timedelta(1), at, at + timedelta(2)])
    for row in Event.objects.order_by("pk"):
        forge("UPDATE ledger_event SET at = %s WHERE id = %s", next(moments), row.pk)

    read = [
        row
        for page in pages(Event.objects.all(), 2, ("at", "pk"), lambda row: (row.at, row.pk))
        for row in page
    ]

    assert read == list(Event.objects.order_by("-at", "-pk"))


@pytest.mark.parametrize("by", [("pk",), ("at", "pk")], ids=str)
def test_rows_that_meet_any_of_several_conditions_stand_once_and_in_order(by, events):
    events(8)
    keys = list(Event.objects.order_by("pk").values_list("pk", flat=True))
    nothing = Q(pk__in=[])
    any_of = [Q(pk__in=keys[:4]), nothing, Q(pk__in=keys[2:6])]
    expected = list(Event.objects.filter(pk__in=keys[:6]).order_by(*(f"-{field}" for field in by)))

    def place_of(row):
        return tuple(getattr(row, field) for field in by)

    read = [
        row for page in pages(Event.objects.all(), 2, by, place_of, any_of=any_of) for row in page
    ]

    assert read == expected
    assert count_any_of(Event.objects.all(), any_of, 100, by=by) == 6
    assert count_any_of(Event.objects.all(), any_of, 5, by=by) == 5


def test_a_row_that_is_added_meanwhile_shifts_nothing(events):
    events(4)
    first = keyset_page(Event.objects.all(), 2)
    before = (first.cursor,)
    second = keyset_page(Event.objects.all(), 2, before=before).rows

    events(3)

    assert keyset_page(Event.objects.all(), 2, before=before).rows == second


def test_an_empty_list_is_one_empty_page():
    page = keyset_page(Event.objects.none(), 10)

    assert (page.rows, page.last, page.cursor) == ([], None, None)
