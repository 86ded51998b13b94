"""``Tool``: a function with effects, its contract and its companions. ``ReadonlyTool``: without."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from pydantic import BaseModel

from ledger.contracts.arguments import meaning, model_of, plain_summary, validated
from ledger.contracts.contract import Contract
from ledger.contracts.plan import Context, NothingHappened, NothingHappenedYet, Plan
from ledger.errors import PlanRefused

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# The functions of a tool: "execute" is the declared one, the others are its companions.
Role = Literal["execute", "plan", "replan", "still_valid", "rollback", "compensate", "find_receipt"]


class Tool(Generic[P, R]):
    """A function with effects, its contract and its companions."""

    def __init__(self, execute: Callable[P, R], contract: Contract) -> None:
        self.execute = execute
        self.contract = contract
        self.name = execute.__name__
        # Names the manifest of a tool that is not Python.
        self.version: str | None = None
        # Host and port of the service that carries it out; empty for a function of this process.
        self.runs_at = ""
        # How that is asked: "http" or "mcp".
        self.asked_over = ""
        # Whom the agent shows its permit to, if it carries the tool out itself; else empty.
        self.permit_for = ""
        self.description = inspect.getdoc(execute) or ""
        # False: no list of tools has it; whoever names it gets it.
        self.is_listed = True
        self.companions: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.execute(*args, **kwargs)

    def plan(self, companion: F) -> F:
        """Returns the ``Plan``, and may hold what it needs; changes nothing else."""
        return self._attach("plan", companion)

    def replan(self, companion: F) -> F:
        """Plans once more, while ``context.held`` is held, and leaves that as it is.

        Returns a ``Plan`` that holds what it needs beside it, or the same. Whichever of the two is
        not used in the end, ``rollback`` is called for, with it in ``context.held``.
        """
        return self._attach("replan", companion)

    def still_valid(self, companion: F) -> F:
        """True while the plan is still true; asked before what was signed off is carried out."""
        return self._attach("still_valid", companion)

    def rollback(self, companion: F) -> F:
        """Releases what ``plan`` held. Succeeds when there is nothing to release."""
        return self._attach("rollback", companion)

    def compensate(self, companion: F) -> F:
        """Makes up for an execution that had its effect; may return its own receipt as text."""
        return self._attach("compensate", companion)

    def find_receipt(self, companion: F) -> F:
        """Looks up, at the provider, the outcome of an execution in doubt.

        Returns its result, or ``None`` when the outcome cannot be told; raises
        ``NothingHappened`` when it certainly had no effect and never will.
        """
        return self._attach("find_receipt", companion)

    def _attach(self, role: Role, companion: F) -> F:
        self.companions[role] = companion
        return companion

    def has(self, role: Role) -> bool:
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

    @property
    def names_of_key(self) -> frozenset[str]:
        """Names that the template of the operation key may use."""
        return frozenset({*self.arguments_model.model_fields, "tenant"})

    def operation_key_for(self, tenant: str, arguments: Mapping[str, Any]) -> str:
        return self.contract.operation_key_for(tenant, arguments)

    def earlier_operation_keys_for(self, tenant: str, arguments: Mapping[str, Any]) -> list[str]:
        return self.contract.earlier_operation_keys_for(tenant, arguments)

    def run(self, role: Role, arguments: BaseModel, context: Context) -> Any:
        """Call the function (``role="execute"``) or a companion with the arguments it declares."""
        function: Callable[..., Any] = self.execute if role == "execute" else self.companions[role]
        available: dict[str, Any] = {
            name: getattr(arguments, name) for name in type(arguments).model_fields
        }
        available |= {
            "context": context,
            "operation_key": context.operation_key,
            "receipt": context.receipt,
        }
        declared = inspect.signature(function).parameters
        return function(**{name: available[name] for name in declared if name in available})

    @property
    def editable_arguments(self) -> list[str]:
        """The names of those that an approver may correct."""
        return self.contract.editable_among(self.arguments_model.model_fields)

    @property
    def can_plan_again(self) -> bool:
        """False where a second plan would hold something twice."""
        return self.has("replan") or not self.has("rollback")

    @property
    def has_to_look_again(self) -> bool:
        """True if what was signed off has to be found still true before it is carried out."""
        contract = self.contract
        return bool(contract.plan_max_age or contract.touches or self.has("still_valid"))

    def make_plan(self, arguments: BaseModel, context: Context, *, again: bool = False) -> Plan:
        """The plan of the tool's owner, or a plain one. Raises ``PlanRefused``.

        ``again``: there is one already, and ``context.held`` is what it holds.
        """
        role: Role = "replan" if again and self.has("replan") else "plan"
        if not self.has(role):
            return self.plain_plan(arguments)
        try:
            plan: Plan = self.run(role, arguments, context)
        except NothingHappened as refusal:
            if again and isinstance(refusal, NothingHappenedYet):
                raise  # it was not planned: that says nothing of what was
            raise PlanRefused(str(refusal)) from refusal
        return plan.checked()

    def plain_plan(self, arguments: BaseModel) -> Plan:
        """The plan of a tool that has none of its own: its name and arguments."""
        return Plan(summary=plain_summary(self.name, arguments))


class ReadonlyTool:
    """A function without effects: it runs directly, is recorded, and needs no sign-off."""

    def __init__(
        self, function: Callable[..., Any], owner_service: str, timeout: timedelta
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.owner_service = owner_service
        self.timeout = timeout
        # As of ``Tool``.
        self.runs_at, self.asked_over = "", ""
        self.description = inspect.getdoc(function) or ""

    @cached_property
    def arguments_model(self) -> type[BaseModel]:
        return model_of(self.function, self.name)

    def validate(self, arguments: Any) -> BaseModel:
        """Raises ``InvalidArguments``."""
        return validated(self.arguments_model, self.name, arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def read(self, arguments: BaseModel) -> Any:
        """Call the function with validated arguments."""
        return self(**{name: getattr(arguments, name) for name in type(arguments).model_fields})
