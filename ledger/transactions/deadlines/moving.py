"""Moves of deadlines: what was stopped has its time longer by as much.

The time that a transaction had to be decided is prolonged by the time that it was stopped, by a
sealed event. By how much is computed from all brakes since the beginning and from what they have
moved it already, so that it comes out the same however often that is done.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db import connection
from django.db.models import Q

from ledger import seals, states
from ledger.errors import NotPossible
from ledger.models import STANDING_SQL, Brake, clock_runs
from ledger.principals import SWEEPER, Surface
from ledger.transactions.transitions import advance

_DEADLINE = """
    t.expires_at - coalesce(
        (SELECT sum((event.details::jsonb->'sets'->>'expires_at')::bigint
                    - (event.details::jsonb->>'from')::bigint)
         FROM ledger_event event
         WHERE event.subject = t.id AND event.kind = 'deadline_moved'), 0
    )::double precision * interval '1 microsecond'
    + ledger_time_stopped(t.tenant, t.proposed_by, t.tool, t.created_at, clock_timestamp())
"""
_OVER_IT = """
    brake.tenant IN ('', t.tenant) AND brake.agent IN ('', t.proposed_by)
    AND brake.tool IN ('', t.tool)
"""
_OF_ONE = f"""
    SELECT t.expires_at, {_DEADLINE} FROM ledger_transaction t
    WHERE t.id = %s AND t.state = 'prepared'
"""
_LEFT_BEHIND = f"""
    SELECT t.id FROM ledger_transaction t
    JOIN ledger_brake ended ON ended.id = %s AND ended.tenant IN ('', t.tenant)
        AND ended.agent IN ('', t.proposed_by) AND ended.tool IN ('', t.tool)
    WHERE t.state = 'prepared' AND t.created_at < coalesce(ended.lifted_at, ended.until)
        AND NOT EXISTS (SELECT FROM ledger_brake brake WHERE {STANDING_SQL} AND {_OVER_IT})
        AND {_DEADLINE} > t.expires_at
    LIMIT %s
"""


def set_going(transaction_id: UUID, only_if: Q | None = None) -> bool:
    """Move the deadline by the time that it was stopped until now; ``False`` if by none.

    Raises ``NotPossible`` if somebody was faster.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OF_ONE, [transaction_id])
        before, after = cursor.fetchone() or (None, None)
    if before is None or after <= before:
        return False
    advance(
        transaction_id,
        states.MOVE_DEADLINE,
        by=SWEEPER,
        via=Surface.SYSTEM,
        only_if=Q(expires_at=before) & (only_if or Q()),
        details={"from": seals.as_text(before)},
        expires_at=after,
    )
    return True


def is_put_off(transaction_id: UUID) -> bool:
    """True once its deadline is moved where that has passed under a brake: it can be decided."""
    with suppress(NotPossible):
        return set_going(transaction_id, ~clock_runs())
    return False


def left_behind(brake: Brake, most: int) -> list[UUID]:
    """Transactions whose clocks stand still although the brake has ended, and no other stands."""
    with connection.cursor() as cursor:
        cursor.execute(_LEFT_BEHIND, [brake.pk, most])
        return [pk for (pk,) in cursor.fetchall()]
