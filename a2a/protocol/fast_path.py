"""The two requests that make up nearly all traffic, without the protocol's heavy parts.

``GetTask``, and ``SendMessage`` that returns immediately with a new task: plain JSON in, plain JSON
out. Whatever is unusual about a request, and whatever is refused, is left to the SDK's way, which
says it as the specification has it. Both ways read and write the same tables by the same verbs.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import BooleanField, TextField
from django.db.models.expressions import RawSQL

from a2a import polling, submissions
from a2a.models import QuestionState, Task
from a2a.models.builtin_skills import OWN_SKILLS
from a2a.protocol.stream import in_thread
from a2a.submissions import Submission, Submitted
from a2a.submissions.envelope import EXTENSION
from a2a.validation import parts
from a2a.wire import to_json
from ledger.agents.callers import callers_with
from ledger.database import use_prepared_statements
from ledger.errors import LedgerError
from ledger.http import unquoted
from ledger.models import AgentToken, id_or_none
from ledger.models.agents import usable_tokens_sql
from ledger.principals import Surface

VIA = Surface.A2A
MOST_KEPT = 4096  # tasks
LARGEST_KEPT = 32 * 1024  # bytes of one task

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class Batch(Generic[Asked, Found]):
    """Answers what is asked while a query runs with the next one, all together."""

    def __init__(self, answer_all: Callable[[list[Asked]], list[Found]]) -> None:
        self._answer_all = answer_all
        self._waiting: list[tuple[Asked, asyncio.Future[Found]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, asked: Asked) -> Found:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        self._waiting.append((asked, answer))
        if self._running is None or self._running.done():
            # A task of its own: whoever asked first may leave, the others still get answers.
            self._running = loop.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._settle(batch)

    async def _settle(self, batch: list[tuple[Asked, asyncio.Future[Found]]]) -> None:
        try:
            found = await in_thread(self._answer_all, [asked for asked, _ in batch])
        except BaseException as failure:
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(failure)
            if not isinstance(failure, Exception):
                raise
        else:
            for (_, answer), one in zip(batch, found, strict=True):
                if not answer.done():
                    answer.set_result(one)


async def answer(said: Any, token: str, headers: dict[bytes, bytes], skill: str) -> bytes | None:
    """The answer to a usual request, or nothing: then it goes the long way.

    ``skill`` is that of the address, if it has one.
    """
    if not _is_usual(said, headers):
        return None
    params = said["params"]
    result: bytes | None = None
    if said["method"] == "GetTask" and set(params) == {"id"} and isinstance(params["id"], str):
        task_id = id_or_none(params["id"])
        if task_id is not None:
            result = await reads.ask((AgentToken.hash_of(token), task_id))
    elif said["method"] == "SendMessage" and _is_usual_message(params):
        key = unquoted(headers.get(b"idempotency-key", b"").decode("latin-1"))
        result = await sends.ask((params, token, key, skill))
    if result is None:
        return None
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (json.dumps(said["id"]).encode(), result)


def _is_usual(said: Any, headers: dict[bytes, bytes]) -> bool:
    return (
        isinstance(said, dict)
        and set(said) == {"jsonrpc", "id", "method", "params"}
        and said["jsonrpc"] == "2.0"
        and isinstance(said["id"], str | int)
        and not isinstance(said["id"], bool)
        and isinstance(said["params"], dict)
        and headers.get(b"a2a-version", b"").partition(b".")[0] == b"1"
    )


# --- GetTask ----------------------------------------------------------------------------------


@cache
def _look_sql() -> str:
    """Tokens and task ids in; of each pair the task, or NULLs where its token may not see it.

    Both rules are those of the QuerySets. PostgreSQL merges the subqueries into plain joins.
    """
    visible = Task.objects.visible_to_agent(
        RawSQL("'agent:' || caller.tenant || '/' || caller.slug", [], TextField()),
        RawSQL("caller.tenant", [], TextField()),
        RawSQL("'read_all' = ANY (caller.scopes)", [], BooleanField()),
    )
    asked_for = visible.filter(pk=RawSQL("asked.task_id", [])).values("id", "updated_at", "tenant")
    task_sql, parameters = asked_for.query.sql_with_params()
    if parameters:
        raise TypeError(f"The tasks' SQL must have no parameters, has {parameters}.")
    return f"""
        SELECT task.id, task.updated_at, task.tenant
        FROM unnest(%s::text[], %s::uuid[]) WITH ORDINALITY AS asked (token_hash, task_id, place)
        LEFT JOIN ({usable_tokens_sql()}) AS caller ON caller.token_hash = asked.token_hash
        LEFT JOIN LATERAL ({task_sql}) AS task ON true
        ORDER BY asked.place
    """


def visible_tasks(asked: list[tuple[str, UUID]]) -> list[tuple[UUID, datetime, str] | None]:
    """Id, ``updated_at`` and tenant of each task that its token may see; one query for all.

    ``asked`` are pairs of a token's hash and a task's id.
    """
    hashes, ids = [token for token, _ in asked], [task_id for _, task_id in asked]
    with use_prepared_statements(), connection.cursor() as cursor:
        cursor.execute(_look_sql(), [hashes, ids])
        return [row if row[0] is not None else None for row in cursor.fetchall()]


class Kept:
    """Rendered tasks, each good for as long as the task's ``updated_at`` is the same."""

    def __init__(self) -> None:
        self._rendered: OrderedDict[UUID, tuple[datetime, bytes]] = OrderedDict()

    def get(self, task_id: UUID, updated_at: datetime) -> bytes | None:
        found = self._rendered.get(task_id)
        if found is None or found[0] != updated_at:
            return None
        self._rendered.move_to_end(task_id)
        return found[1]

    def keep(self, task: Task, rendered: bytes) -> None:
        if len(rendered) <= LARGEST_KEPT:
            self._rendered[task.pk] = (task.updated_at, rendered)
            while len(self._rendered) > MOST_KEPT:
                self._rendered.popitem(last=False)


_kept = Kept()


def _look(asked: list[tuple[str, UUID]]) -> list[bytes | None]:
    """The tasks as JSON, from what was rendered before where they have not changed since."""
    visible = visible_tasks(asked)
    rows = [row for row in visible if row is not None]
    polling.count_reads(Counter(tenant for _, _, tenant in rows))
    rendered = {task_id: _kept.get(task_id, updated_at) for task_id, updated_at, _ in rows}
    rendered |= _render_all([task_id for task_id, text in rendered.items() if text is None])
    return [rendered.get(row[0]) if row is not None else None for row in visible]


def _render_all(ids: list[UUID]) -> dict[UUID, bytes]:
    """Those that are not kept, with what belongs to them, in a query a table."""
    if not ids:
        return {}
    found = {}
    rows = Task.objects.filter(pk__in=ids).select_related("transaction")
    for task in rows.prefetch_related("messages", "artifacts", "questions"):
        open_questions = [q for q in task.questions.all() if q.state == QuestionState.OPEN]
        said = to_json.said_of_task(
            task,
            sorted(task.messages.all(), key=attrgetter("pk")),
            sorted(task.artifacts.all(), key=attrgetter("pk")),
            next(iter(open_questions), None),
        )
        found[task.pk] = json.dumps(said).encode()
        _kept.keep(task, found[task.pk])
    return found


reads: Batch[tuple[str, UUID], bytes | None] = Batch(_look)


# --- SendMessage ------------------------------------------------------------------------------


def _is_usual_message(params: dict[str, Any]) -> bool:
    """A new task with nothing but parts, told at once; texts where the protocol has texts."""
    message, config = params.get("message"), params.get("configuration")
    return (
        set(params) == {"message", "configuration"}
        and config == {"returnImmediately": True}
        and isinstance(message, dict)
        and set(message) <= {"messageId", "role", "parts", "contextId", "metadata"}
        and message.get("role") == "ROLE_USER"
        and isinstance(message.get("messageId"), str)
        and bool(message["messageId"])
        and isinstance(message.get("contextId", ""), str)
        and isinstance(message.get("metadata", {}), dict)
        and isinstance(message.get("parts"), list)
        and bool(message["parts"])
    )


def _send_all(asked: list[tuple[dict[str, Any], str, str, str]]) -> list[bytes | None]:
    """Nothing for a request that is refused: the long way says why."""
    found: list[bytes | None] = [None] * len(asked)
    drafts = []
    callers = callers_with([token for _, token, *_ in asked])
    for number, ((params, _, key, skill), caller) in enumerate(zip(asked, callers, strict=True)):
        if caller is None:
            continue
        with suppress(LedgerError):
            submission = _submission(params["message"], key, skill)
            # What Assent does itself may ask a tool; nobody else waits for that.
            if submission.skill and submission.skill not in OWN_SKILLS:
                drafts.append((number, submission, caller))
    submitted = submissions.submit_all(
        [(submission, caller) for _, submission, caller in drafts], via=VIA
    )
    for (number, *_), one in zip(drafts, submitted, strict=True):
        if isinstance(one, Submitted):
            rendered = json.dumps(_said(one)).encode()
            _kept.keep(one.task, rendered)
            found[number] = b'{"task":%b}' % rendered
    return found


def _submission(message: dict[str, Any], key: str, address: str) -> Submission:
    parts.refuse_malformed(message["parts"])
    metadata = message.get("metadata", {})
    return submissions.from_message(
        parts=message["parts"],
        metadata=metadata,
        envelope=metadata.get(EXTENSION),
        message_id=message["messageId"],
        context_id=message.get("contextId", ""),
        key=key,
        address=address,
    )


def _said(submitted: Submitted) -> dict[str, Any]:
    task, first = submitted.task, submitted.message
    return to_json.said_of_task(task, [first], [], None) if first else to_json.render(task)


sends: Batch[tuple[dict[str, Any], str, str, str], bytes | None] = Batch(_send_all)
