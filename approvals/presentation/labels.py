"""Labels of events, outcomes, surfaces and values: the same texts on the desk and in Slack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from a2a.models import Question, QuestionState
from a2a.states import TaskEventKind
from a2a.wire.plain_json import reason_and_details
from ledger import contracts
from ledger.contracts import ConsequenceLevel
from ledger.models import Event, Transaction
from ledger.principals import Principal, Surface
from ledger.states import EventKind

EVENT_LABELS: dict[str, str] = {
    EventKind.PREPARED: "Proposed",
    EventKind.REFUSED: "Refused by the tool",
    EventKind.PLAN_ABANDONED: "Planned, and could not be entered",
    EventKind.APPROVAL_RECORDED: "Partly approved (others are needed too)",
    EventKind.PASSED_ON: "Passed on to people",
    EventKind.APPROVED: "Approved",
    EventKind.REJECTED: "Rejected",
    EventKind.EXPIRED: "Expired: nobody decided in time",
    EventKind.CANCELED: "Canceled by the agent",
    EventKind.CLAIMED: "A worker began",
    EventKind.HOLD_LAPSED: "What was held lapsed",
    EventKind.WITHDRAWN: "Withdrawn before anybody began",
    EventKind.COMMITTED: "Committed",
    EventKind.FAILED: "Failed; nothing happened",
    EventKind.FELL_IN_DOUBT: "Outcome not known",
    EventKind.RETRIED: "Run again with the same operation key",
    EventKind.RETRY_ORDERED: "Another run was ordered",
    EventKind.DISPROVED: "Found that nothing happened",
    EventKind.ABORTED: "Everything held was let go of",
    EventKind.FAILURE_SETTLED: "Everything held was let go of",
    EventKind.LET_GO_BY_HAND: "What was held was let go of by hand",
    EventKind.FAILURE_LET_GO_BY_HAND: "What was held was let go of by hand",
    EventKind.LATE_RECEIPT: "A receipt came late",
    EventKind.LATE_RECEIPT_SETTLED: "The late receipt was looked at",
    EventKind.RECEIPT_KEPT: "The late receipt is true: committed",
    EventKind.SETTLEMENT_PROPOSED: "Outcome proposed (another operator is needed too)",
    EventKind.SETTLEMENT_DECLINED: "The proposed settlement was declined",
    EventKind.COMPENSATION_STARTED: "Compensation asked for",
    EventKind.COMPENSATED: "Compensated",
    EventKind.DECISION_REVIEWED: "The supervisor's decision was reviewed",
    EventKind.CONTENT_ERASED: "Content erased: its retention was over",
    EventKind.LEGAL_HOLD_PLACED: "Legal hold: the content is kept",
    EventKind.LEGAL_HOLD_RELEASED: "Legal hold released",
    TaskEventKind.SUBMITTED: "Submitted",
    TaskEventKind.REJECTED: "Rejected before it began",
    TaskEventKind.CLAIMED: "Taken up",
    TaskEventKind.PUT_BACK: "Put back for another worker",
    TaskEventKind.HANDED_OVER: "Handed over",
    TaskEventKind.PROGRESSED: "Progress",
    TaskEventKind.ARTIFACT_ADDED: "Artifact added",
    TaskEventKind.MESSAGE_ADDED: "Message added",
    TaskEventKind.DECLINED: "Declined by the worker before it began",
    TaskEventKind.ASKED: "Asked a question",
    TaskEventKind.ANSWERED: "Answered",
    TaskEventKind.QUESTION_LAPSED: "Canceled: nobody answered in time",
    TaskEventKind.AWAITS_SIGN_OFF: "Waits for sign-off",
    TaskEventKind.RESUMED: "Signed off; goes on",
    TaskEventKind.COMPLETED: "Completed",
    TaskEventKind.FAILED: "Failed",
    TaskEventKind.CANCELED: "Canceled",
    TaskEventKind.EXCHANGED: "Carried by a git repository",
    TaskEventKind.CONTENT_ERASED: "Content erased: its retention was over",
    TaskEventKind.LEGAL_HOLD_PLACED: "Legal hold: the content is kept",
    TaskEventKind.LEGAL_HOLD_RELEASED: "Legal hold released",
}

DECISIVE = frozenset(
    {EventKind.APPROVED, EventKind.REJECTED, EventKind.EXPIRED, EventKind.CANCELED}
)


def event_label(event: Event) -> str:
    """What the event means to a person; a progress event with its details."""
    if event.kind == TaskEventKind.PROGRESSED:
        return _progress(reason_and_details(event)[1])
    return EVENT_LABELS.get(event.kind, event.kind.replace("_", " ").capitalize())


def _progress(details: dict[str, Any]) -> str:
    """``Progress: reading, 40 %, 8 of 47 transcripts``."""
    percent = details.get("percent")
    percent_text = f"{percent} %" if percent is not None else ""
    fields = (details.get("stage"), percent_text, details.get("message"))
    return f"Progress: {', '.join(str(field) for field in fields if field)[:200]}"


def outcome(row: Transaction) -> str:
    """The outcome of a decided transaction: ``Approved by Bob Tanaka on the desk``."""
    events = sorted(row.events.all(), key=lambda event: event.seq)
    if settled := next(filter(None, map(_settled, reversed(events))), ""):
        return settled
    decisive = [event for event in events if event.kind in DECISIVE]
    if not decisive:
        return str(row.get_state_display()).capitalize()
    event = decisive[-1]
    if event.kind == EventKind.EXPIRED:
        return "Expired; nobody decided in time"
    return f"{event.kind.capitalize()} by {event.principal_name} {via(event)}"


def _settled(event: Event) -> str:
    """What a person found who looked after an outcome that was not known; empty for all else."""
    found = {
        EventKind.COMMITTED: _("it happened"),
        EventKind.RECEIPT_KEPT: _("it happened"),
        EventKind.DISPROVED: _("nothing happened"),
        EventKind.LATE_RECEIPT_SETTLED: _("the late receipt was looked at"),
        EventKind.RETRY_ORDERED: _("it runs again"),
        EventKind.WITHDRAWN: _("it was withdrawn"),
        EventKind.LET_GO_BY_HAND: _("what was held was let go of"),
        EventKind.FAILURE_LET_GO_BY_HAND: _("what was held was let go of"),
    }.get(EventKind(event.kind))
    if found is None or not Principal.parse(event.principal).is_user:
        return ""
    return _("Settled by {name}: {found}").format(name=event.principal_name, found=found)


def undo_words(consequence_level: str) -> str:
    """Whether it can be undone, in the words of people: the same on every surface."""
    return {
        ConsequenceLevel.REVERSIBLE: _("can be undone"),
        ConsequenceLevel.COMPENSABLE: _("can be made good"),
        ConsequenceLevel.IRREVERSIBLE: _("cannot be undone"),
    }[ConsequenceLevel(consequence_level)]


def policy(details: dict[str, Any]) -> str:
    """What a supervising agent decided by: ``Refunds 3, §§ 2, 4.1``; empty where it named none."""
    cited = details.get("policy")
    if not cited:
        return ""
    numbers = ", ".join(cited["paragraphs"])
    return f"{cited['name']} {cited['version']}, §{'§' * (len(cited['paragraphs']) > 1)} {numbers}"


def question_outcome(question: Question) -> str:
    """The outcome of a closed question: ``Answered by Bob Tanaka on the desk``."""
    if question.state == QuestionState.ANSWERED:
        return f"Answered by {question.answered_by_name} {surface(question.answered_via)}"
    return str(question.get_state_display()).capitalize()


def via(event: Event) -> str:
    return surface(event.via)


def surface(via: str) -> str:
    names: dict[str, str] = {
        Surface.WEB: "on the desk",
        Surface.SLACK: "in Slack",
        Surface.REST: "by REST",
        Surface.GIT: "over a git repository",
        Surface.A2A: "by A2A",
        Surface.ADMIN: "in the admin",
        Surface.COMMAND: "by a command",
        Surface.SYSTEM: "automatically",
    }
    return names.get(via, via)


def plain(value: Any) -> str:
    """The text of a value of a payload: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value or '""'
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def evidence(part: dict[str, Any]) -> str:
    """The text of one part of the evidence that an agent gives with its question."""
    if "text" in part:
        return str(part["text"])
    return plain(part["data"]) if "data" in part else "a file"


@dataclass(frozen=True, slots=True)
class Field:
    """One value of the arguments, as it was requested and as planning validated it.

    ``name`` is the path to it: ``amount``, ``lines[0].price``.
    """

    name: str
    requested: Any
    validated: Any
    is_requested: bool
    is_validated: bool = True

    @property
    def top(self) -> str:
        """The name of the argument that holds this value."""
        return re.split(r"[.\[]", self.name, maxsplit=1)[0] or self.name

    @property
    def is_changed(self) -> bool:
        return (
            self.is_requested
            and self.is_validated
            and (plain(self.requested) != plain(self.validated))
        )


def compared(row: Transaction) -> Iterator[Field]:
    """Every single value of the arguments, also those within lists and objects."""
    tool = contracts.tools.get(row.tool)
    declared = list(tool.arguments_model.model_fields) if tool else []
    # PostgreSQL's jsonb does not keep the order of names; people expect the tool author's.
    for top in dict.fromkeys([*declared, *row.arguments, *row.payload]):
        requested = dict(leaves({top: row.payload[top]})) if top in row.payload else {}
        validated = dict(leaves({top: row.arguments[top]})) if top in row.arguments else {}
        for name in dict.fromkeys([*validated, *requested]):
            yield Field(
                name,
                requested.get(name),
                validated.get(name),
                is_requested=name in requested,
                is_validated=name in validated,
            )


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that holds no other value, with its path."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from leaves(item, _below(path, str(name)))
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _below(path: str, name: str) -> str:
    """The path of a member. A name is quoted if it is empty or could be read as a path."""
    if not name or re.search(r'[.\[\]"]|^\s|\s$|[^\S ]', name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name
