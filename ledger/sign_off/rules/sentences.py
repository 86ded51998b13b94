"""Rules and terms as sentences. English; people's languages are made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from ledger.contracts import ConsequenceLevel
from ledger.errors import Sentence
from ledger.sign_off.rules.budgets import TIMES, Budget, Per
from ledger.sign_off.rules.facts import ARGUMENT
from ledger.sign_off.rules.rules import Comparison, Rule, RulesRefused
from ledger.sign_off.rules.sets import rules_of
from ledger.sign_off.rules.terms import APPROVERS, SUPERVISORS, Strength, Terms, terms_from

_COMMA = Sentence("{first}, {second}")
_SEMICOLON = Sentence("{first}; {second}")
_AND = Sentence("{first} and {second}")
_OR = Sentence("{first}, or {second}")


def sentence_of(rule: Rule) -> Sentence:
    """``refund, below 50 EUR: nobody has to sign``."""
    return Sentence("{what}: {then}", what=what_of(rule), then=then_of(rule))


def what_of(rule: Rule) -> Sentence:
    """The conditions of a rule."""
    named = rule.when.get("tool")
    start = _named(named) if named else Sentence("everything")
    others = [
        _phrase(fact, compared, tightens=not rule.passes)
        for fact, compared in rule.when.items()
        if fact != "tool"
    ]
    return _joined(_COMMA, [start, *others])


def then_of(rule: Rule) -> Sentence:
    """The consequence of a rule."""
    then = asked_in_words(rule.then.terms)
    if not rule.then.budgets:
        return then
    return Sentence("{then}, up to {limits}", then=then, limits=limits_of(rule.then.budgets))


def limits_of(budgets: Iterable[Budget]) -> Sentence:
    """``500 EUR a day and 20 times in all``."""
    return _joined(_AND, map(limit_of, budgets))


def limit_of(budget: Budget) -> Sentence:
    template = _TIMES[budget.per] if budget.measure == TIMES else _SUMS[budget.per]
    return Sentence(template, most=budget.most)


def asked_in_words(terms: Terms) -> Sentence:
    """``signed by 2 of finance, with a note``."""
    if terms.is_denied:
        return Sentence("is denied")
    if not terms.seats:
        return Sentence("nobody has to sign")
    parts = [Sentence("signed by {who}", who=who_signs_in_time(terms))]
    if terms.strength == Strength.TYPED:
        parts.append(Sentence("with the amount typed"))
    if terms.strength == Strength.PASSKEY:
        parts.append(Sentence("with a passkey"))
    if terms.needs_note:
        parts.append(Sentence("with a note"))
    if terms.one_by_one:
        parts.append(Sentence("one by one"))
    if terms.desk_only:
        parts.append(Sentence("at the desk only"))
    return _joined(_COMMA, parts)


def who_signs(terms: Terms) -> Sentence:
    if not terms.seats:
        return Sentence("nobody")
    groups = [
        Sentence("{number} of {group}", number=number, group=group)
        for group, number in sorted(terms.groups.items())
    ]
    left = terms.quorum - sum(terms.groups.values())
    if not groups and set(terms.seats) == {SUPERVISORS}:
        return _people(
            left,
            Sentence("a supervising agent or a person"),
            Sentence("supervising agents or people"),
        )
    if left > 0:
        groups.append(_people(left, Sentence("a person"), Sentence("people")))
    return _joined(_AND, groups)


def who_signs_in_time(terms: Terms) -> Sentence:
    """``2 of finance, or after 2 hours any manager``."""
    steps = {(after_s, name) for others in terms.widen.values() for name, after_s in others.items()}
    later = [
        Sentence("after {time} {who}", time=length(after_s), who=_others(name))
        for after_s, name in sorted(steps)
    ]
    return _joined(_OR, [who_signs(terms), *later])


def _others(name: str) -> Sentence:
    if name == APPROVERS:
        return Sentence("any manager")
    return Sentence("somebody of {group}", group=name)


def length(seconds: int) -> Sentence:
    if seconds % 3600:
        minutes = seconds // 60
        if minutes == 1:
            return Sentence("1 minute")
        return Sentence("{number} minutes", number=minutes)
    hours = seconds // 3600
    return Sentence("1 hour") if hours == 1 else Sentence("{number} hours", number=hours)


def why(tenant: str, terms: Mapping[str, Any] | None) -> Sentence | None:
    """The people who have to sign, and why, by these terms; ``None`` without rules."""
    if terms is None:
        return None
    asked = terms_from(terms)
    if terms.get("unreadable"):
        return Sentence(
            "To be signed by {who}, as the contract says: the rules of this tenant cannot be read.",
            who=who_signs(asked),
        )
    if terms.get("full") and (rules := _rules_named(tenant, terms, "full")):
        return Sentence(
            "To be signed by {who}: the rule “{what}” lets pass {limits}, and too little of that "
            "is left.",
            who=who_signs_in_time(asked),
            what=what_of(rules[0]),
            limits=limits_of(rules[0].then.budgets),
        )
    because = _matched(tenant, terms, passes=not asked.seats)
    if asked.is_denied:
        return Sentence("Denied, because of {what}.", what=because or "")
    if because is None:
        return by_contract(asked)
    if not asked.seats:
        return Sentence("Nobody has to sign, because of the rule: {what}.", what=because)
    who = who_signs_in_time(asked)
    return Sentence("To be signed by {who}, because of the rule: {what}.", who=who, what=because)


def by_contract(terms: Terms) -> Sentence:
    return Sentence("To be signed by {who}, as the contract says.", who=who_signs(terms))


def _matched(tenant: str, terms: Mapping[str, Any], *, passes: bool) -> Sentence | None:
    """The conditions of the rules that made the terms; ``None`` if none did."""
    matched = _rules_named(tenant, terms, "rules")
    decisive = [what_of(rule) for rule in matched if rule.passes is passes]
    return _joined(_SEMICOLON, decisive) if decisive else None


def _rules_named(tenant: str, terms: Mapping[str, Any], part: str) -> list[Rule]:
    """The rules of the numbers in this part of the terms; none if they cannot be read."""
    try:
        written = rules_of(tenant, terms["set"]).rules
    except RulesRefused:
        return []
    return [written[number - 1] for number in terms[part] if number <= len(written)]


def _people(number: int, alone: Sentence, several: Sentence) -> Sentence:
    if number == 1:
        return alone
    return Sentence("{number} {people}", number=number, people=several)


def _named(compared: Comparison) -> Sentence:
    names = ", ".join(compared.is_ or compared.is_not or [])
    if compared.is_ is not None:
        return Sentence("{names}", names=names)
    return Sentence("everything but {names}", names=names)


_SUMS = {
    Per.DAY: Sentence("{most} a day"),
    Per.MONTH: Sentence("{most} a month"),
    Per.TOTAL: Sentence("{most} in all"),
}
_TIMES = {
    Per.DAY: Sentence("{most} times a day"),
    Per.MONTH: Sentence("{most} times a month"),
    Per.TOTAL: Sentence("{most} times in all"),
}
_PHRASES = {
    ("agent", "is"): Sentence("by {value}"),
    ("agent", "is_not"): Sentence("by anybody but {value}"),
    ("amount", "below"): Sentence("below {value}"),
    ("amount", "at_most"): Sentence("of at most {value}"),
    ("amount", "at_least"): Sentence("of at least {value}"),
    ("risk", "is"): Sentence("of risk {value}"),
    ("risk", "is_not"): Sentence("of another risk than {value}"),
    ("risk", "at_least"): Sentence("of at least {value} risk"),
    ("consequence", "is"): Sentence("with a consequence that is {value}"),
    ("consequence", "is_not"): Sentence("with a consequence that is not {value}"),
}
_CONSEQUENCES = {
    ConsequenceLevel.REVERSIBLE: Sentence("where it can be undone"),
    ConsequenceLevel.COMPENSABLE: Sentence("where it can be compensated"),
    ConsequenceLevel.IRREVERSIBLE: Sentence("where it cannot be undone"),
}
_OF_ARGUMENTS = {
    "is": Sentence("where {name} is {value}"),
    "is_not": Sentence("where {name} is not {value}"),
    "below": Sentence("where {name} is below {value}"),
    "at_most": Sentence("where {name} is at most {value}"),
    "at_least": Sentence("where {name} is at least {value}"),
}

_OR_UNKNOWN = Sentence("{known} or of no known amount in that currency")


def _phrase(fact: str, compared: Comparison, *, tightens: bool) -> Sentence:
    phrases = []
    for operator, wanted in compared.model_dump(by_alias=True, exclude_none=True).items():
        value = ", ".join(wanted) if isinstance(wanted, list) else wanted
        if fact.startswith(ARGUMENT):
            template = _OF_ARGUMENTS[operator]
            phrases.append(Sentence(template, name=fact.removeprefix(ARGUMENT), value=value))
        elif fact == "consequence" and operator == "is" and len(wanted) == 1:
            phrases.append(_CONSEQUENCES[ConsequenceLevel(wanted[0])])
        else:
            phrases.append(Sentence(_PHRASES[fact, operator], value=value))
        if tightens and fact == "amount" and operator == "at_least":
            phrases[-1] = Sentence(_OR_UNKNOWN, known=phrases[-1])
    return _joined(_AND, phrases)


def _joined(template: str, parts: Iterable[Sentence]) -> Sentence:
    return reduce(lambda first, second: Sentence(template, first=first, second=second), parts)
