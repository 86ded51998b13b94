"""``function_call.completed`` and ``human_contact.completed``: how it ended, without a poll.

An operator says where to, and in which of HumanLayer's two forms. Each is told once, when nothing
more is to come; signed as all our webhooks are.
"""

from __future__ import annotations

from collections.abc import Iterable

from a2a.doors.humanlayer import calls, contacts
from a2a.doors.humanlayer.bodies import Json
from a2a.models import Task
from a2a.states import TaskEventKind
from ledger.delivery.webhooks import agent_of, signed
from ledger.events.outbox import HttpChannel, Owed
from ledger.foundation.http_out import Post
from ledger.models import Agent, Delivery, Event, IdempotencyKey, Transaction
from ledger.principals import Principal, PrincipalKind
from ledger.tools import is_for_agent
from ledger.transactions.coordinator import PREPARE_ROUTE

CALL, CONTACT = "function_call.completed", "human_contact.completed"
BARE = "humanlayer_bare"
# After each, nothing more comes; what completes the task was answered before.
ENDS = frozenset(
    {
        TaskEventKind.ANSWERED,
        TaskEventKind.FAILED,
        TaskEventKind.CANCELED,
        TaskEventKind.DECLINED,
        TaskEventKind.QUESTION_LAPSED,
    }
)


class CallForm:
    """The form in which the agents' webhooks tell of function calls."""

    choices = (
        ("humanlayer", "HumanLayer's events: type and event"),
        (BARE, "HumanLayer's bare objects"),
    )

    def concerns(self, row: Transaction) -> bool:
        return bool(_call_ids(row))

    def payload(self, row: Transaction, form: str) -> Json | None:
        """``None`` while it is not decided, or not carried out yet."""
        told = calls.told(row, _call_ids(row)[0])
        return _in_form(form, CALL, told) if told["status"]["approved"] is not None else None


def _call_ids(row: Transaction) -> list[str]:
    """Under which ids its agent asked for it; the first one is told of. None of what it proposed
    elsewhere under a key that only looks like one."""
    if not is_for_agent(row) and calls.call_behind(row) is None:
        return []
    keys = IdempotencyKey.objects.filter(
        transaction=row, route=PREPARE_ROUTE, key__startswith=calls.KEY_PREFIX
    )
    full_keys = keys.order_by("pk").values_list("key", flat=True)
    return [key.removeprefix(calls.KEY_PREFIX) for key in full_keys]


class ContactChannel(HttpChannel):
    """Registered as an outbox channel (``apps`` of this package)."""

    name = "humanlayer"

    def wants(self, kind: str) -> bool:
        return kind in ENDS

    def address(self, event: Event) -> Iterable[Owed]:
        """The agent that asked, if it is told in this form."""
        task = Task.objects.filter(pk=event.subject, metadata__has_key=contacts.KEPT).first()
        if task is None or (event.kind != TaskEventKind.ANSWERED and contacts.is_answered(task)):
            return []
        agent = _told(Principal.parse(task.submitted_by))
        return [Owed(f"{agent.tenant_id}/{agent.slug}")] if agent is not None else []

    def request(self, delivery: Delivery) -> Post | None:
        """Raises ``SecretMissing``."""
        agent = _told(Principal(PrincipalKind.AGENT, delivery.recipient))
        task = Task.objects.filter(pk=delivery.event.subject).first()
        if agent is None or task is None:
            return None
        body = _in_form(agent.webhook_form, CONTACT, contacts.told(task))
        return signed(agent.webhook_url, agent.webhook_secret, f"msg_{delivery.pk}", body)


def _told(principal: Principal) -> Agent | None:
    agent = agent_of(principal)
    is_told = agent is not None and agent.webhook_url and agent.webhook_form
    return agent if is_told else None


def _in_form(form: str, kind: str, event: Json) -> Json:
    if form == BARE:
        return event
    return {"is_test": False, "type": kind, "event": event}
