"""Labels of events, outcomes, surfaces and values: the same texts on the desk and in Slack."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext as _

from a2a.models import Question, QuestionState, Task
from a2a.states import TaskEventKind
from a2a.wire import reason_and_details
from approvals.presentation.sentences import in_words
from ledger.contracts import ConsequenceLevel
from ledger.foundation.characters import cleaned
from ledger.models import Event, Transaction
from ledger.principals import PERMITS, Principal, Surface
from ledger.states import EventKind, State
from ledger.tools import function_in, permit_tool_of, tool_of

EVENT_LABELS: dict[str, str] = {kind: kind.label for kind in (*EventKind, *TaskEventKind)}

DECISIVE = frozenset(
    {
        EventKind.APPROVED,
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.EXPIRED,
        EventKind.CANCELED,
    }
)


def event_label(event: Event) -> str:
    """The event's meaning to a person; a progress event with its details."""
    if event.kind == TaskEventKind.PROGRESSED:
        return _progress(reason_and_details(event)[1])
    if event.kind == EventKind.CLAIMED and event.principal == str(PERMITS):
        return _("The permit was redeemed")
    label = EVENT_LABELS.get(event.kind)
    return first_large(_(label)) if label else event.kind.replace("_", " ").capitalize()


def _progress(details: dict[str, Any]) -> str:
    """``Reading: 41 of 47 transcripts (69 %)``; what is missing is left out."""
    percent, stage = details.get("percent"), str(details.get("stage") or "").replace("_", " ")
    fields = (stage[:1].upper() + stage[1:], details.get("message"))
    text = ": ".join(str(field) for field in fields if field)[:200] or _("Progress")
    return f"{text} ({percent} %)" if percent is not None else text


def outcome(row: Transaction) -> str:
    """The outcome of a decided transaction: ``Approved by Bob Tanaka on the desk``."""
    events = sorted(row.events.all(), key=lambda event: event.seq)
    if settled := next(filter(None, map(_settled, reversed(events))), ""):
        return settled
    decisive = [event for event in events if event.kind in DECISIVE]
    if not decisive or row.state == State.PREPARED:  # an approval may have been withdrawn
        return first_large(in_words(row.get_state_display()))
    event = decisive[-1]
    if event.kind == EventKind.EXPIRED:
        return _("Expired: nobody decided in time")
    return {
        EventKind.APPROVED: _("Approved by {name} {surface}"),
        EventKind.REJECTED: _("Rejected by {name} {surface}"),
        EventKind.SENT_BACK: _("Sent back by {name} {surface}"),
        EventKind.CANCELED: _("Canceled by {name} {surface}"),
    }[EventKind(event.kind)].format(name=event.principal_name, surface=via(event))


def _settled(event: Event) -> str:
    """The finding of a person who looked after an unknown outcome; empty for all else."""
    finding = {
        EventKind.COMMITTED: _("it happened"),
        EventKind.RECEIPT_KEPT: _("it happened"),
        EventKind.DISPROVED: _("nothing happened"),
        EventKind.LATE_RECEIPT_SETTLED: _("the late receipt was looked at"),
        EventKind.RETRY_ORDERED: _("it runs again"),
        EventKind.WITHDRAWN: _("it was withdrawn"),
        EventKind.LET_GO_BY_HAND: _("what was held was released"),
        EventKind.FAILURE_LET_GO_BY_HAND: _("what was held was released"),
    }.get(EventKind(event.kind))
    if finding is None or not Principal.parse(event.principal).is_user:
        return ""
    return _("Settled by {name}: {finding}").format(name=event.principal_name, finding=finding)


def undo_words(consequence_level: str) -> str:
    """The ways to undo it, in the words of people: the same on every surface."""
    return {
        ConsequenceLevel.REVERSIBLE: _("can be undone"),
        ConsequenceLevel.COMPENSABLE: _("can be compensated"),
        ConsequenceLevel.IRREVERSIBLE: _("cannot be undone"),
    }[ConsequenceLevel(consequence_level)]


def risk_words(level: str) -> str:
    words = {"LOW": _("low"), "MEDIUM": _("medium"), "HIGH": _("high"), "CRITICAL": _("critical")}
    return words.get(level, level.lower())


def where_it_runs(row: Transaction) -> str:
    """The service that would carry it out; empty for a tool of this installation."""
    tool = tool_of(row)
    return tool.runs_at if tool is not None else ""


def how_it_runs(row: Transaction) -> str:
    """The protocol of that service: ``http`` or ``mcp``."""
    tool = tool_of(row)
    return tool.asked_over if tool is not None else ""


def not_promised(row: Transaction) -> list[str]:
    """Missing promises of a tool that runs elsewhere, in the words of every surface."""
    tool = tool_of(row)
    if tool is None or not tool.runs_at:
        return []
    missing = []
    if not tool.has("plan"):
        missing.append(_("not dry-run: the service has not seen it yet"))
    if not tool.has("find_receipt"):
        missing.append(
            _("no receipt look-up: if its answer is lost, it is called again")
            if tool.contract.retry_safe
            else _("no receipt look-up: if its answer is lost, people find out what happened")
        )
    return missing


def permit_for(row: Transaction) -> str:
    """The service that its agent shows the permit to; empty where a worker carries it out."""
    tool = permit_tool_of(row)
    return tool.permit_for if tool is not None else ""


def policy(details: dict[str, Any]) -> str:
    """A supervising agent's policy: ``Refunds 3, §§ 2, 4.1``; empty where it named none."""
    cited = details.get("policy")
    if not cited:
        return ""
    numbers = ", ".join(cited["paragraphs"])
    return f"{cited['name']} {cited['version']}, §{'§' * (len(cited['paragraphs']) > 1)} {numbers}"


def question_outcome(question: Question) -> str:
    """The outcome of a closed question: ``Answered by Bob Tanaka on the desk``."""
    if question.state == QuestionState.ANSWERED:
        return _("Answered by {name} {surface}").format(
            name=question.answered_by_name, surface=surface(question.answered_via)
        )
    return first_large(in_words(question.get_state_display()))


def via(event: Event) -> str:
    return surface(event.via)


def surface(via: str) -> str:
    names: dict[str, str] = {
        Surface.WEB: _("on the desk"),
        Surface.SLACK: _("in Slack"),
        Surface.REST: _("by REST"),
        Surface("git"): _("over a git repository"),
        Surface.A2A: _("by A2A"),
        Surface("mcp"): _("by MCP"),
        Surface("humanlayer"): _("by a HumanLayer client"),
        Surface.ADMIN: _("in the admin"),
        Surface.COMMAND: _("by a command"),
        Surface.SYSTEM: _("automatically"),
        Surface.GRANT: _("in advance"),
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
    return plain(part["data"]) if "data" in part else _("a file")


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
    tool = tool_of(row)
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


def read(value: Any) -> str:
    """A single value as people read it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return value if isinstance(value, str) else plain(value)


def _below(path: str, name: str) -> str:
    """The path of a member. A name is quoted if it is empty or could be read as a path."""
    if not name or re.search(r'[.\[\]"]|^\s|\s$|[^\S ]', name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def first_large(text: str) -> str:
    """With a capital at the beginning; the rest stays, as nouns of other languages need it."""
    return text[:1].upper() + text[1:]


def title_of(slug: str) -> str:
    """``refund_customer`` as ``Refund customer``; of a function of the agent's own, its name."""
    words = function_in(slug).replace("_", " ").replace("-", " ").strip()
    return first_large(words)


FIRST_WORDS = 80  # characters
LOOKED_AT = 200  # values of an input, for the first text


def first_words(task: Task) -> str:
    """The beginning of the first text that a task was given; empty if it has none."""
    waiting, looked_at = [task.input], 0
    while waiting and looked_at < LOOKED_AT:
        value = waiting.pop(0)
        looked_at += 1
        if isinstance(value, str) and value.strip():
            words = " ".join(cleaned(value[: 4 * FIRST_WORDS]).split())
            return Truncator(words).chars(FIRST_WORDS)
        if isinstance(value, dict):
            waiting[:0] = [*value.values()][:LOOKED_AT]
        elif isinstance(value, list):
            waiting[:0] = value[:LOOKED_AT]
    return ""
