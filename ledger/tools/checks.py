"""System checks: a process with an unsafe contract does not start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from ledger import contracts, seals
from ledger.contracts import (
    CLICK,
    LONGEST_CALL,
    LONGEST_RETENTION,
    ConsequenceLevel,
    Contract,
    RequiredApprover,
    RiskLevel,
    Tool,
)
from ledger.errors import InvalidArguments
from ledger.models import Ending, Transaction

HASH = re.compile("[0-9a-f]{64}")


@register()
def check_contracts(**_: Any) -> list[CheckMessage]:
    duplicates = [
        Error(f"Two tools are named {name}.", hint="Rename one.", id="ledger.E001")
        for name in sorted(contracts.declared_twice)
    ]
    ours = [
        Error(
            f"A tool is named {name}, as one of Assent itself.", hint="Rename it.", id="ledger.E018"
        )
        for name in sorted(contracts.RESERVED & {*contracts.tools, *contracts.readonly_tools})
    ]
    unsafe_ones = [error for tool in contracts.tools.values() for error in unsafe(tool)]
    return [*duplicates, *ours, *unsafe_ones]


@register(Tags.database)
def check_operation_keys(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Refuse a changed operation key: completed operations would not be found under the new key.

    Each tool's newest transaction must have the key that its contract gives now.
    """
    if "default" not in (databases or ()):
        return []
    try:
        return [error for tool in contracts.tools.values() for error in changed_key(tool)]
    except DatabaseError:
        return []  # not migrated yet


def changed_key(tool: Tool[Any, Any], tenant: str = "") -> Iterator[Error]:
    """``tenant`` is that of a registered tool; a Python tool is every tenant's."""
    rows = Transaction.objects.filter(tool=tool.name).exclude(ending=Ending.ABANDONED)
    if tenant:
        rows = rows.filter(tenant=tenant)
    # After the erasure the arguments are gone, and with them what the key was made of.
    newest = rows.filter(content_erased_at=None).order_by("-pk").first()
    if newest is None:
        return
    try:
        meaning = seals.folded(tool.meaning_of(tool.validate(newest.payload)))
    except InvalidArguments:
        return  # the tool's arguments have changed, so it is another operation
    keys = [tool.operation_key_for(newest.tenant, meaning)]
    keys += tool.earlier_operation_keys_for(newest.tenant, meaning)
    if newest.operation_key not in keys:
        yield Error(
            f"{tool.name}: its operation key has changed since transaction {newest.pk} "
            f"({newest.operation_key}, now {keys[0]}): operations already done could be repeated.",
            hint="Keep the old template: operation_key_aliases={'…': date(…)}, until nobody "
            "proposes such an operation again.",
            obj=tool.name,
            id="ledger.E013",
        )


def unsafe(tool: Tool[Any, Any]) -> Iterator[Error]:
    """Every reason why this tool must not be offered."""
    contract = tool.contract
    for is_wrong, code, message, hint in (*_promises(tool, contract), *_limits(contract)):
        if is_wrong:
            yield Error(f"{tool.name}: {message}", hint=hint, obj=tool.name, id=f"ledger.{code}")


# Whether the contract breaks the rule, the code of the check, its message and its hint.
Rule = tuple[bool, str, str, str]


def _promises(tool: Tool[Any, Any], contract: Contract) -> Iterator[Rule]:
    allowed = set(tool.arguments_model.model_fields) | {"tenant"}
    named = set(contracts.key_fields(contract.operation_key))
    in_aliases = {
        name for alias in contract.operation_key_aliases for name in contracts.key_fields(alias)
    }
    yield (
        not named - {"tenant"} or "tenant" not in named,
        "E002",
        "its operation key does not name the business operation.",
        'Set operation_key="refund:{tenant}:{payment_id}": the tenant and at least one argument.',
    )
    yield (
        not named | in_aliases <= tool.names_of_key,
        "E003",
        "its operation key or an alias names fields that are not arguments: "
        f"{', '.join(sorted((named | in_aliases) - tool.names_of_key))}.",
        f"The template may use {', '.join(sorted(tool.names_of_key))}.",
    )
    yield not contract.owner_service, "E004", "it has no owner.", "Set owner_service=…."
    yield (
        not contract.receipt,
        "E005",
        "its contract does not name the field of the result that is the receipt.",
        'Set receipt="refund_id": without a receipt nothing is COMMITTED.',
    )
    yield (
        bool(contract.subject) and contract.subject not in allowed - {"tenant"},
        "E015",
        f"its subject, {contract.subject}, is not an argument.",
        "Name the argument that says whom or what it concerns, or leave subject out.",
    )
    yield (
        bool(contract.compensation) and not tool.has("compensate"),
        "E016",
        "it says what its compensation does, and has none.",
        "Attach .compensate, or leave compensation out.",
    )
    yield (
        contract.timeout > LONGEST_CALL and not tool.has("find_receipt"),
        "E020",
        f"its timeout is over {LONGEST_CALL.total_seconds():g} s, and it cannot be asked again.",
        "Raise NotDoneYet from what takes longer, and attach .find_receipt.",
    )
    yield from _of_second_looks(tool, contract, allowed)
    in_sentence = set(contracts.key_fields(contract.compensation))
    spoken = set(tool.arguments_model.model_fields) | {"money"}
    yield (
        not in_sentence <= spoken,
        "E017",
        "the sentence of its compensation names fields that are not arguments: "
        f"{', '.join(sorted(in_sentence - spoken))}.",
        f"The template may use {', '.join(sorted(spoken))}.",
    )
    yield (
        not _can_be_undone(tool),
        "E006",
        f"it is declared {contract.consequence_level} but cannot be undone.",
        "Attach .rollback or .compensate, or set consequence_level='IRREVERSIBLE'.",
    )


def _of_second_looks(tool: Tool[Any, Any], contract: Contract, allowed: set[str]) -> Iterator[Rule]:
    named = set(contracts.key_fields(contract.operation_key))
    editable = set(contract.editable or ())
    yield (
        not editable <= allowed - named,
        "E022",
        "what may be changed in it are not arguments, or identify the operation: "
        f"{', '.join(sorted(editable - (allowed - named)))}.",
        "Name arguments that the operation key does not name, or leave editable out.",
    )
    touched = {name for each in contract.touches for name in contracts.key_fields(each)}
    yield (
        not touched <= allowed or not all(map(contracts.key_fields, contract.touches)),
        "E023",
        "what it touches names no argument, or fields that are none.",
        'Set touches=["payment:{payment_id}"], with the names of arguments.',
    )
    yield (
        tool.has_to_look_again and not tool.can_plan_again,
        "E024",
        "it has to be planned again before it is carried out, and its plan would hold it twice.",
        "Attach .replan, or leave plan_max_age, touches and .still_valid out.",
    )
    yield (
        contract.plan_max_age is not None and contract.plan_max_age <= timedelta(0),
        "E025",
        "its plan_max_age is not positive.",
        "plan_max_age is a positive timedelta.",
    )


def _can_be_undone(tool: Tool[Any, Any]) -> bool:
    """True if the tool has what its consequence level promises."""
    match tool.contract.consequence_level:
        case ConsequenceLevel.REVERSIBLE:
            return tool.has("rollback") or tool.has("compensate")
        case ConsequenceLevel.COMPENSABLE:
            return tool.has("compensate")
        case _:
            return True


def _limits(contract: Contract) -> Iterator[Rule]:
    is_unattended = contract.required_approver == RequiredApprover.NONE
    is_grave = contract.risk_level in {RiskLevel.HIGH, RiskLevel.CRITICAL}
    is_irreversible = contract.consequence_level == ConsequenceLevel.IRREVERSIBLE
    yield (
        is_unattended and (is_grave or is_irreversible),
        "E007",
        "nobody has to approve it although it is high-risk or irreversible.",
        "Set required_approver='HUMAN', or lower risk_level if that is honest.",
    )
    levels, floor = [*map(str, RequiredApprover)], contract.floor or contract.required_approver
    yield (
        levels.index(floor) > levels.index(contract.required_approver)
        or (contract.floor == RequiredApprover.NONE and (is_grave or is_irreversible)),
        "E021",
        "its floor is above its required_approver, or lets pass what is high-risk or irreversible.",
        "Lower the floor, or leave it out.",
    )
    yield (
        not timedelta(0) < contract.min_ttl <= contract.ttl <= contract.max_ttl,
        "E008",
        "its ttl does not lie between min_ttl and max_ttl.",
        "All three are positive timedeltas.",
    )
    yield contract.timeout <= timedelta(0), "E009", "its timeout is not positive.", "Set timeout=…."
    yield (
        contract.quorum < 1 or (contract.quorum > 1 and is_unattended),
        "E010",
        "its quorum cannot be reached.",
        "A quorum is 1 or more, and needs a required_approver.",
    )
    yield (
        contract.web_only and contract.required_approver != RequiredApprover.HUMAN,
        "E011",
        "it is web_only, but its required_approver may be an agent, which cannot use the desk.",
        "Set required_approver='HUMAN', or leave out web_only.",
    )
    yield (
        contract.strength != CLICK and contract.required_approver != RequiredApprover.HUMAN,
        "E026",
        "its strength asks people for more than a click, but an agent may sign it off, or nobody.",
        "Set required_approver='HUMAN', or leave out strength.",
    )
    required = contract.required_policy
    yield (
        bool(required)
        and not (
            HASH.fullmatch(required) and contract.required_approver == RequiredApprover.SUPERVISOR
        ),
        "E019",
        "its required_policy is no SHA-256, or nobody has to cite it.",
        "Give the SHA-256 of the document in hexadecimal, with required_approver='SUPERVISOR'.",
    )
    yield (
        contract.remind is not None and not timedelta(0) < contract.remind < contract.ttl,
        "E012",
        "its reminder does not lie within its ttl.",
        "remind is the time before expiry, so it must be shorter than ttl.",
    )
    yield (
        not contract.max_ttl <= contract.retention <= LONGEST_RETENTION,
        "E014",
        "its retention is shorter than max_ttl or longer than 100 years.",
        "Content is kept at least while a transaction may wait for sign-off.",
    )
