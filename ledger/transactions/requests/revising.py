"""Another revision of a transaction: a person corrects it, or it is planned again.

The new plan is made beside the old one. One compare-and-set on the intent digest decides whose
revision it is; the hold of whoever lost is released, and so is the hold that was replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.db.transaction import atomic
from pydantic import BaseModel

from ledger import seals, states
from ledger.contracts import Tool
from ledger.errors import (
    DeniedByRule,
    InvalidRequest,
    NotFound,
    NotPossible,
    Sentence,
)
from ledger.foundation.postgres import database_now
from ledger.foundation.postgres.sessions import CONNECTION_LOST
from ledger.models import (
    Decision,
    Evidence,
    Revision,
    Transaction,
    Verdict,
    new_id,
)
from ledger.principals import Principal, Surface
from ledger.seals import Link
from ledger.sign_off import revisions, rules
from ledger.tools import acts_itself, is_for_agent, tool_of
from ledger.transactions import sign_offs, votes
from ledger.transactions.cases import Case, look_at_one
from ledger.transactions.deadlines import as_prepared
from ledger.transactions.eligibility import Ballot, check_is_no_keeper, check_may_decide
from ledger.transactions.late_decisions import same_again_or_refuse
from ledger.transactions.prepare import (
    Planned,
    Proposal,
    Request,
    check_touches,
    columns,
    context_of,
    is_held_by,
    key_of_hold,
    planned_in_time,
    release,
    release_later,
    truth_of,
)
from ledger.transactions.renewal import columns_of_terms, judged_anew
from ledger.transactions.transitions import FRESH, advance, check_reason

MOST_REVISIONS = 100


class NotEditable(InvalidRequest):
    """Raised where nobody can change the arguments; the text says why."""

    code = "not_editable"
    title = Sentence("It cannot be changed")
    hint = Sentence("Nothing was changed. Send it back, and say what to propose instead.")


# --- a person corrects it ----------------------------------------------------------------------


def why_not_editable(row: Transaction) -> str:
    """Why no argument of it can be changed; empty if some can."""
    tool = None if is_for_agent(row) else tool_of(row)
    if is_for_agent(row) or acts_itself(row):
        return Sentence("The agent carries it out itself, as it has proposed it.")
    if tool is None:
        return Sentence("This server does not have its tool.")
    if not tool.can_plan_again:
        return Sentence("Its tool holds something, and cannot plan it again beside that.")
    if not tool.editable_arguments:
        return Sentence("Its contract lets no argument be changed.")
    return ""


def revise(
    transaction_id: UUID,
    arguments: Mapping[str, Any],
    *,
    digest: str,
    by: Principal,
    via: Surface,
    reason: str = "",
) -> Transaction:
    """Change some of the arguments of what waits: plan it again, and void the votes before.

    ``digest`` is the intent that its maker saw; ``arguments`` has the new values of those that
    change. The same again returns the present row. Raises ``Revised, NotEditable, InvalidRequest,
    InvalidArguments, PlanRefused, DeniedByRule``, what planning raises, and as ``decide`` does.
    """
    check_reason(reason)
    vote = Ballot(Verdict.APPROVE, digest=digest, by=by, via=via)
    row = Transaction.objects.filter(pk=transaction_id).first()
    if row is None:
        raise NotFound()
    if row.intent_digest != digest:
        return _same_again_or_refuse(row, arguments, by, digest)
    with atomic():
        _check_may_revise(look_at_one(transaction_id, by), vote)
    tool = tool_of(row)
    why = why_not_editable(row)
    if why or tool is None:
        raise NotEditable(why)
    request = _request_with(row, tool, arguments, by, via)
    context = context_of(request, row.pk, row.held)
    planned, refusal = planned_in_time(request, context, database_now(), again=True)
    if refusal is not None:
        raise refusal
    try:
        with atomic():
            case = look_at_one(transaction_id, by)
            _check_may_revise(case, vote)
            assert case is not None
            number = rules.active_number(row.tenant)
            return put_in_place(
                case.row, case.links, tool, planned, number, by=by, via=via, reason=reason
            )
    except BaseException as failure:
        is_unknown = isinstance(failure, CONNECTION_LOST)
        release_plan(request, row, planned, only_by_row=is_unknown)
        if type(failure) is not NotPossible:
            raise
    row.refresh_from_db()
    return _same_again_or_refuse(row, arguments, by, digest)


def _check_may_revise(case: Case | None, vote: Ballot) -> None:
    """Raises ``NotPossible`` where it is decided or another one by now, and ``NotAllowed``."""
    if case is None or case.row.intent_digest != vote.digest:
        raise NotPossible()
    if case.row.proposed_by == str(vote.by) or not vote.by.is_user:
        raise NotPossible()
    check_may_decide(case.row, vote, votes.standing_decisions(case.links))
    check_is_no_keeper(vote, {}, case.keepers, case.links[0])


def _same_again_or_refuse(
    row: Transaction, arguments: Mapping[str, Any], by: Principal, digest: str
) -> Transaction:
    links = sign_offs.links_of(row.pk)
    makers = [link.principal for link in links if link.kind == revisions.REVISED]
    is_own = makers[-1:] == [str(by)]
    if is_own and all(row.arguments.get(name) == arguments[name] for name in arguments):
        return row
    return same_again_or_refuse(row, None, by=by, digest=digest)


def _request_with(
    row: Transaction,
    tool: Tool[Any, Any],
    wanted: Mapping[str, Any],
    by: Principal,
    via: Surface,
) -> Request:
    """The request that plans it with other arguments; none that may not change is another one."""
    may_change = tool.editable_arguments
    if forbidden := sorted(set(wanted) - set(may_change)):
        raise NotEditable(
            Sentence(
                "{names} cannot be changed here: only {others}.",
                names=", ".join(forbidden),
                others=", ".join(may_change),
            )
        )
    seals.refuse_unsafe_text(dict(wanted), "arguments")
    now, new = (
        tool.validate(each)
        for each in (row.arguments, {**row.arguments, **seals.normalised(dict(wanted))})
    )
    if now.model_dump(mode="json") == new.model_dump(mode="json"):
        raise InvalidRequest(Sentence("Nothing is different from what was proposed."))
    request = request_to_plan(row, tool, new, by, via)
    check_touches(tool, row.tenant, request.meaning)
    if tool.operation_key_for(row.tenant, request.meaning) != row.operation_key:
        raise NotEditable(Sentence("It would be another operation."))
    return request


def request_to_plan(
    row: Transaction, tool: Tool[Any, Any], arguments: BaseModel, by: Principal, via: Surface
) -> Request:
    return Request(
        proposal=Proposal(row.tool, row.payload, row.stated_reason, row.run_id, row.step_id),
        by=by,
        tenant=row.tenant,
        key="",
        via=via,
        render=lambda *_: "",
        fingerprint="",
        tool=tool,
        arguments=arguments,
        ttl=row.expires_at - row.created_at,
        meaning=seals.folded(tool.meaning_of(arguments)),
        operation_key=row.operation_key,
        input_hash=row.input_hash,
    )


# --- in the database ---------------------------------------------------------------------------


def put_in_place(
    row: Transaction,
    links: Sequence[Link],
    tool: Tool[Any, Any],
    planned: Planned,
    number: int,
    *,
    by: Principal,
    via: Surface,
    reason: str,
) -> Transaction:
    """Put the next revision in the place of this one. The row is locked. Raises ``DeniedByRule``
    where the rules deny it, and ``NotEditable`` for more than ``MOST_REVISIONS``."""
    if row.revision >= MOST_REVISIONS:
        raise NotEditable(
            Sentence("There are {most} of these already; that is all.", most=MOST_REVISIONS)
        )
    former, replaced, hold = revisions.content_of(row), row.intent_digest, seals.hold_of(row)
    new = {**_columns(tool, planned), "revision": row.revision + 1}
    if tool.has("rollback") and new["held"] != row.held:
        release_later(row, by=by, via=via)
    for name, value in new.items():
        setattr(row, name, value)
    new |= _new_terms(row, links, number)
    for name, value in new.items():
        setattr(row, name, value)
    row.intent_digest = seals.digest_of(seals.intent_of(row))
    content = revisions.content_of(row)
    says = {
        "revision": row.revision,
        "replaces": replaced,
        "replaced_hold": hold,
        "intent_digest": row.intent_digest,
        "row_digest": seals.row_digest(row, first=links[0].says, deadline=as_prepared(links)),
        "changed": [change.path for change in revisions.changes_between(former, content)],
        **({seals.EVIDENCE: [each["sha256"] for each in row.evidence]} if row.evidence else {}),
    }
    Revision.objects.create(transaction=row, number=row.revision - 1, content=former)
    Evidence.objects.bulk_create(
        Evidence(transaction=row, revision=row.revision, number=n, content=content)
        for n, content in enumerate(planned.contents, 1)
    )
    moved = advance(
        row.pk,
        states.REVISE,
        by=by,
        via=via,
        reason=reason,
        only_if=Q(intent_digest=replaced),
        details=says,
        work=FRESH,
        intent_digest=row.intent_digest,
        decided_at=None,
        settlement=None,
        **new,
        **truth_after(tool, row),
    )
    Decision.objects.filter(transaction=row, verdict=Verdict.APPROVE).update(is_withdrawn=True)
    return moved


def _new_terms(row: Transaction, links: Sequence[Link], number: int) -> dict[str, Any]:
    """Columns of the terms for what it is now. No budget lets it pass: nothing is charged anew."""
    if row.terms is None and not number:
        asked = votes.asked_by(links)
        return {"open_seats": votes.open_seats_after([], asked) if asked.groups else None}
    judgement = judged_anew(row, links, number)
    if judgement.budgeted:
        full = [rule.number for rule in judgement.budgeted]
        judgement = judgement.with_full(*full).joined_with(votes.asked_by(links))
    if judgement.terms.is_denied:
        raise DeniedByRule(judgement.rule_set, judgement.denying)
    return {
        **columns_of_terms(row, judgement),
        "open_seats": rules.open_seats(judgement.terms, ()),
    }


def _columns(tool: Tool[Any, Any], planned: Planned) -> dict[str, Any]:
    return {"risk_level": str(tool.contract.risk_level), **planned.columns()}


def intent_digest_with(row: Transaction, tool: Tool[Any, Any], planned: Planned) -> str:
    """The intent digest that the row would have with this plan."""
    new = copy(row)
    for name, value in _columns(tool, planned).items():
        setattr(new, name, value)
    return seals.digest_of(seals.intent_of(new))


def truth_after(tool: Tool[Any, Any], row: Transaction) -> dict[str, Any]:
    """Columns that say until when the plan of just now is taken for true."""
    meaning = seals.folded(tool.meaning_of(tool.validate(row.arguments)))
    new = truth_of(tool, row.tenant, meaning, database_now())
    return {"touches": None, "true_until": None, **new}  # its contract may ask for no look by now


def release_plan(
    request: Request, row: Transaction, planned: Planned, *, only_by_row: bool = False
) -> None:
    """Give back what a plan held that came too late."""
    if planned.held and not is_held_by(row.pk, planned.held):
        abandoned = Transaction(**columns(request, new_id(), planned, database_now()))
        abandoned.operation_key = key_of_hold(abandoned)
        release(request, abandoned, only_by_row=only_by_row)
