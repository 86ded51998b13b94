"""Tags: over which git bus a task came or went, and how far its sender can be trusted."""

from __future__ import annotations

from typing import Any

from django import template

from a2a import origins
from a2a.models import Task
from ledger.models import Transaction

register = template.Library()


@register.inclusion_tag("desk/_origin.html")
def origin_of_task(task: Task) -> dict[str, Any]:
    return {"origin": origins.of_task(task)}


@register.inclusion_tag("desk/_origin.html")
def origin_of_transaction(transaction: Transaction) -> dict[str, Any]:
    """Of the task that the transaction stands for."""
    return {"origin": origins.of_transaction(transaction)}
