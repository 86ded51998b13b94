"""From requests to transactions that wait for sign-off. The hot path."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import DatabaseError, IntegrityError, InterfaceError

from ledger import states
from ledger.contracts import RequiredApprover, Tool
from ledger.errors import (
    DeniedByRule,
    InProgress,
    LedgerError,
    LimitReached,
    PlansBusy,
    PlanTimedOut,
)
from ledger.events.brakes import refuse_stopped
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.limits import stocks
from ledger.limits.stocks import Places
from ledger.models import Transaction, new_id
from ledger.principals import Principal, Surface
from ledger.sign_off.rules import Judgement, active_number
from ledger.states import Move, State
from ledger.transactions.decisions import approve_by_policy
from ledger.transactions.prepare.admission import (
    Admission,
    admitted,
)
from ledger.transactions.prepare.answers import Answer, answer_after_lost_race, earlier_answer
from ledger.transactions.prepare.charged import insert_charged
from ledger.transactions.prepare.drafts import (
    New,
    columns,
    draft,
    refused_draft,
)
from ledger.transactions.prepare.insert import insert_all
from ledger.transactions.prepare.judging import denied_unplanned, judged
from ledger.transactions.prepare.planning import Planned, plain, refused_plan
from ledger.transactions.prepare.plans_in_time import context_of, planned_in_time, release
from ledger.transactions.prepare.proposals import Proposal, Render, Request, checked

logger = logging.getLogger(__name__)

# More than the INSERT after a plan takes (``sessions.STATEMENT_S`` and a margin).
# A batch that lost a race is tried again: the winner is seen then, and left out.
TRIES = 3


class Overtaken(Exception):
    """Another request took the key or the operation after this one was admitted."""


def prepare(
    proposal: Proposal,
    *,
    by: Principal,
    tenant: str,
    key: str,
    via: Surface,
    render: Render,
    tool: Tool[Any, Any] | None = None,
) -> Answer:
    """Plan a proposal, hold what it needs and put it before an approver.

    ``tool`` is one that no name leads to; the caller knows that the agent may use it.

    Repeating a request with the same key returns the first answer. If a live transaction has the
    same operation and the same input, the answer is that transaction. Nothing is written when
    this raises, except for a refused plan, which is stored as REFUSED.

    Raises ``IdempotencyKeyMissing, IdempotencyKeyReused, InProgress, CanceledBefore, UnknownTool,
    Paused, InvalidRequest, LimitReached, OperationTaken, OperationHeld,
    OperationKeyConflict, PlanFailed, PlanRefused, PlansBusy, AddressSilent, PlanTimedOut``.
    """
    request = checked(proposal, by=by, tenant=tenant, key=key, via=via, render=render, tool=tool)
    with admitted(request) as admission:
        earlier = earlier_answer(request, admission)
        if earlier is not None:
            return earlier
        _refuse_unless_kept(request, admission)
        with stocks.pending.places() as places:
            places.take(request.by, request.tenant)
            try:
                return _plan_and_insert(request, admission)
            except Overtaken:
                return answer_after_lost_race(request)


def _refuse_unless_kept(request: Request, admission: Admission) -> None:
    """Raises ``Paused`` where a brake stops it, and also what may hold something meanwhile."""
    may_hold = request.tool.has("rollback")
    if admission.is_kept is False or (admission.is_kept and may_hold):
        refuse_stopped(request.tenant, str(request.by), request.tool.name)


# --- many at once -------------------------------------------------------------------------------


def is_for_batch(tool: Tool[Any, Any]) -> bool:
    """True if proposals with the tool can be prepared many at a time.

    Nobody else may wait for a plan, for the queries about keys of earlier contracts, or for the
    decision where no approver is required.
    """
    contract = tool.contract
    return bool(
        not tool.has("plan")
        and contract.required_approver != RequiredApprover.NONE
        and contract.operation_key
        and not contract.operation_key_aliases
    )


def prepare_all(requests: Sequence[Request], now: datetime) -> list[Answer | None]:
    """Put the proposals before approvers, all that can be at once; ``None`` for every other.

    Every other is left to ``prepare``, which knows all answers. That is always safe: if it was
    inserted after all, ``prepare`` answers with what was stored under its key. The tools are such
    that ``is_for_batch``; ``now`` is the database's clock. Raises nothing of the ledger; if the
    database fails, it is not known whether anything was inserted.
    """
    answers: list[Answer | None] = [None] * len(requests)
    with stocks.pending.places() as places:
        batch = dict(_new(requests, now, places))
        inserted = _inserted(list(batch.values())) if batch else frozenset()
    for number, new in batch.items():
        if new.row.id in inserted:
            answers[number] = _answer_with(new)
    return answers


def _new(requests: Sequence[Request], now: datetime, places: Places) -> Iterator[tuple[int, New]]:
    """The new transactions, with their places. Of requests that exclude each other the first."""
    taken: set[tuple[str, ...]] = set()
    for number, request in enumerate(requests):
        names = {
            ("key", str(request.by), request.key),
            ("operation", request.tenant, request.operation_key),
        }
        if names & taken or not places.try_take(request.by, request.tenant):
            continue
        new = _drafted_or_none(request, now)
        if new is not None:
            taken |= names
            yield number, new


def _drafted_or_none(request: Request, now: datetime) -> New | None:
    """``None`` if its code fails, nobody has to sign or it is charged: the others go on."""
    try:
        planned = plain(request.tool, request.arguments, request.proposal.reason)
        judgement = judged(request, planned, request.rule_set)
        if judgement is not None and (_is_for_nobody(judgement) or judgement.budgeted):
            return None
        return draft(request, new_id(), planned, now, judgement)
    except LedgerError:
        return None
    except Exception as failure:
        logger.warning("a proposal of %s leaves its batch after %r", request.tool.name, failure)
        return None


def _is_for_nobody(judgement: Judgement) -> bool:
    """Denied, or decided at once: the others of a batch do not wait for either."""
    return judgement.terms.is_denied or not judgement.terms.seats


def _inserted(batch: Sequence[New]) -> frozenset[UUID]:
    """The ids of those that were inserted; without those for which others were faster."""
    for _ in range(TRIES):
        try:
            return frozenset(insert_all(batch))
        except IntegrityError as race:
            logger.info("a batch of %s lost a race: %s", len(batch), race)
    return frozenset()


def _answer_with(new: New) -> Answer:
    return Answer(new.status, new.answer, new.row.id)


# --- one, with its plan -------------------------------------------------------------------------


def _plan_and_insert(request: Request, admission: Admission) -> Answer:
    """Plan, then insert the transaction. If either fails, what the plan held is released."""
    began = time.monotonic()
    transaction_id, planned = new_id(), Planned()
    try:
        context = context_of(request, transaction_id)
        judgement = denied_unplanned(request, admission.rule_set)
        if judgement is None:
            planned, refusal = planned_in_time(request, context, admission.now)
        else:
            refusal = _denied(judgement)
            planned = refused_plan(request.tool, request.arguments, refusal)
        created_at = admission.now + timedelta(seconds=time.monotonic() - began)
        if refusal is None:
            new = _put_before_approvers(request, transaction_id, planned, created_at, admission)
            if isinstance(new, New):
                _approve_if_nobody_has_to(new)
                return _answer_with(new)
            judgement, refusal = new, _denied(new)
    except (PlanTimedOut, LimitReached, PlansBusy, InProgress):
        raise  # nothing was planned, or it is released once the plan returns
    except BaseException as failure:
        row = Transaction(**columns(request, transaction_id, planned, admission.now))
        # A connection was lost in the database alone: what fails in a plan is PlanFailed.
        release(request, row, only_by_row=isinstance(failure, CONNECTION_LOST))
        raise
    refused = refused_draft(request, transaction_id, planned, created_at, refusal, judgement)
    if not _is_inserted(refused, states.REFUSE):
        raise Overtaken
    refusal.extra["transaction_id"] = str(transaction_id)
    raise refusal


def _denied(judgement: Judgement) -> DeniedByRule:
    return DeniedByRule(judgement.rule_set, judgement.denying)


def _put_before_approvers(
    request: Request,
    transaction_id: UUID,
    planned: Planned,
    created_at: datetime,
    admission: Admission,
) -> New | Judgement:
    """Judge and insert; judged again by what was activated meanwhile.

    Returns the judgement that denies what held nothing. Raises ``DeniedByRule`` where something
    has to be released, and ``Overtaken``.
    """
    rule_set = admission.rule_set
    for _ in range(TRIES):
        judgement = judged(request, planned, rule_set)
        if judgement is not None and judgement.terms.is_denied:
            if request.tool.has("rollback"):
                raise _denied(judgement)
            return judgement
        new = insert_charged(
            request,
            planned,
            judgement,
            admission,
            created_at,
            partial(draft, request, transaction_id, planned, created_at),
            partial(_is_inserted, move=states.PREPARE),
        )
        if new is not None:
            return new
        judged_by, rule_set = rule_set, active_number(request.tenant)
        if rule_set == judged_by:
            break
    raise Overtaken


def _is_inserted(new: New, move: Move[State]) -> bool:
    """False if other rules are active by now. Raises ``Overtaken``."""
    try:
        return bool(insert_all([new], move, is_admitted=True))
    except IntegrityError as race:
        raise Overtaken from race


def _approve_if_nobody_has_to(new: New) -> None:
    """The transaction is inserted; if this fails, the sweeper signs it off."""
    if new.row.required_approver == RequiredApprover.NONE:
        with suppress(LedgerError, DatabaseError, InterfaceError):
            approve_by_policy(new.row.id, new.row.intent_digest, new.row.terms)
