"""Rules by which fewer or others may sign than before, or more may pass. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.sign_off.rules.rules import Comparison, Rule
from ledger.sign_off.rules.terms import Strength


def loosened(before: Sequence[Rule], after: Sequence[Rule]) -> list[str]:
    """The rules by which fewer or others may sign: ``+3`` lets pass, ``-2`` asks no more.

    What tightens is loosened unless a rule with the same conditions, or with fewer of them, asks
    for at least as much.
    """
    passing = [rule for rule in before if rule.passes]
    left = [rule for rule in after if rule.passes]
    new = [
        f"+{place}"
        for place, rule in enumerate(after, 1)
        if rule.passes and not any(_lets_no_more_pass(rule, other) for other in passing)
    ]
    unlimited = [
        f"-{place}"
        for place, rule in enumerate(before, 1)
        if rule.then.budgets
        and any(_may_both_match(rule, other) for other in left)
        and not any(rule.when == other.when and _keeps_budgets(other, rule) for other in left)
    ]
    asking = [rule for rule in after if not rule.passes]
    gone = [
        f"-{place}"
        for place, rule in enumerate(before, 1)
        if not rule.passes and not any(_replaces(other, rule) for other in asking)
    ]
    return [*new, *unlimited, *gone]


def ends_signing(before: Sequence[Rule], after: Sequence[Rule]) -> bool:
    """True if a rule that asks for a passkey is gone, and none asks for at least as much."""
    asking = [rule for rule in after if not rule.passes]
    return any(
        rule.then.terms.strength == Strength.PASSKEY
        and not any(_replaces(other, rule) for other in asking)
        for rule in before
    )


def _may_both_match(rule: Rule, other: Rule) -> bool:
    """False if they name different tools, or different agents."""
    for fact in ("tool", "agent"):
        own, others = (each.named(fact) for each in (rule, other))
        if own is not None and others is not None and own.isdisjoint(others):
            return False
    return True


def _lets_no_more_pass(rule: Rule, other: Rule) -> bool:
    """True if what it lets pass, the other one did, too. A budget of other conditions is new."""
    if other.then.budgets and rule.when != other.when:
        return False
    return _keeps_budgets(rule, other) and _is_within(rule.when, other.when)


def _keeps_budgets(rule: Rule, other: Rule) -> bool:
    """True if each budget of the other rule is in this one, and no larger."""
    own = rule.then.budgets
    return all(any(each.covers(budget) for each in own) for budget in other.then.budgets)


def _replaces(other: Rule, rule: Rule) -> bool:
    widens_less = not other.then.widen or other.when == rule.when  # by what is not known
    is_as_strict = other.then.terms.covers(rule.then.terms)
    return widens_less and is_as_strict and _is_within(rule.when, other.when)


def _is_within(inner: Mapping[str, Comparison], outer: Mapping[str, Comparison]) -> bool:
    """True if all that the inner conditions match, the outer ones match as well."""
    return all(inner.get(fact) == compared for fact, compared in outer.items())
