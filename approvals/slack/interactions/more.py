"""The modal “More…”: people send back, ask the agent, leave a note and give time."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import User

from approvals.desk import ask_agent, decisions, give_time, leave_note
from approvals.people import principal_of
from approvals.slack.interactions.command_queue import Claim
from approvals.slack.interactions.commands import Click
from approvals.slack.rendering import modals
from ledger.errors import InvalidRequest, Sentence
from ledger.models import Transaction
from ledger.principals import Surface
from ledger.states import EventKind

VIA = Surface.SLACK
KINDS = {
    modals.ASK: EventKind.ASKED,
    modals.NOTE: EventKind.NOTED,
    modals.HOUR: EventKind.EXTENDED,
}


def act(person: User, row: Transaction, claim: Claim[Click]) -> None:
    """Raises ``LedgerError``. An earlier attempt at this click may have done it already."""
    click = claim.command
    chosen, text = modals.chosen_in(click.inputs), click.typed
    if chosen == modals.SEND_BACK:
        digest = click.button.digest
        decisions.send_back(person, row.pk, digest=digest, via=VIA, reason=text)
        return
    if chosen not in KINDS:
        raise InvalidRequest(Sentence("Choose what to do. Nothing was done."))
    own = row.events.filter(kind=KINDS[chosen], principal=str(principal_of(person)))
    if own.filter(at__gte=claim.created_at).exists():
        return
    if chosen == modals.ASK:
        ask_agent(person, row.pk, via=VIA, text=text)
    elif chosen == modals.NOTE:
        leave_note(person, row.pk, via=VIA, text=text)
    else:
        give_time(person, row.pk, via=VIA, until=row.expires_at + timedelta(hours=1))
