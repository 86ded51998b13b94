"""The thread of a transaction: what people and the agent say about it, and the time that it gets.

The thread is the events themselves. Their texts are erased with the content; their digests stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Now
from django.db.transaction import atomic

from ledger import seals, states
from ledger.errors import InvalidRequest, NotAllowed, NotFound, NotPossible, Sentence
from ledger.foundation.postgres import database_now
from ledger.models import Ending, Event, Transaction, Verdict
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off.revisions import changes_of
from ledger.states import EventKind, State
from ledger.tools import tool_of
from ledger.transactions import sign_offs, votes
from ledger.transactions.cases import Case, look_at_one
from ledger.transactions.deadlines import LONGEST_REST, left_of_rest, open_question, put_off_s
from ledger.transactions.eligibility import Ballot, check_is_no_keeper, check_may_decide
from ledger.transactions.late_decisions import same_again_or_refuse
from ledger.transactions.transitions import advance, check_reason

MOST_QUESTIONS = 10  # about one transaction
MOST_NOTES = 50
MOST_EXTENSIONS = 50
THREAD = frozenset(
    {
        EventKind.ASKED,
        EventKind.ANSWERED,
        EventKind.NOTED,
        EventKind.EXTENDED,
        EventKind.REVISED,
        EventKind.SENT_BACK,
        EventKind.PASSED_ON,
        EventKind.ESCALATED,
    }
)


def ask(transaction_id: UUID, *, by: Principal, via: Surface, text: str) -> Transaction:
    """Ask the agent that proposed it. Its clock rests until the answer, for an hour at most.

    The same question again returns the present row while it waits. Raises ``NotPossible`` once it
    is decided or was asked ``MOST_QUESTIONS`` times, ``NotAllowed``, ``InvalidRequest``.
    """
    _check_text(text)
    with atomic():
        case = _case_of(transaction_id, by, via)
        waiting = open_question(case.links)
        if waiting is not None and _is_same(waiting, by, text):
            return case.row
        _check_few(case.links, states.ASK.kind, MOST_QUESTIONS)
        rest = min(LONGEST_REST, longest_of(case.row, case.links) - case.row.expires_at)
        moved = _moved_by(case.row, rest) if rest > timedelta(0) else {}
        return advance(
            transaction_id,
            states.ASK,
            by=by,
            via=via,
            reason=text,
            asked_at=Now(),
            **moved,
        )


def answer(transaction_id: UUID, *, by: Principal, via: Surface, text: str) -> Transaction:
    """The answer of the agent that proposed it; its clock goes on, for what was left.

    The same answer again returns the present row. Raises ``NotPossible`` where no question waits,
    ``NotAllowed, NotFound, InvalidRequest``.
    """
    _check_text(text)
    with atomic():
        row = _locked(transaction_id)
        if row.proposed_by != str(by):
            raise NotAllowed("Only the agent that proposed it answers questions about it.")
        links = sign_offs.links_of(row.pk)
        if open_question(links) is None or row.state != State.PREPARED:
            return _answered_before(row, links, text)
        left = left_of_rest(links, database_now())
        moved = _moved_by(row, -left) if left > timedelta(0) else {}
        return advance(row.pk, states.ANSWER, by=by, via=via, reason=text, asked_at=None, **moved)


def _answered_before(row: Transaction, links: Sequence[Link], text: str) -> Transaction:
    answers = [link for link in links if link.kind == states.ANSWER.kind]
    if answers and answers[-1].reason_digest == seals.digest_of_text(text):
        return row
    raise NotPossible("No question about it waits for an answer.", snapshot=row, state=row.state)


def note(transaction_id: UUID, *, by: Principal, via: Surface, text: str) -> Transaction:
    """A note for the other people who decide; the agent is not shown it.

    Raises ``NotPossible`` once its content is erased, ``NotFound, InvalidRequest``.
    """
    _check_text(text)
    with atomic():
        row = _locked(transaction_id)
        _check_few(sign_offs.links_of(row.pk), states.NOTE.kind, MOST_NOTES)
        kept = Q(content_erased_at=None) & ~Q(proposed_by=str(by))
        return advance(row.pk, states.NOTE, by=by, via=via, reason=text, only_if=kept)


def extend(
    transaction_id: UUID, by_how_much: timedelta, *, by: Principal, via: Surface, reason: str = ""
) -> Transaction:
    """Give more time to decide, up to the longest that its contract allows.

    Raises ``NotPossible`` once it is decided or was extended ``MOST_EXTENSIONS`` times,
    ``NotAllowed``, and ``InvalidRequest`` for more than there is.
    """
    check_reason(reason)
    with atomic():
        case = _case_of(transaction_id, by, via)
        _check_few(case.links, states.EXTEND.kind, MOST_EXTENSIONS)
        left = longest_of(case.row, case.links) - case.row.expires_at
        if not timedelta(0) < by_how_much <= left:
            raise InvalidRequest(
                Sentence(
                    "It can wait {minutes} minutes longer at the most.",
                    minutes=max(0, left // timedelta(minutes=1)),
                ),
                hint=Sentence("Nothing was changed."),
            )
        moved = _moved_by(case.row, by_how_much)
        return advance(transaction_id, states.EXTEND, by=by, via=via, reason=reason, **moved)


def requests_to_agent(row: Any) -> dict[str, Any]:
    """Wishes of people to the agent, and what they changed, as its surfaces tell it.

    ``changed`` is ``[{path, from, to}]`` against what it proposed, ``question`` waits for its
    answer, ``change_request`` is why it was sent back; both ``{text, by, at}`` or ``None``.
    """
    asks = row.state == State.PREPARED and row.asked_at is not None
    is_back = row.ending == Ending.SENT_BACK
    return {
        "revision": row.revision,
        "changed": [change.as_json() for change in changes_of(row)],
        "question": _statement(row, EventKind.ASKED) if asks else None,
        "change_request": _statement(row, EventKind.SENT_BACK) if is_back else None,
        "replaces": str(row.replaces) if row.replaces else None,
        "replaced_by": _next_of(row) if is_back else None,
    }


def _statement(row: Any, kind: EventKind) -> dict[str, str] | None:
    event = Event.objects.filter(subject=row.pk, kind=kind).order_by("-seq").first()
    if event is None:
        return None
    return {"text": event.reason, "by": event.principal_name, "at": event.at.isoformat()}


def _next_of(row: Any) -> str | None:
    later = Transaction.objects.filter(replaces=row.pk, tenant=row.tenant).order_by("-pk")
    following = later.values_list("pk", flat=True).first()
    return None if following is None else str(following)


def longest_of(row: Transaction, links: Sequence[Link]) -> datetime:
    """Until when it may wait: the longest of its contract, and the time that brakes stopped it."""
    tool = tool_of(row)
    if tool is None:
        return row.expires_at
    put_off = timedelta(seconds=put_off_s(links, links[-1].at))
    return max(row.expires_at, row.created_at + tool.contract.max_ttl + put_off)


def _moved_by(row: Transaction, step: timedelta) -> dict[str, Any]:
    """The arguments of ``advance`` that move the deadline of a locked row."""
    return {
        "details": {"from": seals.as_text(row.expires_at)},
        "only_if": Q(expires_at=row.expires_at),
        "expires_at": row.expires_at + step,
    }


def _case_of(transaction_id: UUID, by: Principal, via: Surface) -> Case:
    """The case of somebody who may decide on it. Raises ``NotPossible, NotAllowed, NotFound``."""
    case = look_at_one(transaction_id, by)
    if case is None:
        row = _locked(transaction_id)
        same_again_or_refuse(row, Verdict.APPROVE, by=by, digest=row.intent_digest)
        raise NotPossible(snapshot=row, state=row.state)
    vote = Ballot(Verdict.REJECT, digest=case.row.intent_digest, by=by, via=via)
    if case.row.proposed_by == str(by) or not by.is_user:
        raise NotAllowed(Sentence("Only people who may decide on it do that."))
    check_may_decide(case.row, vote, votes.standing_decisions(case.links))
    check_is_no_keeper(vote, {}, case.keepers, case.links[0])
    return case


def _locked(transaction_id: UUID) -> Transaction:
    row = Transaction.objects.select_for_update().filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    return row


def _is_same(link: Link, by: Principal, text: str) -> bool:
    return link.principal == str(by) and link.reason_digest == seals.digest_of_text(text)


def _check_text(text: str) -> None:
    if not text.strip():
        raise InvalidRequest(Sentence("Say something: the text is empty."))
    check_reason(text)


def _check_few(links: Sequence[Link], kind: str, most: int) -> None:
    if sum(link.kind == kind for link in links) >= most:
        raise NotPossible(Sentence("There are {most} of these already; that is all.", most=most))
