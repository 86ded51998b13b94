"""Webhooks: agents learn that one of their transactions was decided or has ended.

Signed according to Standard Webhooks (standardwebhooks.com), and sent to the URL of the agent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Protocol

from django.utils import timezone

from ledger.events.outbox import HttpChannel, Owed
from ledger.foundation.crypto import standard_webhooks
from ledger.foundation.http_out import Post
from ledger.models import Agent, Delivery, Event, Transaction
from ledger.principals import Principal, PrincipalKind
from ledger.states import EventKind
from ledger.tools import acts_itself
from ledger.transactions import outcome_of
from ledger.transactions.coordinator import requests_to_agent

KINDS = frozenset(
    {
        EventKind.APPROVED,
        EventKind.APPROVAL_WITHDRAWN,
        EventKind.TERMS_TIGHTENED,
        EventKind.REJECTED,
        EventKind.SENT_BACK,
        EventKind.OUTDATED,
        EventKind.REVISED,
        EventKind.ASKED,
        EventKind.CANCELED,
        EventKind.EXPIRED,
        EventKind.HANDED_OVER,
        EventKind.COMMITTED,
        EventKind.FAILED,
        EventKind.FELL_IN_DOUBT,
        EventKind.ABORTED,
        EventKind.FAILURE_SETTLED,
        EventKind.LET_GO_BY_HAND,
        EventKind.FAILURE_LET_GO_BY_HAND,
        EventKind.RECEIPT_KEPT,
        EventKind.COMPENSATED,
    }
)
# People want something of the agent, or have changed what it proposed.
TOLD_AS = frozenset({EventKind.REVISED, EventKind.ASKED, EventKind.SENT_BACK})

Payload = dict[str, object]


class Form(Protocol):
    """Another form of webhooks, in which transactions of certain clients are told of."""

    @property
    def choices(self) -> Sequence[tuple[str, str]]:
        """Its names, and what an operator reads."""

    def concerns(self, row: Transaction) -> bool: ...

    def payload(self, row: Transaction, form: str) -> Payload | None:
        """``None`` while there is nothing to tell. It is told of once."""


_forms: list[Form] = []


def register_form(form: Form) -> None:
    """Called in ``AppConfig.ready()`` of the app that knows the clients."""
    _forms.append(form)


def form_choices() -> list[tuple[str, str]]:
    """In which forms an agent can be told, for operators."""
    offered = [choice for form in _forms for choice in form.choices]
    return [("", "as of all other transactions"), *offered]


class SecretMissing(Exception):
    """The agent or service has no signing secret."""


# True of an event if the proposing agent has a webhook. A scalar subquery, because PostgreSQL may
# read the whole table of transactions for EXISTS within a condition.
HAS_WEBHOOK = """(
    SELECT count(*) > 0
    FROM ledger_transaction tx JOIN ledger_agent agent ON agent.tenant_id = tx.tenant
        AND agent.slug = substr(tx.proposed_by, length('agent:/') + 1 + length(tx.tenant))
    WHERE tx.id = event.transaction_id AND starts_with(tx.proposed_by, 'agent:')
        AND agent.webhook_url <> '')"""


class WebhookChannel(HttpChannel):
    name = "webhook"

    def wants(self, kind: str) -> bool:
        return kind in KINDS

    def address(self, event: Event) -> Iterable[Owed]:
        """The proposing agent, if it has a webhook."""
        if event.transaction is None:
            return []
        agent = agent_of(Principal.parse(event.transaction.proposed_by))
        if agent is None or not agent.webhook_url:
            return []
        recipient = f"{agent.tenant_id}/{agent.slug}"
        form = _form_of(agent, event.transaction)
        if form is not None and (
            form.payload(event.transaction, agent.webhook_form) is None
            or _was_told(event, recipient)
        ):
            return []
        return [Owed(recipient)]

    def request(self, delivery: Delivery) -> Post | None:
        """The transaction's present state. Raises ``SecretMissing``."""
        agent = agent_of(Principal(PrincipalKind.AGENT, delivery.recipient))
        if agent is None or not agent.webhook_url:
            return None  # removed in the meantime: nothing to deliver
        row = delivery.event.transaction
        assert row is not None
        form = _form_of(agent, row)
        kind = delivery.event.kind
        payload = payload_of(row, kind) if form is None else form.payload(row, agent.webhook_form)
        if payload is None:
            return None
        return signed(agent.webhook_url, agent.webhook_secret, f"msg_{delivery.pk}", payload)


def _form_of(agent: Agent, row: Transaction) -> Form | None:
    """The other form, if the agent is told in one and the transaction is of such a client."""
    if not agent.webhook_form:
        return None
    return next((form for form in _forms if form.concerns(row)), None)


def _was_told(event: Event, recipient: str) -> bool:
    """True if an earlier event of the transaction is told of to the agent already."""
    told = Delivery.objects.filter(channel=WebhookChannel.name, recipient=recipient)
    return told.filter(event__subject=event.subject).exclude(event=event).exists()


def signed(url: str, secret: str, message_id: str, payload: Payload) -> Post:
    """A signed webhook. Raises ``SecretMissing``."""
    if not secret:
        raise SecretMissing("There is no webhook secret: renew it at the agent or the owner.")
    body = json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Assent",
        **standard_webhooks.headers([secret], message_id, body),
    }
    return Post(url, body, headers)


def payload_of(row: Transaction, kind: str) -> Payload:
    """The transaction as it is now; the type says what is new where the state does not."""
    return {
        "type": f"transaction.{kind if kind in TOLD_AS else row.state}",
        "timestamp": timezone.now().isoformat(),
        "data": {
            "transaction_id": str(row.pk),
            "state": row.state,
            "ledger_status": row.ledger_status.value,
            "outcome": outcome_of(row, acts_itself=acts_itself(row)).as_json(),
            "tool": row.tool,
            "receipt": row.receipt,
            "ending": row.ending,
            "ending_reason": row.ending_reason,
            "error": row.error,
            "run_id": row.run_id,
            "step_id": row.step_id,
            **requests_to_agent(row),
        },
    }


def agent_of(principal: Principal) -> Agent | None:
    """The agent, if it is active."""
    if not principal.is_agent:
        return None
    active = Agent.objects.filter(is_active=True)
    return active.filter(tenant=principal.tenant, slug=principal.slug).first()
