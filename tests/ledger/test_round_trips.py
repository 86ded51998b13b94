"""How many statements a transaction's execution costs, and that the short way writes the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings, strategies as st
from hypothesis.extra.django import TestCase

from ledger import execution
from ledger.execution.claims import claim_all
from ledger.execution.recording import commit_of, record_all
from ledger.execution.tool_calls import call_tool
from ledger.models import Event, Transaction
from ledger.seals import seals
from ledger.seals.intents import canonical_as_stored
from ledger.transactions import sign_offs

pytestmark = pytest.mark.django_db(transaction=True)


def carry_out_together(*rows: Transaction) -> None:
    leases = claim_all([row.pk for row in rows])
    commits = [commit_of(lease, call_tool(lease, "execute")) for lease in leases]
    assert record_all(commits) == {row.pk for row in rows}


def test_executions_together_take_two_statements_and_one_each_to_ask_who_waits(approved):
    carry_out_together(approved())  # compiles the statements
    rows = [approved() for _ in range(3)]

    with CaptureQueriesContext(connection) as captured:
        carry_out_together(*rows)

    written = [query["sql"].split()[0] for query in captured.captured_queries]
    assert written == ["WITH", "WITH", *["SELECT"] * 3], captured.captured_queries
    assert {Transaction.objects.get(pk=row.pk).state for row in rows} == {"committed"}


def test_the_short_way_and_the_long_way_write_the_same(approved):
    short, long = approved(), approved()

    carry_out_together(short)
    execution.commit(long.pk)

    assert _as_written(short) == _as_written(long)
    assert [delivery_count(short), delivery_count(long)] == [delivery_count(short)] * 2
    for row in (short, long):
        row.refresh_from_db()
        assert sign_offs.why_not_to_act(row) == ""


def delivery_count(row: Transaction) -> int:
    return sum(event.deliveries.count() for event in Event.objects.filter(subject=row.pk))


def _as_written(row: Transaction) -> list[Any]:
    """The row and its last event, without what differs between any two."""
    row = Transaction.objects.get(pk=row.pk)
    event = Event.objects.filter(subject=row.pk).latest("seq")
    details = json.loads(event.details)
    sealed = details["sets"]
    assert sealed["ended_at"] == seals.as_text(row.ended_at)
    assert sealed["result"] == seals.outcome_text("result", row.result)
    assert details.pop("receipt") == sealed.pop("receipt") == row.receipt
    for name in ("ended_at", "result"):
        del sealed[name]
    columns = ("state", "receipt_url", "late_receipt", "settlement", "error", "lease_expires_at")
    sealed_columns = ("seq", "kind", "from_state", "to_state", "principal", "principal_name", "via")
    return [
        [getattr(row, name) for name in (*columns, "fencing_token", "attempts")],
        [getattr(event, name) for name in (*sealed_columns, "tenant", "reason", "reason_digest")],
        details,
    ]


def test_an_event_that_came_while_the_claim_waited_is_read_as_well(approved):
    """The statement cannot see it; its chain would look as if an event were missing."""
    row = approved()
    claimed = execution.claim(row.pk)
    assert claimed.links == sign_offs.links_of(row.pk)

    claimed.links = None
    execution.run(claimed)

    assert Transaction.objects.get(pk=row.pk).state == "committed"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abäß", max_size=3), inner),
    max_leaves=8,
)


class StoredJson(TestCase):
    @settings(max_examples=200, deadline=None)
    @given(JSON)
    def test_json_is_sealed_before_it_is_stored_as_it_is_read_afterwards(self, value: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s::jsonb", [json.dumps(value)])
            stored = json.loads(cursor.fetchone()[0])

        assert canonical_as_stored(stored) == canonical_as_stored(value)


def test_approvals_claims_and_records_are_planned_once(approved):
    """Planning costs more than what they do, and a plan for one state read all rows in it."""
    connection.close()
    for _ in range(12):
        carry_out_together(approved())

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans, custom_plans FROM pg_prepared_statements"
            " WHERE statement LIKE 'WITH wanted%'"
        )
        plans = cursor.fetchall()
    assert len(plans) == 3
    # PostgreSQL compares after five executions.
    assert all(planned_anew == 5 < planned_once + 5 for planned_once, planned_anew in plans), plans
