"""The verbs of a task, and the one function that writes its ``state`` (``advance``).

Other packages call the verbs listed here, and those in ``questions`` and ``retention``.
"""

from __future__ import annotations

from a2a.tasks.artifacts import WholeArtifact, add_artifact
from a2a.tasks.client import (
    add_client_message,
    answer_as_client,
    cancel_as_client,
    require_submitter,
    visible,
)
from a2a.tasks.endings import (
    cancel,
    complete,
    decline,
    end,
    fail,
    finish,
    put_back_or_fail,
    time_out,
)
from a2a.tasks.families import MOST_READ, Relative, family_of
from a2a.tasks.leases import claim, claim_task, heartbeat, held_by, lost_or_missing, put_back
from a2a.tasks.plain_texts import result_parts, text_of
from a2a.tasks.progress import (
    add_message,
    ask_about_transaction,
    await_sign_off,
    hand_over,
    record_exchange,
    report,
    report_note,
    resume,
)
from a2a.tasks.stocks import open_questions, open_tasks
from a2a.tasks.withdrawals import close_request, request_key

__all__ = [
    "MOST_READ",
    "Relative",
    "WholeArtifact",
    "add_artifact",
    "add_client_message",
    "add_message",
    "answer_as_client",
    "ask_about_transaction",
    "await_sign_off",
    "cancel",
    "cancel_as_client",
    "claim",
    "claim_task",
    "close_request",
    "complete",
    "decline",
    "end",
    "fail",
    "family_of",
    "finish",
    "hand_over",
    "heartbeat",
    "held_by",
    "lost_or_missing",
    "open_questions",
    "open_tasks",
    "put_back",
    "put_back_or_fail",
    "record_exchange",
    "report",
    "report_note",
    "request_key",
    "require_submitter",
    "result_parts",
    "resume",
    "text_of",
    "time_out",
    "visible",
]
