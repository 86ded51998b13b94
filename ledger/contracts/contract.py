"""What a tool promises: its contract, its companions, and the registry that ``tools.py`` fills.

    @transactional(
        risk_level="HIGH", required_approver="HUMAN", consequence_level="COMPENSABLE",
        owner_service="payments", operation_key="refund:{tenant}:{payment_id}:{reason}",
        receipt="refund_id",
    )
    def refund_customer(payment_id: str, amount: Decimal, reason: str, context: Context) -> dict:
        ...

    @refund_customer.plan
    def plan(payment_id: str, amount: Decimal) -> Plan:
        ...

A companion declares whichever arguments of the tool it needs, by name, and ``context``.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar
from urllib.parse import quote
from uuid import UUID

from babel.numbers import get_currency_precision, list_currencies
from pydantic import BaseModel

from ledger.contracts.arguments import (
    SUMMARY_MAX,
    meaning,
    model_of,
    plain_summary,
    validated,
)
from ledger.errors import InvalidRequest, PlanRefused, UnknownTool

CURRENCIES = frozenset(list_currencies())  # ISO 4217, the withdrawn ones included
AMOUNT_MAX = Decimal(10) ** 14

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class RiskLevel(StrEnum):
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class RequiredApprover(StrEnum):
    """Who has to sign off: nobody, a supervising agent (or a person), or a person."""

    NONE = "NONE"
    SUPERVISOR = "SUPERVISOR"
    HUMAN = "HUMAN"


class ConsequenceLevel(StrEnum):
    REVERSIBLE = "REVERSIBLE"
    COMPENSABLE = "COMPENSABLE"
    IRREVERSIBLE = "IRREVERSIBLE"


class NothingHappened(Exception):
    """Raised by a tool that knows that nothing took hold: the transaction fails for good.

    From ``plan``: the plan is refused. From ``execute``: held things are let go of. From
    ``find_receipt``: proof that the execution in doubt never took hold. The text reaches
    the agent and the desk. Any other exception of ``execute`` means *unknown*.
    """


@dataclass(frozen=True, slots=True)
class Retry:
    """How often an execution in doubt is run again, and how long to wait between two runs."""

    attempts: int = 5
    first: timedelta = timedelta(seconds=2)
    longest: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Context:
    """What a tool may know about the transaction that it works for."""

    transaction_id: UUID
    tenant: str
    operation_key: str
    timeout: timedelta
    held: Mapping[str, Any] = field(default_factory=dict)
    receipt: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What ``plan`` found out, for the approver to see.

    ``amount`` in major units of ``currency`` (ISO 4217). ``arguments`` replaces the proposed
    ones, where planning corrected them. ``held`` is handed to execute and rollback; a hold must
    lapse by itself at ``hold_expires_at``.
    """

    summary: str
    warnings: tuple[str, ...] | list[str] = ()
    amount: Decimal | None = None
    currency: str = ""
    arguments: Mapping[str, Any] | None = None
    held: Mapping[str, Any] | None = None
    hold_expires_at: datetime | None = None

    def checked(self) -> Plan:
        """This plan, if an approver could be shown it. Raises ``InvalidRequest`` if not."""
        if not self.summary.strip() or len(self.summary) > SUMMARY_MAX:
            raise InvalidRequest(f"The summary must have 1 to {SUMMARY_MAX} characters.")
        if self.amount is not None:
            self._check_money(self.amount)
        return self

    def _check_money(self, amount: Decimal) -> None:
        if self.currency not in CURRENCIES:
            raise InvalidRequest(f"{self.currency!r:.20} is not a currency of ISO 4217.")
        if not amount.is_finite() or not 0 <= amount < AMOUNT_MAX:
            raise InvalidRequest(f"{amount} is not an amount of money.")
        digits = get_currency_precision(self.currency)
        if round(amount, digits) != amount:
            raise InvalidRequest(f"{self.currency} has {digits} decimals; {amount} has more.")


@dataclass(frozen=True, slots=True)
class Contract:
    """What the owner of a tool promises. Durations are timedeltas."""

    name: str
    risk_level: RiskLevel
    required_approver: RequiredApprover
    consequence_level: ConsequenceLevel
    owner_service: str
    operation_key: str
    operation_key_aliases: Mapping[str, date]
    receipt: str
    ttl: timedelta
    min_ttl: timedelta
    max_ttl: timedelta
    timeout: timedelta
    retry: Retry
    retry_safe: bool
    retention: timedelta
    quorum: int
    undo: str
    web_only: bool
    remind: timedelta | None


class Tool(Generic[P, R]):
    """A function that changes the world, its contract and its companions."""

    def __init__(self, execute: Callable[P, R], contract: Contract) -> None:
        self.execute = execute
        self.contract = contract
        self.name = contract.name
        self.description = inspect.getdoc(execute) or ""
        self.companions: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.execute(*args, **kwargs)

    def plan(self, companion: F) -> F:
        """Says what would happen, and may hold what is needed; changes nothing else."""
        return self._attach("plan", companion)

    def rollback(self, companion: F) -> F:
        """Lets go of what ``plan`` held. Succeeds when there is nothing to let go of."""
        return self._attach("rollback", companion)

    def compensate(self, companion: F) -> F:
        """Makes up for an execution that took hold; may return its own receipt as text."""
        return self._attach("compensate", companion)

    def find_receipt(self, companion: F) -> F:
        """Asks the world what became of an execution in doubt.

        Returns its result, or ``None`` when that cannot be told; raises ``NothingHappened``
        when it surely never took hold and never will.
        """
        return self._attach("find_receipt", companion)

    def _attach(self, role: str, companion: F) -> F:
        self.companions[role] = companion
        return companion

    def has(self, role: str) -> bool:
        return role in self.companions

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        """The signature of the function as a pydantic model; its JSON Schema is published."""
        return model_of(self.execute, self.name)

    def validate(self, arguments: Any) -> BaseModel:
        """Raises ``InvalidArguments`` with one entry in ``errors`` per field."""
        return validated(self.arguments_model, self.name, arguments)

    def meaning_of(self, arguments: BaseModel) -> dict[str, Any]:
        """The arguments as JSON in which 1, 1.0 and 1.00 of a Decimal are the same."""
        return {name: meaning(getattr(arguments, name)) for name in type(arguments).model_fields}

    def operation_key_for(self, tenant: str, arguments: Mapping[str, Any]) -> str:
        """Fields are percent-encoded, so that no two operations share a key by accident."""
        return _filled_in(self.contract.operation_key, tenant, arguments)

    def earlier_operation_keys_for(self, tenant: str, arguments: Mapping[str, Any]) -> list[str]:
        """The keys of contracts before this one that are still declared as aliases."""
        today = datetime.now(UTC).date()
        aliases = self.contract.operation_key_aliases.items()
        return [
            _filled_in(template, tenant, arguments) for template, until in aliases if until >= today
        ]

    def run(self, role: str, arguments: BaseModel, context: Context) -> Any:
        """Call ``execute`` or a companion with the arguments that it declares."""
        function: Callable[..., Any] = self.execute if role == "execute" else self.companions[role]
        offered: dict[str, Any] = {
            name: getattr(arguments, name) for name in type(arguments).model_fields
        }
        offered |= {
            "context": context,
            "operation_key": context.operation_key,
            "receipt": context.receipt,
        }
        wanted = inspect.signature(function).parameters
        return function(**{name: offered[name] for name in wanted if name in offered})

    def make_plan(self, arguments: BaseModel, context: Context) -> Plan:
        """The plan of the owner, or a plain one. Raises ``PlanRefused``."""
        if not self.has("plan"):
            return Plan(summary=plain_summary(self.name, arguments))
        try:
            plan: Plan = self.run("plan", arguments, context)
        except NothingHappened as refusal:
            raise PlanRefused(str(refusal)) from refusal
        return plan.checked()


class ReadonlyTool:
    """A function that only looks: it runs directly, is recorded, and needs no sign-off."""

    def __init__(
        self, function: Callable[..., Any], owner_service: str, timeout: timedelta
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.owner_service = owner_service
        self.timeout = timeout
        self.description = inspect.getdoc(function) or ""

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        return model_of(self.function, self.name)

    def validate(self, arguments: Any) -> BaseModel:
        """Raises ``InvalidArguments``."""
        return validated(self.arguments_model, self.name, arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


tools: dict[str, Tool[Any, Any]] = {}
readonly_tools: dict[str, ReadonlyTool] = {}
# Names declared twice; the system checks refuse to start with them.
declared_twice: set[str] = set()


def transactional(
    *,
    owner_service: str = "",
    operation_key: str = "",
    operation_key_aliases: Mapping[str, date] | None = None,
    receipt: str = "",
    risk_level: str = "HIGH",
    required_approver: str = "HUMAN",
    consequence_level: str = "IRREVERSIBLE",
    ttl: timedelta = timedelta(minutes=15),
    min_ttl: timedelta = timedelta(seconds=5),
    max_ttl: timedelta = timedelta(days=1),
    timeout: timedelta = timedelta(seconds=30),
    retry: Retry | None = None,
    retry_safe: bool = False,
    retention: timedelta = timedelta(days=365 * 7),
    quorum: int = 1,
    undo: str = "",
    web_only: bool = False,
    remind: timedelta | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare a tool that changes the world. The defaults are the strictest there are.

    ``operation_key`` is a template over the arguments and ``tenant``; ``operation_key_aliases`` are
    templates of earlier contracts, each with the last day on which it still counts. ``receipt``
    names the field of the result that proves success. ``retry_safe`` promises that running it twice
    with the same operation key has one effect. ``quorum`` is how many different approvers it takes.
    ``undo`` tells the approver, in words, how it can be undone. ``web_only`` has it signed off on
    the desk and nowhere else; ``remind`` is how long before it lapses approvers in Slack
    are reminded. Unsafe contracts fail ``manage.py check``.
    """

    def declare(function: Callable[P, R]) -> Tool[P, R]:
        contract = Contract(
            name=function.__name__,
            risk_level=RiskLevel(risk_level),
            required_approver=RequiredApprover(required_approver),
            consequence_level=ConsequenceLevel(consequence_level),
            owner_service=owner_service,
            operation_key=operation_key,
            operation_key_aliases=dict(operation_key_aliases or {}),
            receipt=receipt,
            ttl=ttl,
            min_ttl=min_ttl,
            max_ttl=max_ttl,
            timeout=timeout,
            retry=retry or Retry(),
            retry_safe=retry_safe,
            retention=retention,
            quorum=quorum,
            undo=undo,
            web_only=web_only,
            remind=remind,
        )
        _note_if_declared(function.__name__)
        tool = Tool(function, contract)
        tools[tool.name] = tool
        return tool

    return declare


def readonly(
    *, owner_service: str, timeout: timedelta = timedelta(seconds=10)
) -> Callable[[Callable[..., Any]], ReadonlyTool]:
    """Declare a tool that only looks."""

    def declare(function: Callable[..., Any]) -> ReadonlyTool:
        _note_if_declared(function.__name__)
        tool = ReadonlyTool(function, owner_service, timeout)
        readonly_tools[tool.name] = tool
        return tool

    return declare


def tool_named(name: str) -> Tool[Any, Any]:
    """Raises ``UnknownTool``."""
    try:
        return tools[name]
    except KeyError:
        raise UnknownTool(f"There is no tool named {name!r:.80}.") from None


def _filled_in(template: str, tenant: str, arguments: Mapping[str, Any]) -> str:
    fields = {name: quote(str(value), safe="") for name, value in arguments.items()}
    return template.format(**fields, tenant=quote(tenant, safe=""))


def key_fields(template: str) -> list[str]:
    """The names in an operation-key template, in its order."""
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


def _note_if_declared(name: str) -> None:
    if name in tools or name in readonly_tools:
        declared_twice.add(name)
