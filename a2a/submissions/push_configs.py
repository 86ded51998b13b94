"""Push notification configs: where a client wants to be told about its task."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.db.models import QuerySet

from a2a import tasks
from a2a.models import PushConfig, Task
from ledger.agents import Caller
from ledger.errors import InvalidRequest
from ledger.foundation import http_out

MOST_CONFIGS = 10  # of one task
TEXT_MAX = 2000  # characters
Json = dict[str, Any]  # as A2A 1.0 has it


def of_task(task_id: str, caller: Caller) -> QuerySet[PushConfig]:
    """The configs of a task that the caller submitted. Raises ``TaskNotFound, NotAllowed``."""
    return _own_task(task_id, caller).push_configs.order_by("pk")


def create(task_id: str, sent: Json, caller: Caller) -> PushConfig:
    """Raises ``TaskNotFound, NotAllowed``, and what ``store`` raises."""
    return store(_own_task(task_id, caller), sent)


def _own_task(task_id: str, caller: Caller) -> Task:
    task = tasks.visible(caller, task_id)
    tasks.require_submitter(task, caller)
    return task


def store(task: Task, sent: Json) -> PushConfig:
    """A new config, or a changed one with the same id. Raises ``InvalidRequest``."""
    config = checked(sent)
    if task.push_configs.exclude(config_id=config.config_id).count() >= MOST_CONFIGS:
        raise InvalidRequest(f"A task has at most {MOST_CONFIGS} push notification configs.")
    stored, _ = PushConfig.objects.update_or_create(
        task=task,
        config_id=config.config_id or str(uuid4()),
        defaults={
            "url": config.url,
            "token": config.token,
            "scheme": config.scheme[:50],
            "credentials": config.credentials,
        },
    )
    return stored


def checked(sent: Json) -> PushConfig:
    """The config without its task, not stored. Raises ``InvalidRequest``."""
    authentication = sent.get("authentication", {})
    config = PushConfig(
        config_id=sent.get("id", ""),
        url=sent.get("url", ""),
        token=sent.get("token", ""),
        scheme=authentication.get("scheme", ""),
        credentials=authentication.get("credentials", ""),
    )
    texts = (config.url, config.token, config.credentials, config.config_id)
    if any(len(text) > TEXT_MAX or "\x00" in text for text in texts):
        raise InvalidRequest("A push notification config has texts of at most 2,000 characters.")
    if not all(
        " " <= letter <= "~" for letter in config.token + config.scheme + config.credentials
    ):
        raise InvalidRequest("The token and the credentials become headers: plain ASCII only.")
    try:
        http_out.check_form(config.url)
    except http_out.AddressRefused as refusal:
        raise InvalidRequest(f"Nothing is pushed to that address. {refusal}") from None
    return config
