"""Decision records at the desk: as a page that prints well, and as the file that proves it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _, gettext_noop
from django.views.decorators.http import require_safe

from a2a.models import Question, Task
from a2a.tasks import records as task_records
from approvals.presentation import in_words, labels, pieces_of
from approvals.web.item.thread_shown import advice_on, changed_in
from approvals.web.requests import tenants_of_request
from ledger import seals
from ledger.api import record_response
from ledger.foundation.crypto import signed_notes
from ledger.foundation.crypto.signed_notes import TreeHead
from ledger.models import Event, Transaction
from ledger.proof.audit import decision_records
from ledger.proof.audit.decision_records import Record

# The intent's members in the order in which people read them; what is not named comes after.
SHOWN_FIRST = ("action_summary", "financial_impact", "warnings", "tool", "proposed_by")
APART = frozenset({"arguments", "evidence", "transaction_id"})
MEMBERS: dict[str, str] = {
    "action_summary": gettext_noop("What happens"),
    "financial_impact": gettext_noop("Amount"),
    "warnings": gettext_noop("Warnings"),
    "tool": gettext_noop("Tool"),
    "proposed_by": gettext_noop("Proposed by"),
    "consequence_level": gettext_noop("Undo"),
    "risk_level": gettext_noop("Risk"),
    "operation_key": gettext_noop("Operation key"),
    "tenant": gettext_noop("Tenant"),
}


@login_required
@require_safe
def transaction(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    row = _transaction(request, transaction_id)
    record = decision_records.of_transaction(row)
    intent = seals.intent_of(row) if record["shown"] is None else json.loads(record["shown"])
    context = {
        "title": row.headline,
        "intent": list(_in_order(intent)),
        "arguments": intent["arguments"],
        "tx": row,
        "pieces": pieces_of(row),
        "advice": advice_on(row, row.events.order_by("seq")),
        "changed": changed_in(row, row.events.order_by("seq")),
        "erased_at": row.content_erased_at,
        "state": in_words(row.get_state_display()),
        "back": reverse("desk:transaction", args=[row.pk]),
        "file": reverse("desk:transaction-record-file", args=[row.pk]),
    }
    return _page(request, record, context)


@login_required
@require_safe
def transaction_file(request: HttpRequest, transaction_id: UUID) -> HttpResponse:
    return record_response(decision_records.of_transaction(_transaction(request, transaction_id)))


@login_required
@require_safe
def task(request: HttpRequest, task_id: UUID) -> HttpResponse:
    row = _task(request, task_id)
    record = task_records.of_task(row)
    asked = [
        {
            "id": question["id"],
            **json.loads(question["asked"]),
            "answer": json.loads(question["answer"]),
        }
        for question in record["questions"]
        if question["asked"] is not None
    ]
    context = {
        "title": f"{row.skill_slug} {row.short_id}",
        "task": row,
        "erased_at": row.content_erased_at,
        "input": json.loads(record["task"]["input"]),
        "result": json.loads(record["task"]["result"]),
        "questions": asked,
        "state": in_words(row.get_state_display()),
        "back": reverse("desk:task", args=[row.pk]),
        "file": reverse("desk:task-record-file", args=[row.pk]),
    }
    return _page(request, record, context)


@login_required
@require_safe
def task_file(request: HttpRequest, task_id: UUID) -> HttpResponse:
    return record_response(task_records.of_task(_task(request, task_id)))


def _transaction(request: HttpRequest, transaction_id: UUID) -> Transaction:
    """Another tenant's is not there."""
    rows = Transaction.objects.for_tenants(tenants_of_request(request))
    return get_object_or_404(rows, pk=transaction_id)


def _task(request: HttpRequest, task_id: UUID) -> Task:
    return get_object_or_404(Task.objects.for_tenants(tenants_of_request(request)), pk=task_id)


def _page(request: HttpRequest, record: Record, context: dict[str, Any]) -> HttpResponse:
    context |= {
        "record": record,
        "events": list(_events(record)),
        "checkpoint": _checkpoint(record["checkpoint"]),
        "is_covered": not record["not_in_checkpoint"],
    }
    response = render(request, "desk/record.html", context)
    response["Cache-Control"] = "private, no-store"
    return response


def _in_order(intent: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each member that has a value: its name, its label, the value."""
    rest = sorted(set(intent) - set(SHOWN_FIRST) - APART)
    for name in (*SHOWN_FIRST, *rest):
        if intent[name] not in (None, [], ""):
            label = _(MEMBERS[name]) if name in MEMBERS else name.replace("_", " ").capitalize()
            yield name, label, intent[name]


def _events(record: Record) -> Iterator[dict[str, Any]]:
    for event in record["events"]:
        at = datetime.fromtimestamp(int(event["at"]) / 1e6, UTC)
        description = labels.event_label(
            Event(kind=event["kind"], details=event["details"], reason=event["reason"])
        )
        question = Question.named_in(json.loads(event["details"]))
        yield {**event, "when": at, "description": description, "question": question}


def _checkpoint(text: str | None) -> dict[str, Any] | None:
    """The contents of the signed note, for people."""
    if text is None:
        return None
    note = signed_notes.Note.parse(text)
    head = TreeHead.parse(note.text)
    cosigned = [
        {"name": line.name, "at": datetime.fromtimestamp(line.cosigned_at, UTC)}
        for line in note.signatures
        if line.cosigned_at
    ]
    root = base64.b64encode(head.root).decode()
    return {
        "origin": head.origin,
        "size": head.size,
        "root": root,
        "cosigned": cosigned,
        "note": text,
    }
