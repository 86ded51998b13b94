"""``GetTask`` and ``SendMessage`` in batches: nearly all traffic, JSON in and JSON out.

Only calls of the usual form are answered here: ``GetTask`` by id, and a ``SendMessage`` that
returns immediately with a new task. Everything else, and everything that is refused, is left to
``operations``. Both use the same verbs.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import replace
from datetime import datetime
from functools import cache
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, TextField
from django.db.models.expressions import RawSQL

from a2a import polling, submissions, wire
from a2a.models import Task
from a2a.models.builtin_skills import OWN_SKILLS
from a2a.protocol.calls import Call, Json, submission_of
from a2a.protocol.render_cache import RenderCache
from a2a.protocol.updates import render_all
from a2a.submissions import Submission
from a2a.validation import refuse_malformed
from ledger.agents import callers_with
from ledger.errors import LedgerError
from ledger.foundation.batches import Batcher
from ledger.foundation.postgres import use_prepared_statements
from ledger.models import AgentToken, id_or_none
from ledger.models.agents import usable_tokens_sql
from ledger.principals import Surface

logger = logging.getLogger(__name__)

VIA = Surface.A2A
_cache = RenderCache()


async def answer(call: Call) -> bytes | None:
    """The result as JSON text; ``None``, and nothing was done, if ``operations`` has to."""
    if not call.fits_batch:
        return None
    if call.operation == "GetTask" and (task_id := _task_id_of(call.params)) is not None:
        return await reads.ask((AgentToken.hash_of(call.token), task_id))
    if call.operation == "SendMessage":
        return await submit(call, call.params)
    return None


async def submit(call: Call, params: Json) -> bytes | None:
    """The new task of a message as ``{"task": …}``; ``None`` for an unusual message."""
    if not call.fits_batch or not _is_usual_message(params):
        return None
    return await sends.ask(replace(call, params=params))


# --- GetTask ----------------------------------------------------------------------------------


def _task_id_of(params: Json) -> UUID | None:
    """The id of a task, if the request has nothing else."""
    is_usual = set(params) == {"id"} and isinstance(params["id"], str)
    return id_or_none(params["id"]) if is_usual else None


@cache
def _visible_tasks_sql() -> str:
    """Tokens and task ids in; of each pair the task, or NULLs where its token may not see it.

    Both rules are those of the QuerySets. PostgreSQL merges the subqueries into plain joins.
    """
    visible = Task.objects.visible_to_agent(
        RawSQL("'agent:' || caller.tenant || '/' || caller.slug", [], TextField()),
        RawSQL("caller.tenant", [], TextField()),
        RawSQL("'read_all' = ANY (caller.scopes)", [], BooleanField()),
    )
    requested = visible.filter(pk=RawSQL("request.task_id", [])).values(
        "id", "updated_at", "tenant"
    )
    task_sql, parameters = requested.query.sql_with_params()
    if parameters:
        raise TypeError(f"The tasks' SQL must have no parameters, has {parameters}.")
    return f"""
        SELECT task.id, task.updated_at, task.tenant
        FROM unnest(%s::text[], %s::uuid[]) WITH ORDINALITY AS request (token_hash, task_id, place)
        LEFT JOIN ({usable_tokens_sql()}) AS caller
            ON caller.token_hash = request.token_hash AND caller.resource = ''
        LEFT JOIN LATERAL ({task_sql}) AS task ON true
        ORDER BY request.place
    """


def visible_tasks(requests: list[tuple[str, UUID]]) -> list[tuple[UUID, datetime, str] | None]:
    """Id, ``updated_at`` and tenant of each task that its token may see; one query for all.

    ``requests`` are pairs of a token's hash and a task's id.
    """
    hashes = [token_hash for token_hash, _ in requests]
    ids = [task_id for _, task_id in requests]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_visible_tasks_sql(), [hashes, ids])
        return [row if row[0] is not None else None for row in cursor.fetchall()]


def _read_all(requests: list[tuple[str, UUID]]) -> list[bytes | None]:
    """The tasks as JSON, from the cache where they have not changed; ``None``: not visible."""
    visible = visible_tasks(requests)
    rows = [row for row in visible if row is not None]
    polling.count_reads(Counter(tenant for _, _, tenant in rows))
    rendered = {task_id: _cache.get(task_id, updated_at) for task_id, updated_at, _ in rows}
    missing = [task_id for task_id, text in rendered.items() if text is None]
    rendered |= _render_all(missing) if missing else {}
    return [rendered.get(row[0]) if row is not None else None for row in visible]


def _render_all(ids: list[UUID]) -> dict[UUID, bytes]:
    rendered = {}
    for task, body in render_all(ids):
        rendered[task.pk] = json.dumps(body).encode()
        _cache.put(task, rendered[task.pk])
    return rendered


reads: Batcher[tuple[str, UUID], bytes | None] = Batcher(_read_all)


# --- SendMessage ------------------------------------------------------------------------------


def _is_usual_message(params: Json) -> bool:
    """A new task with nothing but parts, returned immediately; each member of the right type."""
    return (
        set(params) == {"message", "configuration"}
        and params["configuration"] == {"returnImmediately": True}
        and isinstance(params["message"], dict)
        and _has_usual_members(params["message"])
    )


def _has_usual_members(message: Json) -> bool:
    message_id, parts = message.get("messageId"), message.get("parts")
    return (
        set(message) <= {"messageId", "role", "parts", "contextId", "metadata"}
        and message.get("role") == "ROLE_USER"
        and isinstance(message_id, str)
        and message_id != ""
        and isinstance(message.get("contextId", ""), str)
        and isinstance(message.get("metadata", {}), dict)
        and isinstance(parts, list)
        and len(parts) > 0
    )


def _send_all(requests: list[Call]) -> list[bytes | None]:
    """The new tasks as JSON; ``None`` for what makes no new task."""
    results: list[bytes | None] = [None] * len(requests)
    callers = callers_with([request.token for request in requests])
    usable = []
    for number, (request, caller) in enumerate(zip(requests, callers, strict=True)):
        if caller is not None and (submission := _submission(request)) is not None:
            usable.append((number, submission, caller))
    submitted = submissions.submit_all(
        [(submission, caller) for _, submission, caller in usable], via=VIA
    )
    for (number, *_), result in zip(usable, submitted, strict=True):
        if result is not None and result.message is not None:
            body = wire.task_to_json(result.task, [result.message], [], None)
            rendered = json.dumps(body).encode()
            _cache.put(result.task, rendered)
            results[number] = b'{"task":%b}' % rendered
    return results


def _submission(call: Call) -> Submission | None:
    """The submission, unless it is refused or may call a tool, for which no batch waits."""
    try:
        refuse_malformed(call.params["message"]["parts"])
        submission = submission_of(call)
    except LedgerError:
        return None
    except Exception as failure:  # whatever it is: the others of the batch go on
        logger.warning("a message leaves its batch after %r", failure)
        return None
    is_plain = submission.skill and submission.skill not in OWN_SKILLS
    return submission if is_plain else None


# A message without an Idempotency-Key becomes a task each time.
sends: Batcher[Call, bytes | None] = Batcher(_send_all, may_repeat=False)
