"""The terms that a proposal would get, before it is made; nothing is planned or stored.

``/terms`` answers in our own words, ``/access/v1/evaluation`` in those of AuthZEN 1.0, for which
the base of the decision point is ``/api/v1``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from ledger.agents import Caller, unknown
from ledger.api.http import BODY, AgentBearer, caller_of, refusals
from ledger.contracts import CURRENCIES, Tool
from ledger.errors import InvalidRequest
from ledger.models import Transaction, TransactionRow
from ledger.sign_off import grants, rules
from ledger.sign_off.rules import Facts, Judgement, Terms, sentences, terms_from
from ledger.tools import tool_named

router = Router(auth=AgentBearer(), tags=["tools"])
evaluation = Router(auth=AgentBearer(), tags=["tools"])


class SeatsOut(Schema):
    """So many signatures of one group."""

    group: str = Field(description="`approvers` and `supervisors` are built in.")
    needed: int
    widens_to: dict[str, int] = Field(
        description="Groups that may sign in its place, each after so many seconds of waiting."
    )


class GrantOut(Schema):
    """A signature that somebody gave in advance."""

    id: int
    sentence: str
    ends_at: datetime


class TermsOut(Schema):
    """The people who have to sign off, and how."""

    verdict: str = Field(description="pass: nobody has to sign. ask, deny.")
    sentence: str = Field(description="Who has to sign, and why.")
    seats: list[SeatsOut]
    quorum: int = Field(description="How many different people, or voters, have to sign.")
    strength: str = Field(description="click, or typed: the amount or the name is typed.")
    note: bool = Field(description="Whoever approves says why.")
    one_by_one: bool = Field(description="Not approved together with others.")
    desk_only: bool
    rule_set: int = Field(description="Number of the rules that made them; 0: the contract alone.")
    rules: list[int] = Field(description="Those of the set that matched, from 1.")


class ForeseenOut(TermsOut):
    """The terms of a proposal before it is made."""

    passes: bool = Field(
        description="Nobody would be asked now: nobody has to sign, or somebody has in advance."
    )
    grants: list[GrantOut] = Field(description="Those that would sign it, were it proposed now.")


class Asked(Schema):
    """A proposal that might be made."""

    tool: str
    arguments: str = Field("{}", max_length=20_000, description="As a JSON object.")
    amount: str = Field("", max_length=40, description="As its plan would have it, if known.")
    currency: str = Field("", max_length=3, description="ISO 4217, of the amount.")


@router.get("", operation_id="readTerms", response={200: ForeseenOut, **refusals(404, 422)})
def read_terms(request: HttpRequest, asked: Query[Asked]) -> dict[str, Any]:
    """The terms of a proposal with this tool and these arguments.

    What only its plan can tell, as the amount, is not known unless it is given here: what is not
    known never loosens. The terms of a transaction are in the transaction.
    """
    caller = caller_of(request)
    tool = _tool_of(caller, asked.tool)
    arguments = _object_in(asked.arguments)
    facts = _facts(caller, tool, arguments, asked.amount, asked.currency)
    return _foreseen(caller, tool, facts)


def terms_of(row: Transaction | TransactionRow) -> dict[str, Any]:
    """The terms of a transaction, as ``TermsOut``."""
    asked = row.terms or {"set": 0, "rules": []}
    terms = (
        terms_from(asked)
        if row.terms
        else rules.base_of(row.required_approver, row.quorum, desk_only=False, floor="").own
    )
    sentence = sentences.why(row.tenant, row.terms) or sentences.by_contract(terms)
    return _rendered(terms, sentence, asked["set"], asked["rules"])


def _in_full(tenant: str, judgement: Judgement) -> dict[str, Any]:
    sentence = sentences.by_contract(judgement.terms)
    if judgement.rule_set:
        sentence = sentences.why(tenant, judgement.as_json()) or sentence
    return _rendered(judgement.terms, sentence, judgement.rule_set, [*judgement.matched])


def _rendered(terms: Terms, sentence: str, rule_set: int, matched: list[int]) -> dict[str, Any]:
    return {
        "verdict": rules.verdict_of(terms).value,
        "sentence": str(sentence),
        "seats": [
            {"group": name, "needed": each, "widens_to": dict(terms.widen.get(name, {}))}
            for name, each in sorted(terms.seats.items())
        ],
        "quorum": terms.quorum,
        "strength": terms.strength.value,
        "note": terms.needs_note,
        "one_by_one": terms.one_by_one,
        "desk_only": terms.desk_only,
        "rule_set": rule_set,
        "rules": matched,
    }


def _tool_of(caller: Caller, name: str) -> Tool[Any, Any]:
    """Raises ``UnknownTool``."""
    tool = tool_named(caller.tenant, name) if caller.may_use(name) else None
    if tool is None:
        raise unknown(name)
    return tool


def _object_in(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as refusal:
        raise InvalidRequest("The arguments are no JSON.") from refusal
    if not isinstance(value, dict):
        raise InvalidRequest("The arguments are no JSON object.")
    return value


def _foreseen(caller: Caller, tool: Tool[Any, Any], facts: Facts) -> dict[str, Any]:
    judgement = _judgement(caller.tenant, tool, facts)
    terms, signers = judgement.terms, grants.signing(caller.principal, facts, judgement.terms)
    return {
        **_in_full(caller.tenant, judgement),
        "passes": not terms.is_denied and (not terms.seats or signers.are_enough),
        "grants": [
            {
                "id": grant.pk,
                "sentence": str(grants.sentence_of(grant)),
                "ends_at": grant.ends_at.isoformat(),
            }
            for grant in signers.grants
        ],
    }


def _judgement(tenant: str, tool: Tool[Any, Any], facts: Facts) -> Judgement:
    """A budget without room for it lets nothing pass, as it stands now."""
    base, number = rules.base_of_contract(tool.contract), rules.active_number(tenant)
    if not number:
        return Judgement(0, base.own, base)
    judgement = rules.judged_by(tenant, number, facts, base)
    return grants.with_room(tenant, judgement, facts)


def _facts(
    caller: Caller, tool: Tool[Any, Any], arguments: Mapping[str, Any], amount: str, currency: str
) -> Facts:
    return Facts(
        tool=tool.name,
        agent=rules.agent_in(str(caller.principal)),
        risk=tool.contract.risk_level,
        consequence=tool.contract.consequence_level,
        arguments=tool.validate(dict(arguments)).model_dump(mode="json"),
        amount=_amount_in(amount, currency),
        currency=currency,
        tool_version=tool.version or "",
        is_planned=bool(amount) or not tool.has("plan"),
    )


def _amount_in(text: str, currency: str) -> Decimal | None:
    if not text:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or currency not in CURRENCIES:
        raise InvalidRequest("Give the amount as a number, and its currency in ISO 4217.")
    return amount


# --- AuthZEN --------------------------------------------------------------------------------------


class Entity(Schema):
    """A subject or a resource: its type, its id, and what else is known of it."""

    type: str
    id: str
    properties: dict[str, Any] = {}


class Action(Schema):
    name: str
    properties: dict[str, Any] = {}


class EvaluationIn(Schema):
    """May this agent use this tool, with these arguments, without anybody's signature?"""

    subject: Entity = Field(description="Type `agent`, and the caller's own principal or name.")
    action: Action = Field(description="`propose`.")
    resource: Entity = Field(description="Type `tool`; `arguments`, `amount`, `currency`.")
    context: dict[str, Any] = {}


class EvaluationOut(Schema):
    decision: bool = Field(description="True if nobody has to sign.")
    context: dict[str, Any] = Field(description="`terms`, as /terms has them, or why not.")


@evaluation.post(
    "", operation_id="evaluateAccess", response={200: EvaluationOut, **refusals(*BODY, 404)}
)
def evaluate(request: HttpRequest, body: EvaluationIn) -> dict[str, Any]:
    """AuthZEN's question, about the caller itself and a tool that it may use.

    `false` with `terms` means that people sign first: propose it.
    """
    caller = caller_of(request)
    known = {str(caller.principal), caller.principal.slug}
    types = (body.subject.type, body.action.name, body.resource.type)
    if types != ("agent", "propose", "tool") or body.subject.id not in known:
        return {"decision": False, "context": {"reason": "Ask whether you may propose a tool."}}
    of_resource = body.resource.properties
    arguments = of_resource.get("arguments", {})
    tool = _tool_of(caller, body.resource.id)
    facts = _facts(
        caller,
        tool,
        arguments if isinstance(arguments, dict) else {},
        str(of_resource.get("amount", "")),
        str(of_resource.get("currency", "")),
    )
    terms = _foreseen(caller, tool, facts)
    return {"decision": terms["passes"], "context": {"terms": terms}}
