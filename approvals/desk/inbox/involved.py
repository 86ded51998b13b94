"""People whose rows depend on more than their roles."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q

from approvals.desk.inbox import checks
from approvals.desk.inbox.inbox import needs_somebody, questions
from approvals.models import SetAside
from ledger.models import Agent, Decision, Transaction


def involved(tenants: frozenset[str], ids: list[UUID]) -> frozenset[str]:
    """Everybody for whom the conditions of ``viewers`` look at more than roles, as principals.

    They have decided, proposed, set aside or begun to settle one of the transactions ``ids`` or one
    that waits, keep an agent, are named by a question that waits, or by a change that waits.
    """
    waiting = needs_somebody(tenants)
    rows = Transaction.objects.for_tenants(tenants).filter(Q(pk__in=ids) | Q(pk__in=waiting))
    decided = Decision.objects.filter(transaction__in=rows).values_list("principal", "kept_by")
    asked = questions(tenants).values_list("may_answer", "task__submitted_by")
    return frozenset(
        {
            *rows.filter(proposed_by__startswith="user:").values_list("proposed_by", flat=True),
            *SetAside.objects.filter(transaction__in=rows).values_list("person", flat=True),
            *rows.exclude(settlement=None).values_list("settlement__by", flat=True),
            *Agent.objects.filter(tenant__in=tenants).values_list("kept_by", flat=True),
            *(name for names in decided for name in names),
            *checks.concerned(tenants),
            *(name for may_answer, by in asked for name in (*may_answer, by)),
        }
    )
