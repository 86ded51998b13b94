"""Names of rows and columns in the ledger admin, and its choices, in the reader's language.

They are set on the models when the admin is loaded. What is stored, sealed or read by machines
stays English.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.contrib.admin import ChoicesFieldListFilter
from django.db.models import Model
from django.utils.translation import gettext, gettext_lazy as _, gettext_noop

# By the name of the column; the same column is called the same in all tables.
COLUMNS = {
    "action_summary": _("what happens"),
    "agent": _("agent"),
    "answer": _("answer"),
    "answer_commit": _("commit of the answer"),
    "answered_by": _("answered by (principal)"),
    "answered_by_name": _("answered by"),
    "answered_via": _("answered by way of"),
    "asked_by": _("asked by (principal)"),
    "asked_by_name": _("asked by"),
    "at": _("when"),
    "attempts": _("attempts"),
    "author": _("author of the answer"),
    "busy_until": _("being written until"),
    "card_version": _("version of the agent card"),
    "channel": _("channel"),
    "claim_commit": _("commit of the claim"),
    "claimed_at": _("claimed at"),
    "commit": _("commit"),
    "compensation_receipt": _("receipt of the compensation"),
    "consequence_level": _("can it be undone"),
    "content_erased_at": _("content erased at"),
    "created_at": _("begun at"),
    "decided_at": _("decided at"),
    "depth": _("levels of delegation"),
    "done_at": _("done at"),
    "ended_at": _("ended at"),
    "ending": _("how it ended"),
    "ending_reason": _("reason of the end"),
    "error": _("error"),
    "error_detail": _("details of the error"),
    "escalate_to": _("next channel"),
    "evidence": _("evidence"),
    "expires_at": _("expires at"),
    "fencing_token": _("fencing token"),
    "form": _("form"),
    "from_state": _("from state"),
    "hash": _("hash"),
    "hold": _("number of the lease"),
    "hold_expires_at": _("reservation lapses at"),
    "id": _("id"),
    "input_hash": _("hash of the input"),
    "intent_digest": _("digest of the intent"),
    "is_gone": _("is gone"),
    "is_ours": _("own request"),
    "is_withdrawn": _("withdrawn"),
    "kept_by": _("kept by"),
    "key": _("key"),
    "kind": _("kind"),
    "late_receipt": _("late receipt"),
    "lease_expires_at": _("lease runs out at"),
    "legal_hold_at": _("under a legal hold since"),
    "may_answer": _("who may answer"),
    "method": _("method"),
    "next_attempt_at": _("next attempt at"),
    "note": _("note"),
    "operation_key": _("operation key"),
    "owner": _("worked on by"),
    "owner_service": _("owning service"),
    "parent": _("parent task"),
    "parent_id": _("request that it answers or continues"),
    "payload_hash": _("hash of the payload"),
    "percent": _("percent"),
    "policy": _("policy"),
    "posting_at": _("being posted since"),
    "previous_hash": _("previous hash"),
    "principal": _("who (principal)"),
    "principal_name": _("who"),
    "problem": _("problem"),
    "processed_by": _("processed by"),
    "progress": _("progress"),
    "proposed_by": _("proposed by (principal)"),
    "proposed_by_name": _("proposed by"),
    "public_key": _("public key"),
    "question": _("question"),
    "quorum": _("signatures needed"),
    "reason": _("reason"),
    "reason_code": _("code of the reason"),
    "receipt": _("receipt"),
    "receipt_url": _("address of the receipt"),
    "recipient": _("recipient"),
    "reminder_ts": _("reminder"),
    "request_id": _("request"),
    "required_approver": _("approver"),
    "result_hash": _("hash of the result"),
    "retain_until": _("kept until"),
    "risk_level": _("risk"),
    "root": _("root"),
    "route": _("route"),
    "run_id": _("run"),
    "sender_id": _("sender"),
    "seq": _("number"),
    "shown": _("shown"),
    "size": _("size"),
    "skill_slug": _("skill"),
    "stage": _("stage"),
    "stated_reason": _("reason that the agent states"),
    "state": _("state"),
    "status": _("status"),
    "step_id": _("step"),
    "submitted_by": _("submitted by"),
    "target": _("to"),
    "task": _("task"),
    "tenant": _("tenant"),
    "text": _("text"),
    "to_state": _("to state"),
    "tool": _("tool"),
    "trace_id": _("trace"),
    "traceparent": _("trace context"),
    "transaction": _("transaction"),
    "ts": _("message in Slack"),
    "ttl": _("time to answer"),
    "upto_event": _("up to event"),
    "verdict": _("decision"),
    "via": _("by way of"),
    "why": _("why it was escalated"),
    "wish": _("what an operator wants"),
    "wished_by": _("wanted by"),
    "workspace": _("workspace"),
}
# What stands below a value, as the models say it.
HELP = {
    gettext_noop("For operators only: it may hold secrets of a provider."),
    gettext_noop("Came after the row was settled; nobody has looked."),
    gettext_noop("From then on the content is erased."),
    gettext_noop("An operator keeps the content."),
    gettext_noop("How many events it covers,"),
    gettext_noop("of which this is the last."),
    gettext_noop("C2SP tlog-checkpoint, signed by the log."),
    gettext_noop("name, version, sha256 and the paragraphs that were cited"),
    gettext_noop("JSON Schema of the answer; empty: any text."),
    gettext_noop("Parts to show beside the question."),
    gettext_noop("approver, operator, client, or principals. Empty: approvers and the client."),
    gettext_noop("By the time of the commit."),
    gettext_noop("Channel (C…), or user (U…)."),
    gettext_noop("Said above an escalated one."),
    gettext_noop("The next channel."),
    gettext_noop("A reminder to rewrite."),
    gettext_noop("Slack does not know it any more."),
}


def name_rows(model: type[Model], single: Any, several: Any) -> None:
    """Call the rows of a table so, and its columns as ``COLUMNS`` does."""
    # Migrations compare what the model was declared with, and help texts in English.
    model._meta.verbose_name, model._meta.verbose_name_plural = single, several
    for field in model._meta.fields:
        field.verbose_name = COLUMNS.get(field.name, field.verbose_name)
        if field.help_text in HELP:
            field.help_text = _(str(field.help_text))


def worded(column: str) -> Any:
    """A column of choices, in words."""

    @admin.display(description=COLUMNS[column], empty_value="-")
    def shown(self: Any, row: Model) -> str:
        value = getattr(row, column)
        label = str(getattr(row, f"get_{column}_display")())
        return gettext(label) if value else ""

    return shown


class WordedChoices(ChoicesFieldListFilter):
    """Offers the choices of a column in words."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": gettext(str(choice["display"]))}
