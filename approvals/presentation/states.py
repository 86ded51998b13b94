"""The states of transactions and tasks as people see them: icon, tone and words, one row each.

A state's short words are its label in ``ledger.states`` and ``a2a.states``, which machines read in
English. The desk, Slack and the admin say nothing else of a state.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _, gettext_noop

from a2a.models import Task
from a2a.states import TaskState
from approvals.presentation.labels import first_large
from approvals.presentation.sentences import in_words
from ledger.models import Transaction
from ledger.states import Ending, State
from ledger.tools import acts_itself


@dataclass(frozen=True, slots=True)
class Shown:
    """One state: its icon, its tone, a sentence, and what follows for people."""

    icon: str
    tone: str
    sentence: str = ""
    next_step: str = ""


TRANSACTIONS = {
    State.PREPARED: Shown("clock", "soon", gettext_noop("Waiting for sign-off.")),
    State.REFUSED: Shown("ban", "calm", gettext_noop("Refused by the tool: nothing was prepared.")),
    State.APPROVED: Shown("check", "calm", gettext_noop("It waits for a worker.")),
    State.COMMITTING: Shown("loader", "calm", gettext_noop("A worker is carrying it out.")),
    State.COMMITTED: Shown("circle-check", "good", gettext_noop("Done.")),
    State.HANDED_OVER: Shown(
        "check",
        "calm",
        gettext_noop("Handed to the agent, which runs it itself."),
        gettext_noop("No receipt comes back."),
    ),
    State.IN_DOUBT: Shown(
        "circle-help",
        "bad",
        gettext_noop("In doubt: nobody knows yet whether it happened."),
        gettext_noop("An operator has to look."),
    ),
    State.ROLLING_BACK: Shown("undo-2", "calm", gettext_noop("Releasing what was held.")),
    State.ABORTED: Shown("circle-x", "calm", gettext_noop("Ended without any effect.")),
    State.FAILED: Shown("triangle-alert", "bad", gettext_noop("Failed, nothing was done.")),
    State.COMPENSATING: Shown("undo-2", "calm", gettext_noop("Being compensated.")),
    State.COMPENSATED: Shown("undo-2", "calm", gettext_noop("Done, then compensated.")),
}
# The sentences where the proposing agent carries it out, with a permit.
BY_ITS_AGENT = {
    State.APPROVED: gettext_noop("Its agent may now carry it out, with a permit."),
    State.COMMITTING: gettext_noop("Its agent is carrying it out."),
}
UNDOABLE = gettext_noop("It begins in a few seconds.")
ACCEPTED = gettext_noop("Its service has accepted it, and is asked until it is done.")
ENDINGS = {
    Ending.REJECTED: gettext_noop("Rejected by {name}"),
    Ending.SENT_BACK: gettext_noop("Sent back by {name}"),
    Ending.OUTDATED: gettext_noop("Not done: planned again, the tool refuses it by now"),
    Ending.EXPIRED: gettext_noop("Expired: nobody decided in time"),
    Ending.CANCELED: gettext_noop("Canceled by {name}"),
    Ending.HOLD_LAPSED: gettext_noop("Not done: what was held lapsed"),
    Ending.PERMIT_LAPSED: gettext_noop("Not done: the agent did not act in time"),
    Ending.ABANDONED: gettext_noop("Not done: it could not be entered"),
    Ending.WITHDRAWN: gettext_noop("Withdrawn by {name}"),
    Ending.FAILED: gettext_noop("Failed, nothing was done"),
}
# An ending says more than these states, which it leads to.
LET_GO = frozenset({State.ROLLING_BACK, State.ABORTED, State.FAILED})
TASKS = {
    TaskState.SUBMITTED: Shown("clock", "calm"),
    TaskState.WORKING: Shown("loader", "calm"),
    TaskState.INPUT_REQUIRED: Shown("message-circle-question", "soon"),
    TaskState.AUTH_REQUIRED: Shown("clock", "soon"),
    TaskState.COMPLETED: Shown("circle-check", "good"),
    TaskState.FAILED: Shown("triangle-alert", "bad"),
    TaskState.CANCELED: Shown("circle-x", "calm"),
    TaskState.REJECTED: Shown("ban", "bad"),
}


def shown_state(row: Transaction | Task) -> Shown:
    if isinstance(row, Task):
        return TASKS[TaskState(row.state)]
    return TRANSACTIONS[State(row.state)]


def state_label(row: Transaction) -> str:
    """The state in a few words: ``being carried out``."""
    return in_words(State(row.state).label)


def outcome_label(row: Transaction) -> str:
    """The outcome in a few words: ``Rejected``, ``Being carried out``."""
    if row.ending and row.state in LET_GO:
        return first_large(in_words(Ending(row.ending).label))
    return first_large(state_label(row))


def state_sentence(row: Transaction) -> str:
    if row.is_accepted:
        return _(ACCEPTED)
    not_before = row.next_attempt_at
    if row.state == State.APPROVED and not_before is not None and not_before > timezone.now():
        return _(UNDOABLE)
    by_its_agent = BY_ITS_AGENT.get(State(row.state))
    if by_its_agent and acts_itself(row):
        return _(by_its_agent)
    return _(shown_state(row).sentence)


def with_next_step(row: Transaction) -> str:
    """The sentence, and what follows for people where something does."""
    step = shown_state(row).next_step
    return f"{state_sentence(row)} {_(step)}" if step else state_sentence(row)
