"""System checks: an unsafe contract does not start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from ledger import contracts, intents
from ledger.contracts import (
    ConsequenceLevel as Consequence,
    Contract,
    RequiredApprover,
    RiskLevel,
    Tool,
)
from ledger.errors import InvalidArguments
from ledger.models import Ending, Transaction


@register()
def check_contracts(**_: Any) -> list[CheckMessage]:
    twice = [
        Error(f"Two tools are named {name}.", hint="Rename one.", id="ledger.E001")
        for name in sorted(contracts.declared_twice)
    ]
    return [*twice, *(error for tool in contracts.tools.values() for error in unsafe(tool))]


@register(Tags.database)
def check_operation_keys(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """A changed operation key would open again what is done already: under the old key nobody
    looks any more. Each tool's newest transaction must have the key that its contract gives now.
    """
    if "default" not in (databases or ()):
        return []
    try:
        return [error for tool in contracts.tools.values() for error in changed_key(tool)]
    except DatabaseError:
        return []  # not migrated yet


def changed_key(tool: Tool[Any, Any]) -> Iterator[Error]:
    rows = Transaction.objects.filter(tool=tool.name).exclude(ending=Ending.ABANDONED)
    newest = rows.order_by("-pk").first()
    if newest is None:
        return
    try:
        meaning = intents.folded(tool.meaning_of(tool.validate(newest.payload)))
    except InvalidArguments:
        return  # it takes other arguments by now: another operation
    keys = [tool.operation_key_for(newest.tenant, meaning)]
    keys += tool.earlier_operation_keys_for(newest.tenant, meaning)
    if newest.operation_key not in keys:
        yield Error(
            f"{tool.name}: its operation key has changed since transaction {newest.pk} "
            f"({newest.operation_key}, now {keys[0]}): what was done could be done again.",
            hint="Keep the old template: operation_key_aliases={'…': date(…)}, until nobody "
            "proposes such an operation again.",
            obj=tool.name,
            id="ledger.E013",
        )


def unsafe(tool: Tool[Any, Any]) -> Iterator[Error]:
    """Every reason why this tool must not be offered."""
    contract = tool.contract
    for is_wrong, id_, message, hint in (*_promises(tool, contract), *_limits(contract)):
        if is_wrong:
            yield Error(f"{tool.name}: {message}", hint=hint, obj=tool.name, id=f"ledger.{id_}")


Rule = tuple[bool, str, str, str]


def _promises(tool: Tool[Any, Any], contract: Contract) -> Iterator[Rule]:
    fields = set(tool.arguments_model.model_fields) | {"tenant"}
    named = set(contracts.key_fields(contract.operation_key))
    of_aliases = {
        name for alias in contract.operation_key_aliases for name in contracts.key_fields(alias)
    }
    yield (
        not named - {"tenant"} or "tenant" not in named,
        "E002",
        "its operation key does not name the business operation.",
        'Say operation_key="refund:{tenant}:{payment_id}": the tenant and at least one argument.',
    )
    yield (
        not named | of_aliases <= fields,
        "E003",
        "its operation key or an alias names what is no argument: "
        f"{', '.join(sorted((named | of_aliases) - fields))}.",
        f"It may use {', '.join(sorted(fields))}.",
    )
    yield not contract.owner_service, "E004", "it has no owner.", "Say owner_service=…."
    yield (
        not contract.receipt,
        "E005",
        "it does not say which field of its result is the receipt.",
        'Say receipt="refund_id": no receipt, no COMMITTED.',
    )
    way_back = {
        Consequence.REVERSIBLE: tool.has("rollback") or tool.has("compensate"),
        Consequence.COMPENSABLE: tool.has("compensate"),
        Consequence.IRREVERSIBLE: True,
    }[contract.consequence_level]
    yield (
        not way_back,
        "E006",
        f"it is called {contract.consequence_level} but has no way back.",
        "Attach .rollback or .compensate, or say consequence_level='IRREVERSIBLE'.",
    )


def _limits(contract: Contract) -> Iterator[Rule]:
    unattended = contract.required_approver == RequiredApprover.NONE
    grave = contract.risk_level in {RiskLevel.HIGH, RiskLevel.CRITICAL}
    irreversible = contract.consequence_level == Consequence.IRREVERSIBLE
    yield (
        unattended and (grave or irreversible),
        "E007",
        "nobody has to approve it although it is grave or irreversible.",
        "Say required_approver='HUMAN', or lower risk_level if that is honest.",
    )
    yield (
        not timedelta(0) < contract.min_ttl <= contract.ttl <= contract.max_ttl,
        "E008",
        "its ttl does not lie between min_ttl and max_ttl.",
        "All three are positive timedeltas.",
    )
    yield contract.timeout <= timedelta(0), "E009", "its timeout is not positive.", "Say timeout=…."
    yield (
        contract.quorum < 1 or (contract.quorum > 1 and unattended),
        "E010",
        "its quorum cannot be reached.",
        "A quorum is 1 or more, and needs a required_approver.",
    )
    yield (
        contract.web_only and contract.required_approver != RequiredApprover.HUMAN,
        "E011",
        "it is signed off on the desk only, where no agent comes.",
        "Say required_approver='HUMAN', or leave out web_only.",
    )
    yield (
        contract.remind is not None and not timedelta(0) < contract.remind < contract.ttl,
        "E012",
        "its reminder does not lie within its ttl.",
        "remind is how long before the end, so it is shorter than ttl.",
    )
