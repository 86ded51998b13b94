"""People who correct what waits, ask its agent, leave notes and give it time: on any surface."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.utils.translation import gettext as _

from approvals.desk import policies
from approvals.desk.decisions import check_surface, require_role, row_and_roles
from approvals.models import Role
from approvals.people import principal_of, require_another_person
from approvals.presentation import full_display
from ledger.errors import NotAllowed
from ledger.models import Transaction
from ledger.principals import Surface
from ledger.transactions import coordinator


def revise(
    user: User,
    transaction_id: UUID,
    arguments: Mapping[str, Any],
    *,
    digest: str,
    via: Surface,
    reason: str = "",
    shown: str = "",
) -> Transaction:
    """Correct arguments of what was shown in full; ``shown`` is the page's proof of that.

    Raises ``NotFound, NotAllowed, NotShownInFull`` and what ``coordinator.revise`` raises.
    """
    row = _row_for_approver(user, transaction_id, via)
    full_display.check(row, via=via, user=user, proof=shown, has_opened=True)
    return coordinator.revise(
        transaction_id, arguments, digest=digest, by=principal_of(user), via=via, reason=reason
    )


def ask_agent(user: User, transaction_id: UUID, *, via: Surface, text: str) -> Transaction:
    """Ask its agent. Raises ``NotFound, NotAllowed`` and what ``coordinator.ask`` raises."""
    row = _row_for_approver(user, transaction_id, via)
    return coordinator.ask(row.pk, by=principal_of(user), via=via, text=text)


def give_time(user: User, transaction_id: UUID, *, via: Surface, until: datetime) -> Transaction:
    """Give it time until then; the same again is refused, as it has that already.

    Raises ``NotFound, NotAllowed`` and what ``coordinator.extend`` raises.
    """
    _row_for_approver(user, transaction_id, via)
    with atomic():  # two clicks at once are not twice as much
        row = Transaction.objects.select_for_update().get(pk=transaction_id)
        more = until - row.expires_at
        return coordinator.extend(row.pk, more, by=principal_of(user), via=via)


def leave_note(user: User, transaction_id: UUID, *, via: Surface, text: str) -> Transaction:
    """A note for colleagues, which no agent is shown.

    Raises ``NotFound, NotAllowed`` and what ``coordinator.note`` raises.
    """
    row, roles = row_and_roles(user, transaction_id)
    if not (may := policies.may_note(row, roles)):
        raise NotAllowed(may.why_not)
    return coordinator.note(row.pk, by=principal_of(user), via=via, text=text)


def _row_for_approver(user: User, transaction_id: UUID, via: Surface) -> Transaction:
    row, roles = row_and_roles(user, transaction_id)
    require_role(Role.APPROVER, row, roles)
    check_surface(row, via)
    keepers = policies.barred_keepers_of(row)
    require_another_person(user, keepers, _("{name} keeps the agent that proposed it."))
    return row
