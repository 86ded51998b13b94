"""Rules as YAML for a repository, with cases that are run with them.

rules:
  - when: {tool: refund_customer, amount: {below: 50 EUR}}
    then: pass
cases:
  - given: {tool: refund_customer, amount: 49.99 EUR}
    then: pass
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml

from ledger.contracts import Contract
from ledger.sign_off.rules.facts import Facts, money_in
from ledger.sign_off.rules.rules import Rules, RulesRefused, Verdict, read, verdict_of
from ledger.sign_off.rules.terms import Terms, base_of_contract

MOST_CHARACTERS = 200_000


class _Plain(yaml.SafeLoader):
    """YAML without what unfolds to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not allowed; write it out")
        return super().compose_node(parent, index)


def from_yaml(text: str) -> tuple[list[Any], list[Any]]:
    """The rules and the cases of a file, as written. Raises ``RulesRefused``."""
    if len(text) > MOST_CHARACTERS:
        raise RulesRefused(f"A file of rules has at most {MOST_CHARACTERS} characters.")
    try:
        value = yaml.load(text, Loader=_Plain)
    except (yaml.YAMLError, RecursionError, ValueError) as refusal:
        raise RulesRefused(f"It is no YAML: {refusal}") from refusal
    if not isinstance(value, dict) or not set(value) <= {"rules", "cases"}:
        raise RulesRefused("It has rules and cases, and nothing else.")
    rules, cases = value.get("rules") or [], value.get("cases") or []
    if not isinstance(rules, list) or not isinstance(cases, list):
        raise RulesRefused("Rules and cases are lists.")
    return rules, cases


def as_yaml(rules: Any) -> str:
    """The same rules as a file."""
    return yaml.safe_dump(
        {"rules": rules}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )


def failing_cases(
    rules: list[Any], cases: list[Any], contract_of: Callable[[str], Contract | None]
) -> Iterator[str]:
    """A sentence for each case that the rules do not fulfil. Raises ``RulesRefused``."""
    compiled = read(0, rules)
    for place, case in enumerate(cases, 1):
        try:
            wanted, terms = Verdict(case["then"]), _terms_of(compiled, case["given"], contract_of)
        except (AttributeError, KeyError, TypeError, ValueError) as refusal:
            raise RulesRefused(f"Case {place} cannot be read: {refusal}.") from refusal
        if (verdict := verdict_of(terms)) != wanted:
            yield f"Case {place}: {wanted} was expected, and the rules say {verdict}."


def _terms_of(
    rules: Rules, given: dict[str, Any], contract_of: Callable[[str], Contract | None]
) -> Terms:
    """Raises ``ValueError`` for facts that cannot be."""
    contract = contract_of(given["tool"])
    if contract is None:
        raise ValueError(f"there is no tool named {given['tool']}")
    amount, currency = money_in(given["amount"]) if "amount" in given else (None, "")
    facts = Facts(
        tool=given["tool"],
        agent=given.get("agent", ""),
        risk=given.get("risk", contract.risk_level),
        consequence=contract.consequence_level,
        arguments=given.get("arguments", {}),
        amount=amount,
        currency=currency,
    )
    return rules.judge(facts, base_of_contract(contract)).terms
