"""``manage.py write_docs``: writes the pages of docs/ that are generated from the code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand
from django.urls import get_resolver

from a2a import states as task_states
from a2a.errors import Reason
from a2a.states import TaskState
from approvals.metrics import dashboard, rule_file
from approvals.processes import OF_ROWS_AND_SIGNALS, PROCESSES, SAYS_IT_IS_SET
from ledger.api.http import PROBLEM_TYPE
from ledger.errors import LedgerError
from ledger.states import FINAL, LEDGER_STATUS, MOVES, State

CHART = "../examples/kubernetes/assent"
# Addresses, and what `make_keys` prints that is no secret.
FOR_ALL = ["DATABASE_URL", "REDIS_URL", "ASSENT_AUDIT_PUBLIC_KEYS", "ASSENT_VAPID_PUBLIC_KEY"]
# Without these no process of a public deployment starts that gets them.
REQUIRED = OF_ROWS_AND_SIGNALS | {
    "DATABASE_URL",
    "REDIS_URL",
    "ASSENT_OWNER_DATABASE_URL",
    "ASSENT_LOG_DATABASE_URL",
    "ASSENT_SECRET_KEY",
    "ASSENT_AUDIT_KEY",
}


class Command(BaseCommand):
    help = "Writes the pages of docs/ that are generated from the code."

    def handle(self, *args: Any, **options: Any) -> None:
        for name, text in pages().items():
            (Path(settings.BASE_DIR) / "docs" / name).write_text(text)


def pages() -> dict[str, str]:
    return {
        "states.md": states_page(),
        "task-states.md": task_states_page(),
        "errors.md": errors_page(),
        "assent.rules.yaml": alarms_file(),
        "assent.dashboard.json": json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n",
        # A chart reads no file outside its folder.
        f"{CHART}/assent.rules.yaml": alarms_file(),
        f"{CHART}/processes.yaml": processes_file(),
    }


def alarms_file() -> str:
    head = "# Generated from approvals/metrics/alarms.py by `make docs`; docs/monitoring.md.\n"
    return head + yaml.safe_dump(rule_file(), sort_keys=False, allow_unicode=True, width=1000)


def processes_file() -> str:
    head = "# Generated from approvals/processes.py by `make docs`: who gets which secret.\n"
    table = {
        "for_all": FOR_ALL,
        "processes": {process.name: sorted(process.secrets) for process in PROCESSES},
        "required": sorted(REQUIRED),
        "says_it_is_set": SAYS_IT_IS_SET,
    }
    return head + yaml.safe_dump(table, sort_keys=False)


def states_page() -> str:
    lines = [
        "# The states of a transaction",
        "",
        "Generated from `ledger/states.py` by `make docs`.",
        "",
    ]
    lines += ["| state | meaning | public ledger status | final |", "| --- | --- | --- | --- |"]
    for state in State:
        ended = "yes" if state in FINAL else ""
        lines.append(f"| {state.name} | {state.label} | {LEDGER_STATUS[state]} | {ended} |")
    lines += ["", "| event | from | to |", "| --- | --- | --- |"]
    for move in MOVES:
        if move.target is None:
            continue
        sources = ", ".join(sorted(source.name for source in move.sources)) or "nothing"
        lines.append(f"| `{move.kind}` | {sources} | {move.target.name} |")
    lines += ["", "These events are recorded and do not change the state:", ""]
    lines += ["| event | in |", "| --- | --- |"]
    for move in MOVES:
        if move.target is not None:
            continue
        lines.append(
            f"| `{move.kind}` | {', '.join(sorted(state.name for state in move.sources))} |"
        )
    return "\n".join([*lines, ""])


def task_states_page() -> str:
    lines = ["# The states of a task", "", "Generated from `a2a/states.py` by `make docs`.", ""]
    lines += ["| state | meaning | final |", "| --- | --- | --- |"]
    for state in TaskState:
        ended = "yes" if state in task_states.FINAL else ""
        lines.append(f"| {state.value} | {state.label} | {ended} |")
    lines += ["", "| event | from | to |", "| --- | --- | --- |"]
    for move in task_states.MOVES:
        sources = ", ".join(sorted(source.value for source in move.sources)) or "nothing"
        lines.append(f"| `{move.kind}` | {sources} | {move.target or 'unchanged'} |")
    lines += ["", "`reason.code` says why a task failed, was canceled or was rejected:", ""]
    lines += [f"- `{code}`" for code in Reason.values]
    return "\n".join([*lines, ""])


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error of the REST interface is `application/problem+json` (RFC 9457):",
    ]
    lines += [
        "`type` is stable, `detail` says what happened, `hint` what to do next. Generated from"
    ]
    lines += [
        "`ledger/errors` and `a2a/errors.py` by `make docs`.",
        "",
        "| type | status | title | what to do |",
    ]
    lines.append("| --- | --- | --- | --- |")
    assert get_resolver().url_patterns  # imports the modules of all pages, with their refusals
    for error in sorted(_tree(LedgerError), key=lambda error: (error.status, error.code)):
        lines.append(
            f"| `{PROBLEM_TYPE}{error.code}` | {error.status} | {error.title} | {error.hint} |"
        )
    for code, status, title, hint in OTHERS:
        lines.append(f"| `{PROBLEM_TYPE}{code}` | {status} | {title} | {hint} |")
    return "\n".join([*lines, ""])


# Errors of the HTTP interface itself, which have no exception class.
OTHERS = (
    ("malformed", 400, "The body is not JSON", "Nothing was done. Send one JSON object."),
    (
        "not_authenticated",
        401,
        "The token is missing, unknown, revoked or expired",
        "Nothing was done. Ask an operator for a new token.",
    ),
    (
        "method_not_allowed",
        405,
        "This method is not for this address",
        "Nothing was done. /api/v1/docs lists what each address takes.",
    ),
    (
        "body_too_slow",
        408,
        "The body did not arrive in time",
        "Nothing was done. Send the whole body without pauses.",
    ),
    ("too_large", 413, "The body is larger than 256 KiB", "Nothing was done. Send less."),
    (
        "polling_too_fast",
        429,
        "This transaction or task is polled too often",
        "Poll at most every two seconds, or use ?wait=.",
    ),
    (
        "busy",
        503,
        "Too many requests wait already, or one waited for too long",
        "`detail` says whether anything can have been done. Repeat the same request, with the same "
        "key, after Retry-After.",
    ),
    (
        "internal",
        500,
        "Assent failed",
        "Repeat the same request with the same key: nothing is done twice.",
    ),
    (
        "tool_failed",
        502,
        "A read-only tool did not answer",
        "Nothing was changed. Try again later.",
    ),
)


def _tree(error: type[LedgerError]) -> list[type[LedgerError]]:
    return [error, *(below for child in error.__subclasses__() for below in _tree(child))]
