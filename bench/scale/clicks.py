"""Requests of people and agents: names and addresses, with the values of one ledger in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Click:
    """One GET. ``who`` is a person's user name, an agent as ``@slug``, or nobody."""

    name: str
    path: str
    who: str = "reader"
    first_byte_only: bool = False


def facts() -> dict[str, str]:
    """Ids and values of rows in the ledger that this process is connected to, for addresses."""
    from a2a.models import Question, Task
    from a2a.protocol.task_pages import token_of
    from ledger.models import Checkpoint, Event, IdempotencyKey, Transaction

    rows = Transaction.objects.filter(tenant="bench", state="committed").order_by("pk")
    number = rows.count()
    newest, middle, oldest = rows[number - 1], rows[number // 2], rows[number // 20]
    ended = Transaction.objects.filter(tenant="bench", state="aborted")
    question = Question.objects.filter(tenant="bench").select_related("task").order_by("-pk")[0]
    task = question.task
    old_task = Task.objects.filter(tenant="bench").order_by("pk")[5]
    values: dict[str, Any] = {
        "newest": newest.pk,
        "middle": middle.pk,
        "oldest": oldest.pk,
        "receipt": oldest.receipt,
        "operation": quote(oldest.operation_key),
        "aborted": quote(ended.order_by("pk")[0].operation_key),
        "payment": oldest.operation_key.rpartition(":")[2],
        "trace": oldest.trace_id,
        "run": oldest.run_id,
        "key": IdempotencyKey.objects.get(transaction=oldest).key,
        "tail": oldest.pk.hex[-8:],
        "old_day": f"{oldest.created_at:%Y-%m-%d}",
        "middle_day": f"{middle.created_at:%Y-%m-%d}",
        "new_day": f"{newest.created_at:%Y-%m-%d}",
        "event": Event.objects.filter(transaction=oldest).order_by("pk")[0].pk,
        "change": Event.objects.filter(to_state="").order_by("pk")[0].pk,
        "task": task.pk,
        "context": task.context_id,
        "page": token_of(old_task),
        "task_trace": task.trace_id,
        "question": question.pk,
        "pending": Transaction.objects.filter(tenant="bench", state="prepared")[0].pk,
        "size": Checkpoint.objects.order_by("-size")[0].size,
    }
    return {name: str(value) for name, value in values.items()}


def _history(name: str, query: str, who: str = "reader") -> Click:
    return Click(f"history, {name}", f"/history/?{query}", who)


def _admin(name: str, path: str, who: str = "reader") -> Click:
    return Click(f"admin, {name}", f"/admin/{path}", who)


def _export(name: str, path: str) -> Click:
    return Click(f"export, {name}, first byte", f"/history/export.{path}", first_byte_only=True)


DESK = [
    Click("inbox", "/"),
    Click("inbox, word of one row", "/?q=zebra"),
    Click("inbox of two tenants", "/", "two"),
    Click("rows, one changed", "/rows?id={pending}"),
    Click("transaction, old", "/transactions/{oldest}/"),
    Click("transaction, its record", "/transactions/{oldest}/record/"),
    Click("tasks", "/tasks/"),
    Click("tasks, state", "/tasks/?state=failed"),
    Click("tasks, rare skill", "/tasks/?skill=seldom"),
    Click("tasks, open", "/tasks/?state=working"),
    Click("tasks, trace", "/tasks/?trace={task_trace}"),
    Click("task", "/tasks/{task}/"),
    Click("question", "/questions/{question}/"),
    Click("operations", "/ops/"),
    Click("changes", "/changes/"),
    Click("changes, who", "/changes/?who=Bob"),
    Click("changes, nobody", "/changes/?who=Nobody"),
    Click("changes, kind", "/changes/?kind=role_granted"),
    Click("changes, rare kind", "/changes/?kind=token_issued"),
    Click("tools", "/tools/"),
    Click("metrics", "/metrics", "scrape"),
]
HISTORY = [
    _history("all", ""),
    _history("of two tenants", "", "two"),
    _history("of a tiny tenant", "", "tiny"),
    _history("deep", "before={oldest}"),
    _history("word in all rows", "q=refund"),
    _history("word in 1/12", "q=Lovelace"),
    _history("word in 1/10", "q=complaint"),
    _history("word in 200 rows", "q=auditors"),
    _history("word in 10 rows", "q=courtorder"),
    _history("word in old rows only", "q=telefax"),
    _history("word in no row", "q=zebra"),
    _history("beginning of words", "q=lovel"),
    _history("two words", "q=Lovelace+auditors"),
    _history("two words, no row", "q=Lovelace+zebra"),
    _history("word of a tiny tenant", "q=auditors", "tiny"),
    _history("word, two tenants", "q=auditors", "two"),
    _history("payment in the summary", "q={payment}"),
    _history("receipt", "q={receipt}"),
    _history("operation key", "q={operation}"),
    _history("trace", "q={trace}"),
    _history("id", "q={oldest}"),
    _history("last digits of an id", "q={tail}"),
    _history("agent", "q=night"),
    _history("tool", "tool=rebook"),
    _history("rare tool", "tool=seldom"),
    _history("no such tool", "tool=nothing"),
    _history("risk", "risk=HIGH"),
    _history("rare risk", "risk=CRITICAL"),
    _history("state", "state=aborted"),
    _history("rare state", "state=failed"),
    _history("rare state, two tenants", "state=failed", "two"),
    _history("state of a tiny tenant", "state=aborted", "tiny"),
    _history("open", "state=prepared"),
    _history("until an old day", "until={old_day}"),
    _history("an old day", "since={old_day}&until={old_day}"),
    _history("a day in the middle", "since={middle_day}&until={middle_day}"),
    _history("since a new day", "since={new_day}"),
    _history("word on old days", "q=auditors&until={middle_day}"),
    _history("tool and rare state", "tool=measured&state=failed"),
    _history("word and state", "q=refund&state=failed"),
    _export("CSV", "csv"),
    _export("CSV of a rare word", "csv?q=courtorder"),
    _export("JSON of a rare tool", "json?tool=seldom"),
]
AGENTS = [
    Click("REST, list", "/api/v1/transactions", "@bench"),
    Click("REST, list of the tenant", "/api/v1/transactions", "@day"),
    Click("REST, list of a rare agent", "/api/v1/transactions", "@guest"),
    Click("REST, deep", "/api/v1/transactions?cursor={oldest}", "@bench"),
    Click("REST, state", "/api/v1/transactions?state=aborted", "@bench"),
    Click("REST, rare state", "/api/v1/transactions?state=failed", "@bench"),
    Click("REST, open", "/api/v1/transactions?state=prepared", "@bench"),
    Click("REST, no open one", "/api/v1/transactions?state=in_doubt", "@bench"),
    Click("REST, tenant's rare state", "/api/v1/transactions?state=failed", "@day"),
    Click("REST, tool", "/api/v1/transactions?tool=rebook", "@bench"),
    Click("REST, rare tool", "/api/v1/transactions?tool=seldom", "@bench"),
    Click("REST, no such tool", "/api/v1/transactions?tool=nothing", "@bench"),
    Click("REST, tenant's rare tool", "/api/v1/transactions?tool=seldom", "@day"),
    Click("REST, run", "/api/v1/transactions?run_id={run}", "@day"),
    Click("REST, trace", "/api/v1/transactions?trace_id={trace}", "@day"),
    Click("REST, record", "/api/v1/transactions/{oldest}/record", "@day"),
    Click("REST, tasks", "/api/v1/tasks", "@bench"),
    Click("REST, tasks of the tenant", "/api/v1/tasks", "@day"),
    Click("REST, tasks of a rare agent", "/api/v1/tasks", "@guest"),
    Click("REST, tasks, rare state", "/api/v1/tasks?state=failed", "@bench"),
    Click("A2A, list", "/a2a/rest/tasks", "@bench"),
    Click("A2A, deep", "/a2a/rest/tasks?pageToken={page}", "@bench"),
    Click("A2A, list of the tenant", "/a2a/rest/tasks", "@day"),
    Click("A2A, state", "/a2a/rest/tasks?status=TASK_STATE_FAILED", "@bench"),
    Click("A2A, open", "/a2a/rest/tasks?status=TASK_STATE_WORKING", "@bench"),
    Click("A2A, context", "/a2a/rest/tasks?contextId={context}", "@bench"),
    Click("A2A, task", "/a2a/rest/tasks/{task}", "@day"),
    Click("log, checkpoint", "/log/checkpoint", ""),
    Click("log, tile", "/log/tile/0/000", ""),
    Click("log, inclusion", "/api/v1/log/inclusion?event={event}", "@day"),
    Click("log, consistency", "/api/v1/log/consistency?old=700&new={size}", "@day"),
]
ADMIN = [
    _admin("index", ""),
    _admin("transactions", "ledger/transaction/"),
    _admin("transactions, page 10", "ledger/transaction/?p=10"),
    _admin("transactions of two tenants", "ledger/transaction/", "two"),
    _admin("transactions of a tiny tenant", "ledger/transaction/", "tiny"),
    _admin("transactions of all tenants", "ledger/transaction/", "chief"),
    _admin("transactions, state", "ledger/transaction/?state__exact=aborted"),
    _admin("transactions, rare state", "ledger/transaction/?state__exact=failed"),
    _admin("rare state, two tenants", "ledger/transaction/?state__exact=failed", "two"),
    _admin("state of a tiny tenant", "ledger/transaction/?state__exact=aborted", "tiny"),
    _admin("state of all tenants", "ledger/transaction/?state__exact=aborted", "chief"),
    _admin("transactions, open", "ledger/transaction/?state__exact=prepared"),
    _admin("transactions, tool", "ledger/transaction/?tool=measured"),
    _admin("transactions, held", "ledger/transaction/?retention=held"),
    _admin("transactions, erased", "ledger/transaction/?retention=erased"),
    _admin("search, receipt", "ledger/transaction/?q={receipt}"),
    _admin("search, key", "ledger/transaction/?q={key}"),
    _admin("search, operation", "ledger/transaction/?q={operation}"),
    _admin("search, ended operation", "ledger/transaction/?q={aborted}"),
    _admin("search, id", "ledger/transaction/?q={oldest}"),
    _admin("search, last digits", "ledger/transaction/?q={tail}"),
    _admin("search, nothing", "ledger/transaction/?q=zebra"),
    _admin("one transaction", "ledger/transaction/{oldest}/change/"),
    _admin("events", "ledger/event/"),
    _admin("events of a tiny tenant", "ledger/event/", "tiny"),
    _admin("events of two tenants", "ledger/event/", "two"),
    _admin("events of all tenants", "ledger/event/", "chief"),
    _admin("events, search", "ledger/event/?q={oldest}"),
    _admin("decisions", "ledger/decision/"),
    _admin("decisions of a tiny tenant", "ledger/decision/", "tiny"),
    _admin("keys", "ledger/idempotencykey/"),
    _admin("keys of a tiny tenant", "ledger/idempotencykey/", "tiny"),
    _admin("keys, search", "ledger/idempotencykey/?q={key}"),
    _admin("deliveries", "ledger/delivery/"),
    _admin("deliveries of a tiny tenant", "ledger/delivery/", "tiny"),
    _admin("deliveries of two tenants", "ledger/delivery/", "two"),
    _admin("deliveries of all tenants", "ledger/delivery/", "chief"),
    _admin("deliveries, given up", "ledger/delivery/?state__exact=given_up"),
    _admin("deliveries, waiting", "ledger/delivery/?state__exact=waiting"),
    _admin("readings", "ledger/reading/"),
    _admin("readings, tool", "ledger/reading/?tool=peek"),
    _admin("checkpoints", "ledger/checkpoint/"),
    _admin("tasks", "a2a/task/"),
    _admin("tasks of a tiny tenant", "a2a/task/", "tiny"),
    _admin("tasks, state", "a2a/task/?state__exact=failed"),
    _admin("tasks, open", "a2a/task/?state__exact=working"),
    _admin("tasks, search", "a2a/task/?q={task_trace}"),
    _admin("tasks, search nothing", "a2a/task/?q=zebra"),
    _admin("one task", "a2a/task/{task}/change/"),
    _admin("questions", "a2a/question/"),
    _admin("questions, open", "a2a/question/?state__exact=open"),
    _admin("questions of a tiny tenant", "a2a/question/", "tiny"),
    _admin("Slack messages", "approvals/slackmessage/"),
    _admin("Slack messages of a tiny tenant", "approvals/slackmessage/", "tiny"),
    _admin("Slack messages of all tenants", "approvals/slackmessage/", "chief"),
]
ALL = [*DESK, *HISTORY, *AGENTS, *ADMIN]
