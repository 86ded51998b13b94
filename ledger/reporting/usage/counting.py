"""Counting what the audit log says, once for each event.

The counts and the last event that they contain are written in one database transaction, so that a
process may die at any moment. Nothing is counted where transactions are prepared or carried out.
"""

from __future__ import annotations

import time
from datetime import timedelta

from django.db import connection
from django.db.models import Min
from django.db.transaction import atomic

from ledger.events import last_settled_event
from ledger.models import (
    Event,
    SubjectUse,
    UsageCursor,
    UsageDay,
    UsageDecider,
    UsageHour,
    Verdict,
)
from ledger.principals import POLICY, Surface
from ledger.reporting.usage import buckets, subjects
from ledger.states import EventKind

BATCH = 5_000  # events that one round counts
EVERY_S = 5.0  # to know which events are settled, writers are kept out for an instant
PATIENCE = timedelta(milliseconds=100)
# What becomes of a request, in the order in which charts stack it.
OUTCOMES = (
    EventKind.APPROVED,
    EventKind.REJECTED,
    EventKind.SENT_BACK,
    EventKind.EXPIRED,
    EventKind.CANCELED,
)
COUNTED = (EventKind.PREPARED, *OUTCOMES, EventKind.FAILED)
# The word of one of several approvers counts for that approver too.
BY_DECIDER = (
    EventKind.APPROVAL_RECORDED,
    EventKind.PASSED_ON,
    EventKind.APPROVED,
    EventKind.REJECTED,
    EventKind.SENT_BACK,
)
# The kind under which an hour has the time that people took to decide, whatever they decided.
WAITED = "waited"
# The kind under which a day has approvals of what the person had hardly opened.
QUICK = "quick"
GRANTS = "grant"  # the decider of what was signed in advance
# The kinds under which a day has advice on what people decided, by the agent that gave it.
FOLLOWED, NOT_FOLLOWED = "advice_followed", "advice_not_followed"
QUICK_S = 3.0  # nobody has read anything in so short a time

_counted_at = float("-inf")


def count_events() -> None:
    """The sweeper's step: count what has happened since it last counted."""
    global _counted_at
    now = time.monotonic()
    if now - _counted_at < EVERY_S:
        return
    if count_batch() < BATCH:
        _counted_at = now
    subjects.forget_old()


def count_batch(most: int = BATCH) -> int:
    """Count at most so many settled events; returns how many ids were passed.

    Another process that counts at the same time makes this one count nothing.
    """
    upto = counted_upto()
    first = Event.objects.filter(pk__gt=upto).aggregate(first=Min("pk"))["first"]
    # Before the settled event is known: a withdrawal that is under way then is committed by then.
    undoable = None if first is None else _first_undoable(upto)
    settled = None if first is None else last_settled_event(PATIENCE)
    if first is None or settled is None:
        return 0
    settled = settled if undoable is None else min(settled, undoable - 1)
    with atomic():
        cursor = _locked_cursor()
        if cursor is None or cursor.upto_event >= settled:
            return 0
        after = max(cursor.upto_event, min(first - 1, settled))
        upto = min(settled, after + most)
        _count(after, upto)
        UsageCursor.objects.filter(pk=1).update(upto_event=upto)
    return int(upto - after)


def _first_undoable(after: int) -> int | None:
    """The first approval that may still be withdrawn. It is counted, or not, once that is over."""
    with connection.cursor() as cursor:
        cursor.execute(_UNDOABLE, [after])
        first: int | None = cursor.fetchone()[0]
        return first


_UNDOABLE = f"""
    SELECT min(id) FROM ledger_event
    WHERE id > %s AND kind IN ('{EventKind.APPROVED}', '{EventKind.APPROVAL_RECORDED}')
      AND at > clock_timestamp() - interval '1 minute'
      AND at + (details::jsonb ->> 'undo_seconds')::int * interval '1 second' >= clock_timestamp()
"""


def rebuild_usage() -> int:
    """Count all events anew; returns up to which. Readers see the old figures until it is done.

    Subjects are those of transactions whose content is still there.
    """
    undoable = _first_undoable(0)
    settled = last_settled_event(timedelta(seconds=10))
    if settled is not None and undoable is not None:
        settled = min(settled, undoable - 1)
    with atomic():
        UsageCursor.objects.get_or_create(pk=1, defaults={"upto_event": 0})
        cursor = UsageCursor.objects.select_for_update().get(pk=1)
        for model in (UsageDay, UsageHour, UsageDecider, SubjectUse):
            model.objects.all().delete()
        upto = cursor.upto_event if settled is None else settled
        _count(0, upto)
        UsageCursor.objects.filter(pk=1).update(upto_event=upto)
    return upto


def counted_upto() -> int:
    """The last event that is counted."""
    upto: int | None = UsageCursor.objects.values_list("upto_event", flat=True).first()
    return upto or 0


def _locked_cursor() -> UsageCursor | None:
    """The cursor, for this database transaction alone; ``None`` while another process counts."""
    row = UsageCursor.objects.select_for_update(skip_locked=True).first()
    if row is None and not UsageCursor.objects.exists():
        UsageCursor.objects.bulk_create([UsageCursor(pk=1, upto_event=0)], ignore_conflicts=True)
        row = UsageCursor.objects.select_for_update(skip_locked=True).first()
    return row


def _count(after: int, upto: int) -> None:
    with connection.cursor() as cursor:
        for sql, kinds in _STATEMENTS:
            cursor.execute(sql, [after, upto, [str(kind) for kind in kinds]])
    subjects.remember(after, upto)


_WAIT = buckets.WAIT_SQL.format("extract(epoch FROM e.at - t.created_at)")
_SIZE = buckets.SIZE_SQL.format("t.amount")
_HAS_SIZE = f"e.kind = '{EventKind.APPROVED}' AND t.amount IS NOT NULL"
# An approval that was withdrawn has decided nothing.
_EVENTS = f"""
    FROM ledger_event e JOIN ledger_transaction t ON t.id = e.transaction_id
    WHERE e.id > %s AND e.id <= %s AND e.kind = ANY(%s) AND NOT EXISTS (
        SELECT FROM ledger_event w WHERE w.subject = e.subject AND w.seq > e.seq
            AND w.kind = '{EventKind.APPROVAL_WITHDRAWN}' AND w.principal = e.principal
            AND w.details::jsonb -> 'decision_at' = e.details::jsonb -> 'decision_at')
"""
_HOURS_OF_DAY = ", ".join(
    f"count(*) FILTER (WHERE date_part('hour', e.at AT TIME ZONE 'UTC') = {hour})"
    for hour in range(24)
)
_BOTH_HOURS = ", ".join(
    f"coalesce(ledger_usageday.hours[{place}], 0) + excluded.hours[{place}]"
    for place in range(1, 25)
)
_DAYS = f"""
    INSERT INTO ledger_usageday (tenant, day, tool, agent, kind, currency, size, number, hours)
    SELECT t.tenant, (e.at AT TIME ZONE 'UTC')::date, t.tool, t.proposed_by, e.kind,
           CASE WHEN {_HAS_SIZE} THEN t.currency ELSE '' END,
           CASE WHEN {_HAS_SIZE} THEN {_SIZE} ELSE {buckets.NONE} END, count(*),
           CASE WHEN e.kind = '{EventKind.PREPARED}' THEN ARRAY[{_HOURS_OF_DAY}] END
    {_EVENTS} GROUP BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (tenant, day, tool, agent, kind, currency, size)
    DO UPDATE SET number = ledger_usageday.number + excluded.number,
        hours = CASE WHEN excluded.hours IS NOT NULL THEN ARRAY[{_BOTH_HOURS}] END
"""
_ADD_HOURS = """
    ON CONFLICT (tenant, hour, tool, kind, wait)
    DO UPDATE SET number = ledger_usagehour.number + excluded.number
"""
_HOURS = f"""
    INSERT INTO ledger_usagehour (tenant, hour, tool, kind, wait, number)
    SELECT t.tenant, date_trunc('hour', e.at, 'UTC'), t.tool, e.kind,
           {buckets.NONE}, count(*)
    {_EVENTS} GROUP BY 1, 2, 3, 4
    {_ADD_HOURS}
"""
# A person who signed in advance has decided nothing just then.
_BY_HAND = f"e.via <> '{Surface.GRANT}'"
# Apart from the outcomes, so that an hour has few rows.
_WAITS = f"""
    INSERT INTO ledger_usagehour (tenant, hour, tool, kind, wait, number)
    SELECT t.tenant, date_trunc('hour', e.at, 'UTC'), '', '{WAITED}', {_WAIT}, count(*)
    {_EVENTS} AND e.principal LIKE 'user:%%' AND {_BY_HAND} GROUP BY 1, 2, 5
    {_ADD_HOURS}
"""
_DECIDERS = f"""
    INSERT INTO ledger_usagedecider (tenant, day, decider, agent, kind, wait, number)
    SELECT t.tenant, (e.at AT TIME ZONE 'UTC')::date,
           CASE WHEN {_BY_HAND} THEN e.principal ELSE '{GRANTS}' END, t.proposed_by, e.kind,
           {_WAIT}, count(*)
    {_EVENTS} AND (e.principal LIKE 'user:%%' OR e.principal LIKE 'agent:%%'
        OR e.principal = '{POLICY}')
    GROUP BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, day, decider, agent, kind, wait)
    DO UPDATE SET number = ledger_usagedecider.number + excluded.number
"""
_QUICK = f"""
    INSERT INTO ledger_usagedecider (tenant, day, decider, agent, kind, wait, number)
    SELECT t.tenant, (e.at AT TIME ZONE 'UTC')::date, e.principal, t.proposed_by, '{QUICK}',
           {buckets.NONE}, count(*)
    {_EVENTS} AND e.principal LIKE 'user:%%'
          AND (e.details::jsonb ->> 'seconds_shown')::float8 < {QUICK_S}
    GROUP BY 1, 2, 3, 4
    ON CONFLICT (tenant, day, decider, agent, kind, wait)
    DO UPDATE SET number = ledger_usagedecider.number + excluded.number
"""
# Of what a person decided by hand, each advice on the revision that they decided on.
_ADVICE = f"""
    INSERT INTO ledger_usagedecider (tenant, day, decider, agent, kind, wait, number)
    SELECT d.tenant, d.day, a.principal, d.agent,
           CASE WHEN (d.kind = '{EventKind.APPROVED}')
                     = (a.details::jsonb ->> 'recommends' = '{Verdict.APPROVE}')
                THEN '{FOLLOWED}' ELSE '{NOT_FOLLOWED}' END,
           {buckets.NONE}, count(*)
    FROM (
        SELECT t.tenant, (e.at AT TIME ZONE 'UTC')::date AS day, t.proposed_by AS agent, e.subject,
               e.seq, e.kind, e.details::jsonb -> 'intent_digest' AS digest
        {_EVENTS} AND e.principal LIKE 'user:%%' AND {_BY_HAND}
    ) d JOIN ledger_event a ON a.subject = d.subject AND a.seq < d.seq
        AND a.kind = '{EventKind.ADVISED}' AND a.details::jsonb -> 'intent_digest' = d.digest
    GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (tenant, day, decider, agent, kind, wait)
    DO UPDATE SET number = ledger_usagedecider.number + excluded.number
"""
_STATEMENTS = (
    (_DAYS, COUNTED),
    (_HOURS, COUNTED),
    (_WAITS, (EventKind.APPROVED, EventKind.REJECTED, EventKind.SENT_BACK)),
    (_DECIDERS, BY_DECIDER),
    (_ADVICE, (EventKind.APPROVED, EventKind.REJECTED, EventKind.SENT_BACK)),
    (_QUICK, (EventKind.APPROVAL_RECORDED, EventKind.APPROVED)),
)
