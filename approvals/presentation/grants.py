"""Signatures given in advance, in words, and the address of the page on which they stand."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.urls import reverse
from django.utils.translation import gettext as _, ngettext

from approvals.presentation.amounts import amount_written
from approvals.presentation.labels import title_of
from approvals.presentation.times import to_the_minute
from ledger.models import Agent, Grant
from ledger.sign_off.grants import Wanted, rule_of
from ledger.sign_off.rules import TIMES, Budget, Per, agent_in, money_in

ARGUMENT = "arguments."
MOST_NAMED = 4  # of the arguments that may be any


def grant_in_words(
    grant: Grant | Wanted,
    agent: str = "",
    ends_at: datetime | None = None,
    any_of: Iterable[str] = (),
) -> str:
    """``Refund by Helpdesk, up to 10 times, at most €50.00 each, €500.00 in all, with any customer,
    until 17:00``.

    ``agent`` is its name, looked up if it is not given; ``any_of`` are the arguments that may have
    any value.
    """
    rule, budgets = rule_of(grant), rule_of(grant).then.budgets
    name = agent or agent_names([grant.tenant]).get(grant.agent) or agent_in(grant.agent)
    times = [_limit(each) for each in budgets if each.measure == TIMES]
    limits = [_limit(each) for each in budgets if each.measure != TIMES]
    if each_time := rule.when.get("amount"):
        money = amount_written(*money_in(each_time.at_most or ""))
        limits.insert(0, _("at most {money} each").format(money=money))
    fixed = [
        f"{argument_label(name.removeprefix(ARGUMENT))}: {', '.join(compared.is_ or ())}"
        for name, compared in rule.when.items()
        if name.startswith(ARGUMENT)
    ]
    what = title_of(grant.tool) if grant.tool else _("everything")
    parts = [
        _("{what} by {name}").format(what=what, name=name),
        *times,
        *limits,
        *([_("only with {values}").format(values=_joined(fixed))] if fixed else []),
        *([_("with any {names}").format(names=_any(any_of))] if any_of else []),
        *([_("until {time}").format(time=to_the_minute(ends_at))] if ends_at else []),
    ]
    return ", ".join(parts)


def agent_names(tenants: Iterable[str]) -> dict[str, str]:
    """The names of the agents of these tenants, by their principals."""
    agents = Agent.objects.filter(tenant__in=tenants).select_related("tenant")
    return {str(each.principal): each.name for each in agents}


def argument_label(name: str) -> str:
    """The name of an argument within a sentence: ``order id``."""
    return name.replace("_", " ")


def standing_address(grant_id: int) -> str:
    return f"{reverse('desk:standing')}?grant={grant_id}#grant-{grant_id}"


def _limit(budget: Budget) -> str:
    if budget.measure != TIMES:
        return {
            Per.DAY: _("{money} a day"),
            Per.MONTH: _("{money} a month"),
            Per.TOTAL: _("{money} in all"),
        }[budget.per].format(money=amount_written(budget.limit, budget.measure))
    number = int(budget.limit)
    return {
        Per.DAY: ngettext("once a day", "up to {number} times a day", number),
        Per.MONTH: ngettext("once a month", "up to {number} times a month", number),
        Per.TOTAL: ngettext("once", "up to {number} times", number),
    }[budget.per].format(number=number)


def _any(names: Iterable[str]) -> str:
    labels = [argument_label(name) for name in names]
    more = [_("others")] if len(labels) > MOST_NAMED else []
    return _joined([*labels[:MOST_NAMED], *more])


def _joined(texts: list[str]) -> str:
    if len(texts) < 2:
        return "".join(texts)
    return _("{names} and {last}").format(names=", ".join(texts[:-1]), last=texts[-1])
