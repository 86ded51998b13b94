"""Admission of a stranger's request: at once, never, or after a person has said so."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Any

from a2a import submissions, tasks
from a2a.doors.git_bus import record, senders
from a2a.doors.git_bus.models import BusRequest, Progress, Strangers
from a2a.doors.git_bus.record import VIA
from a2a.errors import Reason, TaskNotPossible
from a2a.models import Task
from a2a.models.builtin_skills import ASK_A_PERSON
from a2a.states import TaskState
from a2a.submissions import Submission
from ledger import seals
from ledger.agents import Caller
from ledger.errors import LedgerError, LimitReached
from ledger.models import Scope

TAKE, REFUSE = "take it", "refuse it"
FORM = {"type": "string", "enum": [TAKE, REFUSE]}
NOT_SIGNED = "The request is not signed by anybody who is known here."
NOBODY = "The request is not signed, and a person has not let it in."
DECIDE_WITHIN_S = 7 * 24 * 3600  # a week; then the request is refused
MOST_HELD = 20
BUSY = "It waits: people are asked about others of this repository first."
NOT_SHOWABLE = "The request is not signed, and cannot be shown to a person: {}"


class Admission(Enum):
    ADMITTED = "admitted"
    ASKED = "asked"
    REFUSED = "refused"


def of(row: BusRequest, shown: Callable[[], dict[str, Any]]) -> tuple[Admission, str]:
    """The decision about the request, and why it is refused; asks a person if that is wanted.

    ``shown`` is what the person sees. They decide about one content: another file of the same id
    is asked about anew.
    """
    if not senders.is_stranger(row) or row.bus.strangers == Strangers.ACCEPT:
        return Admission.ADMITTED, ""
    if row.bus.strangers == Strangers.REFUSE:
        return Admission.REFUSED, NOT_SIGNED
    if not _was_asked(row):
        if _are_busy(row):
            record.leave(row, BUSY, senders.columns_of(row))
            return Admission.ASKED, ""
        try:
            _ask(row, shown())
        except LimitReached as later:
            record.leave(row, later.detail, senders.columns_of(row))
            return Admission.ASKED, ""
        except LedgerError as failure:
            return Admission.REFUSED, NOT_SHOWABLE.format(failure.detail)
    return _decided(row)


def of_claimed(row: BusRequest) -> tuple[Admission, str]:
    """The same of a request that we have claimed: nobody is asked any more."""
    if senders.is_refused(row):
        return Admission.REFUSED, NOT_SIGNED
    if senders.is_stranger(row) and row.bus.strangers == Strangers.ASK and row.admission:
        return _decided(row)
    return Admission.ADMITTED, ""


def _are_busy(row: BusRequest) -> bool:
    """People are asked about a few requests of a bus at a time, however many arrive."""
    held = BusRequest.objects.filter(bus=row.bus_id, progress=Progress.HELD).exclude(pk=row.pk)
    return held.count() >= MOST_HELD


def _decided(row: BusRequest) -> tuple[Admission, str]:
    task = row.admission
    if task is None or not task.is_final:
        return Admission.ASKED, ""
    answer = task.result.get("answer") if isinstance(task.result, dict) else None
    if task.state == TaskState.COMPLETED and answer == TAKE:
        return Admission.ADMITTED, ""
    return Admission.REFUSED, NOBODY


def _was_asked(row: BusRequest) -> bool:
    """About this content, and not taken back since: it may have gone and come again."""
    task = row.admission
    if task is None or not str(task.idempotency_key).startswith(_key_of(row)):
        return False
    return task.reason_code != Reason.CANCELED_BY_CLIENT


def _key_of(row: BusRequest) -> str:
    return f"git:{row.bus_id}:{row.request_id}:{row.blob}:"


def _ask(row: BusRequest, shown: dict[str, Any]) -> None:
    """Put the whole request before a person. Raises ``LedgerError`` for what cannot be shown."""
    withdraw_admission(row)
    agent = row.bus.agent
    named = f"as its sender it names “{row.sender_id}”" if row.sender_id else "it names no sender"
    text = (
        f"Shall this request be taken? {senders.trust_in(row)} It came from {agent.name} over "
        f"{row.bus.url} and asks {row.bus.our_name} for “{row.method}”; {named}."
    )
    content = json.dumps(shown, ensure_ascii=False, indent=2)
    evidence = [{"text": content, "filename": f"{row.request_id}.json"}]
    seals.refuse_unsafe_text([text, evidence], "the request")
    task = submissions.submit(
        Submission(
            skill=ASK_A_PERSON.id,
            input={"text": text, "form": FORM, "evidence": evidence, "ttl_s": DECIDE_WITHIN_S},
            context_id=f"git-{row.bus_id}-{row.request_id}"[:100],
            idempotency_key=f"{_key_of(row)}{row.admission_id or 0}",
        ),
        caller=Caller(agent.principal, agent.tenant_id, frozenset({Scope.SUBMIT.value})),
        via=VIA,
    ).task
    record.note(row, admission=task, progress=Progress.HELD, problem="", **senders.columns_of(row))


def withdraw_admission(row: BusRequest) -> None:
    """Ask no longer: the request has gone, or has another content now."""
    if row.admission is not None and not row.admission.is_final:
        cancel_quietly(row.admission, "The request is not in the inbox any more, or was changed.")


def cancel_quietly(task: Task, reason: str) -> None:
    try:
        tasks.cancel(task.pk, by=record.BUS, via=VIA, reason=reason)
    except TaskNotPossible:
        return
