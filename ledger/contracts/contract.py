"""``Contract``: what the owner of a tool promises. Its fields are declared here only."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import quote

# Content may be kept so long; beyond it lie typing errors, and dates that cannot be computed.
LONGEST_RETENTION = timedelta(days=36_500)


class RiskLevel(StrEnum):
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class RequiredApprover(StrEnum):
    """The one who has to sign off: nobody, a supervising agent (or a person), or a person."""

    NONE = "NONE"
    SUPERVISOR = "SUPERVISOR"
    HUMAN = "HUMAN"


class ConsequenceLevel(StrEnum):
    REVERSIBLE = "REVERSIBLE"
    COMPENSABLE = "COMPENSABLE"
    IRREVERSIBLE = "IRREVERSIBLE"


# From light to strong: what a person does to approve.
STRENGTHS = ("click", "typed", "passkey")
CLICK = STRENGTHS[0]


@dataclass(frozen=True, slots=True)
class Retry:
    """Number of times an execution in doubt is run again, and the wait between two runs."""

    attempts: int = 5
    first: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=5)


# One call takes at most so long. What takes longer the tool accepts, and is asked for again.
LONGEST_CALL = timedelta(seconds=60)

# Copied into a transaction when it is prepared, and sealed: later edits of the tool do not count.
_SEALED = {"is_sealed": True}
# Not part of what is published of a tool.
_INTERNAL = {"is_internal": True}


@dataclass(frozen=True, kw_only=True)
class Contract:
    """Promises of the owner of a tool. The defaults are the strictest there are.

    Levels may be given as text. An unsafe contract fails ``manage.py check`` (see
    ``ledger.tools.checks``).
    """

    # The service that owns the tool; its team is told of what goes wrong.
    owner_service: str = field(default="", metadata=_SEALED)
    # Longest time that one call may take. Over ``LONGEST_CALL``: that it may take until what was
    # accepted (``NotDoneYet``) is done.
    timeout: timedelta = timedelta(seconds=30)
    risk_level: RiskLevel | str = field(default=RiskLevel.HIGH, metadata=_SEALED)
    required_approver: RequiredApprover | str = field(
        default=RequiredApprover.HUMAN, metadata=_SEALED
    )
    consequence_level: ConsequenceLevel | str = field(
        default=ConsequenceLevel.IRREVERSIBLE, metadata=_SEALED
    )
    # Template over the arguments and ``tenant``: "refund:{tenant}:{payment_id}".
    operation_key: str = ""
    # Templates of earlier contracts, each with the last day on which it still counts.
    operation_key_aliases: Mapping[str, date] = field(default_factory=dict, metadata=_INTERNAL)
    # The field of the result that proves success.
    receipt: str = ""
    # Running it twice with the same operation key has one effect.
    retry_safe: bool = False
    retry: Retry = field(default=Retry(), metadata=_INTERNAL)
    # How many different approvers have to sign off.
    quorum: int = field(default=1, metadata=_SEALED)
    # The one who has to sign off at the least, where a rule of the tenant lets it pass; empty: no
    # rule asks for less than ``required_approver`` and ``quorum``.
    floor: RequiredApprover | str = ""
    # The keeper of the agent that proposed it may sign off: for teams too small for another person.
    keeper_may_sign: bool = field(default=False, metadata=_SEALED)
    # SHA-256 of the policy document that a supervisor has to cite when it approves; empty: any.
    required_policy: str = field(default="", metadata=_SEALED)
    # How long a transaction waits for sign-off, and the limits within which an agent may choose.
    ttl: timedelta = timedelta(minutes=15)
    min_ttl: timedelta = timedelta(seconds=5)
    max_ttl: timedelta = timedelta(days=1)
    # Texts, arguments and result are erased this long after the proposal, once it has ended.
    retention: timedelta = timedelta(days=365 * 7)
    # Tells the approver, in a sentence, how the effect can be undone.
    undo: str = ""
    # Says what its compensation does to this very effect: a template over the arguments and
    # ``money``, the amount of the plan: "Charge {customer} {money} again."
    compensation: str = ""
    # Signed off on the desk and nowhere else.
    web_only: bool = False
    # The least that a person does to approve, whatever the rules of the tenant say: a ``click``,
    # typing the amount or the name (``typed``), or signing with a ``passkey``.
    strength: str = CLICK
    # How long before it expires approvers in Slack are reminded.
    remind: timedelta | None = None
    # The argument that says whom or what it concerns: approvers are told how often that was lately.
    subject: str = ""
    # The arguments that an approver may correct; ``None``: all that do not identify the operation.
    editable: Sequence[str] | None = None
    # How old a plan may be when it is carried out; an older one is planned again first.
    plan_max_age: timedelta | None = None
    # Templates of what it changes, as "payment:{payment_id}": once another transaction took effect
    # on one of these, it is planned again before it is carried out.
    touches: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Raises ``ValueError`` for a level that does not exist."""
        levels = {
            "risk_level": RiskLevel,
            "required_approver": RequiredApprover,
            "consequence_level": ConsequenceLevel,
        }
        for name, level in levels.items():
            object.__setattr__(self, name, level(getattr(self, name)))
        if self.strength not in STRENGTHS:
            raise ValueError(f"{self.strength!r} is none of {', '.join(STRENGTHS)}")
        if self.floor:
            object.__setattr__(self, "floor", RequiredApprover(self.floor))

    @property
    def call_timeout(self) -> timedelta:
        """Longest time that one call may take."""
        return min(self.timeout, LONGEST_CALL)

    def sealed_terms(self) -> dict[str, Any]:
        """The fields that each transaction keeps, by the names of its columns."""
        return {name: _plain(getattr(self, name)) for name in _sealed_names()}

    def published(self) -> dict[str, Any]:
        """Terms of the contract that anybody may read; durations in seconds, as ``ttl_s``."""
        return {
            published: _plain(getattr(self, name))
            for name, (published, _) in _published_fields().items()
        }

    def operation_key_for(self, tenant: str, arguments: Mapping[str, Any]) -> str:
        """Values are percent-encoded, so that two operations cannot get the same key."""
        return _filled_in(self.operation_key, tenant, arguments)

    def editable_among(self, names: Iterable[str]) -> list[str]:
        """Those of these arguments that an approver may correct."""
        named = set(key_fields(self.operation_key))
        wanted = names if self.editable is None else self.editable
        return [name for name in names if name in wanted and name not in named]

    def touched_by(self, tenant: str, arguments: Mapping[str, Any]) -> list[str]:
        """The resources that a call with these arguments changes, encoded as in operation keys."""
        return [_filled_in(template, tenant, arguments) for template in self.touches]

    def compensation_of(self, arguments: Mapping[str, Any], money: str) -> str:
        """Effect of the compensation; empty if it does not say, or an argument is missing."""
        values = {**arguments, "money": money}
        if any(values.get(name) in (None, "") for name in key_fields(self.compensation)):
            return ""
        return self.compensation.format(**values)

    def earlier_operation_keys_for(self, tenant: str, arguments: Mapping[str, Any]) -> list[str]:
        """The keys by the templates of earlier contracts that still count today (UTC)."""
        today = datetime.now(UTC).date()
        return [
            _filled_in(template, tenant, arguments)
            for template, last_day in self.operation_key_aliases.items()
            if last_day >= today
        ]


def published_types() -> dict[str, type]:
    """Names and JSON types of ``Contract.published()``: ``{"ttl_s": float, …}``."""
    return dict(_published_fields().values())


def key_fields(template: str) -> list[str]:
    """The names in a template, in its order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


@cache
def _sealed_names() -> tuple[str, ...]:
    return tuple(column.name for column in fields(Contract) if column.metadata.get("is_sealed"))


@cache
def _published_fields() -> dict[str, tuple[str, type]]:
    """The published name and JSON type of each field: ``{"ttl": ("ttl_s", float), …}``."""
    hints = get_type_hints(Contract)
    return {
        column.name: _published_as(column.name, hints[column.name])
        for column in fields(Contract)
        if not column.metadata.get("is_internal")
    }


def _published_as(name: str, hint: Any) -> tuple[str, type]:
    if timedelta in (hint, *get_args(hint)):
        return f"{name}_s", float
    if any(get_origin(kind) is Sequence for kind in (hint, *get_args(hint))):
        return name, list[str]
    return name, hint if hint in (bool, int) else str


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list | tuple):
        return list(value)
    return value.value if isinstance(value, StrEnum) else value


def _filled_in(template: str, tenant: str, arguments: Mapping[str, Any]) -> str:
    encoded = {name: quote(str(value), safe="") for name, value in arguments.items()}
    return template.format(**encoded, tenant=quote(tenant, safe=""))
