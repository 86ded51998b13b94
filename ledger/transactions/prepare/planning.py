"""Planning: what the tool makes of a request, as the columns that the approver will see."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from ledger import seals
from ledger.contracts import Context, Plan, Tool
from ledger.contracts.results import storable
from ledger.errors import LedgerError, PlanFailed, PlanRefused
from ledger.foundation import characters

WARNINGS_MOST, WARNING_MAX = 50, 3000  # characters
SUMMARY_MAX = 3000  # characters, of a refusal


@dataclass(frozen=True, slots=True)
class Planned:
    """The columns of a transaction that its plan fills."""

    arguments: dict[str, Any] = field(default_factory=dict)
    action_summary: str = ""
    warnings: list[str] = field(default_factory=list)
    amount: Decimal | None = None
    currency: str = ""
    held: dict[str, Any] = field(default_factory=dict)
    hold_expires_at: datetime | None = None

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COLUMNS}


_COLUMNS = tuple(column.name for column in fields(Planned))


def plan(
    tool: Tool[Any, Any], arguments: BaseModel, context: Context, stated_reason: str
) -> tuple[Planned, PlanRefused | None]:
    """Have the tool plan. Returns what to store, and the tool's refusal if it refused.

    ``stated_reason`` is shown beside the plan, so it is searched for look-alikes too. Raises
    ``PlanFailed``, ``InvalidRequest`` for text that is unsafe to show, and the ``LedgerError`` of
    the tool.
    """
    try:
        made = tool.make_plan(arguments, context)
    except PlanRefused as refusal:
        summary = characters.one_line(f"{tool.name}: {refusal.detail}")[:SUMMARY_MAX]
        return Planned(arguments.model_dump(mode="json"), summary), refusal
    except LedgerError:
        raise
    except Exception as failure:
        raise PlanFailed(f"{tool.name} could not plan: {type(failure).__name__}.") from failure
    return _checked(tool, arguments, made, stated_reason), None


def plain(tool: Tool[Any, Any], arguments: BaseModel, stated_reason: str) -> Planned:
    """The plan to store for a tool without a plan of its own: calls none of its functions.

    Raises ``InvalidRequest`` for text that is unsafe to show.
    """
    return _checked(tool, arguments, tool.plain_plan(arguments), stated_reason)


def _checked(tool: Tool[Any, Any], arguments: BaseModel, made: Plan, stated_reason: str) -> Planned:
    summary, warnings = str(made.summary), [str(warning) for warning in made.warnings]
    seals.refuse_unsafe_text([summary, warnings], "the plan")
    _check_warnings(tool, warnings)
    # One line: what follows a line break could pass for a line of ours.
    summary = characters.one_line(seals.normalised(summary))
    planned_arguments = _planned_arguments(tool, arguments, made)
    shown = [summary, stated_reason, *seals.texts_in(planned_arguments)]
    return Planned(
        arguments=planned_arguments,
        action_summary=summary,
        # Look-alikes first, so that no number of other warnings pushes them out of sight.
        warnings=[*characters.lookalikes(shown), *seals.normalised(warnings)],
        amount=made.amount,
        currency=made.currency if made.amount is not None else "",
        held=storable(made.held or {}),  # as it will be read again: its digest is sealed
        hold_expires_at=made.hold_expires_at,
    )


def _planned_arguments(tool: Tool[Any, Any], arguments: BaseModel, made: Plan) -> dict[str, Any]:
    """The arguments as the plan changed them, or as they were validated."""
    if made.arguments is None:
        return arguments.model_dump(mode="json")
    changed = tool.validate(dict(made.arguments)).model_dump(mode="json")
    seals.refuse_unsafe_text(changed)
    normalised: dict[str, Any] = seals.normalised(changed)
    return normalised


def _check_warnings(tool: Tool[Any, Any], warnings: list[str]) -> None:
    """Refuse too many or too long warnings: an approver must see each in full."""
    if len(warnings) > WARNINGS_MOST or any(len(warning) > WARNING_MAX for warning in warnings):
        raise PlanFailed(
            f"{tool.name} gave more than {WARNINGS_MOST} warnings, or one of more than "
            f"{WARNING_MAX} characters."
        )
