"""Judging proposals by the rules of their tenant, when they are made and when rules change."""

from __future__ import annotations

from ledger.contracts import CLICK
from ledger.sign_off import rules
from ledger.sign_off.rules import Facts, Judgement, agent_in
from ledger.transactions.prepare.planning import Planned
from ledger.transactions.prepare.proposals import Request


def judged(request: Request, planned: Planned, rule_set: int) -> Judgement | None:
    """The terms by the rules of this number, now that all facts are known."""
    if not rule_set and request.tool.contract.strength == CLICK:
        return None
    facts = facts_known(request, planned)
    return rules.judge(request.tenant, rule_set, facts, request.tool.contract)


def facts_known(request: Request, planned: Planned) -> Facts:
    contract = request.tool.contract
    return Facts(
        tool=request.tool.name,
        agent=agent_in(str(request.by)),
        risk=planned.risk_level or contract.risk_level,
        consequence=contract.consequence_level,
        arguments=planned.arguments,
        amount=planned.amount,
        currency=planned.currency,
        tool_version=request.tool.version or "",
    )


def denied_unplanned(request: Request, rule_set: int) -> Judgement | None:
    """The judgement of what is denied whatever its plan would say."""
    if not rule_set:
        return None
    contract = request.tool.contract
    facts = Facts(
        tool=request.tool.name,
        agent=agent_in(str(request.by)),
        risk=contract.risk_level,
        consequence=contract.consequence_level,
        arguments=request.arguments.model_dump(mode="json"),
        is_planned=False,
    )
    return rules.denial(request.tenant, rule_set, facts, contract)
