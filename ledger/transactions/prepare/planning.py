"""Planning: what the tool makes of a request, as the columns that the approver will see."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from ledger import seals
from ledger.contracts import Context, Plan, RequiredApprover, RiskLevel, Tool
from ledger.contracts.evidence import seal
from ledger.contracts.results import storable
from ledger.errors import LedgerError, PlanFailed, PlanRefused
from ledger.foundation import characters

WARNINGS_MOST, WARNING_MAX = 50, 3000  # characters
SUMMARY_MAX = 3000  # characters, of a refusal


@dataclass(frozen=True, slots=True)
class Planned:
    """The columns of a transaction that its plan fills, and the contents of its evidence."""

    arguments: dict[str, Any] = field(default_factory=dict)
    action_summary: str = ""
    warnings: list[str] = field(default_factory=list)
    amount: Decimal | None = None
    currency: str = ""
    held: dict[str, Any] = field(default_factory=dict)
    hold_expires_at: datetime | None = None
    evidence: list[dict[str, str]] | None = None
    planned_at: datetime | None = None  # where it is looked at again: when planning it began
    risk_level: str = ""  # empty: that of the contract
    contents: tuple[bytes, ...] = ()

    def columns(self) -> dict[str, Any]:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return {**columns, "risk_level": self.risk_level} if self.risk_level else columns


_APART = {"contents", "risk_level"}
_COLUMNS = tuple(each.name for each in fields(Planned) if each.name not in _APART)


def plan(
    tool: Tool[Any, Any],
    arguments: BaseModel,
    context: Context,
    stated_reason: str,
    *,
    again: bool = False,
) -> tuple[Planned, PlanRefused | None]:
    """Have the tool plan. Returns what to store, and the tool's refusal if it refused.

    ``again`` as of ``Tool.make_plan``. ``stated_reason`` is shown beside the plan, so it is
    searched for look-alikes too. Raises ``PlanFailed``, ``InvalidRequest`` for text that is unsafe
    to show, and the ``LedgerError`` of the tool.
    """
    try:
        made = tool.make_plan(arguments, context, again=again)
    except PlanRefused as refusal:
        return refused_plan(tool, arguments, refusal), refusal
    except LedgerError:
        raise
    except Exception as failure:
        raise PlanFailed(f"{tool.name} could not plan: {type(failure).__name__}.") from failure
    return _checked(tool, arguments, made, stated_reason), None


def refused_plan(tool: Tool[Any, Any], arguments: BaseModel, refusal: PlanRefused) -> Planned:
    """The plan to store of what was refused: its arguments, and why."""
    summary = characters.one_line(f"{tool.name}: {refusal.detail}")[:SUMMARY_MAX]
    return Planned(arguments.model_dump(mode="json"), summary)


def plain(tool: Tool[Any, Any], arguments: BaseModel, stated_reason: str) -> Planned:
    """The plan to store for a tool without a plan of its own: calls none of its functions.

    Raises ``InvalidRequest`` for text that is unsafe to show.
    """
    return _checked(tool, arguments, tool.plain_plan(arguments), stated_reason)


def _checked(tool: Tool[Any, Any], arguments: BaseModel, made: Plan, stated_reason: str) -> Planned:
    summary, warnings = str(made.summary), [str(warning) for warning in made.warnings]
    seals.refuse_unsafe_text([summary, warnings], "the plan")
    evidence, contents = seal(made.evidence)
    read = [text for piece in made.evidence for text in (piece.name, *piece.texts())]
    seals.refuse_unsafe_text(read, "the evidence")
    _check_warnings(tool, warnings)
    # One line: what follows a line break could pass for a line of ours.
    summary = characters.one_line(seals.normalised(summary))
    planned_arguments = _planned_arguments(tool, arguments, made)
    shown = [summary, stated_reason, *seals.texts_in(planned_arguments), *read]
    return Planned(
        arguments=planned_arguments,
        action_summary=summary,
        # Look-alikes first, so that no number of other warnings pushes them out of sight.
        warnings=[*characters.lookalikes(shown), *seals.normalised(warnings)],
        amount=made.amount,
        currency=made.currency if made.amount is not None else "",
        held=storable(made.held or {}),  # as it will be read again: its digest is sealed
        hold_expires_at=made.hold_expires_at,
        evidence=evidence or None,
        risk_level=_risk(tool, made),
        contents=tuple(contents),
    )


def _risk(tool: Tool[Any, Any], made: Plan) -> str:
    """The higher of the two: a plan makes no call less grave than its contract says.

    Raises ``PlanFailed`` if nobody would sign off what is grave.
    """
    levels, lowest = list(RiskLevel), tool.contract.risk_level
    risk = max(lowest, made.risk_level or lowest, key=lambda level: levels.index(RiskLevel(level)))
    is_unattended = tool.contract.required_approver == RequiredApprover.NONE
    if is_unattended and risk in {RiskLevel.HIGH, RiskLevel.CRITICAL}:
        raise PlanFailed(
            f"{tool.name} says that the risk of this call is {risk}, and nobody has to approve it."
        )
    return str(risk)


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
