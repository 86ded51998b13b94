"""Push notification configs: where a client wants to be told about its task."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from django.db.models import QuerySet

from a2a import tasks
from a2a.models import PushConfig, Task
from ledger import safe_http
from ledger.agents.callers import Caller
from ledger.errors import InvalidRequest

MOST_CONFIGS = 10  # of one task
TEXT_MAX = 2000  # characters


@dataclass(frozen=True, slots=True)
class PushFields:
    """A config as the client sends it. An empty ``config_id`` makes a new one."""

    config_id: str
    url: str
    token: str
    scheme: str
    credentials: str


def of_task(task_id: str, caller: Caller) -> QuerySet[PushConfig]:
    """The configs of a task that the caller submitted. Raises ``TaskNotFound, NotAllowed``."""
    return _own_task(task_id, caller).push_configs.order_by("pk")


def create(task_id: str, fields: PushFields, caller: Caller) -> PushConfig:
    """Raises ``TaskNotFound, NotAllowed``, and what ``store`` raises."""
    return store(_own_task(task_id, caller), fields)


def _own_task(task_id: str, caller: Caller) -> Task:
    task = tasks.visible(caller, task_id)
    tasks.require_submitter(task, caller)
    return task


def store(task: Task, fields: PushFields) -> PushConfig:
    """A new config, or a changed one with the same id. Raises ``InvalidRequest``."""
    _check(fields)
    if task.push_configs.exclude(config_id=fields.config_id).count() >= MOST_CONFIGS:
        raise InvalidRequest(f"A task has at most {MOST_CONFIGS} push notification configs.")
    config, _ = PushConfig.objects.update_or_create(
        task=task,
        config_id=fields.config_id or str(uuid4()),
        defaults={
            "url": fields.url,
            "token": fields.token,
            "scheme": fields.scheme[:50],
            "credentials": fields.credentials,
        },
    )
    return config


def _check(fields: PushFields) -> None:
    texts = (fields.url, fields.token, fields.credentials, fields.config_id)
    if any(len(text) > TEXT_MAX or "\x00" in text for text in texts):
        raise InvalidRequest("A push notification config has texts of at most 2,000 characters.")
    if not all(
        " " <= letter <= "~" for letter in fields.token + fields.scheme + fields.credentials
    ):
        raise InvalidRequest("The token and the credentials become headers: plain ASCII only.")
    try:
        safe_http.check_form(fields.url)
    except safe_http.AddressRefused as refusal:
        raise InvalidRequest(f"Nothing is pushed to that address. {refusal}") from None
