"""Rules, and the judgement of a proposal by all of them. Pure.

All rules that match count, and the strictest terms win. A rule that lets pass puts the floor of
the contract in place of the contract's own terms; every other rule only tightens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ledger import seals
from ledger.contracts import ConsequenceLevel, RiskLevel
from ledger.errors import InvalidRequest, Sentence
from ledger.sign_off.rules.budgets import MOST_BUDGETS, Budget, Charge, owner_of_rule
from ledger.sign_off.rules.facts import Facts, Test, Truth, comparison
from ledger.sign_off.rules.terms import BUILT_IN, SUPERVISORS, Base, Strength, Terms

MOST_RULES = 100  # in a set
MOST_SEATS = 9  # of one group
MOST_MINUTES = 30 * 24 * 60  # until others may sign
MOST_PAIRS = 10_000  # pairs of a tool and an agent whose rules are kept at hand
Text = Annotated[str, Field(min_length=1, max_length=200)]
Group = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]


class RulesRefused(InvalidRequest):
    """Raised for rules that cannot be read; the text names the rule and what is wrong with it."""

    code = "rules_refused"
    title = Sentence("These rules cannot be read")
    hint = Sentence("Nothing was changed. Correct the rule that is named.")


class Verdict(StrEnum):
    """Effect of a rule, from loose to strict."""

    PASS = "pass"
    ASK = "ask"
    DENY = "deny"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Comparison(_Strict):
    """Comparison of one fact: with names, or a limit as “50 EUR”, “3” or “HIGH”."""

    is_: list[Text] | None = Field(default=None, alias="is", max_length=100)
    is_not: list[Text] | None = Field(default=None, max_length=100)
    at_least: Text | None = None
    at_most: Text | None = None
    below: Text | None = None

    @field_validator("is_", "is_not", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, list) else [value]

    @field_validator("at_least", "at_most", "below", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value).strip() if isinstance(value, int | float | str) else value


class Widening(_Strict):
    """Others who may sign once it has waited so long, where seats of the groups are open yet."""

    after_minutes: Annotated[int, Field(ge=1, le=MOST_MINUTES)]
    to: Group


class Then(_Strict):
    """Consequence of a rule where its conditions hold."""

    verdict: Verdict
    seats: dict[Group, Annotated[int, Field(ge=1, le=MOST_SEATS)]] = {}
    widen: Widening | None = None
    strength: Strength = Strength.CLICK
    desk_only: bool = False
    note: bool = False
    one_by_one: bool = False
    budgets: Annotated[list[Budget], Field(max_length=MOST_BUDGETS)] = []

    @field_validator("budgets")
    @classmethod
    def _are_of_different_kinds(cls, budgets: list[Budget]) -> list[Budget]:
        if len({(budget.measure, budget.per) for budget in budgets}) < len(budgets):
            raise ValueError("of two budgets for the same time, one counts money and one proposals")
        return budgets

    @property
    def terms(self) -> Terms:
        seats = self.seats or ({"approvers": 1} if self.verdict == Verdict.ASK else {})
        return Terms(
            seats=seats,
            widen=self._widened(seats),
            strength=self.strength,
            desk_only=self.desk_only,
            needs_note=self.note,
            one_by_one=self.one_by_one,
            is_denied=self.verdict == Verdict.DENY,
        )

    @property
    def groups(self) -> set[str]:
        """All that may sign, sooner or later."""
        return {*self.seats, *([self.widen.to] if self.widen else [])}

    def _widened(self, seats: Mapping[str, int]) -> dict[str, dict[str, int]]:
        if self.widen is None:
            return {}
        others = {self.widen.to: self.widen.after_minutes * 60}
        return {group: others for group in seats if group not in BUILT_IN}


class Rule(_Strict):
    """One rule as it is written: ``{"when": {"tool": {"is": ["refund"]}}, "then": {…}}``."""

    when: dict[str, Comparison] = Field(default={}, max_length=20)
    then: Then
    note: Annotated[str, Field(max_length=300)] = ""

    @field_validator("when", mode="before")
    @classmethod
    def _as_comparisons(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            str(fact): wanted if isinstance(wanted, dict | Comparison) else {"is": wanted}
            for fact, wanted in value.items()
        }

    @field_validator("then", mode="before")
    @classmethod
    def _as_then(cls, value: Any) -> Any:
        return {"verdict": value} if isinstance(value, str) else value

    def as_json(self) -> dict[str, Any]:
        """The rule in full, without what is at its default."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @property
    def passes(self) -> bool:
        return self.then.verdict == Verdict.PASS

    def named(self, fact: str) -> frozenset[str] | None:
        """The tools, or agents, that it is about; ``None``: any."""
        compared = self.when.get(fact)
        return None if compared is None or compared.is_ is None else frozenset(compared.is_)

    @property
    def budget_owner(self) -> str:
        return owner_of_rule(self.as_json().get("when", {}))

    def tests(self) -> list[Test]:
        """One for each comparison. Raises ``ValueError``."""
        return [
            comparison(fact, operator, wanted)
            for fact, compared in self.when.items()
            for operator, wanted in compared.model_dump(by_alias=True, exclude_none=True).items()
        ]


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A rule, ready to be matched many times. ``number`` is its place in the set, from 1."""

    number: int
    passes: bool
    terms: Terms
    tests: tuple[Test, ...]
    tools: frozenset[str] | None  # those that it names; ``None``: any
    agents: frozenset[str] | None
    budgets: tuple[Budget, ...] = ()
    owner: str = ""  # of its budgets

    def may_be_about(self, tool: str, agent: str) -> bool:
        is_of_tool = self.tools is None or tool in self.tools
        return is_of_tool and (self.agents is None or agent in self.agents)

    def match(self, facts: Facts) -> Truth:
        is_known = True
        for test in self.tests:
            truth = test(facts)
            if truth is False:
                return False
            is_known = is_known and truth is True
        return True if is_known else None

    def lets_pass(self, facts: Facts) -> bool:
        if not (self.passes and self.match(facts) is True and may_pass(facts)):
            return False
        return all(budget.amount_of(facts) is not None for budget in self.budgets)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The terms of one proposal: by which set, and by which of its rules."""

    rule_set: int
    terms: Terms
    base: Base
    matched: tuple[int, ...] = ()
    denying: tuple[int, ...] = ()  # of those that matched
    is_unreadable: bool = False
    budgeted: tuple[_Compiled, ...] = ()  # that let pass, where there is room in their budgets
    without_pass: Terms | None = None  # what would be asked if none let pass
    full: tuple[int, ...] = ()  # those whose budgets have no room, so that none let pass
    charges: tuple[Charge, ...] = ()

    def joined_with(self, before: Terms) -> Judgement:
        """With terms that are at least as strict as these."""
        return replace(self, terms=self.terms.join(before))

    def with_full(self, *full: int) -> Judgement:
        """The same where a budget has no room: nobody is denied, people are asked."""
        return replace(self, terms=self.without_pass or self.base.own, full=full, budgeted=())

    def as_json(self) -> dict[str, Any]:
        """As the first event seals it and the row keeps it."""
        return {
            "set": self.rule_set,
            "rules": list(self.matched),
            "contract": self.base.own.as_json(),
            "floor": self.base.floor.as_json(),
            **self.terms.as_json(),
            **({"unreadable": True} if self.is_unreadable else {}),
            **({"full": list(self.full)} if self.full else {}),
            **({"charges": [each.as_json() for each in self.charges]} if self.charges else {}),
        }


@dataclass(frozen=True)
class Rules:
    """A set of rules that was read, as ``number`` of its tenant."""

    number: int
    rules: tuple[Rule, ...]
    _compiled: tuple[_Compiled, ...] = field(repr=False, default=())
    _by_pair: dict[tuple[str, str], list[_Compiled]] = field(repr=False, default_factory=dict)

    def judge(self, facts: Facts, base: Base) -> Judgement:
        """The terms that these rules and the contract make of these facts."""
        matched, denying, passing, terms = [], [], [], Terms()
        for rule in self._about(facts):
            if rule.passes:
                if not rule.lets_pass(facts):
                    continue
                passing.append(rule)
            elif (match := rule.match(facts)) is not False:
                terms = terms.join(rule.terms if match else replace(rule.terms, widen={}))
                denying += [rule.number] if rule.terms.is_denied else []
            else:
                continue
            matched.append(rule.number)
        asked = base.own.join(terms)
        judgement = Judgement(self.number, asked, base, tuple(matched), tuple(denying))
        if not passing or (loosest := base.floor.join(terms)) == asked:
            return judgement
        budgeted = tuple(rule for rule in passing if rule.budgets)
        return replace(judgement, terms=loosest, budgeted=budgeted, without_pass=asked)

    def _about(self, facts: Facts) -> list[_Compiled]:
        """The rules that name neither other tools nor other agents, found once for each pair."""
        pair = (facts.tool, facts.agent)
        about = self._by_pair.get(pair)
        if about is None:
            about = [rule for rule in self._compiled if rule.may_be_about(*pair)]
            if len(self._by_pair) >= MOST_PAIRS:
                self._by_pair.clear()
            self._by_pair[pair] = about
        return about

    def deny(self, facts: Facts) -> bool:
        """True if it is denied whatever the plan will say."""
        return any(
            rule.terms.is_denied and rule.match(facts) is True for rule in self._about(facts)
        )


def may_pass(facts: Facts) -> bool:
    """False for what no contract may leave to nobody: grave risk, or no way back."""
    is_grave = facts.risk in {RiskLevel.HIGH, RiskLevel.CRITICAL}
    return not is_grave and facts.consequence != ConsequenceLevel.IRREVERSIBLE


def unreadable(number: int, base: Base) -> Judgement:
    """The contract's own terms: a set that cannot be read lets nothing pass."""
    return Judgement(number, base.own, base, is_unreadable=True)


def read(number: int, written: Any) -> Rules:
    """The rules of a list. Raises ``RulesRefused``, which names the first that is wrong."""
    if not isinstance(written, list) or len(written) > MOST_RULES:
        raise RulesRefused(f"Rules are a list of at most {MOST_RULES}.")
    seals.refuse_unsafe_text(written, "the rules")
    rules = tuple(_rule(place, value) for place, value in enumerate(written, 1))
    owners = [rule.budget_owner for rule in rules if rule.then.budgets]
    if len(set(owners)) < len(owners):
        raise RulesRefused("Two rules with budgets have the same conditions: make it one rule.")
    return Rules(
        number, rules, tuple(_compiled(place, rule) for place, rule in enumerate(rules, 1))
    )


def _rule(place: int, value: Any) -> Rule:
    try:
        rule = Rule.model_validate(value)
        _check(rule)
        rule.tests()
    except ValidationError as refusal:
        first = refusal.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RulesRefused(f"Rule {place}: {where}: {first['msg']}.") from refusal
    except ValueError as refusal:
        raise RulesRefused(f"Rule {place}: {refusal}.") from refusal
    return rule


def _check(rule: Rule) -> None:
    """Raises ``ValueError`` for what would not mean what it says."""
    if rule.passes and rule.then.terms != Terms():
        raise ValueError("what passes asks for nothing; make it two rules")
    if rule.then.verdict == Verdict.DENY and rule.then.terms != Terms(is_denied=True):
        raise ValueError("what is denied asks for nothing")
    if rule.then.budgets and not rule.passes:
        raise ValueError("a budget says how much may pass; what is asked for needs none")
    if SUPERVISORS in rule.then.seats:
        raise ValueError("seats are of people; contracts alone let supervisors sign")
    if rule.then.widen is not None:
        groups = {*rule.then.seats} - BUILT_IN
        if not groups:
            raise ValueError("others may sign later only where a group signs first")
        if rule.then.widen.to in {*groups, SUPERVISORS}:
            raise ValueError("those who may sign later are another group, or approvers")
    if rule.passes and not rule.when:
        raise ValueError("a rule that lets pass names what passes")
    for fact, compared in rule.when.items():
        if not compared.model_dump(exclude_none=True):
            raise ValueError(f"{fact} is compared with nothing")


def _compiled(place: int, rule: Rule) -> _Compiled:
    terms, tests = rule.then.terms, tuple(rule.tests())
    names = rule.named("tool"), rule.named("agent")
    budgets, owner = tuple(rule.then.budgets), rule.budget_owner
    return _Compiled(place, rule.passes, terms, tests, *names, budgets, owner)


def verdict_of(terms: Terms) -> Verdict:
    if terms.is_denied:
        return Verdict.DENY
    return Verdict.ASK if terms.seats else Verdict.PASS


def digest_of(rules: Iterable[Rule]) -> str:
    """SHA-256 of the rules as canonical JSON."""
    return seals.digest_of([rule.as_json() for rule in rules])
