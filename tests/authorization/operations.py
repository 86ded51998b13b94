"""Every operation of the URLconf, and a request of each that would succeed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import URLPattern, URLResolver, get_resolver
from ninja.operation import PathView

from approvals.presentation import key_of_file
from ledger.models import Checkpoint, IdempotencyKey
from tests.authorization.scene import (
    FILE,
    HUMANLAYER_CALL,
    HUMANLAYER_CONTACT,
    POLICY,
    RETURN_TO,
    Scene,
    as_json,
)

Patterns = list[URLPattern | URLResolver]


def all_operations() -> dict[str, Any]:
    """``GET /tasks/{task_id}/`` → the view. Pages stand there with GET and with POST."""
    found: dict[str, Any] = {}
    for address, view in _walk(get_resolver().url_patterns):
        for method in _methods(view):
            found[f"{method} /{address}"] = view
    return found


def _walk(patterns: Patterns, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, address)
        elif not _is_alias(pattern):
            yield plain_address(address), pattern.callback


def plain_address(address: str) -> str:
    """``tasks/{task_id}/`` for ``tasks/<uuid:task_id>/``, as the table has it.

    ``^metrics/?$`` is ``metrics``.
    """
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address.replace("^", "").removesuffix("/?$"))


def _is_alias(pattern: URLPattern) -> bool:
    """The admin's catch-all, and its short forms of addresses that are listed."""
    address = str(pattern.pattern)
    return "(" in address or address == "<path:object_id>/"


def _methods(view: Any) -> list[str]:
    path_view = getattr(view, "__self__", None)
    if isinstance(path_view, PathView):
        return sorted(
            {method for operation in path_view.operations for method in operation.methods}
        )
    return getattr(view, "methods", ["GET", "POST"])


GIVEN = {
    "key": "00000000-0000-4000-8000-000000000001",
    "may_answer": ["client"],
    "input": "{}",
}
# A browser's subscription, with the keys of RFC 8291's example.
BROWSER = {
    "endpoint": "https://push.example/1",
    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcx"
    "aOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
}
# What a program asks a person for.
SIGN_IN = {
    "response_type": "code",
    "client_id": "program",
    "redirect_uri": RETURN_TO,
    "scope": "propose",
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
}
# An issuer of tokens, and which agent they are.
ISSUER = {
    "tenant": "acme",
    "issuer": "https://others.example",
    "keys": '[{"kty": "EC"}]',
    "algorithms": "ES256",
    "longest_minutes": 60,
    "rules": '[{"agent": "owner", "scopes": ["propose"], "claims": {"sub": "owner"}}]',
}
QUERIES = {
    "/oauth/authorize": f"?{urlencode(SIGN_IN)}",
    "/api/v1/terms": "?tool=pay&arguments=%7B%22reference%22:%22r%22,%22amount%22:%225%22%7D",
    "/stop/": "?tenant=acme&tool=pay",
    "/api/v1/log/inclusion": "?event={event}",
    "/api/v1/log/consistency": "?old=1&new=2",
    "/settings/rules/{tenant}/preview/next": "?days=7&seen={draft}",
}


# --- samples ----------------------------------------------------------------------------------


def address_of(operation: str, scene: Scene) -> str:
    """The address with the ids of things of the scene in it."""
    _, _, address = operation.partition(" ")
    values = _values(operation, scene)
    query = QUERIES.get(address, "").format(event=scene.event.pk, draft=scene.draft.sha256)
    return re.sub(r"\{(\w+)\}", lambda name: str(values.get(name[1], "1")), address) + query


def _values(operation: str, scene: Scene) -> dict[str, Any]:
    row = scene.pending
    task = scene.task
    if operation.endswith(("/resolve", "/resolve/")):
        row, task = scene.doubtful, scene.asked
    elif "compensate" in operation:
        row = scene.committed
    elif operation == "POST /transactions/{transaction_id}/undo":
        row = scene.approved_just_now()
    elif "/api/" in operation and operation.endswith(("/approve", "/reject", "/pass-on")):
        row = scene.supervised
    elif "/evidence/" in operation:
        row = scene.evidenced
    elif operation.endswith("/permit"):
        row = scene.permitted
    elif operation.endswith("/receipt"):
        row = scene.redeemed
    elif operation.endswith("/revise/"):
        task = scene.ended
    elif "/questions/" in operation:
        task = scene.asked
    values = {
        "transaction_id": row.pk,
        "task_id": task.pk,
        "jti": scene.permit.permit.pk,
        "pk": _key(operation, scene, row, task),
        "question_id": scene.question.pk,
        "delivery_id": scene.delivery.pk,
        "form": "csv",
        "name": _name(operation),
        "object_id": _object_id(operation, scene),
        "id": scene.people["viewer"].pk,
        "change_id": scene.change.pk,
        "workspace_id": scene.workspace.pk,
        "route_id": scene.route.pk,
        "agent_id": scene.agents["owner"].pk,
        "token_id": scene.agents["owner"].tokens.first().pk,
        "tool_id": scene.upstream_tool.pk if "/servers/" in operation else scene.tool.pk,
        "server_id": scene.upstream_tool.upstream_id,
        "secret_id": scene.credential.pk,
        "notice_id": scene.notice.pk,
        "person_id": scene.people["viewer"].pk,
        "passkey_id": scene.passkey("approver").pk,
        "browser_id": 1,
        "view_id": scene.view.pk,
        "token": "none",
        "job_id": "none",
        "skill": "consolidate",
        "skill_id": scene.skill.pk,
        "owner_id": scene.owning_service.pk,
        "bus_id": scene.bus.pk,
        "request_id": scene.bus_request.pk,
        "remote_id": scene.remote.pk,
        "binding_id": scene.binding.pk,
        "tenant": "acme",
        "slug": "acme",
        "review_id": scene.review.pk,
        "brake_id": scene.brake.pk,
        "grant_id": scene.grant.pk,
        "place": 1 if "/rules/" in operation else "0/000.p/1",
        "number": 1,
        "group_id": scene.group.pk,
        "member_id": scene.member.pk,
        "key": key_of_file(FILE),
        "connection_id": scene.connection.pk,
        "issuer_id": scene.issuer.pk,
        "client_id": "program",
        "call_id": "human-1" if "contact" in operation else "call-1",
        "sha256": hashlib.sha256(POLICY.encode()).hexdigest(),
    }
    return values


def _name(operation: str) -> str:
    if "/insight/" in operation:
        return "outcomes"
    if "/tools/try/" in operation:
        return "pay"
    return "envelope-1.json" if "/schemas/" in operation else "look_up"


def _key(operation: str, scene: Scene, row: Any, task: Any) -> Any:
    return task.pk if "/a2a/task/" in operation else row.pk


def _object_id(operation: str, scene: Scene) -> Any:
    """The key of the thing of the scene that an address of the admin shows."""
    rows: dict[str, Any] = {
        "event": scene.event,
        "decision": scene.committed.decisions.first(),
        "delivery": scene.delivery,
        "transaction": scene.pending,
        "task": scene.task,
        "question": scene.question,
        "busrequest": scene.bus_request,
        "checkpoint": Checkpoint.objects.first(),
        "idempotencykey": IdempotencyKey.objects.first(),
        "client": scene.connection.client,
    }
    match = re.search(r"/admin/\w+/(\w+)/", operation)
    row = rows.get(match[1]) if match else None
    return row.pk if row is not None else "0"


RULE = {"verdict": "deny", "tool": "pay", "argument_is": "is", "currency": "EUR"}
HOOK = "https://hook.example/"
SKILL = {
    "name": "New",
    "slug": "new",
    "timeout_0": "1",
    "timeout_1": "3600",
    "lease_0": "1",
    "lease_1": "60",
    "question_ttl_0": "10",
    "question_ttl_1": "60",
    "max_attempts": "3",
}
BUS = {
    "participant": "assent",
    "url": "https://git.example/bus",
    "branch": "main",
    "strangers": "ask",
    "poll_every_0": "30",
    "poll_every_1": "1",
    "stuck_after_0": "1",
    "stuck_after_1": "3600",
}
INVITED = {"username": "new-person", "name": "New", "tenant": "acme", "role": "viewer"}


def request_of(operation: str, scene: Scene) -> dict[str, Any]:
    """What is sent along: the body, its type, further headers."""
    method, _, address = operation.partition(" ")
    if method == "GET":
        return {}
    if address.endswith("/escalate_email"):
        return as_json({"escalation_msg": "It is urgent."})
    if address.startswith("/humanlayer/"):
        return as_json(HUMANLAYER_CONTACT if "contact" in address else HUMANLAYER_CALL)
    if operation.endswith("/introspect"):
        return {"data": {"token": scene.permit.token}}
    if address.startswith("/api/"):
        headers = {"Idempotency-Key": "k-1"}
        return {**as_json(_json_body(address, scene)), "headers": headers}
    return {"data": _form(operation, scene)}


def _json_body(address: str, scene: Scene) -> dict[str, Any]:
    name = address.removeprefix("/api/v1/")
    held = {"fencing_token": scene.task.fencing_token}
    digest = {"intent_digest": scene.supervised.intent_digest}
    bodies: dict[str, dict[str, Any]] = {
        "transactions": {"tool": "pay", "arguments": {"reference": "new", "amount": "5.00"}},
        "transactions/cancel": {"idempotency_key": "never-used"},
        "transactions/{transaction_id}/answer": {"text": "It is."},
        "transactions/{transaction_id}/approve": digest,
        "transactions/{transaction_id}/reject": {**digest, "reason": "No."},
        "transactions/{transaction_id}/advice": {
            "intent_digest": scene.pending.intent_digest,
            "recommends": "reject",
            "reason": "Not mine.",
        },
        "transactions/{transaction_id}/pass-on": {**digest, "reason": "Not mine."},
        "transactions/{transaction_id}/receipt": {"receipt": {"id": "del_7"}},
        "permits/{jti}/redeem": {"permit": scene.permit.token},
        "policies": {"name": "Policy", "version": "1", "text": POLICY},
        "access/v1/evaluation": {
            "subject": {"type": "agent", "id": "helpdesk"},
            "action": {"name": "propose"},
            "resource": {"type": "tool", "id": "pay", "properties": {}},
        },
        "tools/{name}/call": {"arguments": {"word": "a"}},
        "tasks": {"skill": "consolidate", "input": {}},
        "tasks/{task_id}/resolve": {"answer": "this one"},
        "work/{task_id}/heartbeat": held,
        "work/{task_id}/progress": {**held, "stage": "half"},
        "work/{task_id}/artifacts": {**held, "artifact_id": "a", "parts": [{"text": "a"}]},
        "work/{task_id}/ask": {**held, "text": "Which one?"},
        "work/{task_id}/complete": {**held, "result": {}},
        "work/{task_id}/fail": {**held, "reason": "No."},
        "work/{task_id}/decline": {**held, "reason": "No."},
        "work/{task_id}/hand_over": {**held, "skill": "translate"},
    }
    return bodies.get(name, {})


def _form(operation: str, scene: Scene) -> dict[str, Any]:
    owner = scene.agents["owner"]
    forms: list[tuple[str, dict[str, Any]]] = [
        ("/approve", {"digest": scene.pending.intent_digest}),
        ("{transaction_id}/sign", {"digest": scene.pending.intent_digest}),
        ("/keys/let-sign", {"passkey": scene.passkey("viewer").pk}),
        ("/keys/end", {"passkey": scene.passkey("viewer").pk}),
        ("/reject", {"digest": scene.pending.intent_digest, "reason": "No."}),
        ("/send-back", {"digest": scene.pending.intent_digest, "reason": "Less."}),
        ("/ask", {"text": "Which order is it?"}),
        ("/note", {"text": "I know them."}),
        ("/more-time", {"until": f"{scene.pending.expires_at + timedelta(minutes=1):%FT%TZ}"}),
        ("/together", {"id": scene.pending.pk, "verdict": "reject", "reason": "No."}),
        ("/resolve", {"outcome": "nothing_happened", "reason": "I looked."}),
        ("/compensate", {"reason": "Wrong."}),
        ("/hold", {"reason": "A claim."}),
        ("/release", {"reason": "Settled."}),
        ("/answer", {"answer": "this one"}),
        ("/tools/owners", {"tenant": "acme", "service": "payments", "webhook_url": HOOK}),
        ("/{owner_id}", {"webhook_url": HOOK}),
        ("/ops/requests/{request_id}", {"wish": "retry", "reason": "It is mended."}),
        ("/connections/buses/new", {**BUS, "agent": scene.agents["colleague"].pk}),
        ("/{bus_id}", BUS),
        ("{review_id}", {"verdict": "agree"}),
        ("/rule", {**RULE, "seen": scene.draft.sha256}),
        ("/rule/{place}", {**RULE, "seen": scene.draft.sha256}),
        ("/rules/{tenant}/text", {"text": "rules: []", "seen": scene.draft.sha256}),
        ("/groups", {"name": "legal"}),
        ("/groups/{group_id}/add", {"person": scene.people["keeper"].pk}),
        ("/cancel", {"reason": "Not needed."}),
        ("/people/invite", INVITED),
        ("/role/give", {"role": "acme approver"}),
        ("/role/take", {"role": "acme viewer"}),
        ("/active", {"active": "0"}),
        ("/account/profile", {"first_name": "Ada", "last_name": "Lovelace"}),
        ("/account/email", {"email": "ada@example.com"}),
        ("/account/notifications", {"waiting": "on"}),
        ("/account/notifications/browsers", BROWSER),
        ("/agents/{remote_id}", {"sample": ""}),
        ("/agents/{remote_id}/switch", {"active": "1"}),
        ("/functions/new", {"tenant": "acme", "function": "send", "tool": ""}),
        ("/{binding_id}", {"tool": ""}),
        ("/connections/skills/new", {**SKILL, "agent": scene.agents["worker"].pk}),
        ("/connections/skills/{skill_id}", SKILL),
        ("/{skill_id}", GIVEN),
        ("/people/new", {"person": scene.people["viewer"].pk, "slack_user_id": "U2"}),
        ("/settle", {"seen": scene.upstream_tool.sha256}),
        ("/views/save", {"place": "inbox", "name": "Refunds", "query": "q=refund"}),
        ("{transaction_id}/allow", {"look": "1"}),
        ("/standing/glass", {"agent": "agent:acme/owner", "lasts": 1, "times": 1, "why": "Down."}),
        ("/stop", {"scope": "0", "why": "It pays twice."}),
        ("/revise", {**GIVEN, "change": "The tone."}),
        ("/connections/issuers/new", ISSUER),
        ("/{issuer_id}", ISSUER),
        ("/oauth/authorize", {**SIGN_IN, "agent": f"agent:{owner.pk}", "allow": "true"}),
        ("/oauth/token", {"grant_type": "refresh_token", "client_id": "program"}),
        ("/oauth/revoke", {"token": "none", "client_id": "program"}),
    ]
    return next((form for end, form in forms if operation.rstrip("/").endswith(end)), {})
