"""Changes to a manifest that loosen a tool, so that a second operator has to confirm them.

Whoever changes a tool alone may make it stricter, describe it better, and give people more or less
time; not let it do more than was asked for before, do the same operation once more, or with fewer
eyes on it; nor keep less long what it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

from ledger.contracts import STRENGTHS, ConsequenceLevel, Contract, RequiredApprover, RiskLevel
from ledger.tools.manifests import ContractTerms, Manifest

# From soft to strict.
ORDERS: dict[str, list[str]] = {
    "risk_level": list(RiskLevel),
    "required_approver": list(RequiredApprover),
    "consequence_level": list(ConsequenceLevel),
    "strength": list(STRENGTHS),
}
# A promise of the owner that the ledger relies on, or a looser way: on is softer than off.
SOFT_WHEN_ON = frozenset({"retry_safe"})
SOFT_WHEN_OFF = frozenset({"web_only"})
# Whatever else of a manifest differs says where it runs, as whom, or what its answers prove.
HARMLESS = frozenset(
    {"name", "description", "arguments", "contract", "routes", "sha256_of_definition"}
)
# Of a new tool too: nobody is asked, the word of its owner is taken, or another tool of an MCP
# server is called that nobody signs off.
SOFT_IN_MANIFEST = frozenset(
    {
        *("is_readonly", "errors_mean_nothing_happened", "receipts_are_complete"),
        *("plan", "find_receipt", "still_valid"),
    }
)


def loosened(old: Manifest | None, new: Manifest) -> list[str]:
    """The members that loosen, as ``differences`` names them; a new tool is compared with the
    strictest terms."""
    return sorted({*_in_contract(old, new), *_in_manifest(old, new)})


def loosened_terms(old: Contract, new: Contract) -> list[str]:
    """The terms of the contract by which people look less closely at what falls under it now."""
    return sorted(_softer(vars(old), vars(new)))


def _in_contract(old: Manifest | None, new: Manifest) -> Iterator[str]:
    before = old.contract.model_dump() if old else _strictest()
    after = new.contract.model_dump()
    for name in _softer(before, after):
        yield f"contract.{name}"
    for name in SOFT_WHEN_ON:
        if after[name] and not before[name]:
            yield f"contract.{name}"
    if old is not None:
        yield from _in_history(old.contract, new.contract)
        yield from _in_second_looks(old.contract, new.contract)


def _softer(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, order in ORDERS.items():
        if order.index(after[name]) < order.index(before[name]):
            yield name
    for name in SOFT_WHEN_OFF:
        if before[name] and not after[name]:
            yield name
    if after["keeper_may_sign"] and not before["keeper_may_sign"]:
        yield "keeper_may_sign"
    if before["required_policy"] not in {"", after["required_policy"]}:
        yield "required_policy"
    if after["quorum"] < before["quorum"]:
        yield "quorum"
    if after["floor"] and _floor(after) < _floor(before):
        yield "floor"


def _floor(terms: Mapping[str, Any]) -> tuple[int, int]:
    """From soft to strict; without a floor no rule asks for less than the contract."""
    if terms["floor"]:
        return ORDERS["required_approver"].index(terms["floor"]), 1
    return ORDERS["required_approver"].index(terms["required_approver"]), terms["quorum"]


def _in_history(before: ContractTerms, after: ContractTerms) -> Iterator[str]:
    """Terms by which what was done already could be done again, or be forgotten sooner."""
    if after.operation_key != before.operation_key:
        yield "contract.operation_key"
    today, kept = datetime.now(UTC).date(), after.operation_key_aliases
    for template, last_day in before.operation_key_aliases.items():
        if kept.get(template, date.min) < last_day >= today:
            yield "contract.operation_key_aliases"
    if after.retention_s < before.retention_s:
        yield "contract.retention_s"


def _in_second_looks(before: ContractTerms, after: ContractTerms) -> Iterator[str]:
    """Terms by which more can be changed in a proposal, or what is outdated is carried out."""
    if before.editable is not None and (
        after.editable is None or not {*after.editable} <= {*before.editable}
    ):
        yield "contract.editable"
    if before.plan_max_age_s and before.plan_max_age_s < (after.plan_max_age_s or float("inf")):
        yield "contract.plan_max_age_s"
    if not {*before.touches} <= {*after.touches}:
        yield "contract.touches"


def _strictest() -> dict[str, Any]:
    return {name: field.default for name, field in ContractTerms.model_fields.items()}


def _in_manifest(old: Manifest | None, new: Manifest) -> Iterator[str]:
    after = new.as_json()
    if old is None:
        yield from (name for name in SOFT_IN_MANIFEST if after.get(name))
        return
    before = old.as_json()
    # Where no person looks at each one, this is all that limits what can be asked for.
    if new.contract.required_approver != RequiredApprover.HUMAN or after.get("is_readonly"):
        for name in ("arguments", "sha256_of_definition"):
            if before.get(name) != after.get(name):
                yield name
    for name in {*before, *after} - HARMLESS:
        # What is switched off promises less.
        if before.get(name) != after.get(name) and after.get(name) is not False:
            yield name
